//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newShellDriver returns a driver, or skips the test if this host can't run shell scripts.
func newShellDriver(t *testing.T, cfg process.Config) *process.Driver {
	t.Helper()
	d := newDriver(t, cfg)
	if c, err := d.Probe(t.Context()); err != nil || c.Engines["bash"] == "" {
		t.Skipf("shell scripts can't run here: %v, %v", c.Unavailable["bash"], err)
	}
	return d
}

// echoCall answers a call with its path, arguments and flags.
func echoCall(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
	if c.Path == "test.fail" {
		return &sandbox.Answer{Error: &sandbox.GuestError{Message: "it failed", Kind: "denied"}}
	}
	raw, err := tool.Marshal(c)
	if err != nil {
		return &sandbox.Answer{Error: &sandbox.GuestError{Message: err.Error()}}
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // it was just marshaled
	delete(fields, "id")
	raw, _ = tool.Marshal(fields)
	return &sandbox.Answer{Value: raw}
}

func runScript(t *testing.T, d *process.Driver, spec sandbox.Spec, code string) *sandboxtest.Outcome {
	t.Helper()
	spec.Runtime = "bash"
	box, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	o := sandboxtest.Host{Call: echoCall}.Run(t.Context(), box, sandbox.Run{Code: code, Name: "program.sh"})
	if err := box.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	return o
}

// TestShellValues runs scripts that succeed.
func TestShellValues(t *testing.T) {
	d := newShellDriver(t, process.Config{})
	for _, c := range []struct{ code, want string }{
		{"echo hi", `"hi"`},
		{"pwd", `"/workspace"`},
		{`echo '{"a": [1, 2]}'`, `{"a":[1,2]}`},
		{`echo '{"a": [1, 2]} x'`, `"{\"a\": [1, 2]} x"`},
		{"true", ""},
		{"printf 'a\\n\\nb\\n\\n'", `"a\n\nb"`},
		{"head -c 70000 /dev/zero | tr '\\0' x", ""},
		{"tool test.echo --n 1 --flag --json '{\"a\": 2}'",
			`{"args":{"a":2},"flags":[{"name":"n","value":"1"},{"name":"flag"}],"path":"test.echo"}`},
		{"echo '{\"a\": 2}' | tool test.echo --json - | head -c 8", `"{\"args\":"`},
		{"tool test.fail 2>&1; echo $?", `"tool: test.fail: it failed\n1"`},
		{"for i in $(seq 16); do tool test.echo --i $i > $i & done; wait; cat ? ?? | wc -l", `"16"`},
		{"exec 3<&- 4<&-; tool test.echo --n 1 | wc -l", `"1"`},
		{"kill -9 1; kill -TERM 1; kill -9 -1; kill -SEGV 1; kill -STOP 1; echo alive", `"alive"`},
		{"for s in {1..31} {34..64}; do kill -$s 1; done; sleep 0.1; echo alive", `"alive"`},
		{"ls -l /proc/self/fd | wc -l", `"5"`}, // the total, the standard ones, and the folder
		{"cat /proc/1/environ /proc/1/mem /proc/1/maps 2>/dev/null | wc -c", `"0"`},
		{"tool test.echo --a $(head -c 3000000 /dev/zero | tr '\\0' x) 2>/dev/null || echo refused", `"refused"`},
		{"head -c 9000000 /dev/zero | tr '\\0' 1 | tool test.echo --json - 2>&1 | cut -c 1-32",
			`"tool: --json: read standard inpu"`},
	} {
		o := runScript(t, d, roomyShell, c.code)
		if !o.Done || string(o.Value) != c.want {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		}
	}
	checkNothingLeft(t)
}

var roomyShell = sandbox.Spec{Memory: 512 << 20, CPU: 20 * time.Second}

// TestShellConsole checks the console lines of a script.
func TestShellConsole(t *testing.T) {
	d := newShellDriver(t, process.Config{})
	o := runScript(t, d, roomyShell, "echo a; echo b >&2; printf c; sleep 1000 &")
	got := map[string][]string{}
	for _, l := range o.Console {
		got[l.Level] = append(got[l.Level], l.Text)
	}
	if fmt.Sprint(got["log"], got["error"]) != "[a c] [b]" || len(got[sandbox.NoteLevel]) != 1 ||
		!strings.Contains(got[sandbox.NoteLevel][0], "still running") {
		t.Errorf("the console: %v, want a and c, b, and a note about the process left behind", got)
	}
}

// TestShellEnds checks how scripts end that fail.
func TestShellEnds(t *testing.T) {
	d := newShellDriver(t, process.Config{Disk: 32 << 20, Processes: 64})
	for _, c := range []struct{ name, code, limit, err string }{
		{"exit status", "echo a >&2\nexit 3", "", "exit status 3; the last lines of standard error:\na"},
		{"killed", "kill -9 $$", "", "ended by signal 9 (SIGKILL"},
		{"killed child", "bash -c 'kill -TERM $$'", "",
			"exit status 143, as after a command that was ended by signal 15"},
		{"unknown command", "nonesuch", "", "nonesuch: command not found"},
		{"syntax", "if", "", "syntax error"},
		{"loop", "while :; do :; done", "cpu", ""},
		{"loops", "for i in 1 2 3; do (while :; do :; done) & done; wait", "cpu", ""},
		{"memory", "x=$(head -c 900000000 /dev/zero | tr '\\0' x)", "", "limit (memory)"},
		{"memory in files", "for i in 1 2 3 4 5 6 7 8; do head -c 10000000 /dev/zero > /dev/shm/$i || exit 9; done", "",
			"No space left"},
		{"disk", "head -c 40000000 /dev/zero > x", "", "exit status"},
		{"files", "for i in $(seq 40000); do : > x$i || exit 9; done", "", "No space left"},
		{"output", "yes", "output", ""},
		{"fork bomb", ":(){ :|:& };:\nsleep 1; exit 5", "", "exit status"},
		{"host's secrets", "cat /etc/shadow /root/.bashrc", "", "No such file"},
		{"agent's folder", "echo x > /biplane/agent || chmod 777 /biplane/agent /proc/1/exe", "", "exit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sandbox.Spec{Memory: 128 << 20, CPU: 500 * time.Millisecond, Output: 4 << 20}
			if c.limit != "cpu" {
				spec.CPU = 20 * time.Second
			}
			skipWithout(t, d, needed["shell "+c.name])
			o := runScript(t, d, spec, c.code)
			text := fmt.Sprint(o.Err)
			if o.Fail != nil {
				text += o.Fail.Message
			}
			if o.Limit() != c.limit || !strings.Contains(text, c.err) || o.Done {
				t.Errorf("%v, want limit %q, error %q", o, c.limit, c.err)
			}
			t.Logf("%.300v", o)
		})
	}
	checkNothingLeft(t)
}
