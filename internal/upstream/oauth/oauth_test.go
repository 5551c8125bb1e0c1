package oauth_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

func TestSignIn(t *testing.T) {
	r := newRig(t)
	r.meta["scopes_supported"] = []string{"offline_access", "other"}
	c := r.open(t, oauth.Config{})
	if got := token(t, c, false); got != "" {
		t.Fatalf("a token before: %q", got)
	}
	c.RecordRefusal("", 401, http.Header{"Www-Authenticate": {`Basic realm="x", Bearer realm="a, b", scope="read \"x ` +
		`write read", resource_metadata="` + r.URL + `/.well-known/oauth-protected-resource/mcp"`}})
	f, err := c.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	defer f.Close()
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	q := u.Query()
	for k, want := range map[string]string{
		"response_type": "code", "client_id": "registered", "resource": r.URL + "/mcp", "code_challenge_method": "S256",
		"redirect_uri": f.Redirect,
		"scope":        "read write offline_access", "prompt": "consent",
	} {
		if q.Get(k) != want {
			t.Errorf("%s is %q, want %q", k, q.Get(k), want)
		}
	}
	if !strings.HasPrefix(f.Redirect, "http://127.0.0.1:") || len(q.Get("state")) < 20 ||
		len(q.Get("code_challenge")) != 43 {
		t.Errorf("address %s", f.URL)
	}
	if status := browse(t, f.URL); status != 200 {
		t.Errorf("the browser ended with %d", status)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	select {
	case <-c.Changes():
	default:
		t.Error("nobody was told")
	}
	first := token(t, c, false)
	if !strings.HasPrefix(first, "access-") || first != token(t, c, false) {
		t.Fatalf("token %q", first)
	}
	if got := c.Redact("it said " + first); strings.Contains(got, first) {
		t.Errorf("not redacted: %s", got)
	}
}

// A sign-in is for one upstream and one address: after a configuration change, its token is sent
// nowhere else.
func TestBoundToServer(t *testing.T) {
	r, s := newRig(t), newStore(t)
	mustSignIn(t, r.open(t, oauth.Config{Store: s}))
	for _, cfg := range []oauth.Config{{Store: s, URL: "https://elsewhere.example/mcp"},
		{Store: s, URL: r.URL + "/other"}, {Store: s, Name: "another"}} {
		if got := token(t, r.open(t, cfg), false); got != "" {
			t.Errorf("%s %s has a token", cfg.Name, cfg.URL)
		}
	}
	if got := token(t, r.open(t, oauth.Config{Store: s, URL: r.URL + "/mcp?key=x"}), false); got == "" {
		t.Error("the query makes another server")
	}
}

func TestRefresh(t *testing.T) {
	r, s := newRig(t), newStore(t)
	c := r.open(t, oauth.Config{Store: s})
	first := mustSignIn(t, c)
	c.RecordRefusal(first, 401, nil)
	if got := token(t, c, false); got != "" {
		t.Errorf("gives what was refused: %q", got)
	}
	second := token(t, c, true)
	if second == "" || second == first {
		t.Fatalf("renewed %q as %q", first, second)
	}
	if form := r.last("refresh_token"); form.Get("resource") != r.URL+"/mcp" || form.Get("client_id") != "registered" {
		t.Errorf("asked with %v", form)
	}
	c.RecordRefusal(second, 401, nil)
	if got := token(t, c, true); got != "" || r.count("POST /token") != 2 {
		t.Errorf("renewed again at once: %q, %d token requests", got, r.count("POST /token"))
	}
	if got := token(t, r.open(t, oauth.Config{Store: s}), false); got != second {
		t.Errorf("another process has %q, want %q", got, second)
	}
}

// Many clients of one store find a token that is about to expire. The store's row decides which one
// renews it, since an authorization server treats a refresh token that is used twice as stolen.
func TestRefreshRace(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.life = 10 // less than the margin: the token is renewed at once
	mustSignIn(t, r.open(t, oauth.Config{Store: s}))
	r.mu.Lock()
	r.life = 3600
	before := len(r.refresh)
	r.mu.Unlock()
	got := make([]string, 12)
	var wg sync.WaitGroup
	for i := range got {
		c := r.open(t, oauth.Config{Store: s})
		wg.Go(func() {
			var err error
			if got[i], err = c.Token(t.Context(), false); err != nil {
				t.Errorf("Token: %v", err)
			}
		})
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(got, func(s string) bool { return s == "" || s != got[0] }) {
		t.Errorf("tokens %q", got)
	}
	if r.reused > 0 || len(r.refresh) > before+1 {
		t.Errorf("%d refresh tokens came twice, %d were given", r.reused, len(r.refresh)-before)
	}
}

// While the authorization server is down, a token that is still valid is used; otherwise the error
// says to try again. Only an error response of the authorization server ends the sign-in.
func TestRefreshFails(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.life = 25 // old enough to be renewed, and still valid
	c := r.open(t, oauth.Config{Store: s})
	away := func(url.Values) (int, any) { return 503, "away" }
	first := mustSignIn(t, c)
	r.token = away
	if got := token(t, r.open(t, oauth.Config{Store: s}), false); got == "" {
		t.Error("what is still good isn't used")
	}
	c.RecordRefusal(token(t, c, false), 401, nil)
	other := r.open(t, oauth.Config{Store: s})
	held := token(t, other, false)
	other = r.open(t, oauth.Config{Store: s})
	other.RecordRefusal(held, 401, nil)
	_, err := other.Token(t.Context(), true)
	wants(t, err, tool.Unavailable, "can't be renewed now: status 503")
	r.token = func(url.Values) (int, any) {
		return 400, map[string]any{"error": "invalid_grant", "error_description": "not " + first}
	}
	last := r.open(t, oauth.Config{Store: s})
	last.RecordRefusal(held, 401, nil)
	if got := token(t, last, true); got != "" {
		t.Errorf("a token after invalid_grant: %q", got)
	}
	if in, _, err := last.SignedIn(t.Context()); in || err != nil {
		t.Errorf("still signed in: %v, %v", in, err)
	}
}

// Missing scopes are requested in addition to those granted before, whichever process signs in.
func TestStepUp(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.resource["scopes_supported"] = []string{"read"}
	c := r.open(t, oauth.Config{Store: s})
	first := mustSignIn(t, c)
	c.RecordRefusal(first, 403, http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="write"`}})
	if got := token(t, c, false); got != first {
		t.Errorf("the token is good for the rest: %q", got)
	}
	other := r.open(t, oauth.Config{Store: s})
	if in, wants, err := other.SignedIn(t.Context()); !in || !slices.Equal(wants, []string{"write"}) || err != nil {
		t.Fatalf("in = %v, wants = %v, err = %v, want in && slices.Equal(wants, []string{\"write\"}) && "+
			"err == nil", in, wants, err)
	}
	f, err := other.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	defer f.Close()
	if u, _ := url.Parse(f.URL); u.Query().Get("scope") != "read write" {
		t.Errorf("asks for %q", u.Query().Get("scope"))
	}
	browse(t, f.URL)
	if err := f.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	if _, wants, err := other.SignedIn(t.Context()); wants != nil || err != nil {
		t.Errorf("still wants %v, %v", wants, err)
	}
}

func TestClients(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      oauth.Config
		change   func(*rig)
		id       string
		basic    bool
		secret   string // in the form
		register bool
	}{
		"by hand, public": {cfg: oauth.Config{ClientID: "mine"}, id: "mine"},
		"by hand, secret": {cfg: oauth.Config{ClientID: "mi ne", ClientSecret: "s&cret:12"},
			id: "mi+ne", basic: true},
		"by hand, secret in the form": {cfg: oauth.Config{ClientID: "mine", ClientSecret: "secret12"},
			change: func(r *rig) {
				r.meta["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
			}, id: "mine", secret: "secret12"},
		"document": {cfg: oauth.Config{ClientID: "https://app.example/client.json"},
			change: func(r *rig) {
				r.meta["client_id_metadata_document_supported"] = true
			}, id: "https://app.example/client.json"},
		"document, not taken": {cfg: oauth.Config{ClientID: "https://app.example/client.json"},
			id: "registered", register: true},
		"registered": {id: "registered", register: true},
		"registered with a secret for Basic": {change: func(r *rig) {
			r.client = map[string]any{"client_id": "registered", "client_secret": "secret12"}
		}, id: "registered", basic: true, register: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.change != nil {
				c.change(r)
			}
			if c.cfg.ClientSecret != "" {
				_, err := r.open(t, c.cfg).Begin(t.Context())
				wants(t, err, tool.Invalid, ".oauth.issuer: "+r.URL+"/as")
				c.cfg.Issuer = "https://other.example"
				_, err = r.open(t, c.cfg).Begin(t.Context())
				wants(t, err, tool.Denied, "oauth.issuer allows only https://other.example")
				c.cfg.Issuer = r.URL + "/as"
			}
			mustSignIn(t, r.open(t, c.cfg))
			form := r.last("code")
			if c.basic && !slices.Equal(r.basic, []string{c.id}) || !c.basic && form.Get("client_id") != c.id ||
				form.Get("client_secret") != c.secret {
				t.Errorf("proved itself with %v, Basic %v", form, r.basic)
			}
			if (r.count("POST /register") == 1) != c.register {
				t.Errorf("registered %d times", r.count("POST /register"))
			}
		})
	}
}

func TestForget(t *testing.T) {
	r := newRig(t)
	c := r.open(t, oauth.Config{})
	first := mustSignIn(t, c)
	<-c.Changes()
	revoked, err := c.Forget(t.Context())
	if !revoked || err != nil {
		t.Errorf("forget: %v, %v", revoked, err)
	}
	<-c.Changes()
	if form := r.last("token_type_hint"); form.Get("token") != first || form.Get("token_type_hint") != "access_token" ||
		r.count("POST /revoke") != 2 {
		t.Errorf("revoked %v", form)
	}
	if got := token(t, c, true); got != "" {
		t.Errorf("still has %q", got)
	}
	mustSignIn(t, c)
	r.extra["/revoke"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	if revoked, err := c.Forget(t.Context()); revoked || err != nil {
		t.Errorf("forget where revoking fails: %v, %v", revoked, err)
	}
}

// An abandoned flow leaves nothing behind. A flow whose port is in use returns an error that says
// so.
func TestFlowEnds(t *testing.T) {
	r := newRig(t)
	c := r.open(t, oauth.Config{})
	f, err := c.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	u, err := url.Parse(f.Redirect)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	var port int
	for _, d := range u.Port() {
		port = port*10 + int(d-'0')
	}
	_, err = r.open(t, oauth.Config{RedirectPort: port}).Begin(t.Context())
	wants(t, err, tool.Unavailable, "redirect_port")
	f.Close()
	f.Close()
	again, err := r.open(t, oauth.Config{RedirectPort: port}).Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	defer again.Close()
	if again.Redirect != f.Redirect {
		t.Errorf("redirects to %s, want %s", again.Redirect, f.Redirect)
	}
	if got := token(t, c, false); got != "" {
		t.Errorf("token %q", got)
	}
}

// A caller that arrives while another process renews the sign-in gets the same token.
func TestRenewalOfAnotherProcess(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.life = 5
	c := r.open(t, oauth.Config{Store: s})
	if err := signIn(t, c); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	r.life = 3600
	entered, leave := make(chan struct{}), make(chan struct{})
	r.token = func(f url.Values) (int, any) { close(entered); <-leave; return r.issue(f) }
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := c.Token(t.Context(), false); got == "" || err != nil {
			t.Errorf("renewed: %q, %v", got, err)
		}
	})
	<-entered
	other := r.open(t, oauth.Config{Store: s})
	done := make(chan string, 1)
	wg.Go(func() {
		got, err := other.Token(t.Context(), false)
		if err != nil {
			t.Errorf("Token: %v", err)
		}
		done <- got
	})
	close(leave)
	wg.Wait()
	if got := <-done; got != token(t, c, false) || r.count("POST /token") != 2 {
		t.Errorf("got %q after %d token requests", got, r.count("POST /token"))
	}
}

// Tokens are masked as soon as they are known: those of a sign-in, renewed ones, and those stored
// by another process. The ones in use stay masked, however many others follow.
func TestTokensAreMasked(t *testing.T) {
	r, s := newRig(t), newStore(t)
	m, other := mask.New(), mask.New()
	shown := func(what string, m *mask.Masker, token string) {
		t.Helper()
		for _, text := range []string{token, "it got Bearer " + token + ".",
			base64.StdEncoding.EncodeToString([]byte("x:" + token))} {
			if got := m.Text(text); token == "" || got == text {
				t.Errorf("%s is shown: %q", what, got)
			}
		}
	}
	c := r.open(t, oauth.Config{Store: s, Mask: m})
	first := mustSignIn(t, c)
	shown("the first token", m, first)
	c.RecordRefusal(first, 401, nil)
	second := token(t, c, true)
	if second == first {
		t.Fatal("it was not renewed")
	}
	refresh := r.last("refresh_token").Get("refresh_token")
	shown("the renewed token", m, second)
	shown("the old token", m, first)
	shown("the refresh token", m, refresh)
	for i := range 600 {
		m.AddRecent(fmt.Sprintf("of-another-%04d", i))
	}
	shown("the token in use", m, second)
	if got := token(t, r.open(t, oauth.Config{Store: s, Mask: other}), false); got != second {
		t.Fatalf("another process has %q", got)
	}
	shown("the token of another process", other, second)
}
