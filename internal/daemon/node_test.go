package daemon_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// newNodeRig returns a running rig, or skips the test if programs on Node.js can't run here.
func newNodeRig(t *testing.T, policies string) *tierRig {
	t.Helper()
	r := newProcessRig(t, policies)
	for _, c := range r.d.Sandboxes(t.Context()) {
		if c.Driver == "process" && !strings.Contains(c.Engine, "Node.js") {
			t.Skipf("Node.js can't run here: %s", c.Unavailable["js"])
		}
	}
	return r
}

// runNode runs a program in TypeScript as the command line does.
func (r *tierRig) runNode(req api.RunRequest) *api.Execution {
	r.t.Helper()
	req.Language = "typescript"
	x, err := r.d.Client().Run(r.t.Context(), req)
	if err != nil {
		r.t.Fatalf("Run: %v", err)
	}
	return x
}

// TestNode runs programs on Node.js: with tools, files, errors and their calls on record.
func TestNode(t *testing.T) {
	t.Parallel()
	r := newNodeRig(t, inProcesses)
	for _, c := range []struct{ code, want string }{
		{`process.pid`, `1`},
		{`await box.put()`, `"done"`},
		{`const all: string[] = await Promise.all(Array.from({ length: 20 }, () => tools.box.put()));
			all.every((x) => x === "done")`, `true`},
		{`import { execSync } from "node:child_process"; execSync("echo $((6 * 7))").toString()`, `"42\n"`},
		{`import fs from "fs"; fs.writeFileSync("data.csv", "a,b"); fs.readFileSync("./workspace/data.csv", "utf8")`,
			`"a,b"`},
		{`const os = require("os"); os.hostname()`, `"sandbox"`},
		{`import { put } from "./tools/box"; await put()`, `"done"`},
		{`interface P { n: number } const p: P = { n: 1 }; p.n satisfies number`, `1`},
		{`(await search("put something"))[0].path`, `"box.put"`},
		{`console.log("a"); text("b")`, `"b"`},
	} {
		x := r.runNode(api.RunRequest{Code: c.code})
		if x.Error != nil || string(x.Value) != c.want || x.Tier != "process" {
			t.Errorf("%s: value %s at tier %s, error %+v, want %s", c.code, x.Value, x.Tier, x.Error, c.want)
		}
	}
	x := r.runNode(api.RunRequest{Code: "const a = 1;\nawait box.nope()"})
	if x.Error == nil || !strings.Contains(x.Error.Message, "nope") {
		t.Errorf("an unknown tool: %+v, want an error that names it", x.Error)
	}
	x = r.runNode(api.RunRequest{Code: "await box.put();\nconst s = 'é€';  const n: any = null; n.x"})
	if x.Error == nil || x.Error.Line != 2 || x.Error.Column != 41 || len(x.Calls) != 1 {
		t.Errorf("an exception: %+v, calls %v; want it in line 2, column 41", x.Error, x.Calls)
	}
	again := r.runNode(api.RunRequest{Code: "await box.put()", After: x.ID})
	if string(again.Value) != `"done"` || len(again.Calls) != 1 || again.Calls[0].From != x.ID {
		t.Errorf("after it: %+v, want the call answered from the journal", again)
	}
}

// TestNodeSession runs programs of one session: they share an interpreter.
func TestNodeSession(t *testing.T) {
	t.Parallel()
	r := newNodeRig(t, inProcesses)
	for _, c := range []struct{ code, want string }{
		{`let n = 1; const list = [1, 2]; function double(x: number) { return 2 * x }
			class A { b = 5 } n`, `1`},
		{`n += 1; list.push(3); globalThis.count = 1; [double(n), list, new A().b]`, `[4,[1,2,3],5]`},
		{`const n = 10; let ticks = 0; setInterval(() => { ticks++ }, 1); import path from "path"; n`, `10`},
		{`const before = ticks; await sleep(30);
			[ticks === before, path.join("a", "b"), n, count]`, `[true,"a/b",10,1]`},
		{`import { writeFileSync } from "fs"; writeFileSync("x", "1"); await box.put()`, `"done"`},
		{`require("fs").readFileSync("x", "utf8")`, `"1"`},
	} {
		x := r.runNode(api.RunRequest{Code: c.code, Session: "work"})
		if x.Error != nil || string(x.Value) != c.want || x.Tier != "process" {
			t.Errorf("%s: value %s at tier %s, error %+v, want %s", c.code, x.Value, x.Tier, x.Error, c.want)
		}
	}
	x := r.runNode(api.RunRequest{Code: "n;\nlist.nope.x", Session: "work"})
	if x.Error == nil || x.Error.Line != 2 {
		t.Errorf("an exception in a session: %+v, want it in line 2", x.Error)
	}
	if x := r.runNode(api.RunRequest{Code: "n + 1", Session: "work"}); string(x.Value) != "11" {
		t.Errorf("after a failed program: %s, %+v, want 11", x.Value, x.Error)
	}
}

// TestNodeForImports checks that a program is moved to Node.js for its imports, and only for these.
func TestNodeForImports(t *testing.T) {
	t.Parallel()
	r := newNodeRig(t, anyTier)
	for _, c := range []struct{ code, tier, hint string }{
		{`import { readdir } from "node:fs/promises"; await readdir(".")`, "wasm", ""},
		{`import { execSync } from "node:child_process"; execSync("echo hi").toString()`, "process", ""},
		{`import { createHash } from "crypto"; const { gzipSync } = await import("zlib"); gzipSync("a").length`,
			"process", ""},
		{`const fs = require("fs"); fs.readdirSync("/workspace")`, "process", ""},
		{`import { put } from "./tools/box"; await put()`, "wasm", ""},
		{`import x from "no-such-package/part"; x`, "wasm", "npm install -g no-such-package"},
		{`import cp from "child_process"; import x from "@no/such/part"; x`, "wasm", "no sandbox has @no/such"},
	} {
		x := r.runNode(api.RunRequest{Code: c.code})
		if x.Tier != c.tier || (x.Error == nil) != (c.hint == "") ||
			x.Error != nil && !strings.Contains(x.Error.Hint, c.hint) {
			t.Errorf("%s: ran at tier %s, want %s; %+v, want %q", c.code, x.Tier, c.tier, x.Error, c.hint)
		}
	}
	r.runNode(api.RunRequest{Code: "const n = 1", Session: "embedded"})
	x := r.runNode(api.RunRequest{Code: `import net from "net"; n`, Session: "embedded"})
	if x.Error != nil || x.Tier != "process" || string(x.Value) != "1" {
		t.Errorf("in a session of the embedded engine: %s at tier %s, %+v; want that it moves, with its variable",
			x.Value, x.Tier, x.Error)
	}
}

// TestNamedTier checks the argument tier: it is a lower bound, beside that of policy.
func TestNamedTier(t *testing.T) {
	t.Parallel()
	r := newNodeRig(t, anyTier)
	if x := r.runNode(api.RunRequest{Code: "process.pid", Tier: "process"}); x.Tier != "process" || x.Error != nil {
		t.Errorf("tier process: ran at %s, %+v", x.Tier, x.Error)
	}
	if x := r.runNode(api.RunRequest{Code: "1", Tier: "wasm"}); x.Tier != "wasm" || x.Error != nil {
		t.Errorf("tier wasm: ran at %s, %+v", x.Tier, x.Error)
	}
	if x := r.runNode(api.RunRequest{Code: "1", Tier: "microvm"}); x.Error == nil ||
		!strings.Contains(x.Error.Message, "of tier microvm") {
		t.Errorf("tier microvm: %+v, want an error", x.Error)
	}
	if _, err := r.d.Client().Run(t.Context(), api.RunRequest{Code: "1", Tier: "strong"}); err == nil ||
		!strings.Contains(err.Error(), "one of wasm, process") {
		t.Errorf("an unknown tier: %v, want an error that lists the tiers", err)
	}
	r.stop()
	r.start(inProcesses, nil)
	if x := r.runNode(api.RunRequest{Code: "process.pid", Tier: "wasm"}); x.Tier != "process" {
		t.Errorf("policy requires process: ran at %s, %+v", x.Tier, x.Error)
	}
}
