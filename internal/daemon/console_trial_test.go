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
)

// TestConsoleTrial tries changed programs against the recorded answers of an execution, on the page
// and with calls that are made.
func TestConsoleTrial(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nauth: { keys: true }\n"+
		"mcpServers: { peer: { url: '"+p.URL+"' } }\n")
	defer stop()
	key := makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: []string{"mcp", "api"}})
	x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{
		Code: "console.log('begins');\nreturn (await callTool('peer.echo', { n: 1 }));"})
	if err != nil || x.State != api.StateDone {
		t.Fatalf("Run: %v %v", x, err)
	}
	ann := newBrowser(t, d)
	ann.signIn(t, key, "/")
	page := checkPage(t, ann, "/playground?execution="+x.ID)
	if !strings.Contains(page, `value="try"`) {
		t.Errorf("the playground does not offer a trial: %s", page)
	}
	before := p.calls.Load()
	try := func(who *browser, reads, code string) (int, string) {
		t.Helper()
		status, _, text := who.do(t, "POST", "/playground", url.Values{"action": {"try"}, "execution": {x.ID},
			"language": {"typescript"}, "code": {code}, "reads": {reads}}, nil)
		if strings.Contains(text, "<script>") {
			t.Errorf("the page has text from outside as it is: %s", text)
		}
		return status, html.UnescapeString(text)
	}
	const again = "return (await callTool('peer.echo', { n: 1 })).n + 1;"
	for code, want := range map[string][]string{
		again: {`"state done"`, "as recorded in call 1", "Changed: value, console.", "+ 2", "- log: begins"},
		"const a = 1;\nawait callTool('peer.echo', { n: 2, note: `" + hostile + "` });": {`"state diverged"`,
			"Call 1, peer.echo, at ", `href="#line-2"`, "is not recorded", "not recorded</span>", "1. peer.echo"},
		"throw new Error(`" + hostile + "`)": {`"state failed"`, "Error: exception", "alert(1)"},
		"return (":                           {`"state failed"`},
	} {
		status, text := try(ann, "", code)
		for _, part := range want {
			if status != http.StatusOK || !strings.Contains(text, part) {
				t.Errorf("the trial of %q has status %d, and does not contain %q: %s", code, status, part, text)
			}
		}
	}
	if made := p.calls.Load() - before; made != 0 {
		t.Errorf("the trials made %d calls, want none", made)
	}
	other := signedIn(t, d, "bob", "user")
	if status, text := try(other, "", again); status != http.StatusNotFound {
		t.Errorf("a trial by another principal has status %d, want 404: %s", status, text)
	}
	if status, text := try(signedIn(t, d, "eve", "viewer"), "", again); status != http.StatusNotFound {
		t.Errorf("a trial by a viewer has status %d, want 404: %s", status, text)
	}
}

// TestTrialReads checks the calls that a trial makes: only reads, under policy, on the
// record, for the owner of the execution.
func TestTrialReads(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nauth: { keys: true }\n"+
		"mcpServers: { peer: { url: '"+p.URL+"' } }\n")
	defer stop()
	c := clientOf(d, makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: []string{"mcp", "api"}}))
	x, err := c.Run(t.Context(), api.RunRequest{Code: "return (await callTool('peer.echo', { n: 1 })).n;"})
	if err != nil || x.State != api.StateDone {
		t.Fatalf("Run: %v %v", x, err)
	}
	before, journal := p.calls.Load(), tripped[*api.ExecutionDetail](t)
	was := journal(c.Journal(t.Context(), x.ID))
	r, err := c.Replay(t.Context(), x.ID, api.ReplayRequest{Reads: true,
		Program: "const a = await callTool('peer.echo', { n: 1 });\n" +
			"return a.n + (await callTool('peer.echo', { n: 5 })).n;"})
	if err != nil || r.State != api.ReplayDone || string(r.Value) != "6" || len(r.Calls) != 2 ||
		r.Calls[0].Recorded != 1 || r.Calls[0].Live || !r.Calls[1].Live || r.Calls[1].Line != 2 {
		t.Errorf("a trial that reads: %+v, %v; want the value 6, the second call made at line 2", r, err)
	}
	if made := p.calls.Load() - before; made != 1 {
		t.Errorf("the trial made %d calls, want one", made)
	}
	r, err = c.Replay(t.Context(), x.ID, api.ReplayRequest{Reads: true,
		Program: "await callTool('peer.meet', { n: 1 });"})
	if err != nil || r.State != api.ReplayDiverged || !strings.Contains(r.Differs, "it may change something") {
		t.Errorf("a trial that writes: %+v, %v; want it stopped at the call", r, err)
	}
	if made := p.calls.Load() - before; made != 1 {
		t.Errorf("the trials made %d calls, want one", made)
	}
	if now := journal(c.Journal(t.Context(), x.ID)); now.Version != was.Version {
		t.Errorf("the trials changed the execution: %+v, was %+v", now, was)
	}
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call", Execution: x.ID})
	if err != nil || len(records) != 3 {
		t.Errorf("the record has %d calls of the execution (%v), want its own, the one made and the refused one",
			len(records), err)
	}
	if _, err := d.Client().Replay(t.Context(), x.ID, api.ReplayRequest{Reads: true, Program: "1"}); err == nil ||
		!strings.Contains(err.Error(), "another principal") {
		t.Errorf("a trial that reads, of another's execution: %v, want it refused", err)
	}
	if _, err := c.Replay(t.Context(), x.ID, api.ReplayRequest{Reads: true}); err == nil {
		t.Error("a replay that reads, without another program, is accepted")
	}
	if all := pending(t, d, 0); len(all) > 0 {
		t.Errorf("the trials ask for %+v", all)
	}
}

// TestTrialReadsUnderPolicy checks that a trial makes no call where policy asks a person about the
// program, or about the call.
func TestTrialReadsUnderPolicy(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	const files = "permit (principal, action in [Action::\"read\", Action::\"write\"], resource is File);\n"
	const reads = "permit (principal, action == Action::\"call\", resource);\n"
	for text, want := range map[string]string{
		`permit (principal, action == Action::"execute", resource);` +
			`@ask("approvers") permit (principal, action == Action::"call", resource) ` +
			`when { context.arguments.n == 5 };` +
			reads: "needs approval",
		`permit (principal, action == Action::"execute", resource);` +
			`forbid (principal, action == Action::"call", resource) ` +
			`when { context.arguments.n == 5 };` + reads: "is denied",
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "own.cedar"), []byte(files+text), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		d, stop := run(t, t.TempDir(), "policy: '"+folder+"'\nmcpServers: { peer: { url: '"+p.URL+"' } }\n")
		c := d.Client()
		x, err := c.Run(t.Context(), api.RunRequest{Code: "return (await callTool('peer.echo', { n: 1 })).n;"})
		if err != nil || x.State != api.StateDone {
			t.Fatalf("Run: %v %v", x, err)
		}
		before := p.calls.Load()
		r, err := c.Replay(t.Context(), x.ID, api.ReplayRequest{Reads: true,
			Program: "await callTool('peer.echo', { n: 5 });"})
		if err != nil || r.State != api.ReplayDiverged || !strings.Contains(r.Differs, want) {
			t.Errorf("a trial under %s: %+v, %v; want it to say %q", text, r, err, want)
		}
		if made := p.calls.Load() - before; made != 0 {
			t.Errorf("a trial under %s made %d calls, want none", text, made)
		}
		stop()
	}
}
