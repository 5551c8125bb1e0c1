package wasm_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// tortures are scripts that stress an engine: its parser, stack, heap, regular expressions,
// numbers, builtins and time limits.
var tortures = []string{
	`for (;;);`,
	`for (;;) try { for (;;); } catch { for (;;); } finally { for (;;); }`,
	`(async () => { for (;;) await 0; })()`,
	`var f = () => Promise.resolve().then(f); f()`,
	`var g = (function* () { for (;;) yield 1; })(); for (var x of g);`,
	`while (true) { try { (() => { throw 1; })(); } catch {} }`,
	`label: for (;;) { for (;;) continue label; }`,
	`(function f() { return 1 + f(); })()`,
	`(function f() { return [1].map(f); })()`,
	`(function f() { return JSON.stringify({ toJSON: f }); })()`,
	`(function f() { return "a".replace(/a/, f); })()`,
	`(function f() { return [3, 2, 1].sort(f); })()`,
	`(function f() { return eval("f()"); })()`,
	`(function f() { return Reflect.apply(f, null, []); })()`,
	`(function f() { return new Function("f", "return f(f)")(f); })()`,
	`var p = new Proxy({}, { get(t, k, r) { return r[k]; } }); p.x`,
	`var p = {}; for (var i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x`,
	`var o = { get x() { return this.x; } }; o.x`,
	`var o = {}; o.__proto__ = new Proxy({}, { getPrototypeOf() { return o; }, has(t, k) { return k in o; } }); "x" in o`,
	`class A { constructor() { return new A(); } } new A()`,
	`class B { static [Symbol.hasInstance](x) { return x instanceof B; } } 1 instanceof B`,
	`var a = { toString() { return "" + a; } }; "" + a`,
	`function* g() { yield* g(); } g().next()`,
	`async function f() { await f(); } f()`,
	`var t = { then(r) { r(t); } }; Promise.resolve(t)`,
	`JSON.parse("[".repeat(200000) + "]".repeat(200000))`,
	`JSON.parse('{"a":'.repeat(100000) + "1" + "}".repeat(100000))`,
	`var a = []; for (var i = 0; i < 2e4; i++) a = [a]; JSON.stringify(a)`,
	`var a = []; a[0] = a; JSON.stringify(a)`,
	`var a = []; for (var i = 0; i < 4e5; i++) a = [a]; a = null; "freed"`,
	`var a = {}; for (var i = 0; i < 3e5; i++) a = { a }; a = null; "freed"`,
	`var a = () => 1; for (let i = 0; i < 2e5; i++) { let b = a; a = () => b; } a = null; "freed"`,
	`var a = []; for (var i = 0; i < 2e4; i++) a = [a]; a.flat(Infinity)`,
	`eval("(".repeat(100000) + "1" + ")".repeat(100000))`,
	`eval("[".repeat(100000) + "]".repeat(100000))`,
	`eval("!".repeat(1000000) + "1")`,
	`eval("a" + ".a".repeat(1000000))`,
	`eval("1" + "+1".repeat(1000000))`,
	`eval("if(1)".repeat(100000) + "1")`,
	`eval("a=>".repeat(50000) + "1")`,
	`eval("async()=>".repeat(20000) + "1")`,
	`eval("function f(){".repeat(20000) + "}".repeat(20000))`,
	"eval('`${'.repeat(50000) + '1' + '}`'.repeat(50000))",
	`eval("{".repeat(100000) + "}".repeat(100000))`,
	`eval("var [".repeat(20000) + "a" + "]=1".repeat(20000))`,
	`eval("x?".repeat(50000) + "1" + ":1".repeat(50000))`,
	`eval("class A extends ".repeat(20000))`,
	`eval("var " + Array.from({ length: 70000 }, (_, i) => "v" + i).join())`,
	`eval("(" + Array(70000).fill("a").join() + ")=>1")`,
	`eval("new ".repeat(50000) + "f")`,
	`new RegExp("(?:".repeat(100000) + ")".repeat(100000)).test("a")`,
	`new RegExp("(?=".repeat(100000) + ")".repeat(100000)).test("a")`,
	`new RegExp("[".repeat(100000) + "]".repeat(100000), "v").test("a")`,
	`/(a*)*b/.test("a".repeat(40))`,
	`/^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(50))`,
	`new RegExp("a{1000}{1000}{1000}").test("aaa")`,
	`new RegExp("(a|b|c){60000}").test("abc".repeat(20000))`,
	`/(?<=(a+)+)b/.test("a".repeat(40))`,
	`"a".repeat(2 ** 30 - 25)`,
	`Array(2 ** 32 - 1).join("x")`,
	`Array(1e9).fill(0)`,
	`[].indexOf.call({ length: 2 ** 53 - 1 }, 1)`,
	`Array.prototype.sort.call({ length: 2 ** 32 })`,
	`Array.from({ length: 1e9 })`,
	`[].concat(...Array(1000).fill(Array(1e6)))`,
	`new Uint8Array(2 ** 31)`,
	`new SharedArrayBuffer(1 << 30)`,
	`var b = new ArrayBuffer(8, { maxByteLength: 1 << 30 }); b.resize(1 << 30)`,
	`var a = []; for (;;) a.push(new ArrayBuffer(1 << 16))`,
	`2n ** (2n ** 33n)`,
	`BigInt("9".repeat(2000000))`,
	`String(7n ** 300000n).length`,
	`var x = 3n; for (;;) x *= x`,
	`var s = "x"; for (var i = 0; i < 40; i++) s = s + s`,
	`var s = "x"; for (;;) s += s + "y"; s.length`,
	`"x".padStart(2 ** 29, "y").length`,
	`"x".replace(/x/g, "$&".repeat(1e6)).repeat(1e4).split("").length`,
	`var m = new Map(); for (;;) m.set(m.size, "v")`,
	`var w = []; for (;;) w.push(Symbol("x" + w.length))`,
	`for (var i = 0; ; i++) globalThis["k" + i] = i`,
	`var l = []; for (;;) l.push(new Promise(() => {}))`,
	`var l = []; for (;;) l.push((function* () { yield 1; })().next())`,
	`for (;;) Promise.reject(1)`,
	`for (;;) ask(1)`,
	`for (;;) write("x".repeat(100))`,
	`write("x".repeat(3e6)); write("y".repeat(3e6)); write("z".repeat(3e6))`,
	`clock(1e308)`, `clock(NaN)`, `clock({})`, `clock(-1e15); clock(8e15); new Date().toString()`, `question({})`,
	`question("x".repeat(1e6)) === undefined`,
	`random(1e9)`,
	`random(-1)`,
	`Object.defineProperty(Array.prototype, "0", { get() { throw 1; } }); [,].toString()`,
	`Object.prototype.toString = () => { throw 1; }; JSON.stringify = null; Map.prototype.get = () => { throw 2; }; ` +
		`Promise.prototype.then = null; "poisoned"`,
	`new Date(8.64e15 + 1).toISOString()`,
	`new Date(NaN).toString() + new Date(-8.64e15).toString()`,
	`Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 1e9)`,
	`import("fs")`,
	`import("\0/../../etc/passwd")`,
	`throw { get message() { for (;;); }, toString() { for (;;); } }`,
	`var e = new Error("x"); Object.defineProperty(e, "stack", { get() { return "y".repeat(1e7); } }); throw e`,
	`Error.prepareStackTrace = () => { for (;;); }; new Error("x").stack`,
	`new WeakRef({}); new FinalizationRegistry(() => { for (;;); }).register({}, 1)`,
	`globalThis.onidle = () => { for (;;); }`,
	`globalThis.onidle = () => Promise.resolve().then(globalThis.onidle)`,
	`Object.freeze(globalThis); Object.setPrototypeOf(globalThis, null)`,
	`delete globalThis.eval; delete globalThis.JSON; delete globalThis.Promise`,
	`structuredClone(globalThis)`,
	`"\ud800".repeat(100) + String.fromCharCode(0xdfff)`,
	`Intl.DateTimeFormat()`,
	`with ({ get x() { return x; } }) x`,
}

// torture is a specification with limits that end a hostile script soon.
var torture = sandbox.Spec{Memory: 32 << 20, CPU: 120 * time.Millisecond, Output: 8 << 20}

// endure runs a hostile script in a fresh sandbox, and returns how it ended.
func endure(t *testing.T, d *wasm.Driver, script string) string {
	t.Helper()
	p := start(t, t.Context(), d, torture)
	defer p.close()
	code, err := json.Marshal(script)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	p.send("(0, eval)(" + string(code) + ")")
	r := bufio.NewReaderSize(p.in, 1<<16)
	line, err := r.ReadString('\n')
	more := err == nil
	go func() { // discards further output until the stream ends
		for err := err; err == nil; {
			_, err = r.ReadString('\n')
		}
	}()
	if line != "" && more {
		_ = p.conn.Close()
	}
	end := p.ended()
	var limit *sandbox.LimitError
	switch {
	case errors.As(end, &limit):
		return "limit " + limit.Limit
	case end == nil:
		return "ok " + strings.TrimSpace(line[:min(len(line), 60)])
	}
	return "error " + strings.SplitN(end.Error(), "\n", 2)[0]
}

// TestTorture checks that every hostile script ends, and that the host and the next sandbox are
// unharmed.
func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	if len(tortures) < 60 {
		t.Fatal("that is no torture")
	}
	d := newDriver(t, wasm.Config{Spare: 2})
	ends := map[string]int{}
	for _, s := range tortures {
		how := endure(t, d, s)
		kind, _, _ := strings.Cut(how, " ")
		if kind == "limit" {
			kind = how
		}
		ends[kind]++
		t.Logf("%-70.70s %s", s, how)
		if kind == "error" && !strings.Contains(how, "the guest's runtime failed") {
			t.Errorf("s = %s, how = %s, want kind != \"error\" || strings.Contains(how, \"the guest's "+
				"runtime failed\")", s, how)
		}
		p := start(t, t.Context(), d, torture)
		if v := p.eval("[globalThis.mark, globalThis.mark = 1, [1, 2].map((x) => x + 1).join(), JSON.stringify({ a: " +
			"Promise.resolve() instanceof Promise })].join('/')"); v != `/1/2,3/{"a":true}` {
			t.Fatalf("after %s: %v", s, v)
		}
		p.close()
	}
	t.Logf("ends: %v; stacks %d KiB", ends, stacks()>>10)
}

// stacks returns the memory used by goroutine stacks, in bytes.
func stacks() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestCrowd repeatedly runs 50 concurrent sandboxes, ten of them hostile. The others must finish
// their work, memory must stay bounded and no goroutine may leak.
func TestCrowd(t *testing.T) {
	d := newDriver(t, wasm.Config{Spare: 8})
	p := start(t, t.Context(), d, torture)
	p.eval("1")
	p.close()
	if err := p.ended(); err != nil {
		t.Logf("%v", err)
	}
	before, rss := runtime.NumGoroutine(), resident(t)
	for round := range 3 {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if i%5 == 0 {
					endure(t, d, tortures[(round*37+i*7)%len(tortures)])
					return
				}
				p := start(t, t.Context(), d, sandbox.Spec{Memory: 32 << 20})
				defer p.close()
				for k := range 20 {
					if v := p.eval(fmt.Sprintf("globalThis.n = (globalThis.n || 0) + %d", k)); v != float64(k*(k+1)/2) {
						t.Errorf("sandbox %d: %v", i, v)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	deadline := time.Now().Add(2 * time.Minute)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<18)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
	runtime.GC()
	if now := resident(t); now > rss+256<<20 {
		t.Errorf("the process holds %d MiB, %d before", now>>20, rss>>20)
	}
}

// resident returns the process's resident memory in bytes, or 0 if unknown.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatalf("fmt.Sscan: %v", err)
	}
	return pages * int64(os.Getpagesize())
}
