package oauth_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

const prmPath, asPath = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server/as"

// Invalid metadata ends the sign-in before anything secret is sent, with an error that names what
// is wrong.
func TestHostileMetadata(t *testing.T) {
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
	}
	for name, c := range map[string]struct {
		change func(*rig)
		kind   tool.Kind
		text   string
	}{
		"another resource": {func(r *rig) {
			r.resource["resource"] = "https://evil.example/mcp"
		}, tool.Denied, "describes another resource, https://evil.example/mcp"},
		"a sibling": {func(r *rig) {
			r.resource["resource"] = r.URL + "/mc"
		}, tool.Denied, "describes another resource"},
		"no resource": {func(r *rig) {
			delete(r.resource, "resource")
		}, tool.Unavailable, "is not a valid address"},
		"nothing": {func(r *rig) {
			r.extra[prmPath] = http.NotFound
		}, tool.Unavailable, "set it in mcpServers.up.headers"},
		"no servers": {func(r *rig) {
			delete(r.resource, "authorization_servers")
		}, tool.Unavailable, "names no authorization server"},
		"a server in the clear": {func(r *rig) {
			r.resource["authorization_servers"] = []string{"http://as.example"}
		}, tool.Unavailable, "is not https"},
		"a server that runs": {func(r *rig) {
			r.resource["authorization_servers"] = []string{"javascript:alert(1)"}
		}, tool.Unavailable, "is not a valid address"},
		"another issuer": {func(r *rig) { r.meta["issuer"] = "https://honest.example" }, tool.Denied,
			"describes another server, https://honest.example"},
		"no PKCE": {func(r *rig) {
			delete(r.meta, "code_challenge_methods_supported")
		}, tool.Denied, "PKCE"},
		"PKCE in the clear": {func(r *rig) {
			r.meta["code_challenge_methods_supported"] = []string{"plain"}
		}, tool.Denied, "PKCE"},
		"authorization runs": {func(r *rig) {
			r.meta["authorization_endpoint"] = "javascript:alert(1)//https://x"
		}, tool.Unavailable, "authorization endpoint"},
		"authorization, a file": {func(r *rig) {
			r.meta["authorization_endpoint"] = "file:///etc/passwd"
		}, tool.Unavailable, "is not a valid address"},
		"token in the clear": {func(r *rig) {
			r.meta["token_endpoint"] = "http://as.example/token"
		}, tool.Unavailable, "is not https"},
		"token with a password": {func(r *rig) {
			r.meta["token_endpoint"] = "https://u:p@as.example/token"
		}, tool.Unavailable, "is not a valid address"},
		"no token endpoint": {func(r *rig) {
			delete(r.meta, "token_endpoint")
		}, tool.Unavailable, "is not a valid address"},
		"revocation elsewhere": {func(r *rig) {
			r.meta["revocation_endpoint"] = "ftp://x/y"
		}, tool.Unavailable, "neither https nor http"},
		"a long address": {func(r *rig) {
			r.meta["token_endpoint"] = "https://x/" + strings.Repeat("a", 3000)
		}, tool.Unavailable, "longer than"},
		"a terminal's host": {func(r *rig) {
			r.meta["token_endpoint"] = "http://a%c2%9b31mb%e2%80%ae.example/token"
		}, tool.Unavailable, "is not https"},
		"a name of this host": {func(r *rig) {
			r.meta["token_endpoint"] = "http://as.localhost:1/token"
		}, tool.Unavailable, "may resolve to another machine"},
		"a secret as number": {func(r *rig) {
			r.client["client_id"] = 5551234567
		}, tool.Unavailable, "client_id can't be read"},
		"large": {func(r *rig) {
			r.extra[prmPath] = body(`{"resource":"` + strings.Repeat("x", 300<<10) + `"}`)
		}, tool.Unavailable, "more than 262144 bytes"},
		"deep": {func(r *rig) {
			r.extra[asPath] = body(strings.Repeat("[", 200<<10))
		}, tool.Unavailable, "has no metadata"},
		"packed": {func(r *rig) {
			r.extra[prmPath] = func(w http.ResponseWriter, _ *http.Request) {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				z.Write(bytes.Repeat([]byte("  "), 8<<20))
				z.Close()
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(b.Bytes())
			}
		}, tool.Unavailable, "more than 262144 bytes"},
		"redirected in a circle": {func(r *rig) {
			r.extra[prmPath] = func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, prmPath, http.StatusFound)
			}
		}, tool.Unavailable, "redirected too often"},
		"redirected elsewhere": {func(r *rig) {
			r.extra[prmPath] = func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, strings.Replace(r.URL, "127.0.0.1", "localhost", 1)+"/inside", http.StatusFound)
			}
		}, tool.Unavailable, "redirects to another origin"},
		"down": {func(r *rig) {
			r.extra[prmPath] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
		}, tool.Unavailable, "status 503"},
		"registers nobody": {func(r *rig) {
			r.extra["/register"] = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(403)
				io.WriteString(w, `{"error":"access_denied","error_description":"no\u001b[31m"}`)
			}
		}, tool.Denied, "did not register Biplane (access_denied: no [31m)"},
		"registers without id": {func(r *rig) {
			r.client = map[string]any{}
		}, tool.Unavailable, "without a usable client_id"},
		"wants a signature": {func(r *rig) {
			r.client["token_endpoint_auth_method"] = "private_key_jwt"
		}, tool.Unavailable, "private_key_jwt, which is not supported"},
		"an old secret": {func(r *rig) {
			r.client["client_secret"],
				r.client["client_secret_expires_at"] = "x", 5
		}, tool.Unavailable, "has already expired"},
		"registration is sent on": {func(r *rig) {
			r.extra["/register"] = func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, "/inside", http.StatusTemporaryRedirect)
			}
		}, tool.Denied, "did not register"},
		"no registration": {func(r *rig) {
			delete(r.meta, "registration_endpoint")
		}, tool.Invalid, "register Biplane there manually"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.change(r)
			f, err := r.open(t, oauth.Config{}).Begin(t.Context())
			if err == nil {
				f.Close()
			}
			wants(t, err, c.kind, c.text)
			if n := r.count("GET /inside") + r.count("POST /inside") + r.count("POST /token"); n > 0 {
				t.Errorf("%d requests that should not be", n)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n\u009b\u202e") || strings.Contains(err.Error(), "5551234567") {
				t.Errorf("speaks to the terminal: %q", err)
			}
		})
	}
}

// The authorization response is accepted only if it is for this flow, and from the issuer that was
// asked.
func TestHostileAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		says  bool // its metadata promises an issuer in the response
		reply func(r *rig, back url.Values)
		kind  tool.Kind
		text  string
	}{
		"fine":                  {reply: func(*rig, url.Values) {}},
		"fine, says its issuer": {true, func(r *rig, b url.Values) { b.Set("iss", r.URL+"/as") }, "", ""},
		"fine, says it unasked": {false, func(r *rig, b url.Values) { b.Set("iss", r.URL+"/as") }, "", ""},
		"another issuer": {true, func(_ *rig, b url.Values) {
			b.Set("iss", "https://evil.example")
		}, tool.Denied, "a different authorization server"},
		"another issuer, unasked": {false, func(_ *rig, b url.Values) {
			b.Set("iss", "https://evil.example")
		}, tool.Denied, "different authorization server"},
		"nearly the issuer": {true, func(r *rig, b url.Values) {
			b.Set("iss", r.URL+"/as/")
		}, tool.Denied, "different authorization server"},
		"two issuers": {true, func(r *rig, b url.Values) {
			b["iss"] = []string{r.URL + "/as", "https://evil.example"}
		}, tool.Denied, "different authorization server"},
		"no issuer": {true, func(*rig, url.Values) {}, tool.Denied, "does not name its"},
		"an error": {false, func(_ *rig, b url.Values) {
			b.Set("error", "access_denied")
			b.Set("error_description", "no\nway")
		}, tool.Denied, "refused: access_denied: no way"},
		"another's error": {true, func(_ *rig, b url.Values) {
			b.Set("error", "call_this_number")
			b.Set("iss", "https://evil.example")
		}, tool.Denied, "different authorization server"},
		"no code": {false, func(_ *rig, b url.Values) {
			b.Del("code")
		}, tool.Unavailable, "sent no code"},
		"two codes": {false, func(_ *rig, b url.Values) {
			b.Add("code", "x")
		}, tool.Unavailable, "sent no code"},
		"a code of nobody": {false, func(_ *rig, b url.Values) {
			b.Set("code", "made-up-code")
		}, tool.Denied, "rejects its own code"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.meta["authorization_response_iss_parameter_supported"] = c.says
			r.reply = func(b url.Values) { c.reply(r, b) }
			client := r.open(t, oauth.Config{})
			err := signIn(t, client)
			if c.kind == "" {
				if err != nil || token(t, client, false) == "" {
					t.Errorf("not signed in: %v", err)
				}
				return
			}
			wants(t, err, c.kind, c.text)
			if err != nil && strings.Contains(err.Error(), "call_this_number") {
				t.Errorf("shows what a stranger says: %v", err)
			}
			if got := token(t, client, false); got != "" {
				t.Errorf("token %q", got)
			}
			if name != "a code of nobody" && r.count("POST /token") > 0 {
				t.Error("the code has left")
			}
		})
	}
}

// Only a response with the right state can end or complete the sign-in, and only once.
func TestHostileState(t *testing.T) {
	r := newRig(t)
	c := r.open(t, oauth.Config{})
	f, err := c.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	defer f.Close()
	for _, q := range []string{"", "?code=x", "?code=x&state=", "?code=x&state=y", "?error=x&state=y"} {
		if status := browse(t, f.Redirect+q); status != 400 {
			t.Errorf("%q: status %d", q, status)
		}
	}
	if status := browse(t, strings.Replace(f.Redirect, "/callback", "/other", 1)); status != 404 {
		t.Errorf("another path: %d", status)
	}
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	for _, host := range []string{"evil.example", "localhost",
		strings.Replace(strings.TrimSuffix(strings.TrimPrefix(f.Redirect, "http://"), "/callback"), "127.0.0.1",
			"rebound.example", 1)} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			f.Redirect+"?error=x&state="+u.Query().Get("state"), nil)
		if err != nil {
			t.Fatalf("http.NewRequestWithContext: %v", err)
		}
		q.Host = host
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		resp.Body.Close()
		if resp.StatusCode != 404 {
			t.Errorf("for host %s: %d", host, resp.StatusCode)
		}
	}
	resp, err := http.Post(f.Redirect+"?code=x&state=y", "text/plain", nil)
	if err != nil {
		t.Fatalf("http.Post: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != 404 || resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	wants(t, f.Paste("https://example.org/callback"), tool.Invalid, "not the final address")
	wants(t, f.Paste(f.Redirect+"?code=x&state=y"), tool.Invalid, "another sign-in")
	short, cancel := context.WithCancel(t.Context())
	cancel()
	wants(t, f.Wait(short), tool.Canceled, "")
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err = stay.Get(f.URL)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	resp.Body.Close()
	back := resp.Header.Get("Location")
	if err := f.Paste("  " + back + "\n"); err != nil {
		t.Fatalf("Paste: %v", err)
	}
	wants(t, f.Paste(back), tool.Conflict, "complete")
	if err := f.Wait(t.Context()); err != nil || token(t, c, false) == "" {
		t.Errorf("not signed in: %v", err)
	}
}

func TestHostileTokens(t *testing.T) {
	for name, c := range map[string]struct {
		answer any
		text   string
	}{
		"none": {map[string]any{"token_type": "Bearer"}, "no usable access token"},
		"a line break": {map[string]any{"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"},
			"no usable access token"},
		"huge": {map[string]any{"access_token": strings.Repeat("a", 40<<10), "token_type": "Bearer"},
			"no usable access token"},
		"huge refresh": {map[string]any{"access_token": "a", "token_type": "Bearer",
			"refresh_token": strings.Repeat("a", 40<<10)}, "refresh token of 40960 bytes"},
		"another type":    {map[string]any{"access_token": "a", "token_type": "mac"}, `of type "mac"`},
		"an error as 200": {map[string]any{"error": "bad_verification_code"}, "bad_verification_code"},
		"no JSON":         {"nonsense", "the answer is invalid"},
		"times in words": {map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": []int{1}},
			"the answer is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.token = func(url.Values) (int, any) { return 200, c.answer }
			client := r.open(t, oauth.Config{})
			err := signIn(t, client)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want one that says %q", err, c.text)
			}
			if got := token(t, client, false); got != "" {
				t.Errorf("token %q", got)
			}
		})
	}
	for _, seconds := range []any{"3600", 1e300, -5, 0} {
		r := newRig(t)
		r.token = func(url.Values) (int, any) {
			return 200, map[string]any{"access_token": "just-this", "token_type": "Bearer", "expires_in": seconds}
		}
		if got := mustSignIn(t, r.open(t, oauth.Config{})); got != "just-this" {
			t.Errorf("expires_in %v: token %q", seconds, got)
		}
	}
}

// A remote server can't make us query hosts on this machine.
func TestNoRequestsInside(t *testing.T) {
	for _, place := range []string{"http://127.0.0.1:9/x", "https://localhost/x", "http://[::1]:9/", "https://0.0.0.0/",
		"https://a.localhost/", "http://169.254.169.254/latest", "https://127.0.0.1.:1/"} {
		var asked []string
		transport := tripper(func(q *http.Request) (*http.Response, error) {
			asked = append(asked, q.URL.Host)
			body := `{"resource":"https://far.example/mcp","authorization_servers":["` + place + `"]}`
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
				Request: q}, nil
		})
		open := func() *oauth.Client {
			c, err := oauth.New(oauth.Config{Name: "far", URL: "https://far.example/mcp", Store: newStore(t),
				HTTPClient: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatalf("oauth.New: %v", err)
			}
			return c
		}
		c := open()
		if _, err := c.Begin(t.Context()); kind(err) != tool.Unavailable {
			t.Errorf("%s as authorization server: %v", place, err)
		}
		c = open()
		c.RecordRefusal("", 401, http.Header{"Www-Authenticate": {`Bearer resource_metadata="` + place + `"`}})
		if _, err := c.Begin(t.Context()); kind(err) != tool.Unavailable {
			t.Errorf("%s as metadata: %v", place, err)
		}
		if len(asked) != 1 || asked[0] != "far.example" {
			t.Errorf("%s: asked %v", place, asked)
		}
	}
}

// Without TLS no request is sent, and no token, even if one is stored.
func TestNothingInTheClear(t *testing.T) {
	transport := tripper(func(q *http.Request) (*http.Response, error) {
		return nil, errors.New("asked " + q.URL.String())
	})
	c, err := oauth.New(oauth.Config{Name: "x", URL: "http://far.example/mcp", Store: newStore(t),
		HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatalf("oauth.New: %v", err)
	}
	_, err = c.Begin(t.Context())
	wants(t, err, tool.Invalid, "tokens are sent over https only")
	if got := token(t, c, true); got != "" {
		t.Errorf("token %q", got)
	}
}

// A server that never answers doesn't delay a canceled sign-in.
func TestSlowServer(t *testing.T) {
	r := newRig(t)
	came := make(chan struct{})
	r.extra[prmPath] = func(_ http.ResponseWriter, q *http.Request) { close(came); <-q.Context().Done() }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	_, err := r.open(t, oauth.Config{}).Begin(ctx)
	wants(t, err, tool.Canceled, "")
}

// An unreadable sign-in counts as none, and can be replaced.
func TestUnreadableSignIn(t *testing.T) {
	r, s := newRig(t), newStore(t)
	if _, err := s.Save(t.Context(), "up", r.URL+"/mcp", []byte("nonsense"), ""); err != nil {
		t.Fatalf("Save: %v", err)
	}
	c := r.open(t, oauth.Config{Store: s})
	if got := token(t, c, true); got != "" {
		t.Errorf("token %q", got)
	}
	if got := mustSignIn(t, c); got == "" {
		t.Error("no token")
	}
}
