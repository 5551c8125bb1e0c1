package daemon_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
)

// newProcessRig returns a running rig, or skips the test if process sandboxes can't run here.
func newProcessRig(t *testing.T, policies string) *tierRig {
	t.Helper()
	r := newTierRig(t)
	r.hostPackages = true
	r.start(policies, nil)
	for _, c := range r.d.Sandboxes(t.Context()) {
		if c.Driver == "process" && c.Reason != "" {
			t.Skipf("process sandboxes can't run here: %s", c.Reason)
		}
	}
	return r
}

// runPython runs a program in Python as the command line does.
func (r *tierRig) runPython(req api.RunRequest) *api.Execution {
	r.t.Helper()
	req.Language = "python"
	x, err := r.d.Client().Run(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	return x
}

const inProcesses = `@tier("process") permit (principal, action == Action::"execute", resource);
permit (principal, action == Action::"call", resource); permit (principal, action, resource is File);`

// TestProcess runs programs in process sandboxes: with tools, files and the host's packages.
func TestProcess(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inProcesses)
	for _, c := range []struct{ code, want string }{
		{`import os
os.getpid()`, `1`},
		{`await box.put()`, `"done"`},
		{`import asyncio
await asyncio.gather(*[box.put() for _ in range(20)]) == ["done"] * 20`, `true`},
		{`import subprocess
subprocess.run(["sh", "-c", "echo $((6 * 7))"], capture_output=True, text=True).stdout`, `"42\n"`},
		{`open("data.csv", "w").write("a,b")
open("./workspace/data.csv").read()`, `"a,b"`},
	} {
		x := r.runPython(api.RunRequest{Code: c.code})
		if x.Error != nil || string(x.Value) != c.want || x.Tier != "process" {
			t.Errorf("%s: value %s at tier %s, error %+v, want %s", c.code, x.Value, x.Tier, x.Error, c.want)
		}
	}
	x := r.runPython(api.RunRequest{Code: `await box.nope()`})
	if x.Error == nil || !strings.Contains(x.Error.Message, "nope") {
		t.Errorf("an unknown tool: %+v, want an error that names it", x.Error)
	}
	done := r.runPython(api.RunRequest{Code: `1`})
	if _, err := r.d.Client().Replay(t.Context(), done.ID, api.ReplayRequest{}); err == nil ||
		!strings.Contains(err.Error(), "don't do the same each time") {
		t.Errorf("replay: %v, want an error that says that it can't be replayed", err)
	}
}

// runScript runs a shell script as the command line does.
func (r *tierRig) runScript(req api.RunRequest) *api.Execution {
	r.t.Helper()
	req.Language = "bash"
	x, err := r.d.Client().Run(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	return x
}

// TestShell runs shell scripts: with tools, files, errors and their calls on record.
func TestShell(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	for _, c := range []struct{ code, want string }{
		{"echo hi", `"hi"`},
		{"tool box.put --a 1", `"\"done\""`},
		{"tool --raw put", `"done"`},
		{"for i in 1 2 3 4 5; do tool --raw box.put > $i & done; wait; cat ?", `"done\ndone\ndone\ndone\ndone"`},
		{"mkdir a; echo x > a/b; ln -s a c", "null"},
		{"tool search put something | head -n 1", `"box.put"`},
		{"tool box.put --help | head -n 1", `"box.put"`},
		{"tool nope.nope || echo $?", `"1"`},
		{"echo x > f; tool emit f", "null"},
	} {
		x := r.runScript(api.RunRequest{Code: c.code})
		if x.Error != nil || string(x.Value) != c.want || x.Tier != "process" {
			t.Errorf("%s: value %s at tier %s, error %+v, console %v, want %s", c.code, x.Value, x.Tier, x.Error,
				x.Console, c.want)
		}
		for _, l := range x.Console {
			if l.Level == "log" {
				t.Errorf("%s: the console has %q, which is in the value", c.code, l.Text)
			}
		}
	}
	x := r.runScript(api.RunRequest{Code: "echo out\ntool box.put\nfalse\necho oops >&2\nexit 7"})
	if x.Error == nil || !strings.Contains(x.Error.Message, "exit status 7") ||
		!strings.Contains(x.Error.Message, "oops") || len(x.Calls) != 1 || len(x.Console) != 3 {
		t.Errorf("a script that fails: %+v, calls %v, console %v", x.Error, x.Calls, x.Console)
	}
	again := r.runScript(api.RunRequest{Code: "tool --raw box.put", After: x.ID})
	if string(again.Value) != `"done"` || len(again.Calls) != 1 || again.Calls[0].From != x.ID {
		t.Errorf("after it: %+v, want the call answered from the journal", again)
	}
}

// TestShellPolicy checks that calls of scripts are decided by policy.
func TestShellPolicy(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier+`forbid (principal, action == Action::"call", resource == Tool::"box.put");`)
	x := r.runScript(api.RunRequest{Code: "tool box.put"})
	if x.Error == nil || len(x.Calls) != 1 || !strings.HasPrefix(x.Calls[0].Error, "not made: ") {
		t.Errorf("a forbidden tool: %+v, calls %+v, want the call denied", x.Error, x.Calls)
	}
}

// TestProcessForImports checks that a program is moved to a process sandbox for its imports, and
// only for these.
func TestProcessForImports(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	for _, c := range []struct{ code, tier string }{
		{"import json\n1", "wasm"},
		{"import pwd\npwd.getpwuid(1000).pw_name", "process"}, // each Python for Linux has this module
		{"import no_such_module_anywhere", "wasm"},
		{"import box\nbox.put()", "wasm"},
	} {
		if x := r.runPython(api.RunRequest{Code: c.code}); x.Tier != c.tier {
			t.Errorf("%s: ran at tier %s, want %s; %+v", c.code, x.Tier, c.tier, x.Error)
		}
	}
}

// TestNoHostPackages checks that the configuration keeps programs out of process sandboxes.
func TestNoHostPackages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, _ := run(t, dir, "sandbox: { host_packages: false }")
	x, err := d.Client().Run(t.Context(), api.RunRequest{Code: "import pwd", Language: "python"})
	if err != nil || x.Tier != "wasm" || x.Error == nil {
		t.Errorf("it ran: %+v, %v; want it to fail in the embedded engine", x, err)
	}
	x, err = d.Client().Run(t.Context(), api.RunRequest{Code: "echo", Language: "bash"})
	if err == nil || !strings.Contains(err.Error(), "sandbox.host_packages is false") {
		t.Errorf("a shell script: %+v, %v; want an error that names the setting", x, err)
	}
}

// TestProcessAfterRestart checks that a program that was in a process sandbox when the gateway
// ended is interrupted, and that a program that continues it doesn't repeat its finished calls.
func TestProcessAfterRestart(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inProcesses)
	code := "await box.put()\nawait box.slow()"
	answer := make(chan *api.Execution, 1)
	go func() { answer <- r.runPython(api.RunRequest{Code: code}) }()
	<-r.reached
	r.stop()
	id := regexp.MustCompile(`ex_[a-z0-9]+`).FindString((<-answer).ID)
	close(r.release)
	r.start(inProcesses, nil)
	if _, err := model(t, r.d, func(string) {}).CallTool(t.Context(),
		&mcp.CallToolParams{Name: "resume", Arguments: map[string]any{"execution": id}}); err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	x, err := r.d.Client().Execution(t.Context(), id)
	if err != nil || x.State != "interrupted" || x.Error == nil ||
		!strings.Contains(x.Error.Message, "a sandbox of tier process, which ended with biplane") {
		t.Fatalf("after the restart: %+v, %v; want it interrupted", x, err)
	}
	again := r.runPython(api.RunRequest{Code: code, After: id})
	if again.Error != nil || string(again.Value) != `"done"` || len(again.Calls) != 2 || again.Calls[0].From == "" {
		t.Errorf("after it: %+v, want the first call answered from the journal", again)
	}
}

// TestGoProgram runs programs in Go: with the typed client, errors, files, policy and the record.
func TestGoProgram(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	for _, c := range r.d.Sandboxes(t.Context()) {
		if why := c.Unavailable["go"]; c.Driver == "process" && why != "" {
			t.Skip(why)
		}
	}
	run := func(code, after string) *api.Execution {
		t.Helper()
		x, err := r.d.Client().Run(t.Context(), api.RunRequest{Code: code, Language: "go", Session: "go", After: after})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		return x
	}
	const head = "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"tools\"\n\t\"tools/box\"\n)\n\n" +
		"var _, _ = os.Args, tools.Search\n\nfunc main() {\n"
	x := run(head+"\tv, err := box.Put(nil)\n\tfmt.Println(v, err)\n"+
		"\tos.WriteFile(\"a.txt\", []byte(\"x\"), 0o644)\n}\n", "")
	if x.Error != nil || string(x.Value) != `"done <nil>"` || len(x.Calls) != 1 || x.Tier != "process" {
		t.Errorf("a call: value %s, %+v, calls %+v", x.Value, x.Error, x.Calls)
	}
	x = run(head+"\tbox.Put(nil)\n\tb, _ := os.ReadFile(\"a.txt\")\n\tfmt.Println(string(b))\n\tfmt.Putln()\n}\n", "")
	if x.Error == nil || x.Error.Line != 16 || !strings.Contains(x.Error.Message, "undefined: fmt.Putln") ||
		len(x.Calls) != 0 {
		t.Errorf("a program that doesn't compile: %+v, calls %v, want the error at line 16", x.Error, x.Calls)
	}
	x = run(head+"\tbox.Put(nil)\n\tb, _ := os.ReadFile(\"a.txt\")\n\tfmt.Println(string(b))\n\tpanic(\"oh\")\n}\n", "")
	if x.Error == nil || x.Error.Line != 16 || !strings.Contains(x.Error.Message, "panic: oh") || len(x.Calls) != 1 {
		t.Errorf("a program that panics: %+v, calls %v, want the error at line 16", x.Error, x.Calls)
	}
	again := run(head+"\tbox.Put(nil)\n\tfmt.Println(1)\n}\n", x.ID)
	if string(again.Value) != `"1"` || len(again.Calls) != 1 || again.Calls[0].From != x.ID {
		t.Errorf("after it: %+v, want the call answered from the journal", again)
	}
}
