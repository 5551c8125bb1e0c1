package daemon_test

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A browser stores cookies, and sends the headers of a browser.
type browser struct {
	*http.Client
	base string
}

func newBrowser(t *testing.T, d *daemon.Daemon) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatalf("cookiejar.New: %v", err)
	}
	return &browser{&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}, d.URL()}
}

// do sends a request, and returns the status, the final path and the page.
func (b *browser) do(t *testing.T, method, path string, form url.Values, header map[string]string) (int,
	string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.base)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return resp.StatusCode, resp.Request.URL.RequestURI(), string(text)
}

func (b *browser) signIn(t *testing.T, key, next string) (int, string, string) {
	t.Helper()
	return b.do(t, "POST", "/sign-in", url.Values{"key": {key}, "next": {next}}, nil)
}

var picked = regexp.MustCompile(`name="request" value="([^"]+)"`)

// requests returns the requests in a page's form, as the form sends them.
func requests(page string) (out []string) {
	for _, m := range picked.FindAllStringSubmatch(page, -1) {
		out = append(out, html.UnescapeString(m[1]))
	}
	return out
}

// TestPage signs in, reads the pending requests, and decides some of them.
func TestPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, "auth: { keys: true }\n")
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	boss := makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: []string{"api"}, Roles: []string{"approver"}})
	x, err := clientOf(d, agent).Run(t.Context(),
		api.RunRequest{Code: `const r = await Promise.allSettled(["<b>bold</b> \u202e", "two", "three"].map(text => ` +
			`callTool("till.put", { text }))); return r.map(x => x.status)`})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	pending(t, d, 3)
	b := newBrowser(t, d)
	page := "/approvals?execution=" + x.ID
	if status, at, text := b.do(t, "GET", page, nil, nil); status != 200 || !strings.HasPrefix(at, "/sign-in?next=") ||
		strings.Contains(text, "till.put") {
		t.Fatalf("status = %d, at = %s, text = %s, want status == 200 && strings.HasPrefix(at, "+
			"\"/sign-in?next=\") && !strings.Contains(text, \"till.put\")", status, at, text)
	}
	if status, at, _ := b.signIn(t, boss, page); status != 200 || at != page {
		t.Fatalf("signed in: %d %s", status, at)
	}
	if _, _, text := b.do(t, "GET", "/approvals", nil, nil); strings.Count(text, `<td><a href="/approvals/apr_`) != 3 ||
		strings.Contains(text, "<b>bold") {
		t.Errorf("text = %s, want strings.Count(text, `<td><a href=\"/approvals/apr_`) == 3 && "+
			"!strings.Contains(text, \"<b>bold\")", text)
	}
	_, _, text := b.do(t, "GET", page, nil, nil)
	if all := requests(text); len(all) != 3 || strings.Contains(text, "<b>bold") ||
		strings.ContainsRune(text, '\u202e') || !strings.Contains(text, "Promise.allSettled") ||
		!strings.Contains(text, `&lt;b&gt;bold&lt;/b&gt; \u202e`) {
		t.Fatalf("len(all) = %d, text = %s", len(all), text)
	}
	all := requests(text)
	// Approve two and deny one, but not with a digest that was not shown.
	if status, _, text := b.do(t, "POST", "/approvals",
		url.Values{"decision": {"approve"}, "request": {all[0], strings.Fields(all[1])[0] + " 0"}},
		nil); status != 409 || !strings.Contains(text, "nothing was decided") {
		t.Errorf("another digest: %d %s", status, text)
	}
	pending(t, d, 3)
	if status, at, _ := b.do(t, "POST", "/approvals", url.Values{"decision": {"approve"}, "request": all[:2],
		"note": {"fine"}}, nil); status != 200 || at != "/approvals" {
		t.Errorf(`status = %d, at = %s, want status == 200 && at == "/approvals"`, status, at)
	}
	if status, at, text := b.do(t, "POST", "/approvals", url.Values{"decision": {"deny"}, "request": all[2:]},
		nil); status != 200 || !strings.HasPrefix(at, "/approvals/apr_") ||
		!strings.Contains(text, "denied by key:boss") {
		t.Errorf("status = %d, at = %s, text = %s, want status == 200 && strings.HasPrefix(at, "+
			"\"/approvals/apr_\") && strings.Contains(text, \"denied by key:boss\")", status, at, text)
	}
	until(t, func() bool {
		e, err := clientOf(d, agent).Execution(t.Context(), x.ID)
		return err == nil && strings.Contains(string(e.Value), `rejected`)
	})
	if p.mu.Lock(); len(p.got) != 2 {
		t.Errorf("booked %v", p.got)
	}
	p.mu.Unlock()
	if status, _, text := b.do(t, "POST", "/approvals", url.Values{"decision": {"approve"}, "request": all[2:]},
		nil); status != 409 || !strings.Contains(text, "already denied by key:boss") {
		t.Errorf("decided twice: %d %s", status, text)
	}
	id := strings.Fields(all[0])[0]
	if _, _, raw := b.do(t, "GET", "/approvals/"+id+"?raw=true", nil, nil); !strings.HasPrefix(raw, `{"text":"`) {
		t.Errorf("raw: %s", raw)
	}
	// Revoking a key ends its sessions; so does signing out.
	if status, at, _ := b.do(t, "POST", "/sign-out", nil, nil); status != 200 || at != "/sign-in" {
		t.Errorf(`status = %d, at = %s, want status == 200 && at == "/sign-in"`, status, at)
	}
	if _, at, _ := b.do(t, "GET", "/approvals", nil, nil); !strings.HasPrefix(at, "/sign-in") {
		t.Errorf("after signing out: %s", at)
	}
	b.signIn(t, boss, "/approvals")
	if _, err := d.Client().Keys().Revoke(t.Context(), "boss"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	if _, at, _ := b.do(t, "GET", "/approvals", nil, nil); !strings.HasPrefix(at, "/sign-in") {
		t.Errorf("after the key was revoked: %s", at)
	}
	stop()
	for _, r := range recorded(t, dir, audit.KindApproval) {
		if r.Principal != "key:boss" || r.Detail["channel"] != "page" {
			t.Errorf(`r = %+v, want r.Principal == "key:boss" && r.Detail["channel"] == "page"`, r)
		}
	}
}

// TestPageIsClosed checks who can't decide there.
func TestPageIsClosed(t *testing.T) {
	t.Parallel()
	d, p, _ := runTill(t, t.TempDir(), "auth: { keys: true }\napprovals: { separate: true }\n")
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	eve := makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: []string{"api"}, Roles: []string{"viewer"}})
	both := makeKey(t, d, api.KeyRequest{Name: "both", Scopes: []string{"api"}, Roles: []string{"user", "approver"}})
	onlyMCP := makeKey(t, d, api.KeyRequest{Name: "mcp", Roles: []string{"approver"}})
	run := func(key string) string {
		t.Helper()
		x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: putOne})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		all, err := d.Client().Approvals().ListFor(t.Context(), x.ID, false)
		if err != nil || len(all) != 1 {
			t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
		}
		return all[0].ID + " " + all[0].Digest
	}
	request, own := run(agent), run(both)
	id, _, _ := strings.Cut(request, " ")
	approve := url.Values{"decision": {"approve"}, "request": {request}}

	b := newBrowser(t, d)
	for name, key := range map[string]string{"nothing": "", "nonsense": "bp_nonsense",
		"a key without the scope": onlyMCP, "huge": strings.Repeat("x", 20_000)} {
		if status, at, text := b.signIn(t, key, "/approvals"); status < 400 || at != "/sign-in" ||
			!strings.Contains(text, `class="problem"`) {
			t.Errorf("signed in with %s: %d %s", name, status, at)
		}
	}
	if _, at, _ := b.do(t, "POST", "/approvals", approve, nil); !strings.HasPrefix(at, "/sign-in") {
		t.Errorf("decided without signing in: %s", at)
	}
	for next, want := range map[string]string{"https://evil.example.com/": "/",
		"//evil.example.com/approvals": "/", `/\evil.example.com`: "/",
		"/..//evil.example.com": "/", "/executions/x/events": "/", "///evil.example.com/approvals": "/",
		"/approvals/" + id: "/approvals/" + id, "/sign-out": "/",
		"/approvals?all=true": "/approvals?all=true"} {
		if _, at, _ := b.signIn(t, both, next); at != want {
			t.Errorf("%s leads to %s", next, at)
		}
	}
	// Requests from other sites.
	for name, header := range map[string]map[string]string{
		"another origin":    {"Origin": "https://evil.example.com"},
		"no origin":         {"Origin": "null"},
		"across sites":      {"Sec-Fetch-Site": "cross-site"},
		"another subdomain": {"Sec-Fetch-Site": "same-site"},
		"a rebound name":    {"Host": "evil.example.com"},
	} {
		if status, _, text := b.do(t, "POST", "/approvals", approve, header); status != 403 {
			t.Errorf("%s, status = %d, text = %s, want status == 403", name, status, text)
		}
	}
	// A user's own request with separate approval, and a user who may only view.
	if status, _, text := b.do(t, "POST", "/approvals", url.Values{"decision": {"approve"}, "request": {own}},
		nil); status != 409 || !strings.Contains(text, "your own request") {
		t.Errorf("own request: %d %s", status, text)
	}
	if _, _, text := b.do(t, "GET", "/approvals/"+strings.Fields(own)[0], nil, nil); !strings.Contains(text,
		"your own request") || len(requests(text)) > 0 {
		t.Errorf("own request: %s", text)
	}
	viewer := newBrowser(t, d)
	viewer.signIn(t, eve, "/approvals")
	if status, _, _ := viewer.do(t, "GET", "/approvals/"+id, nil, nil); status != 404 {
		t.Errorf("a viewer sees others' requests: %d", status)
	}
	if status, _, _ := viewer.do(t, "POST", "/approvals", approve, nil); status != 403 {
		t.Errorf("a viewer decides: %d", status)
	}
	for name, form := range map[string]url.Values{
		"nothing picked": {"decision": {"approve"}}, "no decision": {"request": {request}},
		"unknown":  {"decision": {"approve"}, "request": {"apr_x y"}},
		"too much": {"decision": {"approve"}, "request": {strings.Repeat("x", 200_000)}},
	} {
		if status, _, _ := b.do(t, "POST", "/approvals", form, nil); status < 400 {
			t.Errorf("%s, status = %d, want status >= 400", name, status)
		}
	}
	pending(t, d, 2)
	p.booked(t)

	resp, err := b.Get(b.base + "/approvals/" + id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
		!strings.Contains(csp, "frame-ancestors 'none'") || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("resp.Header = %v", resp.Header)
	}
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err = b.PostForm(b.base+"/sign-in", url.Values{"key": {both}})
	if err != nil {
		t.Fatalf("PostForm: %v", err)
	}
	resp.Body.Close()
	c := resp.Header.Get("Set-Cookie")
	if !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || strings.Contains(c, "bp_") {
		t.Errorf("cookie %s", c)
	}
}

// TestPageWithoutSignIn checks that, on a loopback address without sign-in, the page only shows
// requests; they are decided on the command line.
func TestPageWithoutSignIn(t *testing.T) {
	t.Parallel()
	d, p, _ := runTill(t, t.TempDir(), "")
	x := execute(t, d.Client(), `return await callTool("till.put", { text: "x".repeat(300 << 10) })`)
	r := pending(t, d, 1)[0]
	b := newBrowser(t, d)
	status, _, text := b.do(t, "GET", "/approvals?execution="+x.ID, nil, nil)
	if status != 200 || !strings.Contains(text, "Truncated:") || !strings.Contains(text, "use the command line") ||
		len(requests(text)) > 0 {
		t.Errorf("status = %d, text = %.3000s", status, text)
	}
	if status, _, _ := b.do(t, "POST", "/approvals",
		url.Values{"decision": {"approve"}, "request": {r.ID + " " + r.Digest}}, nil); status != 403 {
		t.Errorf("decided without signing in: %d", status)
	}
	if status, _, text := b.do(t, "GET", "/style.css", nil, nil); status != 200 || !strings.Contains(text, "body") {
		t.Errorf(`status = %d, text = %s, want status == 200 && strings.Contains(text, "body")`, status, text)
	}
	pending(t, d, 1)
	p.booked(t)
}

// TestCutIsNotApproved checks that a request too large for the page can't be approved there.
func TestCutIsNotApproved(t *testing.T) {
	t.Parallel()
	d, p, _ := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	boss := makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: []string{"api"}, Roles: []string{"admin"}})
	execute(t, d.Client(), `return await callTool("till.put", { text: "x".repeat(300 << 10) })`)
	r := pending(t, d, 1)[0]
	b := newBrowser(t, d)
	_, at, text := b.signIn(t, boss, "/approvals/"+r.ID)
	if !strings.Contains(text, "Truncated:") || strings.Contains(text, `value="approve"`) ||
		!strings.Contains(text, `value="deny"`) {
		t.Errorf("at = %s, text = %.3000s", at, text)
	}
	form := url.Values{"decision": {"approve"}, "request": {r.ID + " " + r.Digest}}
	if status, _, text := b.do(t, "POST", "/approvals", form, nil); status != 400 ||
		!strings.Contains(text, "not shown in full") {
		t.Errorf("status = %d, text = %s, want status == 400 && strings.Contains(text, \"not shown in "+
			"full\")", status, text)
	}
	p.booked(t)
	if form.Set("decision", "deny"); true {
		if status, _, text := b.do(t, "POST", "/approvals", form, nil); status != 200 ||
			!strings.Contains(text, "denied") {
			t.Errorf(`status = %d, text = %s, want status == 200 && strings.Contains(text, "denied")`, status, text)
		}
	}
}

// TestTheLink checks that a waiting program says where to decide.
func TestTheLink(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"auth: { keys: true }\n": "http://127.0.0.1:",
		"auth: { keys: true, resource: 'https://biplane.example.com/mcp' }\n": "https://biplane.example.com/approvals/apr_",
		"": "Tell the user: biplane approvals approve ex_",
	} {
		d, _, _ := runTill(t, t.TempDir(), config)
		key := ""
		if config != "" {
			key = makeKey(t, d, api.KeyRequest{Name: "agent"})
		}
		a := overHTTP(t, d, key, "2025-11-25", action("decline"))
		if text, err := call(t, a.ClientSession, "execute", program(putOne)); err != nil ||
			!strings.Contains(text, want) {
			t.Errorf("config = %q, text = %s, err = %v, want err == nil && strings.Contains(text, want)",
				config, text, err)
		}
	}
}

// TestPlanOnThePage checks that a plan is shown as the list of its writes.
func TestPlanOnThePage(t *testing.T) {
	t.Parallel()
	d, p, _ := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	key := approverKey(t, d)
	a := overHTTP(t, d, key, "2025-11-25", action("decline"))
	if text, err := call(t, a.ClientSession, "execute",
		map[string]any{"mode": "plan",
			"code": `await callTool("till.put", { n: 1 }); await callTool("till.put", { n: 2 })`}); err != nil ||
		!strings.Contains(text, "/approvals/apr_") {
		t.Fatalf(`text = %v, err = %v, want err == nil && strings.Contains(text, "/approvals/apr_")`, text, err)
	}
	r := pending(t, d, 1)[0]
	b := newBrowser(t, d)
	_, _, text := b.signIn(t, key, "/approvals/"+r.ID)
	if strings.Count(text, "<li>till.put") != 2 || len(requests(text)) != 1 {
		t.Fatalf(`text = %s, want strings.Count(text, "<li>till.put") == 2 && len(requests(text)) == 1`, text)
	}
	if status, _, text := b.do(t, "POST", "/approvals", url.Values{"decision": {"approve"}, "request": requests(text)},
		nil); status != 200 {
		t.Errorf("status = %d, text = %s, want status == 200", status, text)
	}
	until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.got) == 2 })
}
