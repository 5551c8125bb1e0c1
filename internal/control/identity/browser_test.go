package identity_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/tool"
)

const back = "https://biplane.example.com/sign-in/back"

type clientSecret string

func (s clientSecret) ReadSecret(context.Context) (string, error) { return string(s), nil }

// newBrowserRig returns an Authenticator at which people sign in with a browser.
func newBrowserRig(t *testing.T, secret string) *rig {
	t.Helper()
	r := newRig(t, nil)
	p := &identity.ProviderConfig{Issuer: identity.Issuer{Issuer: r.issuer.URL,
		Roles: map[string][]string{"approver": {"group:leads"}, "admin": {"user:root"}}},
		ClientID: "biplane", Scopes: []string{"email"}, Redirect: back}
	if secret != "" {
		p.Secret = clientSecret(secret)
	}
	r.issuer.SetPerson(secret, identitytest.Claims{"groups": []string{"leads"}}, nil)
	r.Authenticator = identity.New(identity.AuthenticatorConfig{Keys: r.keys, Provider: p, Clock: r.clock, Recorder: r,
		Issuers: []identity.Issuer{{Issuer: r.issuer.URL}}, Resource: resource})
	return r
}

// visitProvider begins a sign-in, and returns the address that the provider sends the browser to.
func (r *rig) visitProvider(t *testing.T) (attempt string, answer *url.URL) {
	t.Helper()
	address, attempt, err := r.BeginSignIn(t.Context(), "/audit?kind=call")
	if err != nil {
		t.Fatalf("BeginSignIn: %v", err)
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(address)
	if err != nil {
		t.Fatalf("open the provider's page: %v", err)
	}
	resp.Body.Close()
	answer, err = resp.Location()
	if err != nil {
		t.Fatalf("the provider answers %s, want a redirect", resp.Status)
	}
	return attempt, answer
}

// comeBack completes a sign-in.
func (r *rig) comeBack(answer *url.URL, attempt string) (credential, next string, _ *identity.Refusal) {
	req := httptest.NewRequest(http.MethodGet, answer.String(), nil)
	credential, next, err := r.FinishSignIn(req, attempt)
	var no *identity.Refusal
	if err != nil && !errors.As(err, &no) {
		panic(err)
	}
	return credential, next, no
}

// TestBrowserSignIn signs a person in, with and without a client secret, until the sign-in expires.
func TestBrowserSignIn(t *testing.T) {
	for _, secret := range []string{"", "s3cret of the client"} {
		r := newBrowserRig(t, secret)
		attempt, answer := r.visitProvider(t)
		if !strings.HasPrefix(answer.String(), back+"?") {
			t.Fatalf("the browser comes back to %s, want %s", answer, back)
		}
		credential, next, no := r.comeBack(answer, attempt)
		if no != nil || next != "/audit?kind=call" {
			t.Fatalf("FinishSignIn: next = %q, refusal %v", next, no)
		}
		p := r.accepted(t, credential, identity.Need{Scope: identity.ScopeAPI, Roles: []string{identity.Approver}})
		want := r.issuer.URL + "#ann"
		if p.ID != want || p.Person != want || p.Agent != "" || strings.Join(p.Groups, " ") != "leads" ||
			!p.Until.Equal(r.clock.Now().Add(identity.DefaultLifetime)) {
			t.Errorf("signed in as %+v", p)
		}
		if evs := r.take(); len(evs) != 1 || !evs[0].Accepted || evs[0].Method != "browser" {
			t.Errorf("recorded %+v, want an accepted sign-in with a browser", evs)
		}
		r.refused(t, credential, identity.Need{Scope: identity.ScopeAPI, Roles: []string{identity.Auditor}},
			identity.ReasonRole)
		r.refused(t, credential, toMCP, identity.ReasonScope)
		// A code can't be used twice.
		if _, _, no := r.comeBack(answer, attempt); no == nil || no.Reason != identity.ReasonAttempt {
			t.Errorf("the same answer again: %v, want a refusal", no)
		}
		// Another process doesn't know the credential, and a changed one is refused.
		other := newBrowserRig(t, secret)
		other.refused(t, credential, toAPI, identity.ReasonMalformed)
		r.refused(t, credential[:len(credential)-4]+"AAAA", toAPI, identity.ReasonMalformed)
		r.clock.Advance(identity.DefaultLifetime)
		r.refused(t, credential, toAPI, identity.ReasonExpired)
	}
}

// TestBrowserAttempts checks that an answer is only accepted from the browser that asked for it, in
// time.
func TestBrowserAttempts(t *testing.T) {
	r := newBrowserRig(t, "")
	attempt, answer := r.visitProvider(t)
	other, _ := r.visitProvider(t)
	change := func(name, value string) *url.URL {
		u := *answer
		q := u.Query()
		if q.Set(name, value); value == "" {
			q.Del(name)
		}
		u.RawQuery = q.Encode()
		return &u
	}
	twice := *answer
	twice.RawQuery += "&state=x"
	for name, tt := range map[string]struct {
		attempt, reason string
		answer          *url.URL
	}{
		"no attempt": {"", identity.ReasonAttempt, answer},
		"a forged attempt": {base64.RawURLEncoding.EncodeToString([]byte(`{"State":"x"}`)), identity.ReasonAttempt,
			answer},
		"of another browser":   {other, identity.ReasonAttempt, answer},
		"without a state":      {attempt, identity.ReasonAttempt, change("state", "")},
		"two states":           {attempt, identity.ReasonAttempt, &twice},
		"without a code":       {attempt, identity.ReasonAttempt, change("code", "")},
		"with a foreign code":  {attempt, identity.ReasonAttempt, change("code", "guessed")},
		"of another issuer":    {attempt, identity.ReasonIssuer, change("iss", "https://evil.example.com")},
		"an error":             {attempt, identity.ReasonAttempt, change("error", "access_denied\n<script>")},
		"an oversized attempt": {strings.Repeat("A", 1<<20), identity.ReasonAttempt, answer},
	} {
		r.take()
		_, _, no := r.comeBack(tt.answer, tt.attempt)
		if no == nil || no.Reason != tt.reason {
			t.Errorf("%s: %v, want a refusal: %s", name, no, tt.reason)
		}
		if evs := r.take(); len(evs) != 1 || evs[0].Accepted || evs[0].Method != "browser" {
			t.Errorf("%s: recorded %+v, want one refusal", name, evs)
		}
	}
	r.clock.Advance(11 * time.Minute)
	if _, _, no := r.comeBack(answer, attempt); no == nil || no.Reason != identity.ReasonAttempt {
		t.Errorf("after 11 minutes: %v, want a refusal", no)
	}
}

// TestHostileProvider checks that wrong ID tokens are refused.
func TestHostileProvider(t *testing.T) {
	type claims = identitytest.Claims
	for name, tt := range map[string]struct {
		claims, header claims
		reason         string
	}{
		"of another sign-in":       {claims{"nonce": "another"}, nil, identity.ReasonAttempt},
		"without a nonce":          {claims{"nonce": nil}, nil, identity.ReasonAttempt},
		"for another client":       {claims{"aud": "another"}, nil, identity.ReasonAudience},
		"for an API":               {claims{"aud": resource}, nil, identity.ReasonAudience},
		"issued to another":        {claims{"azp": "another"}, nil, identity.ReasonAudience},
		"for many, issued to none": {claims{"aud": []string{"biplane", "another"}}, nil, identity.ReasonAudience},
		"for a long one, issued to none": {claims{"aud": []string{"biplane", strings.Repeat("x", 300)}}, nil,
			identity.ReasonAudience},
		"from another issuer": {claims{"iss": "https://evil.example.com"}, nil, identity.ReasonIssuer},
		"expired":             {claims{"exp": time.Now().Add(-time.Hour).Unix()}, nil, identity.ReasonExpired},
		"without an expiry":   {claims{"exp": nil}, nil, identity.ReasonClaims},
		"without a subject":   {claims{"sub": nil}, nil, identity.ReasonClaims},
		"an access token":     {nil, claims{"typ": "at+jwt"}, identity.ReasonMalformed},
		"with an unknown key": {nil, claims{"kid": "nobody"}, identity.ReasonSigningKey},
		"of a stranger":       {claims{"groups": []string{"others"}}, nil, identity.ReasonRole},
		"of a namesake group": {claims{"sub": "leads", "groups": nil}, nil, identity.ReasonRole},
		"with distant groups": {claims{"_claim_names": map[string]string{"groups": "src1"}}, nil,
			identity.ReasonClaims},
		"with very many groups": {claims{"groups": groupsOfAll(380)}, nil, identity.ReasonClaims},
	} {
		t.Run(name, func(t *testing.T) {
			r := newBrowserRig(t, "")
			all := claims{"groups": []string{"leads"}}
			for k, v := range tt.claims {
				all[k] = v
			}
			r.issuer.SetPerson("", all, tt.header)
			attempt, answer := r.visitProvider(t)
			credential, _, no := r.comeBack(answer, attempt)
			if no == nil || no.Reason != tt.reason || credential != "" {
				t.Errorf("credential %q, refusal %v (%+v), want %s", credential, no, no, tt.reason)
			}
		})
	}
}

func groupsOfAll(n int) (out []string) {
	for range n {
		out = append(out, "leads-of-the-whole-company")
	}
	return append(out, "leads")
}

// TestHostileTokenEndpoint checks that answers of the token endpoint are bounded, and that tokens
// without a signature are refused.
func TestHostileTokenEndpoint(t *testing.T) {
	unsigned := func(alg string) string {
		part := func(v any) string {
			text, _ := json.Marshal(v)
			return base64.RawURLEncoding.EncodeToString(text)
		}
		return part(map[string]string{"alg": alg}) + "." + part(map[string]any{"iss": "x", "sub": "root"}) + "."
	}
	send := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	stolen := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen <- r.FormValue("code")
	}))
	defer thief.Close()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"alg none": {send(map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": unsigned("none")}),
			identity.ReasonAlgorithm},
		"a shared secret": {send(map[string]string{"access_token": "x", "token_type": "Bearer",
			"id_token": unsigned("HS256")}), identity.ReasonAlgorithm},
		"no ID token": {send(map[string]string{"access_token": "x", "token_type": "Bearer"}), identity.ReasonAttempt},
		"a huge token": {send(map[string]string{"access_token": "x", "token_type": "Bearer",
			"id_token": strings.Repeat("a", 500_000)}), identity.ReasonOversize},
		"a huge answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 200 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 64<<10)))
			}
		}, identity.ReasonAttempt},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		}, identity.ReasonAttempt},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			identity.ReasonAttempt},
	} {
		r := newBrowserRig(t, "")
		attempt, answer := r.visitProvider(t)
		r.issuer.HandlePath("/token", tt.answer)
		credential, _, no := r.comeBack(answer, attempt)
		if no == nil || no.Reason != tt.reason || credential != "" {
			t.Errorf("%s: credential %q, refusal %v, want %s", name, credential, no, tt.reason)
		}
	}
	if len(stolen) > 0 {
		t.Error("the code was sent to another server")
	}
}

// TestProviderRefresh checks that metadata are used while the provider can't be asked again, and
// not for longer than an hour.
func TestProviderRefresh(t *testing.T) {
	r := newBrowserRig(t, "")
	begin := func() error {
		_, _, err := r.BeginSignIn(t.Context(), "/")
		return err
	}
	if err := begin(); err != nil {
		t.Fatalf("BeginSignIn: %v", err)
	}
	r.issuer.HandlePath("/.well-known/openid-configuration", http.NotFound)
	for _, c := range []struct {
		after time.Duration
		ok    bool
	}{{11 * time.Minute, true}, {time.Second, true}, {48 * time.Minute, true}, {2 * time.Minute, false}} {
		r.clock.Advance(c.after)
		if err := begin(); (err == nil) != c.ok {
			t.Errorf("another %v later: %v, want it to succeed: %v", c.after, err, c.ok)
		}
	}
}

// TestManySignIns checks that codes from one address, whose provider never answers, leave room for
// others.
func TestManySignIns(t *testing.T) {
	r := newBrowserRig(t, "")
	attempt, answer := r.visitProvider(t)
	arrived, answers := make(chan struct{}, 100), make(chan struct{})
	r.issuer.HandlePath("/token", func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answers
	})
	var wg sync.WaitGroup
	comeFrom := func(address string) *identity.Refusal {
		req := httptest.NewRequest(http.MethodGet, answer.String(), nil)
		req.RemoteAddr = address
		_, _, err := r.FinishSignIn(req, attempt)
		var no *identity.Refusal
		errors.As(err, &no)
		return no
	}
	for range 16 {
		wg.Go(func() { comeFrom("192.0.2.1:1000") })
	}
	for range 16 {
		<-arrived
	}
	if no := comeFrom("192.0.2.1:1000"); no == nil || no.Status != http.StatusServiceUnavailable {
		t.Errorf("the 17th code from an address: %v, want status 503", no)
	}
	wg.Go(func() { comeFrom("198.51.100.1:1000") })
	<-arrived // of the other address
	close(answers)
	wg.Wait()
}

// TestHostileDiscovery checks what the provider's metadata may say.
func TestHostileDiscovery(t *testing.T) {
	const at = "/.well-known/openid-configuration"
	var r *rig
	document := func(change func(m map[string]string)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			m := map[string]string{"issuer": r.issuer.URL, "authorization_endpoint": r.issuer.URL + "/authorize",
				"token_endpoint": r.issuer.URL + "/token", "jwks_uri": r.issuer.URL + "/keys"}
			change(m)
			_ = json.NewEncoder(w).Encode(m)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"another issuer": document(func(m map[string]string) { m["issuer"] = "https://evil.example.com" }),
		"an open token address": document(func(m map[string]string) {
			m["token_endpoint"] = "http://evil.example.com/t"
		}),
		"a script as address": document(func(m map[string]string) {
			m["authorization_endpoint"] = "javascript:alert(1)"
		}),
		"a huge document": document(func(m map[string]string) { m["x"] = strings.Repeat("x", 2<<20) }),
		"a redirect": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, r.issuer.URL+"/elsewhere", http.StatusFound)
		},
		"nothing": http.NotFound,
	} {
		r = newBrowserRig(t, "")
		r.issuer.HandlePath(at, answer)
		check := identity.ProviderConfig{Issuer: identity.Issuer{Issuer: r.issuer.URL}, ClientID: "biplane"}
		if said, err := identity.CheckProvider(t.Context(), check); err == nil {
			t.Errorf("%s: the check says %q, want an error", name, said)
		}
		address, _, err := r.BeginSignIn(t.Context(), "/")
		if tool.AsError(err).Kind != tool.Unavailable {
			t.Errorf("%s: address %q, error %v, want kind unavailable", name, address, err)
		}
		r.issuer.HandlePath(at, nil)
		if _, _, err := r.BeginSignIn(t.Context(), "/"); err == nil {
			t.Errorf("%s: the provider is asked again at once", name)
		}
		r.clock.Advance(time.Minute)
		if _, _, err := r.BeginSignIn(t.Context(), "/"); err != nil {
			t.Errorf("%s: a minute later: %v", name, err)
		}
		said, err := identity.CheckProvider(t.Context(), check)
		if err != nil || !strings.Contains(said, "1 signing key") {
			t.Errorf("%s: the check says %q, %v, want the number of keys", name, said, err)
		}
	}
}
