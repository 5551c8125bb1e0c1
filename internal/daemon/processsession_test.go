package daemon_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A line is a program of a session, and what it must answer.
type line struct {
	code, want string // want is a part of the value, or a part of the error if it begins with !
	text       string // a part of the answer's line about the session
}

// checkLines runs programs of one session, as an agent does.
func (r *tierRig) checkLines(language, session string, lines ...line) {
	r.t.Helper()
	agent := model(r.t, r.d, func(string) {})
	for _, l := range lines {
		res, err := agent.CallTool(r.t.Context(), &mcp.CallToolParams{Name: "execute",
			Arguments: map[string]any{"code": l.code, "language": language, "session": session}})
		if err != nil {
			r.t.Fatalf("CallTool: %v", err)
		}
		var parts []string
		for _, c := range res.Content {
			if t, ok := c.(*mcp.TextContent); ok {
				parts = append(parts, t.Text)
			}
		}
		shown := strings.Join(parts, "\n")
		want, fails := strings.CutPrefix(l.want, "!")
		if res.IsError != fails || !strings.Contains(shown, want) || !strings.Contains(shown, l.text) {
			r.t.Errorf("%s: failed: %t, the answer is\n%s\nwant %q and %q in it, failed: %t", l.code, res.IsError,
				shown, want, l.text, fails)
		}
	}
}

// TestProcessSession runs programs of sessions in process sandboxes.
func TestProcessSession(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	r.checkLines("python", "py",
		line{"import pwd, threading\nx = [1]\nopen('a.txt', 'w').write('1')\nlen(x)", "1", "(new)"},
		line{"x.append(2)\nthreading.Lock\nx", "[1,2]", "woken from its frozen sandbox in"},
		line{"x.append(3)\nopen('b.txt', 'w').write('2')\nopen('a.txt', 'w').write('changed')\n1 / 0",
			"!division by zero",
			"the files of session py are as they were before this program; its variables may have changed"},
		line{"import os\n[x, open('a.txt').read(), sorted(os.listdir('/workspace'))]",
			`[[1,2,3],"1",["a.txt","skills","workspace"]]`, "woken"},
		line{"await box.put()", `"done"`, "woken"},
		line{"import os\nos._exit(3)", "!exit code 3", "its variables are gone"},
		line{"open('a.txt').read()", `"1"`, "are gone, since the program before was stopped; its files are kept"},
		line{"x", "!not defined", ""},
	)
}

// TestShellSession runs scripts of sessions.
func TestShellSession(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	r.checkLines("bash", "sh",
		line{"x=1; declare -A m=([a]=b); f() { echo \"f $1 $x\"; }; mkdir d; cd d; export E=e; set -eu", "", "(new)"},
		line{"pwd; f 2; echo ${m[a]} $(sh -c 'echo $E')", `/workspace/d\nf 2 1\nb e`,
			"woken from its frozen sandbox in"},
		line{"x=2; echo hi >> ../file; exit 3", "!exit status 3", "session sh is as it was before this program"},
		line{"f 3; ls ..", `f 3 1\nd`, "woken"},
		line{"x='a\n\"b'; shopt -s extglob; g() { [[ $1 == @(a|b) ]]; }; exit 0", "", "woken"},
		line{"g a && echo \"$x\"", `a\n\"b`, "woken"},
		line{"sleep 1000 & echo $! > pid", "background processes of this session are kept (1)", "woken"},
		line{"kill -0 $(cat pid) && kill $(cat pid) && echo gone", "gone", "woken"},
		line{"trap : EXIT; x=3", "it replaced its shell (exec), or set another trap for EXIT", "woken"},
		line{"echo \"$x\" | head -n 1; tool --raw box.put", `a\ndone`, "woken"},
		line{"for i in 1 2 3; do sleep 0.1; echo later $i; done & echo now", "now", "woken"},
		line{"sleep 2; echo end", "later 3", "woken"},
	)
}

// TestFrozenSandboxesAreBounded checks that the oldest sandbox of a principal with too many is
// ended, and that its session says why.
func TestFrozenSandboxesAreBounded(t *testing.T) {
	t.Parallel()
	newProcessRig(t, anyTier) // or skips the test
	d, _ := run(t, t.TempDir(), "sessions: { frozen_each: 2 }")
	note := func(session string) string {
		x, err := d.Client().Run(t.Context(), api.RunRequest{Code: "import pwd\nx = 1", Language: "python",
			Session: session})
		if err != nil || x.Error != nil {
			t.Fatalf("Run: %+v, %v", x, err)
		}
		return x.SessionNote
	}
	for _, session := range []string{"a", "b", "b", "c", "b", "c"} {
		if got := note(session); got != "" {
			t.Errorf("session %s: %s, want no note", session, got)
		}
	}
	if got := note("a"); !strings.Contains(got, "at most 2 idle sandboxes each") {
		t.Errorf("session a: %q, want the reason why its variables are gone", got)
	}
}

// TestFrozenSandboxesEnd checks that sandboxes of idle sessions end when there are too many, when
// they use too much memory, and when they are idle for long. Their sessions say why.
func TestFrozenSandboxesEnd(t *testing.T) {
	t.Parallel()
	newProcessRig(t, anyTier) // or skips the test
	for limits, want := range map[string]string{
		"frozen: 1":                  "other sessions needed its place or its memory (at most 1 idle sandbox,",
		"frozen_memory: 100MiB":      "its memory (at most 16 idle sandboxes, 104.9 MB)",
		"frozen_idle: 1s, frozen: 9": "it was not used for 1s",
	} {
		t.Run(limits, func(t *testing.T) {
			d, _ := run(t, t.TempDir(), "sessions: { "+limits+" }")
			note := func(session string) string {
				x, err := d.Client().Run(t.Context(), api.RunRequest{Language: "python", Session: session,
					Code: "import pwd\nx = b'x' * (60 << 20)\nopen('a.txt', 'a').write('a')\n" +
						"len(open('a.txt').read())"})
				if err != nil || x.Error != nil {
					t.Fatalf("Run: %+v, %v", x, err)
				}
				return x.SessionNote + " " + string(x.Value)
			}
			note("a")
			if strings.Contains(limits, "idle") {
				awaitSuspended(t, d, "a")
			} else {
				note("b")
			}
			if got := note("a"); !strings.Contains(got, want) || !strings.HasSuffix(got, " 2") {
				t.Errorf("session a: %q, want the reason %q, and its file", got, want)
			}
		})
	}
}

// awaitSuspended waits until a session is only on disk.
func awaitSuspended(t *testing.T, d *daemon.Daemon, name string) {
	t.Helper()
	for range time.Tick(20 * time.Millisecond) {
		s, err := d.Client().Sessions().Get(t.Context(), name)
		if err != nil {
			t.Fatalf("Session: %v", err)
		}
		if s.State == "suspended" {
			return
		}
	}
}

func (r *tierRig) forkSession(from, to string) error {
	_, err := r.d.Client().Sessions().Fork(r.t.Context(), from, to)
	return err
}

// TestProcessSessionAfterRestart checks what a session keeps when the gateway was restarted, and
// what can't be done with it.
func TestProcessSessionAfterRestart(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inProcesses)
	r.checkLines("python", "s", line{"x = 5\nopen('f', 'w').write('kept')", "4", "(new)"})
	for verb, err := range map[string]error{
		"copied":   r.forkSession("s", "t"),
		"exported": r.d.Client().Sessions().Export(t.Context(), "s", "secret", io.Discard),
	} {
		if err == nil || !strings.Contains(err.Error(), "can't be "+verb+": its programs run in a process sandbox") {
			t.Errorf("%s: %v, want it refused with the reason", verb, err)
		}
	}
	if s, err := r.d.Client().Sessions().Get(t.Context(), "s"); err != nil || s.State != "frozen" {
		t.Errorf("the session: %+v, %v, want it frozen", s, err)
	}
	r.stop()
	r.start(inProcesses, nil)
	r.checkLines("python", "s", line{"open('f').read()", "kept",
		"in python are gone, since biplane was restarted; its files are kept"},
		line{"'x' in globals()", "false", "woken"})
}

// TestSessionMoves checks that a session which began in the embedded engine moves to a process
// sandbox with its files and variables, for a program that can only run there.
func TestSessionMoves(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	r.checkLines("python", "py",
		line{"import json, datetime as dt\nwhen = dt.datetime(2026, 1, 2)\nrows = [{'a': 1}, {'b': {2, 3}}]\n" +
			"def total(n):\n    return len(rows) + n\nclass C: pass\nc = C()\nf = open('a.txt', 'w')\n" +
			"f.write('kept')\nf.close()\nawait box.put()", `"done"`, "(new)"},
		line{"import pwd\nrows = 0\n1 / 0", "!division by zero", "session py is as it was before this program"},
		line{"rows[0]['a']", "1", "session py"}, // in the embedded engine
		line{"import pwd\n[pwd.getpwuid(1000).pw_name, total(1), when.year, json.dumps(rows[0]), " +
			"open('a.txt').read(), open('new.txt', 'w').write('n')]",
			`["agent",3,2026,"{\"a\": 1}","kept",1]`,
			"its files and the variables dt, json, rows, total, when moved; gone are C (a class), c ("},
		line{"rows.append(1)\nlen(rows)", "3", "woken from its frozen sandbox"},
		line{"import os\nos._exit(1)", "!", ""},
		line{"open('new.txt').read()", `"n"`, "its files are kept"}, // those of the host
	)
	r.checkLines("typescript", "ts",
		line{"const m = new Map([['a', 1n]]); let n = 1; function f(x: number) { return x + n }\n" +
			"const g = () => f(1)\nclass A {} const a = new A(); const d = new Date(5)", "", "(new)"},
		line{"const os = require('os'); require('fs').writeFileSync('n.txt', 'n')\n" +
			"return [m.get('a'), f(2), g(), d.getTime(), typeof os.cpus]",
			`[1,3,2,5,"function"]`, "the variables A, d, f, g, m, n moved; gone are a (an object of class A)"},
	)
	r.checkLines("bash", "ts", line{"cat n.txt", "n", ""}) // in another sandbox, so from the host's files
	r.checkLines("python", "both", line{"x = 1", "", "(new)"})
	r.checkLines("bash", "both", line{"echo hi > b.txt", "", "It moved to another kind of sandbox"})
	r.checkLines("python", "both", line{"[x, open('b.txt').read()]", `[1,"hi\n"]`, "the variables x moved"})
}

// TestPolicyForbidsMoves checks that policy decides on the move of a session, and that it is on the
// record.
func TestPolicyForbidsMoves(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier+`@id("stay") @reason("sessions stay")
forbid (principal, action == Action::"execute", resource)
when { context.arguments has tier && context.arguments.session == "stays" };`)
	r.checkLines("python", "stays", line{"x = 1", "", "(new)"},
		line{"import pwd\nx", "!policy stay", ""}, line{"x", "1", ""})
	r.checkLines("python", "moves", line{"x = 1", "", "(new)"}, line{"import pwd\nx", "1", "the variables x moved"})
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "execution"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	got := map[string]string{}
	for _, rec := range records {
		if rec.Detail["action"] != "" {
			got[rec.Session] = rec.Detail["action"]
		}
	}
	if got["stays"] != "refuse" || got["moves"] != "move" {
		t.Errorf("the record of the moves: %v, want one refused and one made", got)
	}
}
