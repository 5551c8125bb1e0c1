package daemon_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// runShop runs a daemon with sign-in and a folder of tools, one of which has a hostile description,
// result and error.
func runShop(t *testing.T) *daemon.Daemon {
	t.Helper()
	folder := t.TempDir()
	text := "/**\n * Finds " + hostile + "\n * @param id " + hostile + "\n * @readonly\n */\n" +
		"export function find(id: number, note: string = \"\") {\n" +
		"  if (id === 2) throw new Error(`" + hostile + "`);\n  return { id, note, text: `" + hostile + "` };\n}\n"
	if err := os.WriteFile(filepath.Join(folder, "shop.ts"), []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nauth: { keys: true }\n"+
		"folders: { stock: { path: '"+folder+"' } }\n")
	t.Cleanup(stop)
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	return d
}

// signedIn returns a browser that is signed in with a new key.
func signedIn(t *testing.T, d *daemon.Daemon, name string, roles ...string) *browser {
	t.Helper()
	b := newBrowser(t, d)
	key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}, Roles: roles})
	if status, at, text := b.signIn(t, key, "/"); status != http.StatusOK || at != "/" {
		t.Fatalf("sign in as %s: %d %s %s", name, status, at, text)
	}
	return b
}

// TestConsoleTools reads the catalog, tries a tool, and runs a program from the playground.
func TestConsoleTools(t *testing.T) {
	d := runShop(t)
	tools, err := d.Client().Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("the tools are %v, with error %v, want one", tools, err)
	}
	tool := "/tools/" + url.PathEscape(tools[0].Path)
	ann := signedIn(t, d, "ann", "user")
	for path, want := range map[string]string{
		"/tools": tools[0].Path, "/tools?q=find": "What the agent reads", "/tools?q=" + url.QueryEscape(hostile): "",
		tool: "Try it", "/playground": "Playground", "/tools/..%2f..%2fkeys": "",
		"/tools/" + url.PathEscape(hostile): "",
	} {
		if text := checkPage(t, ann, path); !strings.Contains(html.UnescapeString(text), want) {
			t.Errorf("%s does not contain %q: %s", path, want, text)
		}
	}
	try := func(form url.Values) (int, string, string) { return ann.do(t, "POST", tool+"/try", form, nil) }
	status, at, text := try(url.Values{"arg.id": {"1"}, "arg.note": {hostile}})
	if status != http.StatusOK || !strings.HasPrefix(at, "/executions/ex_") ||
		!strings.Contains(text, `class="state done"`) {
		t.Fatalf("a tried tool leads to %d %s: %s", status, at, text)
	}
	checkPage(t, ann, at)
	if text := checkPage(t, ann, at+"/calls/1"); !strings.Contains(text, "alert(1)") {
		t.Errorf("the call has no result: %s", text)
	}
	_, at, text = try(url.Values{"arguments": {`{"__proto__": {"id": 2}, "id": 2}`}})
	if !strings.Contains(text, "state failed") {
		t.Errorf("a failing call leads to %s: %s", at, text)
	}
	checkPage(t, ann, at)
	for _, form := range []url.Values{{"arg.id": {"1}"}}, {"arguments": {"[1]"}}} {
		if status, _, text := try(form); status != http.StatusBadRequest {
			t.Errorf("%v has status %d, want 400: %s", form, status, text)
		}
	}
	status, at, text = ann.do(t, "POST", "/playground", url.Values{"code": {"// " + hostile + "\r\nreturn 6 * 7"}}, nil)
	if status != http.StatusOK || !strings.Contains(text, ">42<") {
		t.Errorf("the program's page is %d %s: %s", status, at, text)
	}
	checkPage(t, ann, at)
	again := checkPage(t, ann, "/playground?execution="+strings.TrimPrefix(at, "/executions/"))
	if !strings.Contains(again, "6 * 7") {
		t.Errorf("the playground does not have the program: %s", again)
	}
}

// TestConsoleViewer tries everything that a viewer may not do, on each form of the console.
func TestConsoleViewer(t *testing.T) {
	d := runShop(t)
	eve := signedIn(t, d, "eve", "viewer")
	forms := map[string]url.Values{
		"/tools/stock.x/accept": {"claim": {"x"}}, "/tools/stock.shop.find/try": {"arg.id": {"1"}},
		"/playground": {"code": {"1"}}, "/executions/ex_1/stop": {},
		"/approvals": {"decision": {"approve"}, "request": {"apr_1 x"}},
	}
	for path, form := range forms {
		if status, _, text := eve.do(t, "POST", path, form, nil); status != http.StatusForbidden {
			t.Errorf("a viewer's %s has status %d, want 403: %s", path, status, text)
		}
		if status, at, _ := newBrowser(t, d).do(t, "POST", path, form, nil); !strings.HasPrefix(at, "/sign-in") {
			t.Errorf("without sign-in, %s leads to %d %s", path, status, at)
		}
		header := map[string]string{"Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"}
		if status, _, _ := eve.do(t, "POST", path, form, header); status != http.StatusForbidden {
			t.Errorf("%s from another site has status %d, want 403", path, status)
		}
	}
	if text := checkPage(t, eve, "/"); strings.Contains(text, `href="/playground"`) {
		t.Errorf("a viewer is offered the playground: %s", text)
	}
}
