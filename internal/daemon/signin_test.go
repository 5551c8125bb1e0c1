package daemon_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// An accountPeer is an MCP server that requires sign-in, with its authorization server. Each token
// is for one account.
type accountPeer struct {
	*httptest.Server
	mcp *mcp.Server

	mu      sync.Mutex
	codes   map[string]url.Values // authorization requests with the account, by code
	access  map[string]string     // accounts by token
	refresh map[string]string
	revoked []string // accounts whose tokens were revoked by their client
}

func newAccountPeer(t *testing.T) *accountPeer {
	t.Helper()
	p := &accountPeer{codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]string{},
		mcp: mcp.NewServer(&mcp.Implementation{Name: "accounts", Version: "1"}, nil)}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	who := func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
			Text: "you are " + p.accountOf(r.Extra.Header)}}}, nil, nil
	}
	mcp.AddTool(p.mcp, &mcp.Tool{Name: "who", Annotations: readOnly}, who)
	mcp.AddTool(p.mcp, &mcp.Tool{Name: "sign"}, who)
	p.Server = httptest.NewServer(p.routes(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return p.mcp }, nil)))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

func (p *accountPeer) accountOf(h http.Header) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.access[strings.TrimPrefix(h.Get("Authorization"), "Bearer ")]
}

func (p *accountPeer) routes(next http.Handler) http.Handler {
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": p.URL + "/mcp", "authorization_servers": []string{p.URL}})
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register",
			"revocation_endpoint": p.URL + "/revoke", "code_challenge_methods_supported": []string{"S256"}})
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 201, map[string]any{"client_id": rand.Text(), "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("account")
		if err != nil {
			http.Error(w, "sign in first", http.StatusForbidden)
			return
		}
		q, code := r.URL.Query(), rand.Text()
		q.Set("account", c.Value)
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(),
			http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if v := p.issueTokens(r); v != nil {
			answer(w, 200, v)
			return
		}
		answer(w, 400, map[string]any{"error": "invalid_grant"})
	})
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		token := r.FormValue("token")
		if account := p.refresh[token]; account != "" {
			p.revoked = append(p.revoked, account)
		}
		delete(p.access, token)
		delete(p.refresh, token)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		account := p.accountOf(r.Header)
		if account == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

// issueTokens returns tokens for a code, once and with its verifier, or for a refresh token, once.
func (p *accountPeer) issueTokens(r *http.Request) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	account := ""
	if code := r.FormValue("code"); code != "" {
		q := p.codes[code]
		delete(p.codes, code)
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			q.Get("redirect_uri") != r.FormValue("redirect_uri") {
			return nil
		}
		account = q.Get("account")
	} else {
		account = p.refresh[r.FormValue("refresh_token")]
		delete(p.refresh, r.FormValue("refresh_token"))
	}
	if account == "" {
		return nil
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	p.access[access], p.refresh[refresh] = account, account
	return map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh}
}

// expireAccess makes all access tokens of an account invalid, and also its refresh tokens.
func (p *accountPeer) expireAccess(account string, refresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.access, func(_, a string) bool { return a == account })
	if refresh {
		maps.DeleteFunc(p.refresh, func(_, a string) bool { return a == account })
	}
}

// consent does what the browser of a person does who is signed in to an account and agrees. It
// returns the address that the browser is redirected to.
func consent(t *testing.T, address, account string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	q.AddCookie(&http.Cookie{Name: "account", Value: account})
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatalf("RoundTrip: %v", err)
	}
	defer resp.Body.Close()
	to := resp.Header.Get("Location")
	if to == "" {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("the authorization server answered %s: %s", resp.Status, text)
	}
	return to
}

// A signInScene is a daemon with an upstream that each principal signs in to.
type signInScene struct {
	t     *testing.T
	peer  *accountPeer
	entry string // of the upstream, in the configuration
	dir   string
	d     *daemon.Daemon
	stop  func()
	keys  map[string]string
}

func newSignInScene(t *testing.T, more string) *signInScene {
	peer := newAccountPeer(t)
	s := &signInScene{t: t, peer: peer, dir: t.TempDir(),
		entry: "mcpServers: { peer: { url: '" + peer.URL + "/mcp', credentials: person } }"}
	s.startWithKeys(more)
	return s
}

// startWithKeys starts the daemon, and makes keys for ann and bob.
func (s *signInScene) startWithKeys(more string) {
	s.t.Helper()
	s.keys = map[string]string{}
	s.start(more)
	for _, name := range []string{"ann", "bob"} {
		s.keys[name] = makeKey(s.t, s.d, api.KeyRequest{Name: name, Scopes: []string{"api", "mcp"}})
	}
}

func (s *signInScene) start(more string) {
	s.t.Helper()
	if more == "" {
		more = "policy: open"
	}
	settings, err := parse(filepath.Join(s.dir, "biplane.yaml"), "auth: { keys: true }\n"+more+
		"\n"+s.entry)
	if err != nil {
		s.t.Fatalf("parse: %v", err)
	}
	s.d, s.stop = runWith(s.t, daemon.Config{Settings: settings, DataDir: s.dir, Listen: "127.0.0.1:0", Recover: true})
}

func (s *signInScene) client(name string) *api.Client { return clientOf(s.d, s.keys[name]) }

var ownPeer = api.SignInTarget{Upstream: "peer", Own: true}

// begin starts a sign-in of a principal.
func (s *signInScene) begin(name string) *api.SignIn {
	s.t.Helper()
	in, err := s.client(name).SignIns().Begin(s.t.Context(), ownPeer, 45678)
	if err != nil || in.State != api.SignInWaiting {
		s.t.Fatalf("BeginSignIn as %s: %+v, %v, want one that waits", name, in, err)
	}
	return in
}

// signIn signs a principal in to an account.
func (s *signInScene) signIn(name, account string) {
	s.t.Helper()
	in := s.begin(name)
	if in, err := s.client(name).SignIns().Paste(s.t.Context(), ownPeer, in.ID,
		consent(s.t, in.URL, account)); err != nil || in.State != api.SignInDone {
		s.t.Fatalf("PasteSignIn as %s: %+v, %v, want done", name, in, err)
	}
}

// run calls a tool from a program of a principal.
func (s *signInScene) run(name, tool string) string {
	s.t.Helper()
	x, err := s.client(name).Run(s.t.Context(), api.RunRequest{Code: "return await peer." + tool + "({})"})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(string(x.Value), x.Error)
}

func (s *signInScene) wantRun(name, want string) {
	s.t.Helper()
	if got := s.run(name, "who"); !strings.Contains(got, want) {
		s.t.Errorf("%s got %s, want %q", name, got, want)
	}
}

// TestSignInPerPerson signs two principals in to a server over the network. Each call uses the
// account of its principal.
func TestSignInPerPerson(t *testing.T) {
	t.Parallel()
	s := newSignInScene(t, "")
	if got := s.run("ann", "who"); !strings.Contains(got, "biplane connect peer") {
		t.Errorf("before anyone signed in: %s, want the command that signs in", got)
	}
	s.signIn("ann", "ann@peer")
	s.wantRun("ann", "you are ann@peer")
	const missing = "upstream peer needs sign-in: each principal uses it with their own account, and key:bob is not " +
		"signed in: "
	s.wantRun("bob", missing)
	if in, err := s.client("ann").SignIns().Begin(t.Context(), ownPeer,
		1); err != nil || in.State != api.SignInNotNeeded ||
		in.How != "through a browser: signed in" {
		t.Errorf("a second sign-in: %+v, %v, want none to be needed", in, err)
	}
	s.signIn("bob", "bob@peer")
	s.wantRun("bob", "you are bob@peer")
	s.wantRun("ann", "you are ann@peer")
	// an expired token is renewed, with the refresh token of its principal
	s.peer.expireAccess("ann@peer", false)
	s.wantRun("ann", "you are ann@peer")
	s.wantRun("bob", "you are bob@peer")
	// the sign-ins outlive the process
	s.stop()
	s.start("")
	s.wantRun("bob", "you are bob@peer")
	s.wantRun("ann", "you are ann@peer")
	// without a valid refresh token, a principal must sign in again, and the other doesn't notice
	s.peer.expireAccess("ann@peer", true)
	s.wantRun("ann", "needs sign-in")
	s.wantRun("ann", "key:ann is not signed in")
	s.wantRun("bob", "you are bob@peer")
	s.signIn("ann", "second@peer")
	s.wantRun("ann", "you are second@peer")
	// signing out
	if out, err := s.client("ann").SignIns().SignOut(t.Context(), ownPeer); err != nil || !out.Revoked {
		t.Errorf("SignOut: %+v, %v, want the tokens to be revoked", out, err)
	}
	s.wantRun("ann", "key:ann is not signed in")
	s.wantRun("bob", "you are bob@peer")
	s.stop()
	for _, r := range recorded(t, s.dir, audit.KindCall) {
		if r.Subject.Tool == "peer.who" && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
	var signIns []string
	for _, r := range recorded(t, s.dir, audit.KindSignIn) {
		if r.Subject.Upstream == "peer" {
			signIns = append(signIns, r.Principal+" "+r.Detail["action"]+" "+r.Detail["owner"])
		}
	}
	if want := []string{"key:ann sign-in key:ann", "key:bob sign-in key:bob", "key:ann sign-in key:ann",
		"key:ann sign-out key:ann"}; !slices.Equal(signIns, want) {
		t.Errorf("recorded %q, want %q", signIns, want)
	}
}

// TestSignInAttacks lets one principal try to complete, read and end the sign-in of another.
func TestSignInAttacks(t *testing.T) {
	t.Parallel()
	s := newSignInScene(t, "")
	ctx := t.Context()
	ann, bob := s.client("ann"), s.client("bob")
	refused := func(what string, err error, kinds ...string) {
		t.Helper()
		if e, ok := err.(*api.Error); !ok || !slices.Contains(kinds, e.Kind) {
			t.Errorf("%s: %v, want an error of kind %v", what, err, kinds)
		}
	}
	of := s.begin("ann")
	to := consent(t, of.URL, "ann@peer")
	_, err := bob.SignIns().Paste(ctx, ownPeer, of.ID, to)
	refused("bob completes ann's sign-in", err, api.NotFound)
	_, err = bob.SignIns().Get(ctx, ownPeer, of.ID)
	refused("bob reads ann's sign-in", err, api.NotFound)
	if err := bob.SignIns().Cancel(ctx, ownPeer, of.ID); err != nil {
		t.Errorf("CancelSignIn: %v", err)
	}
	other := s.begin("bob")
	_, err = bob.SignIns().Paste(ctx, ownPeer, other.ID, to)
	refused("bob uses ann's response", err, api.Invalid)
	u, _ := url.Parse(to)
	q := u.Query()
	mine, _ := url.Parse(other.URL)
	q.Set("state", mine.Query().Get("state"))
	u.RawQuery = q.Encode()
	_, err = bob.SignIns().Paste(ctx, ownPeer, other.ID, u.String())
	refused("bob uses ann's code with his own state", err, api.Denied)
	s.wantRun("bob", "needs sign-in")
	for _, target := range []api.SignInTarget{{Upstream: "peer"}, {Upstream: "peer", Owner: "key:ann"},
		{Upstream: "peer", Owner: "me"}} {
		_, err = bob.SignIns().Begin(ctx, target, 1)
		refused("bob uses the command line's routes", err, api.Denied)
		_, err = bob.SignIns().SignOut(ctx, target)
		refused("bob uses the command line's routes", err, api.Denied)
	}
	// the code was used up by the attack, so ann begins again; hers completes once
	s.signIn("ann", "ann@peer")
	s.wantRun("ann", "you are ann@peer")
	if _, err := ann.SignIns().Paste(ctx, ownPeer, of.ID, to); err == nil {
		t.Error("an old response was accepted")
	}
	if _, err := bob.SignIns().SignOut(ctx, ownPeer); err != nil {
		t.Errorf("SignOut as bob: %v", err)
	}
	s.wantRun("ann", "you are ann@peer")
	s.wantRun("bob", "key:bob is not signed in")
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	if len(s.peer.revoked) > 0 {
		t.Errorf("revoked %v, want nothing", s.peer.revoked)
	}
}

// TestSignInOfRevokedKey revokes a key. Its tokens are deleted and revoked, and its connection
// ends.
func TestSignInOfRevokedKey(t *testing.T) {
	t.Parallel()
	s := newSignInScene(t, "")
	s.signIn("ann", "ann@peer")
	s.signIn("bob", "bob@peer")
	if _, err := s.d.Client().Keys().Revoke(t.Context(), "ann"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	s.peer.mu.Lock()
	revoked := slices.Clone(s.peer.revoked)
	s.peer.mu.Unlock()
	if !slices.Equal(revoked, []string{"ann@peer"}) {
		t.Errorf("revoked the tokens of %v, want the tokens of ann@peer", revoked)
	}
	if _, err := s.client("ann").SignIns().SignOut(t.Context(), ownPeer); err == nil {
		t.Error("a revoked key was accepted")
	}
	s.wantRun("bob", "you are bob@peer")
	if n := s.countTokens("key:ann"); n != 0 {
		t.Errorf("%d sign-ins of ann are left, want none", n)
	}
	if n := s.countTokens("key:bob"); n != 1 {
		t.Errorf("%d sign-ins of bob are left, want one", n)
	}
}

// countTokens stops the daemon, and returns the number of stored sign-ins of a principal.
func (s *signInScene) countTokens(owner string) (n int) {
	s.t.Helper()
	s.stop()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "biplane.db"))
	if err != nil {
		s.t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT count(*) FROM upstream_token WHERE owner = ?`, owner).Scan(&n); err != nil {
		s.t.Fatalf("QueryRow: %v", err)
	}
	return n
}

// enter signs a browser in to Biplane.
func (s *signInScene) enter(name string) *browser {
	s.t.Helper()
	b := newBrowser(s.t, s.d)
	status, at, text := b.do(s.t, http.MethodPost, "/sign-in", url.Values{"key": {s.keys[name]},
		"next": {"/connect/peer"}}, nil)
	if status != http.StatusOK || at != "/connect/peer" {
		s.t.Fatalf("sign-in as %s: %d at %s, %s", name, status, at, text)
	}
	return b
}

var authorizeLink = regexp.MustCompile(`href="(http://[^"]+/authorize[^"]+)"`)

// beginIn starts a sign-in to the upstream in a browser, and returns the address of the
// authorization server.
func (s *signInScene) beginIn(b *browser) string {
	s.t.Helper()
	status, _, text := b.do(s.t, http.MethodPost, "/connect/peer", url.Values{"action": {"sign-in"}}, nil)
	m := authorizeLink.FindStringSubmatch(text)
	if status != http.StatusOK || m == nil {
		s.t.Fatalf("the page of the upstream: %d, %s, want a link to the authorization server", status, text)
	}
	return html.UnescapeString(m[1])
}

// TestSignInOnPage signs in with a browser. Other browsers can't complete the sign-in.
func TestSignInOnPage(t *testing.T) {
	t.Parallel()
	s := newSignInScene(t, "")
	s.wantRun("ann", "also at "+s.d.URL()+"/connect/peer")
	s.signIn("bob", "bob@peer")
	s.wantRun("ann", "key:ann is not signed in: open "+s.d.URL()+"/connect/peer in a browser")
	ann, bob, second, stranger := s.enter("ann"), s.enter("bob"), s.enter("ann"), newBrowser(t, s.d)
	path := func(address string) string { return strings.TrimPrefix(address, s.d.URL()) }
	refuse := func(what string, b *browser, address, want string) {
		t.Helper()
		if status, _, text := b.do(t, http.MethodGet, path(address), nil, nil); status < 400 ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d, %s, want a refusal that says %q", what, status, text, want)
		}
	}
	const none = "began no such sign-in"
	// ann wants bob's account: bob opens her link, and agrees
	trap := consent(t, s.beginIn(ann), "bob@peer")
	if !strings.HasPrefix(trap, s.d.URL()+"/connected?") {
		t.Fatalf("the browser is sent to %s", trap)
	}
	refuse("bob's browser", bob, trap, none)
	refuse("a browser that is not signed in", stranger, trap, "not signed in to Biplane")
	refuse("another browser of ann", second, trap, none)
	if status, _, text := stranger.do(t, http.MethodGet, path(trap), nil, map[string]string{
		"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}); status != http.StatusOK ||
		!strings.Contains(text, "Continue") {
		t.Errorf("coming from another site: %d, %s, want a page that opens the address again", status, text)
	}
	s.wantRun("ann", "key:ann is not signed in")
	s.wantRun("bob", "you are bob@peer")
	if got := s.peer.countCodes(); got != 1 {
		t.Errorf("%d codes are unused, want the one of the attack", got)
	}
	// neither does it work to send bob's response to ann's sign-in over the API
	if _, err := s.client("ann").SignIns().Paste(t.Context(), ownPeer, "", trap); err == nil {
		t.Error("an attempt without an id was accepted")
	}
	// her own works, once
	to := consent(t, s.beginIn(ann), "ann@peer")
	if status, at, text := ann.do(t, http.MethodGet, path(to), nil, nil); status != http.StatusOK ||
		at != "/connect/peer" || !strings.Contains(text, "You are signed in.") {
		t.Errorf("ann's browser: %d at %s, %s, want to be signed in", status, at, text)
	}
	s.wantRun("ann", "you are ann@peer")
	refuse("a second time", ann, to, "this sign-in is complete")
	// other sites can't submit the form
	for _, action := range []string{"sign-in", "sign-out"} {
		if status, _, _ := ann.do(t, http.MethodPost, "/connect/peer", url.Values{"action": {action}},
			map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}); status != 403 {
			t.Errorf("a form of another site: %d, want 403", status)
		}
	}
	if status, _, text := ann.do(t, http.MethodPost, "/connect/peer", url.Values{"action": {"sign-out"}},
		nil); status != http.StatusOK || !strings.Contains(text, "You are not signed in.") {
		t.Errorf("sign-out: %d, %s, want to be signed out", status, text)
	}
	s.wantRun("ann", "key:ann is not signed in")
	s.wantRun("bob", "you are bob@peer")
	s.keys["eve"] = makeKey(t, s.d, api.KeyRequest{Name: "eve", Scopes: []string{"api"}, Roles: []string{"viewer"}})
	eve := newBrowser(t, s.d)
	if status, _, text := eve.do(t, http.MethodPost, "/sign-in", url.Values{"key": {s.keys["eve"]},
		"next": {"/connect/peer"}}, nil); status != http.StatusForbidden {
		t.Errorf("a viewer: %d, %s, want 403", status, text)
	}
}

// countCodes returns the number of authorization codes that were not used.
func (p *accountPeer) countCodes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.codes)
}

// TestSignInAndApproval lets bob approve ann's calls, also after a restart. They are made with
// ann's account, and not at all after she signed out.
func TestSignInAndApproval(t *testing.T) {
	t.Parallel()
	const asks = "policy: ask-for-writes"
	s := newSignInScene(t, asks)
	s.keys["boss"] = makeKey(t, s.d, api.KeyRequest{Name: "boss", Scopes: []string{"api"},
		Roles: []string{"approver", "user"}})
	s.signIn("boss", "boss@peer")
	s.signIn("ann", "ann@peer")
	s.wantRun("boss", "you are boss@peer")
	call := func() string {
		t.Helper()
		x, err := s.client("ann").Run(t.Context(), api.RunRequest{Code: "return await peer.sign({})", NoWait: true})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		return x.ID
	}
	approve := func(id string) string {
		t.Helper()
		all, err := s.client("boss").Approvals().ListFor(t.Context(), id, false)
		if err != nil || len(all) != 1 {
			t.Fatalf("Approvals: %+v, %v, want one", all, err)
		}
		if _, err := s.client("boss").Approvals().Decide(t.Context(), all[0].ID, api.Decision{Approve: true,
			Digest: all[0].Digest}); err != nil {
			t.Fatalf("Decide: %v", err)
		}
		x, err := s.client("ann").Watch(t.Context(), id, "")
		for err == nil && x.State != "done" && x.State != "failed" {
			x, err = s.client("ann").Watch(t.Context(), id, x.Version)
		}
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		return fmt.Sprint(string(x.Value), x.Error)
	}
	if got := approve(call()); !strings.Contains(got, "you are ann@peer") {
		t.Errorf("approved by boss: %s, want ann's account", got)
	}
	waiting := call()
	s.stop()
	s.start(asks)
	if got := approve(waiting); !strings.Contains(got, "you are ann@peer") {
		t.Errorf("approved after a restart: %s, want ann's account", got)
	}
	waiting = call()
	if _, err := s.client("ann").SignIns().SignOut(t.Context(), ownPeer); err != nil {
		t.Fatalf("SignOut: %v", err)
	}
	if got := approve(waiting); !strings.Contains(got, "key:ann is not signed in") {
		t.Errorf("approved after ann signed out: %s, want a refusal", got)
	}
}

// TestListAfterSignOut signs the principal out whose connection listed the tools. Then changes that
// another connection reports are seen.
func TestListAfterSignOut(t *testing.T) {
	t.Parallel()
	s := newSignInScene(t, "")
	s.signIn("ann", "ann@peer")
	s.signIn("bob", "bob@peer")
	s.wantRun("ann", "you are ann@peer")
	s.wantRun("bob", "you are bob@peer")
	if _, err := s.client("ann").SignIns().SignOut(t.Context(), ownPeer); err != nil {
		t.Fatalf("SignOut: %v", err)
	}
	s.wantRun("ann", "key:ann is not signed in")
	mcp.AddTool(s.peer.mcp, &mcp.Tool{Name: "extra"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
			Text: "extra for " + s.peer.accountOf(r.Extra.Header)}}}, nil, nil
	})
	for t.Context().Err() == nil {
		tools, err := s.client("bob").Tools(t.Context())
		if err != nil {
			t.Fatalf("Tools: %v", err)
		}
		if slices.ContainsFunc(tools, func(l api.Tool) bool { return l.Path == "peer.extra" }) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if got := s.run("bob", "extra"); !strings.Contains(got, "extra for bob@peer") {
		t.Errorf("bob got %s, want the new tool", got)
	}
	if got := s.run("ann", "extra"); !strings.Contains(got, "key:ann is not signed in") {
		t.Errorf("ann got %s, want a refusal", got)
	}
}
