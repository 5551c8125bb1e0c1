package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/serve/feed"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// signedIn returns handlers with sign-in, a key for each role, and a key for each single scope.
func signedIn(t *testing.T) (h http.Handler, socket http.Handler, keys map[string]string) {
	t.Helper()
	ks, err := identity.OpenKeys(t.Context(), identity.KeysConfig{Store: store{}})
	if err != nil {
		t.Fatalf("identity.OpenKeys: %v", err)
	}
	keys = map[string]string{}
	make := func(name string, k identity.Key) {
		k.Name = name
		if _, keys[name], err = ks.Create(t.Context(), k); err != nil {
			t.Fatalf("Create: %v", err)
		}
	}
	for _, role := range identity.Roles() {
		make(role, identity.Key{Roles: []string{role}, Scopes: []string{identity.ScopeAPI, identity.ScopeMCP}})
	}
	make("mcp-only", identity.Key{Roles: []string{identity.Admin}})
	make("api-only", identity.Key{Scopes: []string{identity.ScopeAPI}})
	a := identity.New(identity.AuthenticatorConfig{Keys: ks})
	s := httpapi.New(httpapi.Config{
		Door: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return nil, tool.Errorf(tool.Conflict, "called by %s", c.Principal.ID)
		}),
		Index: index{}, Process: process{},
		Journals: runningJournals{find: func(id string) (*execution.Execution, bool) {
			return &execution.Execution{ID: id, Principal: tool.Principal{ID: "key:user"}}, true
		}},
		Sessions: newSessions(), Skills: &skills{},
		Keys: ks, Authenticator: a, AnyHost: true, Principal: identity.LocalUser(),
		Agents: httpapi.Agents{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, _ := identity.PrincipalFrom(r.Context())
			io.WriteString(w, "mcp for "+p.ID)
		})},
	})
	t.Cleanup(func() { s.Close() })
	return s.Network(), s.Socket(), keys
}

// store is an identity.KeyStore that stores nothing.
type store struct{}

func (store) Keys(context.Context) ([]identity.Key, error)     { return nil, nil }
func (store) SaveKey(context.Context, *identity.Key) error     { return nil }
func (store) UsedKey(context.Context, string, time.Time) error { return nil }

func ask(h http.Handler, method, path, key string) (status int, body string, header http.Header) {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host = "biplane.example.com"
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

// TestWhoMay requests routes of each access with each role. An allowed request may fail for other
// reasons, but neither with 401 nor with a refusal.
func TestWhoMay(t *testing.T) {
	h, socket, keys := signedIn(t)
	everybody := []string{identity.Viewer, identity.Auditor, identity.Approver, identity.User,
		identity.Admin, "api-only"}
	for route, may := range map[string][]string{
		"GET /api/v1/status":               everybody,
		"GET /api/v1/tools":                everybody,
		"GET /api/v1/sessions":             everybody,
		"GET /":                            everybody,
		"GET /metrics":                     everybody,
		"POST /api/v1/executions":          {identity.User, identity.Admin, "api-only"},
		"DELETE /api/v1/executions/ex_9":   {identity.User, identity.Admin, "api-only"},
		"DELETE /api/v1/sessions/a":        {identity.User, identity.Admin, "api-only"},
		"POST /api/v1/sessions/a/fork":     {identity.User, identity.Admin, "api-only"},
		"DELETE /api/v1/skills/a":          {identity.User, identity.Admin, "api-only"},
		"POST /api/v1/skills/a/share":      {identity.Admin},
		"POST /mcp":                        {identity.User, identity.Admin, "mcp-only"},
		"GET /mcp":                         {identity.User, identity.Admin, "mcp-only"},
		"GET /api/v1/keys":                 {identity.Admin},
		"POST /api/v1/keys":                {identity.Admin},
		"POST /api/v1/keys/a/rotate":       {identity.Admin},
		"DELETE /api/v1/keys/none":         {identity.Admin},
		"POST /api/v1/upstreams/a/sign-in": {},
		"GET /mcp/stdio":                   {},
	} {
		method, path, _ := strings.Cut(route, " ")
		status, _, header := ask(h, method, path, "")
		if want := len(may) > 0; (status == 401) != want ||
			want != strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s without a key: %d %v", route, status, header)
		}
		for who, key := range keys {
			status, body, _ := ask(h, method, path, key)
			if through := status != 401 && status != 403; through != slices.Contains(may, who) {
				t.Errorf("%s with %s: %d %s", route, who, status, body)
			}
		}
		if status, body, _ := ask(socket, method, path, ""); status == 401 || status == 403 {
			t.Errorf("%s over the socket: %d %s", route, status, body)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _, _ := ask(h, "GET", path, ""); status != 200 {
			t.Errorf("path = %s, status = %d, want 200", path, status)
		}
	}
	if _, body, _ := ask(h, "POST", "/mcp", keys[identity.User]); body != "mcp for key:user" {
		t.Errorf(`body = %v, want "mcp for key:user"`, body)
	}
	if _, body, _ := ask(h, "POST", "/api/v1/executions", keys["api-only"]); !strings.Contains(body,
		"called by key:api-only") {
		t.Errorf(`body = %v, want strings.Contains(body, "called by key:api-only")`, body)
	}
}

// TestOthersExecutions checks that an execution is shown only to its owner and to those who may
// read everything.
func TestOthersExecutions(t *testing.T) {
	h, _, keys := signedIn(t)
	for who, want := range map[string]int{identity.User: 200, "api-only": 404, identity.Viewer: 404,
		identity.Approver: 404, identity.Auditor: 200, identity.Admin: 200} {
		if status, body, _ := ask(h, "GET", "/api/v1/executions/ex_1", keys[who]); status != want {
			t.Errorf("who = %s, status = %d, body = %s, want status == want", who, status, body)
		}
	}
}

// shortLived accepts all requests, with credentials that expire soon.
type shortLived struct{}

func (shortLived) Authenticate(*http.Request, identity.Need) (tool.Principal, error) {
	return tool.Principal{ID: "key:a", Until: time.Now().Add(50 * time.Millisecond)}, nil
}

// TestStreamEnds checks that a client's stream ends with the credential that opened it.
func TestStreamEnds(t *testing.T) {
	s := httpapi.New(httpapi.Config{
		AnyHost:       true,
		Authenticator: shortLived{},
		Agents: httpapi.Agents{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
			} else if _, ok := r.Context().Deadline(); ok {
				t.Error("a call ends with the credential, though it was good when it began")
			}
		})},
	})
	defer s.Close()
	for _, method := range []string{"GET", "POST"} {
		ask(s.Network(), method, "/mcp", "x")
	}
}

// TestNobodySignsIn checks that a loopback address without sign-in refuses everything that requires
// more than the role user.
func TestNobodySignsIn(t *testing.T) {
	s := server(t, nil)
	for route, want := range map[string]int{"GET /api/v1/status": 200, "POST /api/v1/skills/a/share": 403,
		"GET /api/v1/keys": 403} {
		method, path, _ := strings.Cut(route, " ")
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Loopback().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("route = %s, w.Code = %d, w.Body = %s, want w.Code == want", route, w.Code, w.Body)
		}
	}
	// Users of this machine don't read the executions of principals that signed in.
	r := httptest.NewRequest("GET", "/api/v1/executions/ex_1", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	httpapi.New(httpapi.Config{Principal: identity.LocalUser(),
		Journals: runningJournals{find: func(id string) (*execution.Execution, bool) {
			return &execution.Execution{ID: id, Principal: tool.Principal{ID: "key:a"}}, true
		}}}).Loopback().ServeHTTP(w, r)
	if w.Code != 404 {
		t.Errorf("w.Code = %d, w.Body = %s, want w.Code == 404", w.Code, w.Body)
	}
	// A Server without sign-in serves no network requests, and one without TLS no other hosts.
	if status, _, _ := ask(s.Network(), "GET", "/api/v1/status", "x"); status != 403 {
		t.Errorf("status = %v, want 403", status)
	}
}

// A revoking accepts a key once. Its streams are ended just after that, before the request is
// registered.
type revoking struct {
	server *httpapi.Server
	calls  int
}

func (a *revoking) Authenticate(*http.Request, identity.Need) (tool.Principal, error) {
	if a.calls++; a.calls > 1 {
		return tool.Principal{}, &identity.Refusal{Status: http.StatusUnauthorized,
			Err: tool.Errorf(tool.Denied, "the API key was revoked")}
	}
	a.server.EndStreams("key:a")
	return tool.Principal{ID: "key:a", Roles: []string{identity.User}}, nil
}

// TestRevokedBeforeStream checks that no stream begins for a key that is revoked between the
// authentication of the request and its registration.
func TestRevokedBeforeStream(t *testing.T) {
	a := &revoking{}
	a.server = httpapi.New(httpapi.Config{AnyHost: true, Authenticator: a,
		Feeds: httpapi.Feeds{Events: feed.NewBook()}})
	defer a.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a stream would last for minutes
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", nil)
	w := httptest.NewRecorder()
	a.server.Network().ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("the stream of a revoked key: %d %s, want %d", w.Code, w.Body, http.StatusUnauthorized)
	}
}
