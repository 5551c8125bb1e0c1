// Package probe runs programs that try to escape from their sandbox, or to exceed their limits, in
// any kind of sandbox.
package probe

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A probe is a program that tries to escape from its sandbox or to exceed its limits, with the
// required result.
type probe struct {
	name string
	code string
	want string   // the program's value, as JSON; empty if it must fail
	fail []string // the accepted kinds of failure
}

// inEngine are the probes in Python for the embedded engine, where programs have no processes.
var inEngine = []probe{
	{"Python: no files, processes, network of the host", `import os, socket, subprocess
got = []
def attempt(name, f):
    try:
        f()
        got.append(name)
    except Exception:
        pass
for path in ("/etc/passwd", "../../../../etc/passwd", "/proc/self/environ"):
    attempt(path, lambda: open(path).read())
attempt("process", lambda: subprocess.run(["id"]))
attempt("system", lambda: os.system("id"))
attempt("fork", lambda: os.fork())
attempt("network", lambda: socket.create_connection(("127.0.0.1", 80), 1))
attempt("native code", lambda: __import__("ctypes").CDLL(None))
got`, `[]`, nil},
}

// Escapes is a program in Python that tries to escape from a sandbox in which it may start
// processes. Its value is the list of the attempts that succeeded.
//
//go:embed escapes.py
var Escapes string

// inProcess are the probes in Python for sandboxes that are processes.
var inProcess = []probe{{"Python: no way out by files, processes, the kernel or the network", Escapes, `[]`, nil}}

// NodeEscapes is such a program for Node.js.
//
//go:embed escapes.js
var NodeEscapes string

// onNode are the probes in TypeScript for sandboxes that are processes.
var onNode = []probe{{"Node.js: no way out by files, processes or the network", NodeEscapes, `[]`, nil}}

// inPython are the probes in Python for all sandboxes.
var inPython = []probe{
	{"runs Python", `import math
[math.isqrt(n) for n in (16, 25)]`, `[4,5]`, nil},
	{"Python: an endless loop ends", "while True: pass", "", []string{"limit", "timeout"}},
	{"Python: a memory bomb ends", "a = []\nwhile True: a.append(bytearray(1 << 20))", "",
		[]string{"limit", "exception"}},
	{"Python: endless recursion ends", "def f(n): return 1 + f(n + 1)\nf(0)", "", []string{"limit", "exception"}},
}

// inScriptEngine are the probes in TypeScript for the embedded engine.
var inScriptEngine = []probe{
	{"no process, no modules of the host",
		`["process", "require", "module", "Deno", "Bun", "std", "os", "XMLHttpRequest", "WebSocket", "WebAssembly", "Worker"].filter(n => {
		try { return typeof (0, eval)(n) !== "undefined" } catch { return false } })`, `[]`, nil},
	{"no way out by constructors", `["process", "require", "std", "os"].filter(n => {
		try { return (async () => {}).constructor("return typeof " + n)() === "x" || (() => {}).constructor("return typeof " + n)() !== "undefined" } catch { return false } })`, `[]`, nil},
	{"no import of the host's modules", `const got: string[] = [];
		for (const m of ["child_process", "node:child_process", "node:net", "std", "qjs:os", "qjs:std", "/etc/passwd", "file:///etc/passwd", "https://example.com/x.js"]) {
			try { await import(m); got.push(m) } catch {} }
		return got`, `[]`, nil},
	{"no file system", `import { readFile } from "node:fs/promises";
		const got: string[] = [];
		for (const f of ["/etc/passwd", "../../../../etc/passwd", "/proc/self/environ", "./tools/../../etc/passwd"]) { try { await readFile(f, "utf8"); got.push(f) } catch {} }
		return got`, `[]`, nil},
}

// inScript are the probes in TypeScript for all sandboxes. The last one checks that changes by the
// others don't affect the next program.
var inScript = []probe{
	{"runs TypeScript", `const n: number = 20; [n, n + 1].map((x: number) => x * 2)`, `[40,42]`, nil},
	{"an endless loop ends", `for (;;) {}`, "", []string{"limit", "timeout"}},
	{"an endless async loop ends", `for (;;) await null`, "", []string{"limit", "timeout"}},
	{"a memory bomb ends", `const a: unknown[] = []; for (;;) a.push(new Array(100000).fill(a.length))`, "",
		[]string{"limit", "exception"}},
	{"a string bomb ends", `let s = "x"; for (;;) s += s`, "", []string{"limit", "exception"}},
	{"endless recursion ends", `const f = (n: number): number => 1 + f(n + 1); f(0)`, "",
		[]string{"limit", "exception"}},
	{"a promise that never settles ends", `await new Promise(() => {})`, "", []string{"stalled", "timeout", "limit"}},
	{"no tool but those of the catalog", `await callTool("host.exec", { command: "id" })`, "",
		[]string{"not_found", "exception", "check", "denied"}},
	{"what one program breaks is whole for the next",
		`Object.prototype.polluted = 1; Array.prototype.map = null as any; globalThis.JSON = null as any; return 1`,
		`1`, nil},
	{"the next one is unharmed",
		`[({} as any).polluted === undefined, [1].map(x => x + 1)[0] === 2, JSON.stringify({ a: 1 })]`,
		`[true,true,"{\"a\":1}"]`, nil},
}

// A Result is the result of one probe.
type Result struct {
	Name   string
	OK     bool
	Detail string
}

// An Executor runs programs. It should have small limits.
type Executor interface {
	Execute() tool.Caller
	Execution(id string) (*execution.Execution, bool)
}

// Run runs the probes for a tier until ctx is done, as calls of the tool execute. The programs must
// have no other tools.
func Run(ctx context.Context, x Executor, tier tool.Tier, runtimes []string, execute *tool.Tool) (out []Result) {
	try := func(language string, ps []probe) {
		for _, p := range ps {
			if ctx.Err() != nil {
				return
			}
			ok, detail := p.run(ctx, x, execute, language)
			out = append(out, Result{p.name, ok, detail})
		}
	}
	if slices.Contains(runtimes, "js") {
		if tier >= tool.Process {
			try("typescript", onNode)
		} else {
			try("typescript", inScriptEngine)
		}
		try("typescript", inScript)
	}
	if slices.Contains(runtimes, "python") {
		if tier >= tool.Process {
			try("python", inProcess)
		} else {
			try("python", inEngine)
		}
		try("python", inPython)
	}
	return out
}

// run runs the probe, and reports whether its result is the required one. The second result
// describes it.
func (p probe) run(ctx context.Context, x Executor, t *tool.Tool, language string) (bool, string) {
	args, err := tool.Marshal(map[string]string{"code": p.code, "language": language})
	if err != nil {
		return false, err.Error()
	}
	start := time.Now()
	res, err := x.Execute().Call(ctx, &tool.Call{Path: t.Path(), Tool: t, Arguments: args})
	took := time.Since(start).Round(time.Millisecond)
	if err != nil {
		return false, err.Error()
	}
	var v struct {
		Meta struct {
			Execution struct {
				ID string `json:"id"`
			} `json:"biplane.dev/execution"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil {
		return false, err.Error()
	}
	e, ok := x.Execution(v.Meta.Execution.ID)
	switch {
	case !ok:
		return false, "the execution is not known"
	case p.want != "" && e.Error != nil:
		return false, "failed: " + text.FirstLine(e.Error.Message)
	case p.want != "":
		return string(e.Value) == p.want, fmt.Sprintf("%s in %s", e.Value, took)
	case e.Error == nil:
		return false, fmt.Sprintf("ended well, with %s", e.Value)
	}
	return slices.Contains(p.fail, e.Error.Kind),
		fmt.Sprintf("%s after %s: %s", e.Error.Kind, took, text.FirstLine(e.Error.Message))
}
