package oauth_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// A rig is a server with its authorization server, both at one local address. Tests change its
// answers.
type rig struct {
	*httptest.Server
	resource map[string]any              // protected resource metadata
	meta     map[string]any              // authorization server metadata
	client   map[string]any              // answer to a registration
	token    func(url.Values) (int, any) // answers of the token endpoint; nil: correct ones
	reply    func(url.Values)            // changes the authorization response; may be nil
	extra    map[string]http.HandlerFunc // by path, replacing the default handler
	life     int                         // lifetime of access tokens, in seconds

	mu      sync.Mutex
	asked   []string // method and path of every request
	forms   []url.Values
	basic   []string
	codes   map[string]url.Values
	refresh map[string]bool // by token: whether it was used
	reused  int             // refresh tokens that were used twice
}

func newRig(t *testing.T) *rig {
	r := &rig{codes: map[string]url.Values{}, refresh: map[string]bool{}, extra: map[string]http.HandlerFunc{},
		life: 3600}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	r.resource = map[string]any{"resource": r.URL + "/mcp", "authorization_servers": []string{r.URL + "/as"}}
	r.meta = map[string]any{
		"issuer": r.URL + "/as", "authorization_endpoint": r.URL + "/authorize", "token_endpoint": r.URL + "/token",
		"registration_endpoint": r.URL + "/register", "revocation_endpoint": r.URL + "/revoke",
		"code_challenge_methods_supported": []string{"plain", "S256"},
	}
	r.client = map[string]any{"client_id": "registered", "token_endpoint_auth_method": "none"}
	return r
}

func (r *rig) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	q.ParseForm()
	r.mu.Lock()
	r.asked = append(r.asked, q.Method+" "+q.URL.Path)
	r.forms = append(r.forms, q.PostForm)
	r.mu.Unlock()
	say := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	if h := r.extra[q.URL.Path]; h != nil {
		h(w, q)
		return
	}
	switch q.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		say(200, r.resource)
	case "/.well-known/oauth-authorization-server/as":
		say(200, r.meta)
	case "/register":
		say(201, r.client)
	case "/authorize":
		code, v := rand.Text(), q.URL.Query()
		r.mu.Lock()
		r.codes[code] = v
		r.mu.Unlock()
		back := url.Values{"code": {code}, "state": {v.Get("state")}}
		if r.reply != nil {
			r.reply(back)
		}
		http.Redirect(w, q, v.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case "/token":
		if id, _, ok := q.BasicAuth(); ok {
			r.mu.Lock()
			r.basic = append(r.basic, id)
			r.mu.Unlock()
		}
		answer := r.token
		if answer == nil {
			answer = r.issue
		}
		say(answer(q.PostForm))
	case "/revoke":
	default:
		http.NotFound(w, q)
	}
}

// issue issues tokens correctly: for a code once and with its verifier, for a refresh token once.
func (r *rig) issue(form url.Values) (int, any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	no := map[string]any{"error": "invalid_grant", "error_description": "no such thing"}
	if form.Get("resource") != r.resource["resource"] {
		return 400, map[string]any{"error": "invalid_target"}
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		q := r.codes[form.Get("code")]
		delete(r.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || q.Get("code_challenge_method") != "S256" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			q.Get("redirect_uri") != form.Get("redirect_uri") || q.Get("resource") != form.Get("resource") {
			return 400, no
		}
	case "refresh_token":
		used, known := r.refresh[form.Get("refresh_token")]
		if used {
			r.reused++
		}
		if used || !known {
			return 400, no
		}
		r.refresh[form.Get("refresh_token")] = true
	default:
		return 400, map[string]any{"error": "unsupported_grant_type"}
	}
	refresh := "refresh-" + rand.Text()
	r.refresh[refresh] = false
	return 200, map[string]any{"access_token": "access-" + rand.Text(), "token_type": "bearer", "expires_in": r.life,
		"refresh_token": refresh}
}

// count returns the number of requests that begin with prefix.
func (r *rig) count(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

// last returns the newest posted form with the field name.
func (r *rig) last(name string) url.Values {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.forms) - 1; i >= 0; i-- {
		if r.forms[i].Has(name) {
			return r.forms[i]
		}
	}
	return nil
}

func newStore(t *testing.T) oauth.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	k, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	return s.Tokens(k)
}

// open returns a Client of the rig's server.
func (r *rig) open(t *testing.T, cfg oauth.Config) *oauth.Client {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "up"
	}
	if cfg.URL == "" {
		cfg.URL = r.URL + "/mcp"
	}
	if cfg.Store == nil {
		cfg.Store = newStore(t)
	}
	c, err := oauth.New(cfg)
	if err != nil {
		t.Fatalf("oauth.New: %v", err)
	}
	return c
}

// browse does what a browser does, and returns the status of the final page.
func browse(t *testing.T, address string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// signIn signs in, and returns the error.
func signIn(t *testing.T, c *oauth.Client) error {
	t.Helper()
	f, err := c.Begin(t.Context())
	if err != nil {
		return err
	}
	defer f.Close()
	browse(t, f.URL)
	return f.Wait(t.Context())
}

func mustSignIn(t *testing.T, c *oauth.Client) string {
	t.Helper()
	if err := signIn(t, c); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	return token(t, c, false)
}

func token(t *testing.T, c *oauth.Client, renew bool) string {
	t.Helper()
	s, err := c.Token(t.Context(), renew)
	if err != nil {
		t.Fatalf("Token: %v", err)
	}
	return s
}

func kind(err error) tool.Kind {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Kind
}

// wants checks the kind and the text of an error.
func wants(t *testing.T, err error, k tool.Kind, text string) {
	t.Helper()
	if kind(err) != k || !strings.Contains(err.Error(), text) {
		t.Errorf("got %q error %v, want %q that says %q", kind(err), err, k, text)
	}
}

// A tripper is an HTTP transport implemented by a test.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
