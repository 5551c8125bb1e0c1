//go:build linux

package process_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/probe"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newNodeDriver returns a driver, or skips the test if this host can't run programs on Node.js.
func newNodeDriver(t testing.TB, cfg process.Config) *process.Driver {
	t.Helper()
	d := newDriver(t, cfg)
	if c, err := d.Probe(t.Context()); err != nil || c.Engines["js"] == "" {
		if os.Getenv("BIPLANE_TEST_STRICT") == "1" {
			t.Fatalf("Node.js can't run here, which BIPLANE_TEST_STRICT forbids: %s, %v", c.Unavailable["js"], err)
		}
		t.Skipf("Node.js can't run here: %s, %v", c.Unavailable["js"], err)
	}
	return d
}

var roomyNode = sandbox.Spec{Runtime: "js", Memory: 256 << 20, CPU: 20 * time.Second}

// TestNodeValues runs programs that succeed.
func TestNodeValues(t *testing.T) {
	d := newNodeDriver(t, process.Config{})
	for _, c := range []struct{ code, want string }{
		{"() => 1 + 1", "2"},
		{"() => process.cwd()", `"/workspace"`},
		{"() => 12345678901234567890n", "12345678901234567890"},
		{"async () => (await test.echo({ n: 12345678901234567890n, s: 'é€😀' }))",
			`{"n":12345678901234567890,"s":"é€😀"}`},
		{"async () => (await callTool('test.echo', { n: 1 })).n + (await tools.test.echo({ n: 2 })).n", "3"},
		{"() => require('child_process').execSync('echo hi').toString()", `"hi\n"`},
		{"async () => (await __import('node:os')).platform()", `"linux"`},
		{"() => Buffer.from('hello')", `"aGVsbG8="`},
		{"() => [new Map([['a', 1]]), new Set([1]), new URL('http://a/b'), Promise.resolve(5)]",
			`[{"a":1},[1],"http://a/b",5]`},
		{"() => new Promise((ok) => setTimeout(ok, 20, 7))", "7"},
		{"() => typeof fetch + typeof WebSocket", `"functionundefined"`},
		{"async () => (await fetch('http://a/b')).url", `"http://a/b"`}, // the echo of the call
		{"() => require('fs').readdirSync('/')", ""},
		{"() => process.exit()", ""},
		{"() => new Promise((ok) => require('fs').readFile('/etc/hosts', 'utf8', (e, s) => ok(s.length > 5)))", "true"},
	} {
		o := sandboxtest.Exec(t.Context(), t, d, roomyNode, "("+c.code+")", sandboxtest.Host{
			Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
				return &sandbox.Answer{Value: c.Args}
			}})
		if !o.Done || c.want != "" && string(o.Value) != c.want {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		}
	}
	checkNothingLeft(t)
}

// TestNodeEnds checks how programs end that don't come to their own end.
func TestNodeEnds(t *testing.T) {
	d := newNodeDriver(t, process.Config{Disk: 32 << 20, Processes: 64})
	for _, c := range []struct{ name, code, limit, err string }{
		{"loop", "() => { for (;;); }", "cpu", ""},
		{"async loop", "async () => { for (;;) await 0; }", "cpu", ""},
		{"loop of turns", "() => new Promise(() => { const f = () => setImmediate(f); f(); })", "cpu", ""},
		{"loop in a child", "() => require('child_process').execSync('while :; do :; done')", "cpu", ""},
		{"heap", "() => { const a = []; for (;;) a.push({ a }); }", "memory", ""},
		{"buffers", "() => { const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1)); }", "memory", ""},
		{"string", "() => { let s = 'x'; for (;;) s += s; }", "", "Invalid string length"},
		{"recursion", "() => { const f = () => 1 + f(); return f(); }", "", "call stack size"},
		{"output", "() => { for (;;) console.log('x'.repeat(1000)); }", "output", ""},
		{"standard output", "() => { for (;;) process.stdout.write('x'.repeat(1000) + '\\n'); }", "output", ""},
		{"output of a child", "() => require('child_process').execSync('yes', { stdio: 'inherit' })", "output", ""},
		{"calls", "() => { for (;;) test.echo({ x: 'y'.repeat(1000) }); }", "output", ""},
		{"exit", "() => { process.exit(3); }", "", "exited with code 3"},
		{"abort", "() => { process.abort(); }", "", "the interpreter was ended by"},
		{"stalled", "() => new Promise(() => {})", "", "can never settle"},
		{"stalled after a timer", "() => new Promise(() => { setTimeout(() => {}, 10); })", "", "can never settle"},
		{"stalled beside an interval that is ignored",
			"() => new Promise(() => { setInterval(() => {}, 10).unref(); })", "", "can never settle"},
		{"thrown in a timer",
			"() => new Promise(() => { setTimeout(() => { throw new RangeError('late'); }, 5); })", "", "late"},
		{"rejected and not awaited",
			"() => { Promise.reject(new Error('lost')); return new Promise(() => {}); }", "", "lost"},
		{"error event", "() => new Promise(() => { require('net').connect(1, '127.0.0.1'); })", "", "connect EACCES"},
		{"disk", "() => require('fs').writeFileSync('x', Buffer.alloc(40 << 20))", "", "EFBIG"},
		{"files", "() => { for (let i = 0; i < 1e5; i++) require('fs').writeFileSync('x' + i, ''); }", "", "ENOSPC"},
		{"many files", "() => { for (let i = 0; i < 11e3; i++) require('fs').writeFileSync('x' + i, ''); }", "", ""},
		{"descriptors", "() => { for (const a = [];;) a.push(require('fs').openSync('/dev/null')); }", "", "EMFILE"},
		{"worker threads", "() => { for (let i = 0; i < 100; i++) new (require('worker_threads').Worker)" +
			"('for (;;);', { eval: true }); return new Promise(() => {}); }", "any", ""},
		{"blocked thread",
			"() => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50); return __dirname; }", "", ""},
		{"handlers removed", "() => { process.removeAllListeners(); setTimeout(() => { throw new Error('x'); }, 1); " +
			"return new Promise(() => {}); }", "", "exit code 1"},
		{"agent's exit", "() => { process.reallyExit(0); }", "", ""},
		{"closed connection", "async () => { require('fs').closeSync(3); await test.echo({}); }", "", "interpreter"},
		{"noise on the connection", "() => require('fs').writeSync(3, 'Xrubbish\\n')", "", "descriptor 3"},
		{"fork bomb",
			"() => { for (;;) require('child_process').spawn('sleep', ['100']).on('error', () => {}); }", "any", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sandbox.Spec{Runtime: "js", Memory: 160 << 20, CPU: 500 * time.Millisecond, Output: 4 << 20}
			if c.limit == "" || c.limit == "memory" || c.limit == "output" {
				spec.CPU = 20 * time.Second
			}
			skipWithout(t, d, needed[c.name])
			o := sandboxtest.Exec(t.Context(), t, d, spec, "("+c.code+")", sandboxtest.Host{})
			text := fmt.Sprint(o.Err)
			if o.Fail != nil {
				text += o.Fail.Message
			}
			if c.limit == "any" && !o.Done && text != "" { // by a limit, or by an error that a limit causes
				return
			}
			if o.Limit() != c.limit || !strings.Contains(text, c.err) {
				t.Errorf("%v, want limit %q, error %q", o, c.limit, c.err)
			}
			t.Logf("%.300v", o)
		})
	}
	checkNothingLeft(t)
}

// TestNodeConsole checks what programs and their processes write.
func TestNodeConsole(t *testing.T) {
	d := newNodeDriver(t, process.Config{})
	o := sandboxtest.Exec(t.Context(), t, d, roomyNode, `(() => {
		console.error("a", { b: 1 });
		require("child_process").execFileSync("sh", ["-c", "echo from a child; printf unfinished >&2"],
			{ stdio: "inherit" });
		require("fs").writeSync(1, "x".repeat(200_000));
		return 1;
	})`, sandboxtest.Host{})
	var got strings.Builder
	for _, l := range o.Console {
		fmt.Fprintf(&got, "%s: %s\n", l.Level, l.Text)
	}
	text := got.String()
	if !o.Done || !strings.Contains(text, "error: a { b: 1 }") || !strings.Contains(text, "log: from a child\n") ||
		!strings.Contains(text, "log: unfinished") || strings.Count(text, "x") != 200_000 {
		t.Errorf("%v; the console: %.200s", o, text)
	}
}

// TestNodePositions checks the frames of errors: of the program only, with columns in bytes.
func TestNodePositions(t *testing.T) {
	d := newNodeDriver(t, process.Config{})
	o := sandboxtest.Exec(t.Context(), t, d, roomyNode,
		"(async () => {\n  await null;\n  const s = 'é€😀'; null.x;\n})", sandboxtest.Host{})
	if o.Fail == nil || !strings.Contains(o.Fail.Stack, "program.js:3:31") ||
		strings.Contains(o.Fail.Stack, "biplane") {
		t.Errorf("%v, %+v; want one frame, in line 3", o, o.Fail)
	}
	var stack string
	o = sandboxtest.Exec(t.Context(), t, d, roomyNode, "(async () => {\n  await test.echo({ fail: 1 });\n})",
		sandboxtest.Host{Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer {
			stack = c.Stack
			return &sandbox.Answer{Error: &sandbox.GuestError{Message: "it failed", Kind: "denied"}}
		}})
	if o.Fail == nil || o.Fail.Kind != "denied" || !strings.Contains(o.Fail.Stack, "program.js:2:") ||
		!strings.Contains(stack, "program.js:2:") {
		t.Errorf("%v, %+v; want the call's frame: %q", o, o.Fail, stack)
	}
}

// TestNodeEscapes runs a program that tries to get out of the sandbox, beside secrets of this
// process.
func TestNodeEscapes(t *testing.T) {
	t.Setenv("BIPLANE_TEST_SECRET", "hunter2")
	l, err := net.Listen("unix", "@/biplane-test-abstract")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	d := newNodeDriver(t, process.Config{})
	code := strings.Replace(probe.NodeEscapes, "return succeeded;",
		`await attempt("control", () => fs.existsSync("/usr")); return succeeded;`, 1)
	o := sandboxtest.Exec(t.Context(), t, d, roomyNode, "(async () => {"+code+"\n})", sandboxtest.Host{})
	if !o.Done || string(o.Value) != `["control: true"]` {
		t.Errorf("%v, want no attempt to succeed but the control", o)
	}
}

// TestSuite runs the suite of all kinds of sandboxes, in Node.js and Python.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	sandboxtest.Run(t, newNodeDriver(t, process.Config{}))
	checkNothingLeft(t)
}

// TestNodePackages runs programs with npm packages of the host.
func TestNodePackages(t *testing.T) {
	folder := filepath.Dir(filepath.Dir(peertest.Module(t, "zod/package.json")))
	d := newNodeDriver(t, process.Config{NodeModules: folder})
	for _, c := range []struct{ code, want string }{
		{"async () => { const { z } = await __import('zod'); return z.object({ a: z.number() }).parse({ a: 1 }); }",
			`{"a":1}`},
		{"async () => (await __import('chalk')).default.level", "0"}, // a package of modules only
		{"() => require('ajv').default.name", `"Ajv"`},
		{"async () => (await __import('commander')).Command.name", `"Command"`},
		{"async () => typeof (await __import('@modelcontextprotocol/sdk/types.js')).ErrorCode", `"object"`},
		{"() => { try { require('fs').mkdirSync('/node_modules/x'); } catch (e) { return e.code; } }", `"EROFS"`},
		{"async () => { try { await __import('no-such-package'); } catch (e) { return e.message; } }",
			`"cannot import \"no-such-package\": this sandbox has no package \"no-such-package\""`},
	} {
		o := sandboxtest.Exec(t.Context(), t, d, roomyNode, "("+c.code+")", sandboxtest.Host{})
		if !o.Done || string(o.Value) != c.want {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		}
	}
	c, err := d.Probe(t.Context())
	if err != nil || !slices.Contains(c.Modules["js"], "zod") || !slices.Contains(c.Modules["js"], "child_process") {
		t.Errorf("the modules are %v, %v; want zod and child_process among them", c.Modules["js"], err)
	}
	missing, err := process.New(process.Config{NodeModules: t.TempDir() + "/nothing"})
	if err != nil {
		t.Fatalf("process.New: %v", err)
	}
	if _, err := missing.Create(t.Context(), roomyNode); err == nil || !strings.Contains(err.Error(), "node_modules") {
		t.Errorf("a missing folder: %v, want an error that names sandbox.node_modules", err)
	}
}

// TestNodeMissing checks a host without Node.js: the other runtimes work, and the error names the
// package to install.
func TestNodeMissing(t *testing.T) {
	d := newDriver(t, process.Config{Node: "/usr/bin/no-such-node"})
	c, err := d.Probe(t.Context())
	if err != nil || slices.Contains(c.Runtimes, "js") || !strings.Contains(c.Unavailable["js"], "Debian: nodejs") {
		t.Errorf("Probe: %v, %v, %v; want js to be unavailable", c.Runtimes, c.Unavailable, err)
	}
	if _, err := d.Create(t.Context(), roomyNode); tool.AsError(err).Kind != tool.Unavailable ||
		!strings.Contains(err.Error(), "need Node.js for js programs") {
		t.Errorf("Create: %v, want an error that names Node.js", err)
	}
}
