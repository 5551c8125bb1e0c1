package daemon_test

import (
	"bytes"
	"html"
	"io"
	"mime/multipart"
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
	t.Parallel()
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
		"/tools/" + url.PathEscape(hostile): "", "/usage": "Nothing of it was used",
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
	_, _, again := ann.do(t, "GET", "/playground?execution="+strings.TrimPrefix(at, "/executions/"), nil, nil)
	again = html.UnescapeString(again)
	if !strings.Contains(again, ">\n// "+hostile+"\nreturn 6 * 7</textarea>") ||
		!strings.Contains(again, "<code>U+202E</code> right-to-left override") ||
		!strings.Contains(again, "line 1, column 55: <code>U+200B</code>") {
		t.Errorf("the playground does not have the unchanged program, with a list of hidden characters: %s", again)
	}
}

// TestConsoleViewer tries everything that a viewer may not do, on each form of the console.
func TestConsoleViewer(t *testing.T) {
	t.Parallel()
	d := runShop(t)
	eve := signedIn(t, d, "eve", "viewer")
	forms := map[string]url.Values{
		"/tools/stock.x/accept": {"claim": {"x"}}, "/tools/stock.shop.find/try": {"arg.id": {"1"}},
		"/playground": {"code": {"1"}}, "/executions/ex_1/stop": {}, "/audit/verify": {},
		"/sessions/work": {"action": {"end"}, "confirm": {"work"}},
		"/approvals":     {"decision": {"approve"}, "request": {"apr_1 x"}},
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

// TestConsoleSessions browses, downloads, forks and ends a session.
func TestConsoleSessions(t *testing.T) {
	t.Parallel()
	d := runShop(t)
	key := makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: []string{"mcp", "api"}})
	x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Session: "work", Language: "python",
		Code: "import os\nos.makedirs('data', exist_ok=True)\n" +
			"open('data/a.html', 'w').write('<script>1</script>')"})
	if err != nil || x.State != "done" {
		t.Fatalf("Run: %v %v", x, err)
	}
	b, other := newBrowser(t, d), signedIn(t, d, "bob", "user")
	b.signIn(t, key, "/")
	for path, want := range map[string]string{
		"/sessions": "work", "/sessions/work?dir=/workspace/data": "a.html", "/sessions/" + url.PathEscape(hostile): "",
		"/sessions/work?dir=" + url.QueryEscape("../../../etc"): "", "/sessions/..%2f..%2fkeys": "",
		"/sessions/work?dir=" + url.QueryEscape(hostile): "",
	} {
		if text := checkPage(t, b, path); !strings.Contains(text, want) {
			t.Errorf("%s does not contain %q: %s", path, want, text)
		}
	}
	resp, err := b.Get(b.base + "/sessions/work/file?path=/workspace/data/a.html")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("a file has status %d and header %v", resp.StatusCode, resp.Header)
	}
	for _, path := range []string{"../../../../etc/passwd", "/etc/passwd", "/workspace/../../etc/passwd"} {
		status, _, text := b.do(t, "GET", "/sessions/work/file?path="+url.QueryEscape(path), nil, nil)
		if status < 400 || strings.Contains(text, "root:") {
			t.Errorf("the file %s has status %d: %s", path, status, text)
		}
	}
	uploadFiles(t, b, other)
	if status, _, _ := other.do(t, "GET", "/sessions/work", nil, nil); status != http.StatusNotFound {
		t.Errorf("another's session has status %d, want 404", status)
	}
	change := func(who *browser, form url.Values) (int, string) {
		status, at, _ := who.do(t, "POST", "/sessions/work", form, nil)
		return status, at
	}
	for _, state := range []string{"suspended", "hot"} {
		action := map[string]string{"suspended": "suspend", "hot": "resume"}[state]
		status, at := change(b, url.Values{"action": {action}})
		if text := checkPage(t, b, "/sessions/work"); status != 200 || at != "/sessions/work" ||
			!strings.Contains(text, `class="state `+state) {
			t.Errorf("to %s the session leads to %d %s: %s", action, status, at, text)
		}
		if status, _ := change(other, url.Values{"action": {action}}); status != http.StatusNotFound {
			t.Errorf("to %s another's session has status %d, want 404", action, status)
		}
	}
	status, at := change(b, url.Values{"action": {"fork"}, "to": {"copy"}})
	if status != 200 || at != "/sessions/copy" {
		t.Errorf("a fork leads to %d %s", status, at)
	}
	if status, _ := change(b, url.Values{"action": {"end"}, "confirm": {"x"}}); status != http.StatusBadRequest {
		t.Errorf("ending a session without its name has status %d, want 400", status)
	}
	if status, _ := change(other, url.Values{"action": {"end"}, "confirm": {"work"}}); status != http.StatusNotFound {
		t.Errorf("ending another's session has status %d, want 404", status)
	}
	if status, at := change(b, url.Values{"action": {"end"}, "confirm": {"work"}}); status != 200 || at != "/sessions" {
		t.Errorf("ending a session leads to %d %s", status, at)
	}
}

// TestConsoleRecord reads the record, usage and policies as an auditor, and as others who may not.
func TestConsoleRecord(t *testing.T) {
	t.Parallel()
	d := runShop(t)
	key := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	runs, err := clientOf(d, key).Run(t.Context(),
		api.RunRequest{Code: "return await callTool('stock.shop.find', { id: 1 })"})
	if err != nil || runs.State != "done" {
		t.Fatalf("Run: %v %v", runs, err)
	}
	aud, eve := signedIn(t, d, "aud", "auditor"), signedIn(t, d, "eve", "viewer")
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call", Limit: 1})
	if err != nil || len(records) != 1 {
		t.Fatalf("AuditRecords: %v %v", records, err)
	}
	evil := url.QueryEscape(hostile)
	for path, want := range map[string]string{
		"/audit": records[0].ID, "/audit?kind=call&execution=" + runs.ID: runs.ID, "/audit/" + records[0].ID: "Leaves",
		"/audit?tool=" + evil + "&kind=call&since=2026-01-01": "No record", "/audit?since=x": "must be a date",
		"/audit/" + url.PathEscape(hostile): "", "/audit/..%2fcheckpoints": "",
		"/usage": "stock.shop.find", "/usage?by=principal&days=7": "key:agent", "/usage?by=" + evil: "can be grouped",
		"/usage?format=csv": "stock.shop.find,1,", "/policy": "Access", "/policy?tool=" + evil: "",
		"/policy?tool=stock.shop.find&program=true&arguments=" + url.QueryEscape(`{"id":1}`): "What would change it",
		"/policy?tool=stock.shop.find&arguments=" + evil:                                     "not valid JSON",
	} {
		if text := checkPage(t, aud, path); !strings.Contains(text, want) {
			t.Errorf("%s does not contain %q: %s", path, want, text)
		}
	}
	status, _, file := aud.do(t, "GET", "/audit/export", nil, nil)
	if status != 200 || !strings.Contains(file, "stock.shop.find") {
		t.Errorf("the export has status %d: %s", status, file)
	}
	status, _, text := aud.do(t, "POST", "/audit/verify", nil, nil)
	if status != 200 || !strings.Contains(text, "complete") {
		t.Errorf("verification: %d %s", status, text)
	}
	if _, _, file := aud.do(t, "GET", "/audit/export?format=ocsf", nil, nil); !strings.Contains(file, `"class_uid"`) {
		t.Errorf("the export as OCSF: %s", file)
	}
	checkProofs(t, aud, records[0].ID)
	for _, path := range []string{"/audit", "/audit/" + records[0].ID, "/audit/export", "/policy", "/policy/edit",
		"/audit/proof"} {
		if status, _, text := eve.do(t, "GET", path, nil, nil); status != http.StatusForbidden {
			t.Errorf("a viewer's %s has status %d, want 403: %s", path, status, text)
		}
	}
	text = checkPage(t, eve, "/usage")
	if strings.Contains(text, "stock.shop.find") || !strings.Contains(text, "Your usage") {
		t.Errorf("a viewer sees the usage of others: %s", text)
	}
}

// checkProofs proves a record on its page, downloads the proof, and checks it and a changed one.
func checkProofs(t *testing.T, aud *browser, record string) {
	t.Helper()
	path := "/audit/" + record + "/proof"
	_, _, page := aud.do(t, "POST", path, nil, nil)
	if !strings.Contains(page, `class="state done">proved`) || !strings.Contains(page, "stock.shop.find") {
		t.Fatalf("the record is not proved: %s", page)
	}
	_, _, file := aud.do(t, "POST", path, url.Values{"action": {"download"}}, nil)
	form := url.Values{"proof": {strings.ReplaceAll(file, "\n", "\r\n")}, "key": {formValue(t, page, "key")}}
	_, _, page = aud.do(t, "POST", "/audit/proof", form, nil)
	if !strings.Contains(page, `class="state done">proved`) {
		t.Errorf("the downloaded proof does not hold: %s in %s", page, file)
	}
	form.Set("proof", strings.Replace(file, "extra eyJ", "extra eyK", 1))
	if _, _, page := aud.do(t, "POST", "/audit/proof", form, nil); !strings.Contains(page, "not proved") {
		t.Errorf("a changed proof holds: %s", page)
	}
	form.Set("proof", hostile)
	if _, _, page := aud.do(t, "POST", "/audit/proof", form, nil); !strings.Contains(page, "not proved") ||
		strings.Contains(page, "<script>") {
		t.Errorf("a hostile proof: %s", page)
	}
}

// upload submits the form of a page with a file, and returns the page that follows.
func (b *browser) upload(t *testing.T, path, name, text string) (status int, page string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err != nil {
		t.Fatalf("CreateFormFile: %v", err)
	}
	_, _ = part.Write([]byte(text))
	form.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.base+path, &body)
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Origin", b.base)
	resp, err := b.Do(r)
	if err != nil {
		t.Fatalf("send the form: %v", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	return resp.StatusCode, string(answer)
}

// uploadFiles uploads files to the session work, with names that must not lead out of the folder.
func uploadFiles(t *testing.T, b, other *browser) {
	t.Helper()
	send := func(who *browser, name, text string) (int, string) {
		return who.upload(t, "/sessions/work/upload?dir=/workspace/data", name, text)
	}
	for _, name := range []string{"up.txt", "../../../up2.txt", `C:\\dir\\up3.txt`} {
		if status, page := send(b, name, hostile); status != http.StatusOK || !strings.Contains(page, "up") {
			t.Errorf("the upload of %s has status %d: %s", name, status, page)
		}
	}
	for _, name := range []string{"up.txt", "up2.txt", "up3.txt"} {
		path := url.QueryEscape("/workspace/data/" + name)
		if _, _, text := b.do(t, "GET", "/sessions/work/file?path="+path, nil, nil); text != hostile {
			t.Errorf("the uploaded file %s is %q", name, text)
		}
	}
	if status, page := send(b, "big", strings.Repeat("x", 20<<20)); status != http.StatusTooManyRequests ||
		!strings.Contains(page, "larger than") {
		t.Errorf("a file that is too large has status %d, want 429: %s", status, page)
	}
	if text := checkPage(t, b, "/sessions/work?dir=/workspace/data"); strings.Contains(text, ">big<") {
		t.Errorf("the file that is too large is there: %s", text)
	}
	if status, page := send(other, "up.txt", "changed"); status != http.StatusNotFound {
		t.Errorf("an upload to another's session has status %d, want 404: %s", status, page)
	}
}
