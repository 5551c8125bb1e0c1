package daemon_test

import (
	"bufio"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

const hostile = `"><script>alert(1)</script><a href='javascript:x'>` + "\u202e\u200b"

// checkPage reads a page, and fails if it contains an element or a hidden character from outside.
func checkPage(t *testing.T, b *browser, path string) string {
	t.Helper()
	status, _, text := b.do(t, "GET", path, nil, nil)
	if status >= 500 || strings.Contains(text, "<script>") || strings.Contains(text, "<a href='javascript") ||
		strings.Contains(text, "ZgotmplZ") || strings.ContainsAny(text, "\u202e\u200b") {
		t.Errorf("%s has status %d, and contains text from outside as it is: %s", path, status, text)
	}
	return text
}

// runHostile runs a program whose text, console, session, call and error are hostile, and one that
// waits for approval of a hostile call. It returns their ids.
func runHostile(t *testing.T, d *daemon.Daemon, key string) (failed, waiting string) {
	t.Helper()
	quoted := "`" + hostile + "`"
	x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{
		Code: "console.log(" + quoted + "); const e = " + quoted + ";\nthrow new Error(e)"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	y, err := clientOf(d, key).Run(t.Context(), api.RunRequest{NoWait: true,
		Code: "return await callTool('till.put', { text: " + quoted + ", [" + quoted + "]: [1, null, true] })"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	pending(t, d, 1)
	return x.ID, y.ID
}

// TestConsole reads the pages of executions as their owner, as an admin and as a viewer.
func TestConsole(t *testing.T) {
	t.Parallel()
	d, _, stop := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	boss := newBrowser(t, d)
	boss.signIn(t, makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: []string{"api"}, Roles: []string{"admin"}}), "/")
	failed, waiting := runHostile(t, d, agent)
	for path, want := range map[string]string{
		"/": waiting, "/executions": failed, "/executions?state=failed": failed, "/executions/" + failed: "alert(1)",
		"/executions/" + waiting: "Waiting for approval", "/executions/" + waiting + "/calls/1": "alert(1)",
		"/executions?state=" + url.QueryEscape(hostile): "unknown state", "/executions/" + url.PathEscape(hostile): "",
		"/executions?session=" + url.QueryEscape(hostile): "No execution", "/executions?since=x": "must be a date",
		"/executions/" + waiting + "/calls/1?part=call": "alert(1)",
		"/executions/" + waiting + "/calls/9":           "has no call",
		"/executions/..%2f..%2fapi%2fv1%2fkeys":         "",
	} {
		if text := checkPage(t, boss, path); !strings.Contains(html.UnescapeString(text), want) {
			t.Errorf("%s does not contain %q: %s", path, want, text)
		}
	}
	if text := checkPage(t, boss, "/executions/"+failed); !strings.Contains(text, `class="failed"`) {
		t.Errorf("the line of the error is not marked: %s", text)
	}
	eve := newBrowser(t, d)
	eve.signIn(t, makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: []string{"api"}, Roles: []string{"viewer"}}), "/")
	for _, path := range []string{"/executions/" + failed, "/executions/" + waiting + "/calls/1",
		"/executions/" + waiting + "/events"} {
		if status, _, text := eve.do(t, "GET", path, nil, nil); status != http.StatusNotFound {
			t.Errorf("a viewer opens %s of another: %d %s", path, status, text)
		}
	}
	if text := checkPage(t, eve, "/"); strings.Contains(text, waiting) {
		t.Errorf("a viewer sees the executions of another: %s", text)
	}
	if status, _, _ := eve.do(t, "POST", "/executions/"+waiting+"/stop", nil, nil); status != http.StatusForbidden {
		t.Errorf("a viewer's attempt to stop an execution has status %d, want 403", status)
	}
	if status, _, _ := boss.do(t, "POST", "/executions/"+waiting+"/stop", nil,
		map[string]string{"Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"}); status != 403 {
		t.Errorf("a form of another site has status %d, want 403", status)
	}
	if _, at, _ := newBrowser(t, d).do(t, "GET", "/", nil, nil); at != "/sign-in?next=%2F" {
		t.Errorf("without sign-in, / leads to %s", at)
	}
}

// TestConsoleIsLive reads the stream of an execution until it ends.
func TestConsoleIsLive(t *testing.T) {
	t.Parallel()
	d, _, stop := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	b := newBrowser(t, d)
	b.signIn(t, agent, "/")
	_, id := runHostile(t, d, agent)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/executions/"+id+"/events", nil)
	if err != nil {
		t.Fatalf("NewRequestWithContext: %v", err)
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Fatalf("the stream has the type %q", kind)
	}
	var events, text []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			if events = append(events, value); len(events) == 1 {
				if err := clientOf(d, agent).StopExecution(t.Context(), id); err != nil {
					t.Fatalf("StopExecution: %v", err)
				}
			}
		case "data":
			text = append(text, value)
		}
	}
	if len(events) < 2 || events[0] != "change" || events[len(events)-1] != "end" {
		t.Errorf("the events are %v, want change first and end last", events)
	}
	if all := strings.Join(text, "\n"); strings.Contains(all, "<script>") || !strings.Contains(all, "till.put") {
		t.Errorf("the stream contains %s", all)
	}
}

// TestVersionOfWaiting checks that the version of an execution stays the same while it only waits,
// so that those who watch it are sent nothing.
func TestVersionOfWaiting(t *testing.T) {
	t.Parallel()
	d, _, stop := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	_, id := runHostile(t, d, agent)
	var first *api.ExecutionDetail
	until(t, func() bool {
		x, err := clientOf(d, agent).Journal(t.Context(), id)
		if err != nil {
			t.Fatalf("Journal: %v", err)
		}
		if x.State != api.StateWaiting {
			return false
		}
		if first == nil {
			first = x
		}
		if x.Version != first.Version {
			t.Fatalf("the version changes while the execution waits: %+v, then %+v", first.Calls, x.Calls)
		}
		return x.Calls[0].MS > first.Calls[0].MS
	})
}

// TestConsoleQuarantine shows a changed definition as a diff, and accepts it.
func TestConsoleQuarantine(t *testing.T) {
	t.Parallel()
	p := newShifty(t)
	p.describe("get_price", "Returns a price.")
	d, stop := run(t, t.TempDir(), "auth: { keys: true }\ndefinitions: {}\nmcpServers: { shop: { url: '"+p.url+"' } }")
	defer stop()
	noticesOf(t, d)
	p.describe("get_price", "Returns a price. "+hostile)
	n := awaitNotice(t, d, "shop.get_price", func(n api.DefinitionNotice) bool { return n.Change == "changed" })
	boss, eve := signedIn(t, d, "boss", "admin"), signedIn(t, d, "eve", "viewer")
	page := checkPage(t, boss, "/tools")
	for _, want := range []string{"quarantined", `<span class="added">`, "alert(1)", n.Claim} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q: %s", want, page)
		}
	}
	if page := checkPage(t, eve, "/tools"); strings.Contains(page, n.Claim) {
		t.Errorf("a viewer is shown what only an admin may accept: %s", page)
	}
	form := url.Values{"claim": {n.Claim}}
	if status, _, _ := eve.do(t, "POST", "/tools/shop.get_price/accept", form, nil); status != http.StatusForbidden {
		t.Errorf("a viewer's acceptance has status %d, want 403", status)
	}
	status, at, page := boss.do(t, "POST", "/tools/shop.get_price/accept", form, nil)
	if status != http.StatusOK || at != "/tools" || strings.Contains(page, `state failed">quarantined`) {
		t.Errorf("acceptance leads to %d %s: %s", status, at, page)
	}
}

// TestConsoleApprovals compares a request with an earlier one of the same tool, and lists what
// waits for approval.
func TestConsoleApprovals(t *testing.T) {
	t.Parallel()
	d, _, stop := runTill(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	boss, eve := signedIn(t, d, "boss", "approver"), signedIn(t, d, "eve", "viewer")
	put := func(n, note string) (id, page string) {
		_, err := clientOf(d, agent).Run(t.Context(), api.RunRequest{NoWait: true,
			Code: "return await callTool('till.put', { n: " + n + ", note: `" + note + "` })"})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		id = pending(t, d, 1)[0].ID
		return id, checkPage(t, boss, "/approvals/"+id)
	}
	first, page := put("1", "same")
	if strings.Contains(page, "last decided call") || !strings.Contains(page, `<span class="k">return</span>`) {
		t.Errorf("the first request is compared, or its program has no colours: %s", page)
	}
	if status, _, text := boss.do(t, "POST", "/approvals", url.Values{"decision": {"deny"}, "request": requests(page),
		"note": {hostile}}, nil); status != http.StatusOK {
		t.Fatalf("deny: %d %s", status, text)
	}
	second, page := put("2", "same"+hostile)
	for _, want := range []string{"last decided call", `<span class="removed">-   &#34;n&#34;: 1,`,
		`<span class="added">&#43;   &#34;n&#34;: 2,`, first} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the second request does not contain %q: %s", want, page)
		}
	}
	text := checkPage(t, boss, "/approvals/waiting")
	if !strings.Contains(text, second) || strings.Contains(text, "same") {
		t.Errorf("the list of what waits is %s, want %s without arguments", text, second)
	}
	if text := checkPage(t, eve, "/approvals/waiting"); text != "[]" {
		t.Errorf("a viewer sees what waits for others: %s", text)
	}
	checkPage(t, boss, "/approvals?all=true")
}

// TestConsoleKeys creates, rotates and revokes a key on the page, which others may not use.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	d, stop := run(t, t.TempDir(), "auth: { keys: true }\n")
	defer stop()
	boss, eve := signedIn(t, d, "boss", "admin"), signedIn(t, d, "eve", "viewer")
	status, _, page := boss.do(t, "POST", "/keys", url.Values{"action": {"create"}, "name": {"lead"},
		"person": {hostile}, "role": {"approver"}, "scope": {"api"}, "groups": {"leads, ops"}, "tools": {"github.*"},
		"days": {"30"}}, nil)
	key := regexp.MustCompile(`<pre tabindex="0">([^<]+)</pre>`).FindStringSubmatch(page)
	if status != http.StatusOK || key == nil || !strings.Contains(page, `<span class="label">leads</span>`) {
		t.Fatalf("the key is not created: %d %s", status, page)
	}
	if _, err := clientOf(d, key[1]).Approvals().ListFor(t.Context(), "", false); err != nil {
		t.Errorf("the created key is not accepted: %v", err)
	}
	if page := checkPage(t, boss, "/keys"); strings.Contains(page, key[1]) || !strings.Contains(page, "github.*") {
		t.Errorf("the page shows the key again, or not its tools: %s", page)
	}
	_, _, page = boss.do(t, "POST", "/keys", url.Values{"action": {"rotate"}, "name": {"lead"}}, nil)
	again := regexp.MustCompile(`<pre tabindex="0">([^<]+)</pre>`).FindStringSubmatch(page)
	if again == nil || again[1] == key[1] {
		t.Fatalf("the key is not rotated: %s", page)
	}
	if _, err := clientOf(d, key[1]).Status(t.Context()); err == nil {
		t.Error("the old key is still accepted")
	}
	for _, confirm := range []string{"", "lead"} {
		status, _, _ = boss.do(t, "POST", "/keys", url.Values{"action": {"revoke"}, "name": {"lead"},
			"confirm": {confirm}}, nil)
		_, err := clientOf(d, again[1]).Status(t.Context())
		if (status == http.StatusOK) != (confirm == "lead") || (err != nil) != (confirm == "lead") {
			t.Errorf("revoke with %q: %d, and the key: %v", confirm, status, err)
		}
	}
	if status, _, _ := eve.do(t, "GET", "/keys", nil, nil); status != http.StatusForbidden {
		t.Errorf("a viewer's page has status %d, want 403", status)
	}
	if status, _, _ := eve.do(t, "POST", "/keys", url.Values{"action": {"create"}, "name": {"x"},
		"role": {"admin"}}, nil); status != http.StatusForbidden {
		t.Errorf("a viewer's key has status %d, want 403", status)
	}
	if strings.Contains(checkPage(t, eve, "/"), `href="/keys"`) {
		t.Error("a viewer is shown the page of keys in the navigation")
	}
	limited := clientOf(d, makeKey(t, d, api.KeyRequest{Name: "limited", Roles: []string{"admin"},
		Scopes: []string{"api"}, Tools: []string{"github.*"}}))
	if _, err := limited.Keys().Create(t.Context(), api.KeyRequest{Name: "wide"}); err == nil {
		t.Error("a key that is limited to tools created one that isn't")
	}
	if _, err := limited.Keys().Rotate(t.Context(), "boss", api.RotateRequest{}); err == nil {
		t.Error("a key that is limited to tools rotated one that isn't")
	}
}
