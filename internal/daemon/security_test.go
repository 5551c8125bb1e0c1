package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// evil is a text that becomes an element, an attribute or an address where it isn't escaped.
const evil = `x" onmouseover='alert(1)' '><img src=x onerror=alert(1)><script>alert(1)</script>` +
	"<a href=\"javascript:alert(1)\">`${alert(1)}`</a></textarea></title><!--\u202e\u200b"

// newEvilPeer returns an MCP server with hostile names, titles, descriptions, schemas, results and
// errors.
func newEvilPeer(t *testing.T) *httptest.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: evil, Version: evil}, nil)
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	schema := json.RawMessage(fmt.Sprintf(
		`{"type":"object","title":%[1]s,"properties":{%[1]s:{"type":"string","description":%[1]s,"enum":[%[1]s],
		"default":%[1]s},"fail":{"type":"boolean"}}}`, text))
	for _, name := range []string{"read", "<img src=x onerror=alert(1)>", "a' onmouseover=alert(1) b"} {
		s.AddTool(&mcp.Tool{Name: name, Title: evil, Description: evil, InputSchema: schema,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, Title: evil}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{IsError: bytes.Contains(r.Params.Arguments, []byte(`"fail":true`)),
					Content: []mcp.Content{&mcp.TextContent{Text: evil}}}, nil
			})
	}
	p := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

// runEvil runs a daemon with that server, and fills it with hostile executions, sessions, files,
// skills and keys. It returns a browser of an admin.
func runEvil(t *testing.T, dir string) (*daemon.Daemon, *browser) {
	t.Helper()
	d, _ := run(t, dir, "policy: open\nauth: { keys: true }\nmcpServers: { evil: { url: '"+newEvilPeer(t).URL+"' } }\n")
	boss := makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: []string{"mcp", "api"}, Roles: []string{"admin"},
		Person: evil, Groups: []string{evil}})
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	c := clientOf(d, boss)
	for _, code := range []string{
		"console.log(%[1]s); const r = await evil.read({ [%[1]s]: %[1]s }); return { [%[1]s]: r }",
		"const %[2]s = 1; await evil.read({ fail: true, [%[1]s]: %[1]s })",
		"throw new Error(%[1]s)",
		"/* %[2]s */ const broken = ;",
		"import { writeFile } from 'node:fs/promises';" +
			"await writeFile('./workspace/' + %[1]s.replaceAll('/', '_'), %[1]s);" +
			"await writeFile('./skills/x.ts', '// ' + %[1]s + '\\nexport const x = 1;\\n'); 1",
	} {
		if _, err := c.Run(t.Context(),
			api.RunRequest{Session: "work", Code: fmt.Sprintf(code, quoted, evil)}); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	b := newBrowser(t, d)
	if status, _, text := b.signIn(t, boss, "/"); status != http.StatusOK {
		t.Fatalf("sign in: %d %s", status, text)
	}
	return d, b
}

var (
	linkPattern = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	formPattern = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]*)"|` +
		`<form[^>]*action="([^"]*)"[^>]*method="post"`)
	programPattern = regexp.MustCompile(`(?s)<textarea.*?</textarea>`)
	// elements and attributes that only texts from outside could have
	foreignPattern = regexp.MustCompile(`(?i)<img|<script>|<[a-z]+[^>"]*\son[a-z]+=|href="\s*javascript:|ZgotmplZ|` +
		"[\u202e\u200b]")
)

// crawl reads every page that can be reached by links, and calls f with its path, header and text.
func crawl(t *testing.T, b *browser, f func(path string, h http.Header, text string)) (pages int) {
	t.Helper()
	todo, seen := []string{"/"}, map[string]bool{}
	for len(todo) > 0 && pages < 400 {
		path := todo[0]
		todo = todo[1:]
		resp, err := b.Get(b.base + path)
		if err != nil {
			t.Fatalf("Get %s: %v", path, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode >= 500 {
			t.Errorf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		pages++
		f(path, resp.Header, string(body))
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range linkPattern.FindAllStringSubmatch(string(body), -1) {
			at, err := url.Parse(html.UnescapeString(m[1]))
			if err != nil || at.IsAbs() || at.Host != "" {
				t.Errorf("%s has the link %q, want only links to pages of this server", path, m[1])
				continue
			}
			next := resp.Request.URL.ResolveReference(at)
			key := next.Path + "?" + next.Query().Encode()
			if !seen[key] && !strings.HasSuffix(next.Path, "/events") {
				seen[key] = true
				todo = append(todo, next.RequestURI())
			}
		}
	}
	return pages
}

// TestHostileTexts crawls the console while names, descriptions, schemas, programs, files, results
// and errors are hostile. No page has an element, an attribute or an address from them, and each
// has a policy that would stop scripts.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	_, b := runEvil(t, t.TempDir())
	shown := map[string]bool{}
	n := crawl(t, b, func(path string, h http.Header, text string) {
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"),
			"default-src 'none'") || strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s has the header %v", path, h)
		}
		if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			if strings.Contains(path, "/file") && !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
				t.Errorf("%s is shown, and not downloaded: %v", path, h)
			}
			return
		}
		m := programPattern.FindString(text)
		if strings.HasPrefix(path, "/playground") && strings.Contains(m, "\u202e") {
			// A program is edited as it is, and its hidden characters are listed beside it.
			if !strings.Contains(text, "right-to-left override") {
				t.Errorf("%s doesn't list the program's hidden characters", path)
			}
			visible := strings.NewReplacer("\u202e", "", "\u200b", "").Replace(m)
			text = strings.Replace(text, m, visible, 1)
		}
		if found := foreignPattern.FindString(text); found != "" {
			i := strings.Index(text, found)
			t.Errorf("%s contains %q: %s", path, found, text[max(i-200, 0):min(i+200, len(text))])
		}
		if strings.Contains(text, "onerror=alert(1)&gt;") {
			section, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
			section, _, _ = strings.Cut(section, "?")
			shown[section] = true
		}
	})
	for _, section := range []string{"executions", "tools", "sessions", "audit"} {
		if !shown[section] {
			t.Errorf("no page below /%s shows the hostile text: this test looks in the wrong place", section)
		}
	}
	if n < 25 {
		t.Errorf("only %d pages were found", n)
	}
}

// TestForgedForms submits each form of the console from another site, and without its headers.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	d, b := runEvil(t, t.TempDir())
	actions := map[string]bool{"/sign-in": true, "/sign-out": true}
	crawl(t, b, func(path string, _ http.Header, text string) {
		for _, m := range formPattern.FindAllStringSubmatch(text, -1) {
			if action := html.UnescapeString(m[1] + m[2]); action != "" {
				actions[action] = true
			} else {
				actions[path] = true
			}
		}
	})
	if len(actions) < 6 {
		t.Errorf("only the forms %v were found", actions)
	}
	before, err := d.Client().Executions(t.Context(), api.ExecutionFilter{})
	if err != nil {
		t.Fatalf("Executions: %v", err)
	}
	form := url.Values{"key": {"x"}, "code": {"1"}, "confirm": {"work"}, "action": {"end"}, "name": {"forged"},
		"decision": {"approve"}, "arguments": {"{}"}}
	for action := range actions {
		for name, header := range map[string]map[string]string{
			"another site":  {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"},
			"a subdomain":   {"Sec-Fetch-Site": "same-site"},
			"an old client": {"Origin": "http://evil.example.com", "Sec-Fetch-Site": ""},
			"a frame":       {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
		} {
			if status, _, text := b.do(t, "POST", action, form, header); status != http.StatusForbidden {
				t.Errorf("%s from %s has status %d, want 403: %.300s", action, name, status, text)
			}
		}
	}
	after, err := d.Client().Executions(t.Context(), api.ExecutionFilter{})
	if err != nil || len(after.Executions) != len(before.Executions) {
		t.Errorf("%d executions after the forged forms, %v, want %d", len(after.Executions), err,
			len(before.Executions))
	}
	if _, err := d.Client().Keys().Revoke(t.Context(), "forged"); err == nil {
		t.Error("a forged form created a key")
	}
	if status, at, _ := b.do(t, "GET", "/sessions", nil, nil); status != http.StatusOK || at != "/sessions" {
		t.Errorf("after the forged forms the browser is at %d %s, want still signed in", status, at)
	}
}

// TestPathTraversal asks for files outside of what a route serves, in many spellings, over the
// network.
func TestPathTraversal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, b := runEvil(t, dir)
	secret := "the content of a file beside the data folder"
	if err := os.WriteFile(filepath.Join(dir, "..", "outside.txt"), []byte(secret), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	admin := makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: []string{"mcp", "api"}, Roles: []string{"admin"}})
	up := []string{"../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "....//", "%c0%ae%c0%ae/", "..%252f",
		"./../",
		"/", "%2f", "..;/", "%00/../"}
	targets := []string{"outside.txt", "key", "biplane.db", "etc/passwd", dir + "/key", dir + "/../outside.txt"}
	n := 0
	for _, prefix := range []string{"/", "/style.css/", "/sessions/", "/sessions/work/file?path=", "/executions/",
		"/tools/", "/connect/", "/audit/", "/api/v1/", "/api/v1/docs/", "/api/v1/sessions/", "/api/v1/skills/",
		"/api/v1/sessions/work/files?path=", "/api/v1/sessions/work/files?path=/workspace/", "/mcp/",
		"/api/v1/tools/"} {
		for _, dots := range up {
			for _, depth := range []int{1, 3, 12} {
				target := targets[n%len(targets)]
				n++
				for _, auth := range []string{"", "Authorization: Bearer " + admin + "\r\n",
					"Cookie: " + b.cookie(t) + "\r\n"} {
					answer := rawRequest(t, d, "GET "+prefix+strings.Repeat(dots, depth)+target+" HTTP/1.1", auth)
					if strings.Contains(answer, secret) || strings.Contains(answer, string(key)) ||
						strings.Contains(answer, "root:x:") || strings.Contains(answer, "SQLite format") {
						t.Fatalf("GET %s%s%s was answered: %.500s", prefix, strings.Repeat(dots, depth), target, answer)
					}
				}
			}
		}
	}
	// What is written stays in the session.
	for _, path := range []string{"../../../../evil.txt", "/../evil.txt", "/etc/evil.txt", "skills/../../evil.txt",
		"..\\evil.txt", dir + "/evil.txt"} {
		_ = clientOf(d, admin).Sessions().WriteFile(t.Context(), "work", path, strings.NewReader("x"))
	}
	for _, pattern := range []string{"evil.txt", "*/evil.txt", "../evil.txt", "../*/evil.txt"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			t.Errorf("files were written outside of the session: %v, %v", found, err)
		}
	}
}

// rawRequest sends a request whose first line is not changed by a client, and returns the answer.
func rawRequest(t *testing.T, d *daemon.Daemon, line, header string) string {
	t.Helper()
	conn := dial(t, d)
	defer conn.Close()
	request := line + "\r\nHost: " + d.Addr() + "\r\n" + header + "Connection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("send %s: %v", line, err)
	}
	answer, err := io.ReadAll(io.LimitReader(bufio.NewReader(conn), 1<<20))
	if err != nil {
		t.Fatalf("read the answer to %s: %v", line, err)
	}
	return string(answer)
}

// cookie returns the browser's cookie for the console.
func (b *browser) cookie(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(b.base)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	all := b.Jar.Cookies(at)
	if len(all) != 1 {
		t.Fatalf("the browser has the cookies %v, want one", all)
	}
	return all[0].Name + "=" + all[0].Value
}

// TestStolenCookie checks what someone can do with the cookie of a browser: nothing with the API or
// MCP, and nothing once its owner has signed out. No page and no response has it, and scripts
// can't read it.
func TestStolenCookie(t *testing.T) {
	t.Parallel()
	d, b := runEvil(t, t.TempDir())
	cookie := b.cookie(t)
	_, value, _ := strings.Cut(cookie, "=")
	crawl(t, b, func(path string, h http.Header, text string) {
		if strings.Contains(text, value) || strings.Contains(fmt.Sprint(h), value) {
			t.Errorf("%s has the value of the cookie", path)
		}
	})
	for _, line := range []string{"GET /api/v1/keys", "GET /api/v1/sessions", "GET /api/v1/executions", "POST /mcp",
		"POST /api/v1/executions", "GET /metrics"} {
		answer := rawRequest(t, d, line+" HTTP/1.1", "Cookie: "+cookie+"\r\nContent-Type: application/json\r\n"+
			"Content-Length: 0\r\n")
		if status := strings.Fields(answer)[1]; status != "401" && status != "403" && line != "GET /metrics" {
			t.Errorf("%s with the cookie has status %s, want 401 or 403", line, status)
		}
	}
	page := func() string { return rawRequest(t, d, "GET /sessions HTTP/1.1", "Cookie: "+cookie+"\r\n") }
	if answer := page(); !strings.HasPrefix(answer, "HTTP/1.1 200") || !strings.Contains(answer, "work") {
		t.Errorf("the cookie's own page: %.200s", answer)
	}
	for _, other := range []string{"biplane=" + value[:len(value)-1], "biplane=",
		"biplane=" + strings.Repeat("x", 4000)} {
		if answer := rawRequest(t, d, "GET /sessions HTTP/1.1", "Cookie: "+other+"\r\n"); strings.Contains(answer,
			"HTTP/1.1 200") {
			t.Errorf("the cookie %.40s is accepted", other)
		}
	}
	if status, _, _ := b.do(t, "POST", "/sign-out", nil, nil); status != http.StatusOK {
		t.Errorf("sign out: %d", status)
	}
	if answer := page(); strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Errorf("the cookie works after its owner has signed out: %.200s", answer)
	}
}

// TestThousandConnections opens 1,000 connections from one address: silent ones, ones with slow
// headers and slow bodies, and ones that don't read their answer. Other principals work.
func TestThousandConnections(t *testing.T) {
	t.Parallel()
	d, _, eve, ann, boss := fair(t)
	for i := range 1000 {
		switch i % 4 {
		case 0:
			dial(t, d)
		case 1:
			if _, err := io.WriteString(dial(t, d), "GET /api/v1/tools HTTP/1.1\r\nHost: "); err != nil {
				t.Fatalf("io.WriteString: %v", err)
			}
		case 2:
			conn := dial(t, d)
			if _, err := io.WriteString(conn, "POST /api/v1/executions HTTP/1.1\r\nHost: "+d.Addr()+
				"\r\nAuthorization: Bearer "+eve+"\r\nContent-Type: application/json"+
				"\r\nContent-Length: 900\r\n\r\n{"); err != nil {
				t.Fatalf("io.WriteString: %v", err)
			}
		case 3:
			conn := dial(t, d)
			if _, err := io.WriteString(conn, strings.Repeat("GET /api/v1/openapi.json HTTP/1.1\r\nHost: "+d.Addr()+
				"\r\n\r\n", 20)); err != nil {
				t.Fatalf("io.WriteString: %v", err)
			}
		}
	}
	works(t, d, ann, boss)
}

// TestViewerOfEverything tries each route of the API with the key of a viewer, at a real server:
// those of the document that need more answer 403, and change nothing.
func TestViewerOfEverything(t *testing.T) {
	t.Parallel()
	d, _ := runEvil(t, t.TempDir())
	key := makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: []string{"mcp", "api"}, Roles: []string{"viewer"}})
	text, err := d.Client().ReadDocument(t.Context())
	if err != nil {
		t.Fatalf("ReadDocument: %v", err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Access string `json:"x-access"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("the document: %v", err)
	}
	tried := 0
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if slices.Contains([]string{"anyone", "viewer"}, o.Access) {
				continue
			}
			tried++
			at := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "work")
			answer := rawRequest(t, d, strings.ToUpper(method)+" "+at+" HTTP/1.1", "Authorization: Bearer "+key+
				"\r\nContent-Type: application/json\r\nContent-Length: 0\r\n")
			if !strings.HasPrefix(answer, "HTTP/1.1 403") {
				t.Errorf("a viewer's %s %s: %.200s, want status 403", method, path, answer)
			}
		}
	}
	if tried < 40 {
		t.Errorf("only %d routes were tried", tried)
	}
	if s, err := d.Client().Keys().List(t.Context()); err != nil || len(s) != 2 {
		t.Errorf("the keys are %+v, %v, want the two of this test", s, err)
	}
}
