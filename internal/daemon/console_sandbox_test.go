package daemon_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// hostileFile is the name of a file that attacks the page.
const hostileFile = `"><script>alert(1)<` + "\u202e\u200b"

// newConsoleBox returns a daemon whose user ann is signed in and has a sandbox, and the paths of
// the sandbox's page.
func newConsoleBox(t *testing.T) (*tierRig, *browser, api.SandboxClient, string) {
	t.Helper()
	r, _ := newOwnRig(t, "", "auth: { keys: true }\n")
	key := makeKey(t, r.d, api.KeyRequest{Name: "ann", Scopes: []string{"mcp", "api"}})
	c := clientOf(r.d, key).OwnSandboxes()
	x, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "box"})
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	ann := newBrowser(t, r.d)
	ann.signIn(t, key, "/")
	return r, ann, c, "/sandboxes/" + x.ID
}

// TestConsoleSandbox shows a sandbox of one's own, browses its files, and changes its state.
func TestConsoleSandbox(t *testing.T) {
	t.Parallel()
	r, ann, c, page := newConsoleBox(t)
	stateOf := func() string {
		t.Helper()
		x, err := c.ShowSandbox(t.Context(), "box")
		if err != nil {
			t.Fatalf("ShowSandbox: %v", err)
		}
		return x.State
	}
	if text := checkPage(t, ann, "/sessions"); !strings.Contains(text, `href="`+page+`">box</a>`) {
		t.Errorf("the list has no link to the sandbox: %s", text)
	}
	if text := checkPage(t, ann, page); !strings.Contains(text, "<dt>Tier</dt><dd>process</dd>") ||
		!strings.Contains(text, "<dt>Idle</dt><dd>") ||
		!strings.Contains(text, `class="state stopped"`) || stateOf() != "stopped" {
		t.Errorf("the page has woken the sandbox, or does not show its state and tier: %s", text)
	}
	eve, other := signedIn(t, r.d, "eve", "viewer"), signedIn(t, r.d, "bob", "user")
	act := func(who *browser, form url.Values) int {
		t.Helper()
		status, _, _ := who.do(t, "POST", page, form, nil)
		return status
	}
	for _, step := range [][2]string{{"resume", "idle"}, {"suspend", "frozen"}, {"resume", "idle"}} {
		form := url.Values{"action": {step[0]}}
		if status := act(eve, form); status != http.StatusForbidden {
			t.Errorf("%s by a viewer has status %d, want 403", step[0], status)
		}
		if status := act(other, form); status != http.StatusNotFound {
			t.Errorf("%s by another has status %d, want 404", step[0], status)
		}
		if status := act(ann, form); status != http.StatusOK || stateOf() != step[1] {
			t.Errorf("%s has status %d, and the sandbox is %s, want %s", step[0], status, stateOf(), step[1])
		}
		if text := checkPage(t, ann, page); !strings.Contains(text, `class="state `+step[1]+`"`) {
			t.Errorf("the page does not show the state %s: %s", step[1], text)
		}
	}
	for _, form := range []url.Values{{"action": {"end"}}, {"action": {"end"}, "confirm": {"box"}}, {"action": {"x"}}} {
		if status := act(ann, form); status != http.StatusBadRequest {
			t.Errorf("the form %v has status %d, want 400", form, status)
		}
	}
	confirm := url.Values{"action": {"end"}, "confirm": {strings.TrimPrefix(page, "/sandboxes/")}}
	if status := act(other, confirm); status != http.StatusNotFound {
		t.Errorf("the end by another has status %d, want 404", status)
	}
	if status := act(ann, confirm); status != http.StatusOK {
		t.Errorf("the end has status %d", status)
	}
	if status, _, _ := ann.do(t, "GET", page, nil, nil); status != http.StatusNotFound {
		t.Errorf("the page of a sandbox that was ended has status %d, want 404", status)
	}
}

// TestConsoleSandboxFiles uploads files to a sandbox and downloads them, with names and paths that
// attack the page and the host.
func TestConsoleSandboxFiles(t *testing.T) {
	t.Parallel()
	r, ann, c, page := newConsoleBox(t)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	data := strings.Repeat("\x00\xff<b>\n", 400_000) // three parts
	write := func(who *browser, name, text string) int {
		t.Helper()
		status, _ := who.upload(t, page+"/upload?dir=/workspace/in", name, text)
		return status
	}
	for name, text := range map[string]string{"big": data, "empty": "", "../../up.txt": hostile, `C:\\dir\\up2`: "x",
		hostileFile: "<script>"} {
		if status := write(ann, name, text); status != http.StatusOK {
			t.Errorf("the upload of %q has status %d", name, status)
		}
	}
	v, err := c.UseSandbox(t.Context(), "box", "run", api.SandboxOperation{
		Command: "ls -A /workspace; echo; ls -A /workspace/in; ln -s " + secret + " in/link; ln -s /etc in/dir"})
	if want := "in\n\n" + hostileFile + "\nbig\nempty\nup.txt\nup2\n"; err != nil || v.Stdout != want {
		t.Errorf("the files are %q, %v, want %q", v.Stdout, err, want)
	}
	text := checkPage(t, ann, page+"?dir="+url.QueryEscape("/workspace/x/../in"))
	for _, want := range []string{"2.3 MiB", "link to /etc", "alert(1)",
		page + `/file?path=%2fworkspace%2fin%2fup.txt`} {
		if !strings.Contains(html.UnescapeString(text), want) {
			t.Errorf("the page does not contain %q: %s", want, text)
		}
	}
	for name, want := range map[string]string{"in/big": data, "in/empty": "", "in/up.txt": hostile,
		"../workspace/in/up2": "x", "in/" + hostileFile: "<script>"} {
		resp, err := ann.Get(ann.base + page + "/file?path=" + url.QueryEscape("/workspace/"+name))
		if err != nil {
			t.Fatalf("Get: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Errorf("the file %q ends early: %v", name, err)
		}
		got := string(body)
		if resp.StatusCode != http.StatusOK || got != want || resp.Header.Get("Content-Type") !=
			"application/octet-stream" || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%q has status %d, %d bytes, want %d, header %v", name, resp.StatusCode, len(got), len(want),
				resp.Header)
		}
	}
	for _, path := range []string{secret, "../../../.." + secret, "/workspace/in/link", "/etc/shadow", "/workspace/in",
		"/workspace/none", "", "\x00"} {
		status, _, text := ann.do(t, "GET", page+"/file?path="+url.QueryEscape(path), nil, nil)
		if status < 400 || strings.Contains(text, "of the host") || strings.Contains(text, "root:") {
			t.Errorf("the file %q has status %d: %s", path, status, text)
		}
	}
	for _, path := range []string{"?dir=" + url.QueryEscape(hostile), "/..%2f..%2fkeys", "?dir=%00",
		"?dir=/workspace/in/big"} {
		checkPage(t, ann, page+path)
	}
	if status := write(ann, "huge", strings.Repeat("x", 20<<20)); status != http.StatusTooManyRequests {
		t.Errorf("a file that is too large has status %d, want 429", status)
	}
	if text := checkPage(t, ann, page+"?dir=/workspace/in"); strings.Contains(text, ">huge<") {
		t.Errorf("the file that is too large is there: %s", text)
	}
	for _, who := range []struct {
		*browser
		want int
	}{
		{signedIn(t, r.d, "eve", "viewer"), http.StatusForbidden},
		{signedIn(t, r.d, "bob", "user"), http.StatusNotFound},
	} {
		if status := write(who.browser, "up.txt", "changed"); status != who.want {
			t.Errorf("an upload to another's sandbox has status %d, want %d", status, who.want)
		}
		for _, path := range []string{"", "?dir=/workspace", "/file?path=/workspace/in/up.txt"} {
			if status, _, _ := who.do(t, "GET", page+path, nil, nil); status != who.want {
				t.Errorf("%s of another's sandbox has status %d, want %d", path, status, who.want)
			}
		}
	}
}
