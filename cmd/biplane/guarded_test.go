package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// guarded is an MCP server on a local port that requires sign-in, with its authorization server:
//
//	guarded PORT [LIFE]    LIFE is the lifetime of tokens, 1h by default
//
// echo requires the scope read, write the scope write. GET /log returns the requests to the
// authorization server, and POST /revoke-all revokes all tokens.
func guarded() {
	life := time.Hour
	if len(os.Args) > 2 {
		var err error
		if life, err = time.ParseDuration(os.Args[2]); err != nil {
			panic(err)
		}
	}
	g := &guard{base: "http://127.0.0.1:" + os.Args[1], life: life, codes: map[string]url.Values{},
		access: map[string]string{}, refresh: map[string]string{}}
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[1], g.routes()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type guard struct {
	base string
	life time.Duration

	mu      sync.Mutex
	codes   map[string]url.Values // the parameters of the authorization request
	access  map[string]string     // the scopes of each token
	refresh map[string]string     // the scopes of each token
	log     []string
}

func (g *guard) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, fmt.Sprintf(format, args...))
}

func (g *guard) routes() http.Handler {
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		fmt.Fprintln(w, strings.Join(g.log, "\n"))
	})
	mux.HandleFunc("POST /revoke-all", func(http.ResponseWriter, *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		clear(g.access)
		clear(g.refresh)
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": g.base + "/mcp", "authorization_servers": []string{g.base + "/as"},
			"scopes_supported": []string{"read"}})
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server/as", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{
			"issuer": g.base + "/as", "authorization_endpoint": g.base + "/as/authorize",
			"token_endpoint":        g.base + "/as/token",
			"registration_endpoint": g.base + "/as/register", "revocation_endpoint": g.base + "/as/revoke",
			"code_challenge_methods_supported":               []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("POST /as/register", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Redirects []string `json:"redirect_uris"`
		}
		json.NewDecoder(r.Body).Decode(&q)
		g.note("register")
		answer(w, 201, map[string]any{"client_id": "c-" + rand.Text(), "redirect_uris": q.Redirects,
			"token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /as/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		g.note("authorize scope=%s resource=%s", q.Get("scope"), strings.TrimPrefix(q.Get("resource"), g.base))
		code := rand.Text()
		g.mu.Lock()
		g.codes[code] = q
		g.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")},
			"iss": {g.base + "/as"}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /as/token", func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		g.note("token %s", r.Form.Get("grant_type"))
		if v := g.token(r.Form); v != nil {
			answer(w, 200, v)
			return
		}
		answer(w, 400, map[string]any{"error": "invalid_grant"})
	})
	mux.HandleFunc("POST /as/revoke", func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		g.note("revoke %s", r.Form.Get("token_type_hint"))
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.access, r.Form.Get("token"))
		delete(g.refresh, r.Form.Get("token"))
	})
	mux.Handle("/mcp", g.door(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.server() }, nil)))
	return mux
}

// token returns tokens for a code or a refresh token; nil refuses.
func (g *guard) token(form url.Values) map[string]any {
	g.mu.Lock()
	defer g.mu.Unlock()
	scope := ""
	if q := g.codes[form.Get("code")]; form.Get("grant_type") == "authorization_code" {
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			form.Get("redirect_uri") != q.Get("redirect_uri") || form.Get("resource") != g.base+"/mcp" {
			return nil
		}
		delete(g.codes, form.Get("code"))
		scope = q.Get("scope")
	} else {
		s, ok := g.refresh[form.Get("refresh_token")]
		if !ok || form.Get("resource") != g.base+"/mcp" {
			return nil
		}
		delete(g.refresh, form.Get("refresh_token"))
		scope = s
	}
	access, refresh := "at-"+rand.Text(), "rt-"+rand.Text()
	g.access[access], g.refresh[refresh] = scope, scope
	time.AfterFunc(g.life, func() { g.mu.Lock(); defer g.mu.Unlock(); delete(g.access, access) })
	return map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(g.life.Seconds()),
		"refresh_token": refresh, "scope": scope}
}

// door admits requests with a token that has the scope of the call.
func (g *guard) door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.mu.Lock()
		scope, ok := g.access[token]
		g.mu.Unlock()
		where := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, g.base)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer scope="read", `+where)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.Contains(string(body), `"name":"write"`) && !slices.Contains(strings.Fields(scope), "write") {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write", `+where)
			http.Error(w, "not with these scopes", http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

func (g *guard) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "guarded", Version: "1"}, nil)
	type args struct {
		Message string `json:"message,omitempty" jsonschema:"text to give back"`
	}
	for _, name := range []string{"echo", "write"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Returns the message"},
			func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " " + a.Message}}}, nil,
					nil
			})
	}
	return s
}

// browse is a browser whose user agrees to everything: it opens an address and follows redirects.
// With -stay it stops before this machine's own pages, and prints the address, like a browser on
// another machine.
func browse() {
	args := os.Args[1:]
	client := &http.Client{Timeout: 20 * time.Second}
	stay := args[0] == "-stay"
	if stay {
		args = args[1:]
		client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == "/callback" {
				fmt.Println(r.URL)
				os.Exit(0)
			}
			return nil
		}
	}
	resp, err := client.Get(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}

// pasting runs a command, opens the address that it prints in a browser elsewhere, and pastes the
// address at which the browser ends:
//
//	pasting COMMAND...
func pasting() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout = os.Stdout
	in, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	text := ""
	for buf := make([]byte, 4096); ; {
		n, err := said.Read(buf)
		text += string(buf[:n])
		os.Stderr.Write(buf[:n])
		if i := strings.Index(text, "\n  http"); i >= 0 && strings.Contains(text[i+1:], "\n\n") {
			address, _, _ := strings.Cut(strings.TrimSpace(text[i+1:]), "\n")
			where, err := exec.Command("browse", "-stay", address).Output()
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(in, "this is not it\n%s", where)
			in.Close()
			text = ""
		}
		if err != nil {
			break
		}
	}
	if cmd.Wait() != nil {
		os.Exit(1)
	}
}
