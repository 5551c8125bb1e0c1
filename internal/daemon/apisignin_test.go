package daemon_test

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
)

// apiSecret is the secret of the client that is registered at an apiPeer. Basic authentication
// must escape it.
const apiSecret = "s3cret+/ & more"

// An apiPeer is an HTTP API with an OpenAPI document and an authorization server, which accepts one
// registered client. Each token is for one account.
type apiPeer struct {
	*httptest.Server
	tokenURL string // in the document; empty: its own
	inForm   bool   // the client's secret is accepted in the form only
	metadata bool   // it has metadata (RFC 8414), with a revocation endpoint
	openID   bool   // the document names it as an OpenID provider, without endpoints
	provider string // the OpenID provider in the document; empty: itself
	moved    string // where the OpenID provider's metadata redirect; empty: nowhere
	loginURL string // the authorization endpoint in the metadata; empty: its own

	mu      sync.Mutex
	wire    []string              // requests to the authorization server, with what was asserted
	codes   map[string]url.Values // authorization requests with the account, by code
	access  map[string]string     // accounts by token
	refresh map[string]string
	revoked []string // accounts
}

func newAPIPeer(t *testing.T) *apiPeer {
	t.Helper()
	p := &apiPeer{codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		tokenURL := p.tokenURL
		if tokenURL == "" {
			tokenURL = "/token" // relative to the document
		}
		login := fmt.Sprintf(`{"type":"oauth2","flows":{"authorizationCode":{
			"authorizationUrl":"%s/authorize?tenant=7","tokenUrl":%q,"refreshUrl":"%s/renew",
			"scopes":{"read":"","write":"","everything":""}}}}`,
			p.URL, tokenURL, p.URL)
		if p.openID {
			login = fmt.Sprintf(`{"type":"openIdConnect",
				"openIdConnectUrl":"%s/.well-known/openid-configuration"}`, cmp.Or(p.provider, p.URL))
		}
		fmt.Fprintf(w, `{"openapi":"3.0.3","info":{"title":"Accounts","version":"1"},"paths":{
			"/who":{"get":{"operationId":"who","security":[{"login":["read"]}],
				"responses":{"200":{"description":"ok"}}}},
			"/sign":{"post":{"operationId":"sign","security":[{"login":["write","read"]},{"login":["everything"]}],
				"responses":{"200":{"description":"ok"}}}},
			"/admin":{"get":{"operationId":"admin","security":[{"key":[]}],"responses":{"200":{"description":"ok"}}}},
			"/open":{"get":{"operationId":"open","security":[],"responses":{"200":{"description":"ok"}}}}},
			"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"},
			"login":%s}}}`, login)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		p.describeServer(w, !p.openID)
	})
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		if p.moved != "" {
			http.Redirect(w, r, p.moved, http.StatusTemporaryRedirect)
			return
		}
		p.describeServer(w, p.openID)
	})
	mux.HandleFunc("GET /authorize", p.authorizeClient)
	mux.HandleFunc("POST /token", p.issueTokens)
	mux.HandleFunc("POST /renew", p.issueTokens)
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if account := p.refresh[r.FormValue("token")]; account != "" {
			p.revoked = append(p.revoked, account)
		}
		delete(p.access, r.FormValue("token"))
		delete(p.refresh, r.FormValue("token"))
	})
	mux.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "open to all, with %q", r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		account := p.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		p.mu.Unlock()
		if account == "" {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"who":"you are %s"}`, account)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// noteRequest notes a request to the authorization server.
func (p *apiPeer) noteRequest(format string, a ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wire = append(p.wire, fmt.Sprintf(format, a...))
}

func (p *apiPeer) authorizeClient(w http.ResponseWriter, r *http.Request) {
	account, err := r.Cookie("account")
	if err != nil {
		http.Error(w, "sign in first", http.StatusForbidden)
		return
	}
	q, code := r.URL.Query(), rand.Text()
	p.noteRequest("authorize: tenant=%s type=%s client=%s scope=%q method=%s pkce=%t state=%t resource=%t",
		q.Get("tenant"),
		q.Get("response_type"), q.Get("client_id"), q.Get("scope"), q.Get("code_challenge_method"),
		len(q.Get("code_challenge")) == 43, len(q.Get("state")) > 20, q.Has("resource"))
	q.Set("account", account.Value)
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(),
		http.StatusFound)
}

// issueTokens issues tokens for a code, once and with its verifier, or for a refresh token, once.
func (p *apiPeer) issueTokens(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	id, secret, basic := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if p.inForm {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	p.noteRequest("%s: %s basic=%t", r.URL.Path, r.PostFormValue("grant_type"), basic)
	if id != "biplane" || secret != apiSecret {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	account := ""
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		q := p.codes[r.PostFormValue("code")]
		delete(p.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if q.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) &&
			q.Get("redirect_uri") == r.PostFormValue("redirect_uri") && r.URL.Path == "/token" {
			account = q.Get("account")
		}
	case "refresh_token":
		account = p.refresh[r.PostFormValue("refresh_token")]
		delete(p.refresh, r.PostFormValue("refresh_token"))
	}
	if account == "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	p.access[access], p.refresh[refresh] = account, account
	json.NewEncoder(w).Encode(map[string]any{"access_token": access, "token_type": "bearer", "expires_in": 3600,
		"refresh_token": refresh})
}

// describeServer sends the metadata, if there are any at this address.
func (p *apiPeer) describeServer(w http.ResponseWriter, here bool) {
	if !p.metadata || !here {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL,
		"authorization_endpoint": cmp.Or(p.loginURL, p.URL+"/authorize"),
		"token_endpoint":         cmp.Or(p.tokenURL, p.URL+"/token"), "revocation_endpoint": p.URL + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}})
}

// expireTokens makes all access tokens of an account invalid, and also its refresh tokens.
func (p *apiPeer) expireTokens(account string, refresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.access, func(_, a string) bool { return a == account })
	if refresh {
		maps.DeleteFunc(p.refresh, func(_, a string) bool { return a == account })
	}
}

// wantWire compares the requests to the authorization server since the last call.
func (p *apiPeer) wantWire(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.wire, want) {
		t.Errorf("the authorization server got %q, want %q", p.wire, want)
	}
	p.wire = nil
}

// newAPIScene returns a daemon with the API of a peer as the upstream peer. more are keys of its
// entry, and login those of the security scheme.
func newAPIScene(t *testing.T, p *apiPeer, more, login string) *signInScene {
	t.Helper()
	s := &signInScene{t: t, dir: t.TempDir(), entry: fmt.Sprintf("openapi: { peer: { spec: '%s/openapi.json', %s"+
		"auth: { login: { client_id: biplane, client_secret: '%s', sign_in: true%s } } } }", p.URL, more, apiSecret,
		login)}
	s.startWithKeys("")
	return s
}

const personal = "credentials: person, "

// authorized is a request to the authorization endpoint as it should be.
const authorized = `authorize: tenant=7 type=code client=biplane scope="read write" method=S256 pkce=true ` +
	`state=true resource=false`

// TestAPISignInPerPerson signs two principals in to an API whose document says where. Each call
// uses the account of its principal.
func TestAPISignInPerPerson(t *testing.T) {
	t.Parallel()
	p := newAPIPeer(t)
	s := newAPIScene(t, p, personal, "")
	s.wantRun("ann", "needs sign-in (each principal signs in, also at "+s.d.URL()+"/connect/peer)")
	s.signIn("ann", "ann@peer")
	p.wantWire(t, authorized, "/token: authorization_code basic=true")
	s.wantRun("ann", "you are ann@peer")
	s.wantRun("bob", "key:bob is not signed in")
	s.signIn("bob", "bob@peer")
	s.wantRun("bob", "you are bob@peer")
	s.wantRun("ann", "you are ann@peer")
	p.wantWire(t, authorized, "/token: authorization_code basic=true")
	if got := s.run("ann", "open"); !strings.Contains(got, `open to all, with \"\"`) {
		t.Errorf("an operation without security: %s, want one without the token", got)
	}
	// an expired token is renewed at the refresh endpoint, also after a restart
	p.expireTokens("ann@peer", false)
	s.wantRun("ann", "you are ann@peer")
	s.stop()
	s.start("")
	p.expireTokens("bob@peer", false)
	s.wantRun("bob", "you are bob@peer")
	p.wantWire(t, "/renew: refresh_token basic=true", "/renew: refresh_token basic=true")
	// without a valid refresh token, ann must sign in again, and bob doesn't notice
	p.expireTokens("ann@peer", true)
	s.wantRun("ann", "needs sign-in")
	s.wantRun("ann", "key:ann is not signed in")
	s.wantRun("bob", "you are bob@peer")
	s.signIn("ann", "second@peer")
	s.wantRun("ann", "you are second@peer")
	if out, err := s.client("ann").SignIns().SignOut(t.Context(), ownPeer); err != nil || out.Revoked {
		t.Errorf("SignOut: %+v, %v, want that the server has no way to revoke tokens", out, err)
	}
	s.wantRun("ann", "key:ann is not signed in")
	// the tokens of a revoked key are deleted
	if _, err := s.d.Client().Keys().Revoke(t.Context(), "bob"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	if n := s.countTokens("key:bob"); n != 0 {
		t.Errorf("%d sign-ins of bob are left, want none", n)
	}
	for _, r := range recorded(t, s.dir, audit.KindCall) {
		if r.Subject.Tool == "peer.who" && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
}

// TestAPISignInShared signs in for all principals, with a redirect to Biplane's machine.
func TestAPISignInShared(t *testing.T) {
	t.Parallel()
	p := newAPIPeer(t)
	p.inForm = true
	s := newAPIScene(t, p, "", ", scopes: [all]")
	s.wantRun("ann", `upstream "peer" needs sign-in: run biplane connect peer`)
	up, err := s.d.Client().Upstreams(t.Context())
	if err != nil || len(up) == 0 || up[0].State != "needs sign-in" || up[0].Tools == 0 {
		t.Errorf("upstreams: %+v, %v, want one with tools that needs sign-in", up, err)
	}
	if _, err := s.client("ann").SignIns().Begin(t.Context(), ownPeer, 1); err == nil {
		t.Error("a principal over the network changed the shared sign-in, want a refusal")
	}
	shared := api.SignInTarget{Upstream: "peer"}
	in, err := s.d.Client().SignIns().Begin(t.Context(), shared, 0)
	if err != nil || in.State != api.SignInWaiting {
		t.Fatalf("BeginSignIn: %+v, %v, want one that waits", in, err)
	}
	resp, err := http.Get(consent(t, in.URL, "team@peer"))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the redirect: %+v, %v, want a page that says it worked", resp, err)
	}
	resp.Body.Close()
	for in.State == api.SignInWaiting {
		if in, err = s.d.Client().SignIns().Get(t.Context(), shared, in.ID); err != nil {
			t.Fatalf("SignIn: %v", err)
		}
	}
	if in.State != api.SignInDone {
		t.Errorf("the sign-in: %+v, want it to be done", in)
	}
	p.wantWire(t, strings.Replace(authorized, "read write", "all", 1), "/token: authorization_code basic=true",
		"/token: authorization_code basic=false")
	s.wantRun("ann", "you are team@peer")
	s.wantRun("bob", "you are team@peer")
	p.expireTokens("team@peer", false)
	s.wantRun("bob", "you are team@peer")
	p.wantWire(t, "/renew: refresh_token basic=false")
	p.expireTokens("team@peer", true)
	s.wantRun("bob", "needs sign-in")
	if up, err := s.d.Client().Upstreams(t.Context()); err != nil || up[0].State != "needs sign-in" {
		t.Errorf("upstreams: %+v, %v, want that it needs sign-in", up, err)
	}
}

// TestAPISignInOnPage signs in with a browser, at an issuer whose metadata name the endpoints.
// Revoking the key revokes the tokens there.
func TestAPISignInOnPage(t *testing.T) {
	t.Parallel()
	p := newAPIPeer(t)
	p.metadata = true
	s := newAPIScene(t, p, personal, ", issuer: '"+p.URL+"'")
	b, bob := s.enter("ann"), s.enter("bob")
	to := strings.TrimPrefix(consent(t, s.beginIn(b), "ann@peer"), s.d.URL())
	if status, _, _ := bob.do(t, http.MethodGet, to, nil, nil); status < 400 {
		t.Errorf("another principal's browser: %d, want a refusal", status)
	}
	if status, at, text := b.do(t, http.MethodGet, to, nil, nil); status != http.StatusOK || at != "/connect/peer" ||
		!strings.Contains(text, "You are signed in.") {
		t.Errorf("the browser: %d at %s, %s, want to be signed in", status, at, text)
	}
	p.wantWire(t, strings.Replace(authorized, "tenant=7", "tenant=", 1), "/token: authorization_code basic=true")
	s.wantRun("ann", "you are ann@peer")
	if status, _, _ := b.do(t, http.MethodGet, to, nil, nil); status < 400 {
		t.Errorf("the same response again: %d, want a refusal", status)
	}
	if _, err := s.d.Client().Keys().Revoke(t.Context(), "ann"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.revoked, []string{"ann@peer"}) {
		t.Errorf("revoked the tokens of %v, want those of ann@peer", p.revoked)
	}
}

// TestAPISignInAttacks lets others try to complete a sign-in, and servers try to get its code.
func TestAPISignInAttacks(t *testing.T) {
	t.Parallel()
	p := newAPIPeer(t)
	s := newAPIScene(t, p, personal, "")
	ctx := t.Context()
	refused := func(what string, err error, kinds ...string) {
		t.Helper()
		if e, ok := err.(*api.Error); !ok || !slices.Contains(kinds, e.Kind) {
			t.Errorf("%s: %v, want an error of kind %v", what, err, kinds)
		}
	}
	change := func(address, name, value string) string {
		u, _ := url.Parse(address)
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
		return u.String()
	}
	of, other := s.begin("ann"), s.begin("bob")
	to := consent(t, of.URL, "ann@peer")
	p.wantWire(t, authorized)
	_, err := s.client("bob").SignIns().Paste(ctx, ownPeer, other.ID, to)
	refused("a foreign state", err, api.Invalid)
	_, err = s.client("ann").SignIns().Paste(ctx, ownPeer, of.ID, change(to, "iss", "https://evil.example"))
	refused("an answer of another authorization server", err, api.Denied)
	p.wantWire(t) // the code was not sent anywhere
	mine, _ := url.Parse(other.URL)
	_, err = s.client("bob").SignIns().Paste(ctx, ownPeer, other.ID, change(to, "state", mine.Query().Get("state")))
	refused("a foreign code: the verifier is another one", err, api.Denied)
	s.wantRun("bob", "key:bob is not signed in")
	p.wantWire(t, "/token: authorization_code basic=true")
	of = s.begin("ann")
	to = consent(t, of.URL, "ann@peer")
	if in, err := s.client("ann").SignIns().Paste(ctx, ownPeer, of.ID, change(to, "iss", p.URL)); err != nil ||
		in.State != api.SignInDone {
		t.Fatalf("PasteSignIn: %+v, %v, want done", in, err)
	}
	_, err = s.client("ann").SignIns().Paste(ctx, ownPeer, of.ID, to)
	refused("a replayed code", err, api.Conflict, api.NotFound)
	s.wantRun("ann", "you are ann@peer")
}

// TestAPISignInEndpoints checks that codes and secrets go to no host that only the document names,
// and that a token endpoint can't redirect them.
func TestAPISignInEndpoints(t *testing.T) {
	t.Parallel()
	var stolen []string
	var mu sync.Mutex
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, r.Method+" "+r.Form.Encode()+" "+r.Header.Get("Authorization"))
	}))
	defer evil.Close()
	p := newAPIPeer(t)
	p.tokenURL = evil.URL + "/token"
	s := newAPIScene(t, p, personal, "")
	if _, err := s.client("ann").SignIns().Begin(t.Context(), ownPeer, 1); err == nil ||
		!strings.Contains(err.Error(), "another host than its own: if people sign in there, set token_url") {
		t.Errorf("a token endpoint elsewhere: %v, want a refusal", err)
	}
	s.stop()
	mover := httptest.NewServer(http.RedirectHandler(evil.URL+"/token", http.StatusTemporaryRedirect))
	defer mover.Close()
	s = newAPIScene(t, p, personal, ", token_url: '"+mover.URL+"/token'")
	in := s.begin("ann")
	if _, err := s.client("ann").SignIns().Paste(t.Context(), ownPeer, in.ID, consent(t, in.URL,
		"ann@peer")); err == nil {
		t.Error("a token endpoint that redirects was followed, want an error")
	}
	s.stop()
	p.openID, p.metadata = true, true
	s = newAPIScene(t, p, personal, "")
	if _, err := s.client("ann").SignIns().Begin(t.Context(), ownPeer, 1); err == nil ||
		!strings.Contains(err.Error(), "is on another host: if people sign in there, set issuer") {
		t.Errorf("an OpenID provider with a token endpoint elsewhere: %v, want a refusal", err)
	}
	s.stop()
	p.tokenURL = ""
	s = newAPIScene(t, p, personal, "")
	s.signIn("ann", "ann@peer")
	s.wantRun("ann", "you are ann@peer")
	mu.Lock()
	defer mu.Unlock()
	if len(stolen) > 0 {
		t.Errorf("another host received %q, want nothing", stolen)
	}
}

// TestAPISignInOpenID discovers the OpenID provider that a document names: at the host of the API
// only, unless the configuration names another one.
func TestAPISignInOpenID(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer evil.Close()
	for _, c := range []struct {
		name                      string
		provider, moved, loginURL string
		login                     string // keys of the security scheme; %s is the address of the API
		want                      string // the reason of a refusal; empty: people can sign in
	}{
		{name: "own"},
		{name: "elsewhere", provider: evil.URL,
			want: "another host than its own: if people sign in there, set issuer in the configuration"},
		{name: "redirect", moved: evil.URL, want: "redirect"},
		{name: "endpoint elsewhere", loginURL: evil.URL + "/authorize",
			want: "is on another host: if people sign in there, set issuer"},
		{name: "configured", provider: evil.URL, login: ", issuer: '%s'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newAPIPeer(t)
			p.openID, p.metadata, p.provider, p.moved, p.loginURL = true, true, c.provider, c.moved, c.loginURL
			s := newAPIScene(t, p, personal, strings.ReplaceAll(c.login, "%s", p.URL))
			if c.want == "" {
				s.signIn("ann", "ann@peer")
				s.wantRun("ann", "you are ann@peer")
				s.wantRun("bob", "key:bob is not signed in")
				p.expireTokens("ann@peer", false)
				s.wantRun("ann", "you are ann@peer")
				return
			}
			if _, err := s.client("ann").SignIns().Begin(t.Context(), ownPeer, 1); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("BeginSignIn: %v, want an error with %q", err, c.want)
			}
		})
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("another host received %d requests, want none", n)
	}
}
