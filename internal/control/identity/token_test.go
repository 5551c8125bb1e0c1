package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/tool"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		return v
	}
}

// raw returns a token of the given parts, with any signature.
func raw(header, claims, signature string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(header)) + "." + e([]byte(claims)) + "." + e([]byte(signature))
}

// TestBadTokens is the table of tokens that must be refused, each with its recorded reason. The
// same rig accepts a valid token before and after, so that none is refused because all are.
func TestBadTokens(t *testing.T) {
	r := newRig(t, nil)
	if err := r.issuer.RotateKey("RS256", true); err != nil {
		t.Fatalf("RotateKey: %v", err)
	}
	now := r.clock.Now()
	other := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	foreign := must[*identitytest.Issuer](t)(identitytest.NewIssuer())
	defer foreign.Close()
	good := r.issuer.ValidClaims("ann", resource, now, nil)
	text := string(must[[]byte](t)(json.Marshal(good)))
	private := r.issuer.SigningKey()
	public := private.Public()
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(public.Key))
	secretKey := func(k []byte) jose.JSONWebKey {
		return jose.JSONWebKey{Key: k, KeyID: public.KeyID, Algorithm: "HS256"}
	}
	sign := func(k jose.JSONWebKey, header map[string]any) string {
		return must[string](t)(identitytest.SignClaims(k, good, header))
	}
	valid := r.token(t, nil, nil)
	parts := strings.Split(valid, ".")

	for name, tt := range map[string]struct{ token, reason string }{
		"alg none":                  {raw(`{"alg":"none","typ":"JWT"}`, text, ""), identity.ReasonAlgorithm},
		"alg None":                  {raw(`{"alg":"None","typ":"JWT"}`, text, "x"), identity.ReasonAlgorithm},
		"alg none, signature kept":  {raw(`{"alg":"none","kid":"key-2"}`, text, "x"), identity.ReasonAlgorithm},
		"no alg":                    {raw(`{"kid":"key-2"}`, text, "x"), identity.ReasonAlgorithm},
		"HS256, the public key DER": {sign(secretKey(der), nil), identity.ReasonAlgorithm},
		"HS256, the public key PEM": {sign(secretKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
			nil), identity.ReasonAlgorithm},
		"HS256, the key as JSON": {sign(secretKey(must[[]byte](t)(json.Marshal(public))), nil),
			identity.ReasonAlgorithm},
		"wrong key, same kid": {sign(jose.JSONWebKey{Key: other, KeyID: public.KeyID, Algorithm: "RS256"}, nil),
			identity.ReasonSignature},
		"wrong key, no kid": {sign(jose.JSONWebKey{Key: other, Algorithm: "RS256"}, nil),
			identity.ReasonSignature},
		"unknown kid": {sign(jose.JSONWebKey{Key: other, KeyID: "key-9", Algorithm: "RS256"}, nil),
			identity.ReasonSigningKey},
		"kid is a path": {sign(jose.JSONWebKey{Key: other, KeyID: "../../../../dev/null",
			Algorithm: "RS256"}, nil), identity.ReasonSigningKey},
		"kid is SQL": {sign(jose.JSONWebKey{Key: other, KeyID: "x' UNION SELECT 'a", Algorithm: "RS256"},
			nil), identity.ReasonSigningKey},
		"kid is an address": {sign(jose.JSONWebKey{Key: other, KeyID: foreign.URL + "/keys",
			Algorithm: "RS256"}, nil), identity.ReasonSigningKey},
		"kid is no text": {raw(`{"alg":"RS256","kid":{"a":1}}`, text, "x"), identity.ReasonMalformed},
		"brings its own key (jwk)": {sign(jose.JSONWebKey{Key: other, Algorithm: "RS256"},
			map[string]any{"jwk": jose.JSONWebKey{Key: &other.PublicKey, Algorithm: "RS256"}}),
			identity.ReasonSignature},
		"says where its key is": {sign(jose.JSONWebKey{Key: other, KeyID: "key-2", Algorithm: "RS256"},
			map[string]any{"jku": foreign.URL + "/keys", "x5u": foreign.URL}), identity.ReasonSignature},
		"another algorithm": {sign(jose.JSONWebKey{Key: r.issuer.SigningKey().Key, KeyID: "key-2",
			Algorithm: "PS256"}, nil), identity.ReasonSigningKey},
		"critical header": {sign(r.issuer.SigningKey(),
			map[string]any{"crit": []string{"exp"}, "exp": 1}), identity.ReasonSignature},
		"changed claims": {parts[0] + "." +
			base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(text, `"ann"`, `"bob"`, 1))) + "." + parts[2],
			identity.ReasonSignature},
		"signature cut":          {valid[:len(valid)-10], identity.ReasonSignature},
		"no signature":           {parts[0] + "." + parts[1] + ".", identity.ReasonSignature},
		"two parts":              {parts[0] + "." + parts[1], identity.ReasonMalformed},
		"five parts (encrypted)": {valid + ".x.y", identity.ReasonMalformed},
		"JSON serialization": {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` +
			parts[2] + `"}`, identity.ReasonMalformed},
		"claims are no JSON": {raw(`{"alg":"RS256"}`, "x", "x"), identity.ReasonMalformed},
		"not a token":        {"letmein", identity.ReasonMalformed},
		"another issuer": {must[string](t)(foreign.SignToken(foreign.ValidClaims("ann", resource, now,
			nil), nil)), identity.ReasonIssuer},
		"another issuer, our name": {must[string](t)(foreign.SignToken(good, nil)), identity.ReasonSigningKey},
		"issuer with a slash": {r.token(t, map[string]any{"iss": r.issuer.URL + "/"}, nil),
			identity.ReasonIssuer},
		"no issuer": {r.token(t, map[string]any{"iss": nil}, nil), identity.ReasonIssuer},
		"another audience, replayed": {r.token(t, map[string]any{"aud": "https://other.example.com/mcp"}, nil),
			identity.ReasonAudience},
		"audience begins like ours": {r.token(t, map[string]any{"aud": resource + "x"}, nil), identity.ReasonAudience},
		"an ID token of the client": {r.token(t, map[string]any{"aud": "agent-1", "nonce": "n"}, nil),
			identity.ReasonAudience},
		"no audience": {r.token(t, map[string]any{"aud": nil}, nil), identity.ReasonAudience},
		"expired": {r.token(t, map[string]any{"exp": now.Add(-time.Minute).Unix()}, nil),
			identity.ReasonExpired},
		"no expiry":      {r.token(t, map[string]any{"exp": nil}, nil), identity.ReasonClaims},
		"expiry is text": {r.token(t, map[string]any{"exp": "never"}, nil), identity.ReasonSignature},
		"not valid yet": {r.token(t, map[string]any{"nbf": now.Add(time.Hour).Unix()}, nil),
			identity.ReasonNotYet},
		"made in the future": {r.token(t, map[string]any{"iat": now.Add(time.Hour).Unix()}, nil),
			identity.ReasonNotYet},
		"a logout token": {r.token(t, nil, map[string]any{"typ": "logout+jwt"}), identity.ReasonMalformed},
		"bound to a client's key": {r.token(t, map[string]any{"cnf": map[string]any{"jkt": "x"}}, nil),
			identity.ReasonClaims},
		"no subject": {r.token(t, map[string]any{"sub": nil}, nil), identity.ReasonClaims},
		"subject too long": {r.token(t, map[string]any{"sub": strings.Repeat("x", 300)}, nil),
			identity.ReasonClaims},
		"subject on two lines": {r.token(t, map[string]any{"sub": "ann\nbob"}, nil), identity.ReasonClaims},
		"groups of no shape":   {r.token(t, map[string]any{"groups": []any{1, 2}}, nil), identity.ReasonClaims},
		"groups are elsewhere": {r.token(t, map[string]any{"_claim_names": map[string]any{"groups": "src1"}},
			nil), identity.ReasonClaims},
		"actors without end": {r.token(t, map[string]any{"act": nested(20)}, nil), identity.ReasonClaims},
		"actor of no shape":  {r.token(t, map[string]any{"act": "bob"}, nil), identity.ReasonClaims},
		"no scope":           {r.token(t, map[string]any{"scope": nil}, nil), identity.ReasonScope},
		"another scope": {r.token(t, map[string]any{"scope": "api mcp:read xmcp"}, nil),
			identity.ReasonScope},
		"oversized": {r.token(t, map[string]any{"x": strings.Repeat("x", 20<<10)}, nil),
			identity.ReasonOversize},
	} {
		t.Run(name, func(t *testing.T) {
			r.clock.Advance(time.Minute) // past the pause between fetches
			no := r.refused(t, tt.token, toMCP, tt.reason)
			if want := map[string]int{identity.ReasonScope: 403}[tt.reason]; want != 0 && no.Status != want ||
				want == 0 && no.Status != 401 {
				t.Errorf("status %d", no.Status)
			}
			code := `error="invalid_token"`
			if tt.reason == identity.ReasonScope {
				code = `error="insufficient_scope"`
			}
			for _, part := range []string{"Bearer ", code, `scope="mcp"`,
				`resource_metadata="https://biplane.example.com/.well-known/oauth-protected-resource/mcp"`} {
				if !strings.Contains(no.Challenge, part) {
					t.Errorf("no %s in %s", part, no.Challenge)
				}
			}
		})
	}
	if p := r.accepted(t, r.token(t, nil, nil), toMCP); p.ID != r.issuer.URL+"#ann" {
		t.Errorf(`p = %+v, want p.ID == r.issuer.URL+"#ann"`, p)
	}
}

func nested(n int) map[string]any {
	act := map[string]any{"sub": "last"}
	for range n {
		act = map[string]any{"sub": "actor", "act": act}
	}
	return act
}

func TestGoodTokens(t *testing.T) {
	r := newRig(t, func(c *identity.AuthenticatorConfig) {
		c.Roles = map[string][]string{"admin": {"group:ops"}, "auditor": {"user:carol"}, "viewer": {"agent:dash"}}
	})
	id := func(s string) string { return r.issuer.URL + "#" + s }
	for name, tt := range map[string]struct {
		claims map[string]any
		want   tool.Principal
	}{
		"a person with an agent": {map[string]any{"email": "ann@example.com"},
			tool.Principal{ID: id("ann"), Name: "ann@example.com", Person: id("ann"), Agent: "agent-1",
				Roles: []string{"user"}}},
		"azp": {map[string]any{"client_id": nil, "azp": "a2"},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "a2", Roles: []string{"user"}}},
		"a program": {map[string]any{"sub": "agent-1"},
			tool.Principal{ID: id("agent-1"), Agent: "agent-1", Roles: []string{"user"}}},
		"an admin": {map[string]any{"groups": []string{"dev", "ops"}},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "agent-1", Roles: []string{"admin"},
				Groups: []string{"dev", "ops"}}},
		"an auditor is no user": {map[string]any{"sub": "carol"},
			tool.Principal{ID: id("carol"), Person: id("carol"), Agent: "agent-1", Roles: []string{"auditor"}}},
		"a dashboard": {map[string]any{"client_id": "dash"},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "dash", Roles: []string{"viewer"}}},
		"delegation": {map[string]any{"act": map[string]any{"sub": "agent-2",
			"act": map[string]any{"client_id": "agent-3"}}},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "agent-2", Roles: []string{"user"},
				Chain: []string{"agent-2", "agent-3"}}},
		"several audiences": {map[string]any{"aud": []string{"x", resource}},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "agent-1", Roles: []string{"user"}}},
		"scp": {map[string]any{"scope": nil, "scp": []string{"api", "mcp"}},
			tool.Principal{ID: id("ann"), Person: id("ann"), Agent: "agent-1", Roles: []string{"user"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := r.accepted(t, r.token(t, tt.claims, nil), identity.Need{Scope: "mcp", Roles: identity.Roles()})
			tt.want.Scopes, tt.want.Until = []string{"api", "mcp"}, r.clock.Now().Add(time.Hour+30*time.Second)
			a, b := must[[]byte](t)(json.Marshal(p)), must[[]byte](t)(json.Marshal(tt.want))
			if string(a) != string(b) {
				t.Errorf("%s, want %s", a, b)
			}
		})
	}
	no := r.refused(t, r.token(t, map[string]any{"sub": "carol"}, nil), toMCP, identity.ReasonRole)
	if no.Status != 403 || no.Challenge != "" {
		t.Errorf(`no = %+v, want no.Status == 403 && no.Challenge == ""`, no)
	}
}

func TestClaimsAreConfigured(t *testing.T) {
	r := newRig(t, nil)
	i := identity.Issuer{Issuer: r.issuer.URL, Audiences: []string{"biplane"},
		Claims: identity.Claims{ID: "email", Name: "nick", Groups: "realm_access.roles",
			Agent: "https://x.example/app"},
		Roles: map[string][]string{"user": {"group:devs"}}, Algorithms: []string{"ES256"}}
	r.Authenticator = identity.New(identity.AuthenticatorConfig{Issuers: []identity.Issuer{i}, Resource: resource,
		Clock: r.clock, Scopes: map[string]string{"mcp": "biplane:use", "api": ""}})
	claims := map[string]any{"aud": "biplane", "email": "ann@example.com", "nick": "annie",
		"realm_access": map[string]any{"roles": "devs"}, "https://x.example/app": "a9", "scope": "biplane:use"}
	p := r.accepted(t, r.token(t, claims, nil), toMCP)
	if p.ID != r.issuer.URL+"#ann@example.com" || p.Name != "annie" || p.Agent != "a9" ||
		!slices.Equal(p.Roles, []string{"user"}) || !slices.Equal(p.Groups, []string{"devs"}) {
		t.Errorf("p = %+v", p)
	}
	r.accepted(t, r.token(t, claims, nil), toAPI)       // requires no scope
	for _, verified := range []any{nil, true, "true"} { // as issuers write it
		claims["email_verified"] = verified
		r.accepted(t, r.token(t, claims, nil), toMCP)
	}
	for _, tt := range []struct {
		reason string
		change map[string]any
	}{
		{identity.ReasonAudience, map[string]any{"aud": resource}},
		{identity.ReasonScope, map[string]any{"scope": "mcp"}},
		{identity.ReasonRole, map[string]any{"realm_access": nil}},
		{identity.ReasonClaims, map[string]any{"email_verified": false}},
		{identity.ReasonClaims, map[string]any{"email_verified": "false"}},
		{identity.ReasonClaims, map[string]any{"email_verified": 0}},
	} {
		name, change := tt.reason, tt.change
		c := map[string]any{}
		for k, v := range claims {
			c[k] = v
		}
		for k, v := range change {
			c[k] = v
		}
		if _, no := r.ask(r.token(t, c, nil), toMCP); no == nil || no.Reason != name {
			t.Errorf("%s, no = %v, want no != nil && no.Reason == name", name, no)
		}
	}
}

func TestRotation(t *testing.T) {
	r := newRig(t, nil)
	old := r.token(t, nil, nil)
	r.accepted(t, old, toMCP)
	if n := r.issuer.CountFetches(); n != 1 {
		t.Fatalf("%d fetches", n)
	}
	for _, alg := range []string{"ES256", "EdDSA", "PS256"} {
		r.clock.Advance(time.Minute)
		if err := r.issuer.RotateKey(alg, false); err != nil {
			t.Fatalf("RotateKey: %v", err)
		}
		r.accepted(t, r.token(t, nil, nil), toMCP) // a key that was added after the last fetch
		r.accepted(t, old, toMCP)
	}
	if n := r.issuer.CountFetches(); n != 4 {
		t.Errorf("%d fetches, want 4", n)
	}
	// A key that the issuer removes stays valid for ten minutes at most.
	if err := r.issuer.RotateKey("RS256", true); err != nil {
		t.Fatalf("RotateKey: %v", err)
	}
	r.clock.Advance(9 * time.Minute)
	r.accepted(t, old, toMCP)
	r.clock.Advance(2 * time.Minute)
	r.refused(t, old, toMCP, identity.ReasonSigningKey)
	r.accepted(t, r.token(t, nil, nil), toMCP)
	// Without a kid all keys that match are tried.
	r.accepted(t, r.token(t, nil, map[string]any{"kid": ""}), toMCP)
}

// TestNoFetchStorm sends tokens with unknown kids: the issuer is asked occasionally, not for each.
func TestNoFetchStorm(t *testing.T) {
	r := newRig(t, nil)
	r.accepted(t, r.token(t, nil, nil), toMCP)
	key := r.issuer.SigningKey()
	var wg sync.WaitGroup
	for range 50 {
		token := must[string](t)(identitytest.SignClaims(key,
			r.issuer.ValidClaims("ann", resource, r.clock.Now(), nil), map[string]any{"kid": rand.Text()}))
		wg.Go(func() {
			if _, no := r.ask(token, toMCP); no == nil || no.Reason != identity.ReasonSigningKey {
				t.Errorf("no = %v, want no != nil && no.Reason == identity.ReasonSigningKey", no)
			}
		})
	}
	wg.Wait()
	if n := r.issuer.CountFetches(); n > 1 {
		t.Errorf("%d fetches", n)
	}
	r.clock.Advance(time.Minute)
	token := must[string](t)(identitytest.SignClaims(key, r.issuer.ValidClaims("ann", resource, r.clock.Now(), nil),
		map[string]any{"kid": "no"}))
	for range 50 {
		wg.Go(func() { r.ask(token, toMCP) })
	}
	wg.Wait()
	if n := r.issuer.CountFetches(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

func TestIssuerIsDown(t *testing.T) {
	r := newRig(t, nil)
	r.issuer.SetDown(true)
	no := r.refused(t, r.token(t, nil, nil), toMCP, identity.ReasonIssuerDown)
	if no.Status != http.StatusServiceUnavailable || no.Challenge != "" {
		t.Errorf(`no = %+v, want no.Status == http.StatusServiceUnavailable && no.Challenge == ""`, no)
	}
	r.issuer.SetDown(false)
	r.clock.Advance(20 * time.Second)
	token := r.token(t, map[string]any{"exp": r.clock.Now().Add(10 * time.Hour).Unix()}, nil)
	r.accepted(t, token, toMCP)
	// Fetched keys stay valid for an hour.
	r.issuer.SetDown(true)
	r.clock.Advance(50 * time.Minute)
	r.accepted(t, token, toMCP)
	r.clock.Advance(15 * time.Minute)
	r.refused(t, token, toMCP, identity.ReasonIssuerDown)
}

// TestKeysOfTheIssuer serves keys that must not be accepted.
func TestKeysOfTheIssuer(t *testing.T) {
	r := newRig(t, nil)
	weak := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	shared := []byte(strings.Repeat("k", 32))
	if err := r.issuer.RotateKey("RS256", true); err != nil {
		t.Fatalf("RotateKey: %v", err)
	}
	own := r.issuer.SigningKey()
	for name, k := range map[string]jose.JSONWebKey{
		"weak RSA":           {Key: weak, Algorithm: "RS256"},
		"a shared secret":    {Key: shared, Algorithm: "HS256"},
		"for encryption":     {Key: own.Key, Algorithm: "RS256", Use: "enc"},
		"another algorithm":  {Key: own.Key, Algorithm: "RS512"},
		"curve of another":   {Key: p384, Algorithm: "ES384"},
		"private, published": {Key: own.Key, Algorithm: "RS256", Use: "sig"},
	} {
		t.Run(name, func(t *testing.T) {
			r.clock.Advance(time.Hour)
			served := k
			served.KeyID = "k"
			if name != "a shared secret" && name != "private, published" {
				served = served.Public()
			}
			r.issuer.ServeKeys(served, jose.JSONWebKey{Key: own.Public().Key, KeyID: "fits"})
			signer := jose.JSONWebKey{Key: k.Key, KeyID: "k", Algorithm: "RS256"}
			switch name {
			case "a shared secret":
				signer.Algorithm = "HS256"
			case "curve of another":
				signer.Algorithm = "ES384"
			}
			token, err := identitytest.SignClaims(signer, r.issuer.ValidClaims("ann", resource, r.clock.Now(), nil),
				nil)
			if err != nil {
				t.Skip(err) // the library won't sign with it either
			}
			p, no := r.ask(token, toMCP)
			if name == "curve of another" {
				if no != nil {
					t.Errorf("ES384 with a P-384 key: %v", no)
				}
				return
			}
			if no == nil {
				t.Errorf("taken as %+v", p)
			}
		})
	}
}

// TestIssuerMetadata has issuers whose metadata must not be trusted.
func TestIssuerMetadata(t *testing.T) {
	good := must[*identitytest.Issuer](t)(identitytest.NewIssuer())
	defer good.Close()
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, self string)
		ok     bool
	}{
		"says another issuer": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			json.NewEncoder(w).Encode(map[string]any{"issuer": good.URL, "jwks_uri": good.URL + "/keys"})
		}, false},
		"keys in the clear": {func(w http.ResponseWriter, _ *http.Request, self string) {
			json.NewEncoder(w).Encode(map[string]any{"issuer": self, "jwks_uri": "http://192.0.2.1/keys"})
		}, false},
		"redirects": {func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, good.URL+r.URL.Path, http.StatusFound)
		}, false},
		"endless": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Write([]byte(`{"issuer":"` + strings.Repeat("x", 2<<20) + `"}`))
		}, false},
		"RFC 8414": {func(w http.ResponseWriter, r *http.Request, self string) {
			if r.URL.Path != "/.well-known/oauth-authorization-server" {
				http.NotFound(w, r)
				return
			}
			json.NewEncoder(w).Encode(map[string]any{"issuer": self, "jwks_uri": good.URL + "/keys"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var self string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tt.answer(w, r, self)
			}))
			defer s.Close()
			self = s.URL
			r := newRig(t, func(c *identity.AuthenticatorConfig) { c.Issuers = []identity.Issuer{{Issuer: self}} })
			token := must[string](t)(good.SignToken(good.ValidClaims("ann", resource, r.clock.Now(),
				map[string]any{"iss": self}), nil))
			if p, no := r.ask(token, toMCP); (no == nil) != tt.ok ||
				no != nil && no.Reason != identity.ReasonIssuerDown {
				t.Errorf("p = %+v, no = %v, want (no == nil) == tt.ok && (no == nil || no.Reason == "+
					"identity.ReasonIssuerDown)", p, no)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	r := newRig(t, nil)
	for path, status := range map[string]int{
		"/.well-known/oauth-protected-resource": 200, "/.well-known/oauth-protected-resource/mcp": 200,
		"/.well-known/oauth-protected-resource/other": 404,
	} {
		w := httptest.NewRecorder()
		r.Metadata().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != status {
			t.Errorf("path = %s, w.Code = %d, want status", path, w.Code)
			continue
		}
		want := `{"resource":"` + resource + `","authorization_servers":["` + r.issuer.URL +
			`"],"scopes_supported":["mcp","api"],"bearer_methods_supported":["header"],"resource_name":"Biplane"}`
		if status == 200 && w.Body.String() != want {
			t.Errorf("w.Body = %s, want status != 200 || w.Body.String() == want", w.Body)
		}
	}
	if identity.New(identity.AuthenticatorConfig{Keys: r.keys}).Metadata() != nil {
		t.Error("metadata without issuers")
	}
}

func FuzzToken(f *testing.F) {
	i, err := identitytest.NewIssuer()
	if err != nil {
		f.Fatalf("identitytest.NewIssuer: %v", err)
	}
	f.Cleanup(i.Close)
	a := identity.New(identity.AuthenticatorConfig{Issuers: []identity.Issuer{{Issuer: i.URL}}, Resource: resource})
	good, err := i.SignToken(i.ValidClaims("ann", resource, time.Now(), nil), nil)
	if err != nil {
		f.Fatalf("SignToken: %v", err)
	}
	f.Add(good)
	f.Add("bp_abcdefghijkl_0000000000000000000000000000000000000000000000000")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequest("GET", "/mcp", nil)
		r.Header["Authorization"] = []string{"Bearer " + token}
		if p, err := a.Authenticate(r, toMCP); err == nil && strings.TrimSpace(token) != good {
			t.Errorf("%q is taken as %+v", token, p)
		}
	})
}
