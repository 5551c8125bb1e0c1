package daemon_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
)

const (
	allowAll  = "permit (principal, action, resource);\n"
	denyTill  = "forbid (principal, action == Action::\"call\", resource == Tool::\"till.put\");\n"
	misspelt  = "permit (principal, action, resource) when { resource.readonly };\n"
	otherFile = "// nothing yet\n"
)

// formValue returns the value of a hidden field.
func formValue(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the form has no field %s: %s", name, page)
	}
	return html.UnescapeString(m[1])
}

// TestConsolePolicyEdit edits the policies on the page: it is shown mistakes and what recorded
// calls would be decided, and only then saves.
func TestConsolePolicyEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policies", "own.cedar")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	if err := os.WriteFile(file, []byte(allowAll), 0o640); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	d, stop := run(t, dir, "policy: '"+filepath.Dir(file)+"'\nauth: { keys: true }\nmcpServers: { till: { url: '"+
		newTill(t).URL+"' } }\n")
	defer stop()
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	agent := makeKey(t, d, api.KeyRequest{Name: "agent", Scopes: []string{"mcp", "api"}})
	call := api.RunRequest{Code: "return await callTool('till.put', {})"}
	if x, err := clientOf(d, agent).Run(t.Context(), call); err != nil || x.State != api.StateDone {
		t.Fatalf("the call before: %+v, %v, want it done", x, err)
	}
	boss := signedIn(t, d, "boss", "admin")
	page := checkPage(t, boss, "/policy/edit")
	send := func(b *browser, action, text, seen string) (int, string, string) {
		return b.do(t, "POST", "/policy/edit", url.Values{"digest": {formValue(t, page, "digest")},
			"file": {"own.cedar"}, "text": {strings.ReplaceAll(text, "\n", "\r\n")}, "days": {"7"},
			"action": {action}, "seen": {seen}}, nil)
	}
	if _, _, text := send(boss, "save", misspelt, ""); !strings.Contains(text, "did you mean") ||
		strings.Contains(text, `value="save"`) {
		t.Errorf("a mistake is not shown, or can be saved: %s", text)
	}
	if _, _, text := send(boss, "save", allowAll+denyTill, ""); !strings.Contains(text, "Nothing was saved") {
		t.Errorf("changes that were not replayed are saved: %s", text)
	}
	_, _, text := send(boss, "replay", allowAll+denyTill, "")
	if !strings.Contains(text, `<span class="effect deny">deny</span>`) || !strings.Contains(text, "key:agent") {
		t.Errorf("the replay does not show the denied call: %s", text)
	}
	seen := formValue(t, text, "seen")
	aud := signedIn(t, d, "aud", "auditor")
	if _, _, text := send(aud, "replay", allowAll+denyTill, ""); strings.Contains(text, `value="save"`) {
		t.Errorf("an auditor is offered to save: %s", text)
	}
	if _, _, text := send(aud, "save", allowAll+denyTill, seen); !strings.Contains(text, "role") {
		t.Errorf("an auditor's change is not refused: %s", text)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != allowAll {
		t.Errorf("before it was saved, the file is %q, %v", got, err)
	}
	if status, at, text := send(boss, "save", allowAll+denyTill, seen); status != http.StatusOK || at != "/policy" {
		t.Fatalf("save: %d %s %s", status, at, text)
	}
	got, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if err != nil || string(got) != allowAll+denyTill || info.Mode().Perm() != 0o640 {
		t.Errorf("the saved file is %q with mode %v, %v", got, info.Mode(), err)
	}
	if x, err := clientOf(d, agent).Run(t.Context(), call); err != nil || x.State != api.StateFailed {
		t.Errorf("the call after: %+v, %v, want it denied", x, err)
	}
	if _, _, text := send(boss, "save", allowAll+otherFile, seen); !strings.Contains(text, "have changed since") {
		t.Errorf("a change of policies that have changed is not refused: %s", text)
	}
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: string(audit.KindPolicy),
		Limit: 1})
	if err != nil || len(records) != 1 || records[0].Principal != "key:boss" ||
		records[0].Detail["file"] != "own.cedar" {
		t.Errorf("the record of the change: %+v, %v, want one by key:boss", records, err)
	}
}

// TestConsolePolicyHidden checks that a form does not change characters that can't be seen: a file
// with any is shown, and not saved.
func TestConsolePolicyHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policies", "own.cedar")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	const text = allowAll + "// \u26a0\ufe0f mind the till\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	d, stop := run(t, dir, "policy: '"+filepath.Dir(file)+"'\nauth: { keys: true }\n")
	defer stop()
	boss := signedIn(t, d, "boss", "admin")
	page := checkPage(t, boss, "/policy/edit")
	if !strings.Contains(page, "can&#39;t be seen") || !strings.Contains(page, `\ufe0f mind`) {
		t.Errorf("the page hides a character: %s", page)
	}
	shown := html.UnescapeString(regexp.MustCompile(`(?s)<textarea[^>]*>\n(.*)</textarea>`).FindStringSubmatch(page)[1])
	seen := ""
	for _, action := range []string{"replay", "save"} {
		_, _, page = boss.do(t, "POST", "/policy/edit", url.Values{"digest": {formValue(t, page, "digest")},
			"file": {"own.cedar"}, "text": {shown}, "days": {"7"}, "action": {action}, "seen": {seen}}, nil)
		if strings.Contains(page, `value="save"`) || !strings.Contains(page, "can&#39;t be seen") {
			t.Fatalf("%s: the file can be saved: %s", action, page)
		}
		seen = formValue(t, page, "seen")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("the file is %q, %v, want it unchanged", got, err)
	}
}

// TestPolicyEditAttacks sends edits that must change nothing.
func TestPolicyEditAttacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "policies")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	outside := filepath.Join(dir, "outside.cedar")
	for _, path := range []string{filepath.Join(folder, "own.cedar"), outside} {
		if err := os.WriteFile(path, []byte(allowAll), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	if err := os.Symlink("own.cedar", filepath.Join(folder, "link.cedar")); err != nil {
		t.Fatalf("os.Symlink: %v", err)
	}
	d, stop := run(t, dir, "auth: { keys: true }\npolicy: '"+folder+"'\n")
	defer stop()
	c := api.PolicyFolder{Client: d.Client()}
	was, err := c.ReadFiles(t.Context())
	if err != nil {
		t.Fatalf("PolicyFiles: %v", err)
	}
	for _, f := range []api.PolicyFile{
		{Name: "../outside.cedar", Text: otherFile}, {Name: outside, Text: otherFile}, {Name: "x.txt", Text: otherFile},
		{Name: "..cedar", Text: otherFile}, {Name: "link.cedar", Text: otherFile}, {Name: "no.cedar"},
		{Name: "a\x00.cedar", Text: otherFile}, {Name: "", Text: otherFile}, {Name: "own.cedar", Text: misspelt},
		{Name: "big.cedar", Text: strings.Repeat(" ", 300<<10)},
	} {
		if r, err := c.EditFile(t.Context(), api.PolicyEdit{Digest: was.Digest, File: f}); err == nil {
			t.Errorf("the edit of %q is accepted: %+v", f.Name, r)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != allowAll {
		t.Errorf("the file outside of the folder is %q, %v", got, err)
	}
	now, err := c.ReadFiles(t.Context())
	if err != nil || now.Digest != was.Digest {
		t.Errorf("the policies have changed: %+v, %v", now, err)
	}
	eve := api.PolicyFolder{Client: clientOf(d, makeKey(t, d,
		api.KeyRequest{Name: "eve", Scopes: []string{"api"}, Roles: []string{"auditor"}}))}
	if r, err := eve.EditFile(t.Context(), api.PolicyEdit{Digest: was.Digest,
		File: api.PolicyFile{Name: "own.cedar", Text: otherFile}}); err == nil {
		t.Errorf("an auditor's edit is accepted: %+v", r)
	}
}

// TestPolicyEditFixed checks that policies that are not files say how they can be edited.
func TestPolicyEditFixed(t *testing.T) {
	t.Parallel()
	d, stop := run(t, t.TempDir(), "auth: { keys: true }\npolicy: ask-for-writes\n")
	defer stop()
	c := api.PolicyFolder{Client: d.Client()}
	was, err := c.ReadFiles(t.Context())
	if err != nil || len(was.Files) != 1 || !strings.Contains(was.Fixed, "built in") {
		t.Fatalf("PolicyFiles: %+v, %v", was, err)
	}
	_, err = c.EditFile(t.Context(), api.PolicyEdit{Digest: was.Digest, File: was.Files[0]})
	if err == nil || !strings.Contains(err.Error(), "built in") {
		t.Errorf("an edit of a policy that is built in: %v, want an error that says so", err)
	}
	text := checkPage(t, signedIn(t, d, "boss", "admin"), "/policy/edit")
	if !strings.Contains(text, "built in") || strings.Contains(text, "New file") {
		t.Errorf("the page does not say why it can't be edited: %s", text)
	}
}
