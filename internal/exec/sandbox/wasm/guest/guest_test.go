package guest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

// A talk holds a guest's messages in one run.
type talk struct {
	sandbox.GuestMessage // the last message
	console              []string
	calls                []sandbox.GuestCall
	emitted              []string
}

type ends struct {
	io.Reader
	io.Writer
	io.Closer
}

// run runs the body of an async function in a fresh sandbox. Calls to box.echo return their
// arguments, and calls to box.fail fail.
func run(t *testing.T, body string) talk {
	t.Helper()
	return runScript(t, "(async () => {"+body+"\n})")
}

func runScript(t *testing.T, code string) talk {
	t.Helper()
	return runSeeded(t, code, sandboxtest.NewSeed())
}

func runSeeded(t *testing.T, code, seed string) talk {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	s, err := d.Create(t.Context(), sandbox.Spec{Memory: 64 << 20, CPU: 20 * time.Second})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	hostIn, guestOut := io.Pipe()
	guestIn, hostOut := io.Pipe()
	files := newDisk()
	var over sync.WaitGroup
	over.Go(func() {
		ask := func(_ context.Context, question []byte) []byte { return files.ask(question) }
		if _, err := s.Run(ctx, &sandbox.Cmd{Guest: ends{guestIn, guestOut, guestIn}, Ask: ask}); err != nil {
			t.Errorf("run: %v", err)
		}
		guestOut.Close()
	})
	at := time.Now().UnixMilli() // advances by the durations that the guest waits for, not by real time
	send := func(m sandbox.HostMessage) {
		m.At = at
		line, err := tool.Marshal(m)
		if err != nil {
			t.Fatalf("tool.Marshal: %v", err)
		}
		if _, err := hostOut.Write(append(line, '\n')); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	send(sandbox.HostMessage{Run: &sandbox.Run{Code: code, Name: "program.js", Seed: seed,
		Namespaces: map[string][]string{"box": {"echo", "fail"}}}})
	lines := make(chan []byte)
	over.Go(func() {
		defer close(lines)
		in := bufio.NewReader(hostIn)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	})
	var wake <-chan time.Time
	var due int64
	var got talk
	for {
		var line []byte
		select {
		case l, ok := <-lines:
			if !ok {
				t.Fatalf("the guest ended without a last word\n%s", code)
			}
			line = l
		case <-wake:
			wake, at = nil, due
			send(sandbox.HostMessage{Wake: &sandbox.Wake{}})
			continue
		}
		var m sandbox.GuestMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line = %s, err = %v, want nil", line, err)
		}
		switch {
		case m.Call != nil:
			got.calls = append(got.calls, *m.Call)
			a := &sandbox.Answer{ID: m.Call.ID, Value: m.Call.Args}
			if m.Call.Path == "box.fail" {
				a = &sandbox.Answer{ID: m.Call.ID,
					Error: &sandbox.GuestError{Message: "it failed", Kind: "failed", Upstream: "box", Tool: "fail",
						Data: failureData(m.Call.Args)}}
			}
			send(sandbox.HostMessage{Answer: a})
		case m.File != nil:
			send(sandbox.HostMessage{Answer: files.answer(m.File)})
		case m.Console != nil:
			got.console = append(got.console, m.Console.Level+": "+m.Console.Text)
		case m.Timer != nil:
			if wake = nil; m.Timer.MS >= 0 {
				wake, due = time.After(time.Duration(m.Timer.MS*float64(time.Millisecond))),
					at+int64(math.Ceil(m.Timer.MS))
			}
		case m.Emit != nil:
			got.emitted = append(got.emitted, m.Emit.Handle)
		case m.Done != nil, m.Fail != nil:
			got.GuestMessage = m
			hostOut.Close()
			for range lines { // drain
			}
			over.Wait()
			return got
		default:
			t.Fatalf("the guest said %s", line)
		}
	}
}

// value returns the program's value as JSON, or its error as text.
func (k talk) value() string {
	switch {
	case k.Fail != nil:
		return "threw " + strings.TrimPrefix(k.Fail.Error.Name+": ", ": ") + k.Fail.Error.Message
	case k.Done.Value == nil:
		return "undefined"
	}
	return string(k.Done.Value)
}

// check runs each program and compares its value.
func check(t *testing.T, table [][2]string) {
	t.Helper()
	for _, row := range table {
		if got := run(t, row[0]).value(); got != row[1] {
			t.Errorf("%s\n got %s\nwant %s", row[0], got, row[1])
		}
	}
}

func TestLanguage(t *testing.T) {
	check(t, [][2]string{
		{`return [3, 1, 2].toSorted()`, `[1,2,3]`},
		{`return [1, 2, 3].with(1, 9).toReversed().findLast((x) => x > 2)`, `9`},
		{`return Object.groupBy([1, 2, 3], (x) => (x % 2 ? "odd" : "even"))`, `{"odd":[1,3],"even":[2]}`},
		{`class A { #x = 1; static #n = 2; get x() { return this.#x + A.#n } static { A.y = 3 } } return [new A().x, A.y]`, `[3,3]`},
		{`async function* g() { yield 1; yield 2 } const out = []; for await (const x of g()) out.push(x); return out`,
			`[1,2]`},
		{`return "2024-05-06".match(/(?<y>\d+)-(?<m>\d+)/).groups.m + "a1b2".replace(/(?<=a)\d/, "x")`, `"05axb2"`},
		{`return 2n ** 64n`, `18446744073709551616`},
		{`const { a, ...rest } = { a: 1, b: 2 }; return rest.b ?? rest?.c`, `2`},
		{`return [..."a😀"].length + "x".padStart(3).length`, `5`},
		{`return new Set([1, 2]).union(new Set([3])).size`, `3`},
		{`label: for (const x of [1, 2]) { for (;;) continue label } return "ok"`, `"ok"`},
		{`return await Promise.any([Promise.reject(1), Promise.resolve(2)])`, `2`},
		{`return Array.fromAsync ? await Array.fromAsync([Promise.resolve(1)]) : [1]`, `[1]`},
		{`return [1, [2, [3]]].flat(Infinity).map((x) => x ** 2).at(-1)`, `9`},
		{`return Object.fromEntries(new Map([["a", 1]]))`, `{"a":1}`},
		{`return structuredClone(new Map([[{ a: 1 }, new Set([1])]])).size`, `1`},
		{`return "aXbX".replaceAll("X", "-") + "é".normalize("NFD").length`, `"a-b-2"`},
		{`return Math.hypot(3, 4) + Math.clz32(1)`, `36`},
		{`return new Date("2024-02-29T12:00:00Z").toISOString()`, `"2024-02-29T12:00:00.000Z"`},
		{`return Date.now() > 1.7e12 && new Date().getTimezoneOffset() === 0`, `true`},
	})
}

func TestAbsent(t *testing.T) {
	check(t, [][2]string{
		{`return [typeof fetch, typeof require, typeof process, typeof Deno, typeof Bun, typeof __host, typeof ` +
			`WebAssembly]`,
			`["undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`},
		{`return fetch("x")`, `threw ReferenceError: fetch is not defined`},
		{`return Object.getOwnPropertyNames(globalThis).filter((n) => n.includes("core-js") || n === "guest")`, `[]`},
	})
}

func TestWebInterfaces(t *testing.T) {
	check(t, [][2]string{
		{`const u = new URL("../x?a=1&b=é#h", "https://u:p@ex.com:8080/a/b/c"); return [u.href, u.port, ` +
			`u.searchParams.get("b"), URL.canParse("nope")]`,
			`["https://u:p@ex.com:8080/a/x?a=1&b=%C3%A9#h","8080","é",false]`},
		{`const p = new URLSearchParams({ q: "a b" }); p.append("z", "1"); return [p.toString(), [...p].length, p.size]`, `["q=a+b&z=1",2,2]`},
		{`try { new URL("nope") } catch (e) { return e.name }`, `"TypeError"`},
		{`return [...new TextEncoder().encode("é€😀\ud800")]`, `[195,169,226,130,172,240,159,152,128,239,191,189]`},
		{`return new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0xe2, 0x82, 0x41, 0xff]))`,
			`"` + "\ufffdA\ufffd" + `"`},
		{`try { new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([255])) } catch (e) { return e.name }`,
			`"TypeError"`},
		{`const d = new TextDecoder(); return d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + ` +
			`d.decode(new Uint8Array([0xac]))`, `"€"`},
		{`return new TextDecoder("latin1").decode(new Uint8Array([0xe9, 0x80])) + new ` +
			`TextDecoder("utf-16le").decode(new Uint8Array([0x3d, 0xd8, 0x00, 0xde]))`, `"é€😀"`},
		{`return [atob(btoa("hi")), btoa("ÿ")]`, `["hi","/w=="]`},
		{`return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())`,
			`true`},
		{`return crypto.getRandomValues(new Uint8Array(3000)).some((x) => x > 0)`, `true`},
		{`const o = { d: new Date(0), m: new Map([[1, { a: [1] }]]), e: new RangeError("r"), n: 1n }; o.self = o; ` +
			`const c = structuredClone(o); return [c.self === c, c.d instanceof Date, c.m.get(1).a, c.e.name, c.n]`,
			`[true,true,[1],"RangeError",1]`},
		{`try { structuredClone(() => 1) } catch (e) { return e.name }`, `"DataCloneError"`},
		{`const o = []; setTimeout((x) => o.push(x), 5, "b"); setImmediate(() => o.push("a")); queueMicrotask(() => ` +
			`o.push(0)); await new Promise((r) => setTimeout(r, 20)); return o`, `[0,"a","b"]`},
		{`let n = 0; const id = setInterval(() => { if (++n === 3) clearInterval(id) }, 1); await new Promise((r) => ` +
			`setTimeout(r, 60)); return n`, `3`},
		{`const c = new AbortController(); setTimeout(() => c.abort(), 1); return await new Promise((r) => ` +
			`c.signal.addEventListener("abort", (e) => r([e.type, c.signal.reason.name])))`, `["abort","AbortError"]`},
		{`try { await new Promise((_, no) => AbortSignal.timeout(1).addEventListener("abort", (e) => ` +
			`no(e.target.reason))) } catch (e) { return e.name }`, `"TimeoutError"`},
		{`const t = new EventTarget(); let n = 0; t.addEventListener("x", () => n++, { once: true }); ` +
			`t.dispatchEvent(new Event("x")); t.dispatchEvent(new Event("x")); return n`, `1`},
		{`return performance.now() >= 0 && performance.now() < 10000`, `true`},
		{`return [setTimeout.name, URL.name, new AbortController().constructor.name, ToolError.name]`,
			`["setTimeout","URL","AbortController","ToolError"]`},
	})
}

func TestModules(t *testing.T) {
	check(t, [][2]string{
		{`const m = await __import("./tools/box"); return [m.echo === box.echo, m.default === box, Object.keys(m)]`,
			`[true,true,["echo","fail"]]`},
		{`const { echo } = await __import("../tools/box/echo.ts", ["echo"]); return await echo({ a: 1 })`, `{"a":1}`},
		{`return Object.keys(await __import("./tools"))`, `["box"]`},
		{`const p = await __import("node:path"); return [p.join("a", "..", "b"), p.resolve("x"), p.extname("a.ts")]`,
			`["b","/x",".ts"]`},
		{`const { setTimeout: sleep } = await __import("timers/promises"); return await sleep(1, "v")`, `"v"`},
	})
	if got := run(t, `await __import("lodash")`).value(); !strings.Contains(got, `cannot import "lodash"`) ||
		!strings.Contains(got, "./tools/<upstream>") {
		t.Errorf("got = %v, want strings.Contains(got, `cannot import \"lodash\"`) && "+
			"strings.Contains(got, \"./tools/<upstream>\")", got)
	}
}

// failureData returns the arguments of a call as the data of its failure, if there are any.
func failureData(args json.RawMessage) json.RawMessage {
	if string(args) == "{}" || string(args) == "null" {
		return nil
	}
	return args
}

func TestTools(t *testing.T) {
	check(t, [][2]string{
		{`return [await box.echo({ a: 1 }), await tools.box.echo({ a: 2 }), await callTool("box.echo", { a: 3 }), ` +
			`await tools["box"]["echo"]()]`, `[{"a":1},{"a":2},{"a":3},null]`},
		{`return await box.fail()`, `threw ToolError: it failed`},
		{`try { await box.fail() } catch (e) { return [e instanceof ToolError, e instanceof Error, e.upstream, ` +
			`e.tool, e.kind, e.stack.split("\n")[0]] }`, `[true,true,"box","fail","failed","ToolError: it failed"]`},
		{`try { await box.fail({ status: 429, retryable: true, retry_after: 7, more: [1] }) } catch (e) { return ` +
			`[e.status, e.retryable, e.retryAfter, e.data.more, Object.keys(e).join()] }`,
			`[429,true,7,[1],"kind,upstream,tool,status,retryable,retryAfter,data"]`},
		{`try { await box.fail({ status: "x", retryable: 1, retry_after: null }) } catch (e) { return ` +
			`[e.status, e.retryable, e.retryAfter, "status" in e] }`, `[null,null,null,false]`},
		{`Object.prototype.status = 7; try { await box.fail({}) } catch (e) { return Object.hasOwn(e, "status") } ` +
			`finally { delete Object.prototype.status }`, `false`},
		{`return await Promise.allSettled([box.fail(), box.echo({})]).then((r) => r.map((x) => x.status))`,
			`["rejected","fulfilled"]`},
		{`return [box + "", Object.keys(box), "echo" in box, box.then, await box, typeof box.other, box.constructor ` +
			`=== Object, box.__proto__]`,
			`["[tools box: echo, fail]",["echo","fail"],true,null,"[tools box: echo, fail]","function",true,null]`},
		{`box.x = 1`, `threw TypeError: tools box holds tools: it can't be changed`},
		{`return await box.echo("x")`, `["x"]`},
		{`return await box.echo("x").catch((e) => e.name)`, `["x"]`},
		{`return (await Promise.allSettled([callTool(), callTool(""), box.echo({ get a() { throw new Error("mine") } ` +
			`})])).map((x) => x.status)`, `["rejected","rejected","rejected"]`},
		{`const all = [{ get a() { throw new Error("mine") } }, { a: NaN }, { a: [1, -Infinity] }]; const o = {}; o.o = [o]; all.push(o);
			let deep = {}; for (let i = 0; i < 200; i++) deep = { deep, n: null }; deep.again = deep; all.push(deep);
			return (await Promise.allSettled(all.map((x) => box.echo(x)))).map((x) => x.reason?.message.slice(0, 60))`,
			`["mine","an argument can't hold NaN: $.a","an argument can't hold -Infinity: $.a[1]","an argument can't ` +
				`hold itself: $.o[0] is $","an argument can't be nested more than 128 levels deep: $.dee"]`},
		{`let deep = {}; for (let i = 0; i < 200; i++) deep = { deep }; return JSON.stringify(await ` +
			`box.echo(deep)).length`, `1802`},
		{`emit(["text", null, 5, {}])`, `threw TypeError: emit takes an image, audio or resource that a tool ` +
			`returned, or the path of a file, got an array without one`},
		{`emit({})`, `threw TypeError: emit takes an image, audio or resource that a tool returned, or the path of a ` +
			`file, got a object`},
		{`return await box.echo({}, 1)`, `[{},1]`},
		{`return await box.echo({ a: box.echo({}) })`,
			`threw TypeError: a promise can't be an argument: await it first`},
		{`return await box.echo({ d: new Date(0), u: undefined, m: new Map([["k", 1]]), n: 2n ** 60n, s: new ` +
			`Set([1]), f() {} })`, `{"d":"1970-01-01T00:00:00.000Z","m":{"k":1},"n":1152921504606846976,"s":[1]}`},
		{`const o = JSON.parse('{"__proto__":1,"a\\"b":"\\ud800","-":-0}'); o.t = true; o.z = null; o[7] = 1e21; ` +
			`return await box.echo(o)`, `{"7":1e+21,"__proto__":1,"a\"b":"\ud800","-":0,"t":true,"z":null}`},
		{`let n = 0; const o = { get a() { return ++n } }; return [await box.echo(o), n]`, `[{"a":1},1]`},
		{`let out = []; for (let i = 0; i < 600; i++) out.push((await box.echo({ ["k" + i % 300]: i }))["k" + i % ` +
			`300]); return out.every((x, i) => x === i)`, `true`},
		{`const p = box.echo({}); return [p instanceof Promise, p.constructor === Promise, ` +
			`Object.prototype.toString.call(p), await p.then(() => 1), await p.finally(() => 2)]`,
			`[true,true,"[object Promise]",1,{}]`},
		{`try { Object.defineProperty(Object.getPrototypeOf(box.echo({})), "then", { value: 1 }); return 1 } catch ` +
			`(e) { return e.name }`, `"TypeError"`},
		{`return await Promise.all([box.echo({ a: 1 }), box.echo({ a: 2 }), box.echo({ a: 3 })].reverse())`,
			`[{"a":3},{"a":2},{"a":1}]`},
		{`Map.prototype.get = Map.prototype.set = Map.prototype.delete = WeakMap.prototype.get = ` +
			`WeakMap.prototype.set = () => { throw 1 }; const [a, b] = [box.echo({ a: 1 }), box.echo({ b: 1 })]; ` +
			`return [await a, await b]`, `[{"a":1},{"b":1}]`},
		{`const box2 = { box }; return await box2.box.echo({ ok: true })`, `{"ok":true}`},
	})
	k := run(t, `await box.echo({ q: 1 }); await search("x", { limit: 3 }); await readResult("res_1", { offset: 2 `+
		`}); emit({ type: "image", handle: "res_2" }); emit(["some text", "res_3", null, [{ handle: "res_4" }]])`)
	if len(k.calls) != 3 || k.calls[1].Path != "biplane.search" ||
		string(k.calls[1].Args) != `{"limit":3,"query":"x"}` ||
		k.calls[2].Path != "biplane.result" || string(k.calls[2].Args) != `{"handle":"res_1","offset":2}` {
		t.Errorf("calls %+v", k.calls)
	}
	if strings.Join(k.emitted, ",") != "res_2,res_3,res_4" {
		t.Errorf("emitted %v", k.emitted)
	}
	if !strings.Contains(k.calls[0].Stack, "(program.js:1:") {
		t.Errorf("stack %q", k.calls[0].Stack)
	}
	k = run(t, `await search({ query: "y", detail: "brief" }); await search()`)
	if len(k.calls) != 2 || string(k.calls[0].Args) != `{"query":"y","detail":"brief"}` ||
		string(k.calls[1].Args) != `{"query":""}` {
		t.Errorf("calls %+v", k.calls)
	}
}

func TestValues(t *testing.T) {
	check(t, [][2]string{
		{``, `undefined`},
		{`return null`, `null`},
		{`return [undefined, () => 1, Symbol("x"), NaN, -Infinity, -0]`, `[null,null,null,"NaN","-Infinity",0]`},
		{`return NaN`, `"NaN"`},
		{`return Symbol("s")`, `"Symbol(s)"`},
		{`return function f() {}`, `"[function f]"`},
		{`return class K {}`, `"[class K]"`},
		{`return 10n ** 20n`, `100000000000000000000`},
		{`return new Date(NaN)`, `null`},
		{`return { m: new Map([["a", 1]]), n: new Map([[1, 2]]), s: new Set(["x"]), i: new Map([["k", "v"]]).keys() }`,
			`{"m":{"a":1},"n":[[1,2]],"s":["x"],"i":["k"]}`},
		{`return [new Uint8Array([1, 2]), new Float32Array([0.5]), new BigInt64Array([5n]), new Uint8Array(3).buffer]`,
			`["AQI=",[0.5],[5],"AAAA"]`},
		{`return new Uint8Array(1026).fill(1).length + ":" + JSON.stringify(new Uint8Array(2))`,
			`"1026:{\"0\":0,\"1\":0}"`},
		{`return Object.assign(new TypeError("bad"), { code: 7 })`, `{"name":"TypeError","message":"bad","code":7}`},
		{`return [new Error("a", { cause: new Error("b") }), new AggregateError([new Error("c")], "d")]`,
			`[{"name":"Error","message":"a","cause":{"name":"Error","message":"b"}},{"name":"AggregateError",` +
				`"message":"d","errors":[{"name":"Error","message":"c"}]}]`},
		{`const a = { b: [] }; a.b.push(a, a.b); return a`, `{"b":["[Circular: $]","[Circular: $.b]"]}`},
		{`const x = { v: 1 }; return [x, x]`, `[{"v":1},{"v":1}]`},
		{`return { get bad() { throw new Error("no") }, ok: 1 }`, `{"bad":"[threw: no]","ok":1}`},
		{`return { toJSON() { return { j: 1n } } }`, `{"j":1}`},
		{`const o = { a: 1 }; Object.defineProperty(o, "toJSON", { value: () => ({ m: 1n }) }); return [o]`,
			`[{"m":1}]`},
		{`Array.prototype.toJSON = () => ({ s: new Set([1]) }); return { a: [] }`, `{"a":{"s":[1]}}`},
		{`let n = 0; return { get a() { return ++n } }`, `{"a":1}`},
		{`return [, undefined, new (class { a = 1 })(), Object.create(null)]`, `[null,null,{"a":1},{}]`},
		{`return new Proxy({ a: new Set([2]) }, { getPrototypeOf() { throw 1 } })`, `{"a":[2]}`},
		{`class P { x = 1; #y = 2; get z() { return 3 } } return new P()`, `{"x":1}`},
		{`return [/a/g, new URL("http://a/"), new URLSearchParams("a=1"), new Boolean(true), Object("s")]`,
			`["/a/g","http://a/","a=1",true,"s"]`},
		{`return JSON.parse('{"__proto__":{"x":1},"then":2}')`, `{"__proto__":{"x":1},"then":2}`},
		{`return await box.echo(JSON.parse('{"__proto__":{"x":12345678901234567890123n}}'.replace("n}", "}")))`,
			`{"__proto__":{"x":1.2345678901234568e+22}}`},
		{`return [Promise.resolve(1), { p: box.echo({ a: 2 }) }]`, `[1,{"p":{"a":2}}]`},
		{`return [Promise.reject(new Error("inner"))]`, `threw Error: inner`},
		{`return Object.create({ inherited: 1 }, { own: { value: 2, enumerable: true }, hidden: { value: 3 } })`,
			`{"own":2}`},
		{`return new Proxy({ a: 1 }, {})`, `{"a":1}`},
		{`return new Proxy({}, { ownKeys() { throw new Error("trap") } })`, `"[threw: trap]"`},
		{`const o = { toJSON() { throw new Error("tj") } }; return { o }`, `{"o":"[threw: tj]"}`},
		{`return box`, `"[tools box: echo, fail]"`},
	})
	var v any
	for code, want := range map[string]string{
		`let v = 1; for (let i = 0; i < 5000; i++) v = { v }; return v`:                     `{"v":1}`,
		`let v = { n: 1n }; v.self = v; for (let i = 0; i < 5000; i++) v = { v }; return v`: "too deep",
	} {
		deep := run(t, code)
		if err := json.Unmarshal(deep.Done.Value, &v); err != nil || !strings.Contains(deep.value(), want) {
			t.Errorf("a deep value: %.100s, %v", deep.value(), err)
		}
	}
}

func TestEnds(t *testing.T) {
	check(t, [][2]string{
		{`throw "text"`, `threw the program threw 'text'`},
		{`throw null`, `threw the program threw null`},
		{`throw { a: { b: 1 } }`, `threw the program threw { a: { b: 1 } }`},
		{`throw new Error("a", { cause: new TypeError("b") })`, "threw Error: a\ncaused by: TypeError: b"},
		{`await Promise.any([Promise.reject(new Error("x"))])`, "threw AggregateError: \n- Error: x"},
		{`queueMicrotask(() => { throw new Error("mt") }); return 1`, "threw Error: mt"},
		{`queueMicrotask(() => { throw new Error("mt") }); await new Promise((r) => setTimeout(r, 5)); return 1`,
			"threw Error: mt"},
		{`queueMicrotask("x")`, "threw TypeError: queueMicrotask takes a function, got a string"},
		{`setTimeout(() => { throw new Error("late") }, 1); await new Promise((r) => setTimeout(r, 1000))`,
			`threw Error: late`},
		{`const out = []; [1, 2].forEach(async (i) => { await box.echo({}); out.push(i) }); return out`, `[1,2]`},
		{`return { then(f) { f(5) } }`, `5`},
	})
	for _, code := range []string{`await new Promise(() => {})`, `await box.echo({}); await new Promise(() => {})`,
		`return [new Promise(() => {})]`} {
		if k := run(t, code); k.Fail == nil || k.Fail.Error.Kind != "stalled" {
			t.Errorf("code = %s, k.value() = %s, want k.Fail != nil && k.Fail.Error.Kind == \"stalled\"",
				code, k.value())
		}
	}
	k := run(t, "await new Promise(async (done) => {\n  null.x\n})")
	if f := k.Fail; f == nil || f.Error.Kind != "stalled" ||
		!strings.Contains(f.Error.Message, "an unawaited promise failed: TypeError:") ||
		!strings.Contains(f.Error.Stack, "program.js:2:") {
		t.Errorf("why a program never ends: %+v", f)
	}
	k = run(t, `box.echo({ a: 1 }); box.fail(); const p = box.echo({ a: 2 }); return await box.echo({ a: 3 })`)
	if len(k.Done.Unawaited) != 3 || len(k.console) != 1 ||
		k.console[0] != "error: box.fail was never awaited, and failed: it failed" {
		t.Errorf("unawaited %v, console %q", k.Done.Unawaited, k.console)
	}
	k = run(t, `Promise.reject(new Error("lost")); const caught = Promise.reject(1); caught.catch(() => {}); return 1`)
	if len(k.console) != 1 || k.console[0] != "error: an unawaited promise failed: Error: lost" {
		t.Errorf("console %q", k.console)
	}
	k = runScript(t, "(async () => {\n  const f = (x) => {\n    throw new TypeError('deep')\n  }\n  return "+
		"[1].map(f)\n})")
	if want := "    at f (program.js:3:15)\n    at map (native)\n    at <anonymous> (program.js:5:"; k.Fail == nil ||
		!strings.HasPrefix(k.Fail.Error.Stack, want) {
		t.Errorf("stack %+v", k.Fail)
	}
	if k := runScript(t, "(async () => { let x = ; })"); k.Fail == nil || k.Fail.Error.Name != "SyntaxError" ||
		!strings.Contains(k.Fail.Error.Stack, "program.js:1:") {
		t.Errorf("syntax error %+v", k.Fail)
	}
	if k := runScript(t, "1"); k.Fail == nil {
		t.Error("a program that is no function ended well")
	}
}

func TestConsole(t *testing.T) {
	k := run(t, `console.log("%s has %d", "a", 3, { x: [1, { y: new Map([[1, 2]]) }] }, [undefined, null], -0, 5n);
		console.warn(new Set(["q"])); console.error("e"); console.info(Symbol("i")); console.debug(class A {}); console.log();
		console.group("g"); console.log("in"); console.groupEnd(); console.assert(1 === 2, "math"); console.count(); console.count();
		console.table([{ a: 1 }, { b: "x" }]); const c = {}; c.c = c; console.log(c); console.dir(() => 1);
		try { null.x } catch (e) { console.log(e) }`)
	want := []string{
		`log: a has 3 { x: [ 1, { y: Map(1) { 1 => 2 } } ] } [ undefined, null ] -0 5n`, `warn: Set(1) { 'q' }`,
		`error: e`, `info: Symbol(i)`,
		`debug: [class A]`, `log: `, `log: g`, `log:   in`, `error: Assertion failed: math`, `log: default: 1`,
		`log: default: 2`,
		"log: ┌─────────┬───┬─────┐\n│ (index) │ a │ b   │\n├─────────┼───┼─────┤\n│ 0       │ 1 │     │\n│ 1       " +
			"│   │ 'x' │\n└─────────┴───┴─────┘",
		`log: <ref *1> { c: [Circular *1] }`, `log: [Function (anonymous)]`,
	}
	for i, w := range want {
		if i >= len(k.console) || k.console[i] != w {
			t.Fatalf("line %d of\n%s\nwant %q", i, strings.Join(k.console, "\n"), w)
		}
	}
	if last := k.console[len(k.console)-1]; !strings.HasPrefix(last,
		"log: TypeError: cannot read property 'x' of null\n    at <anonymous> (program.js:") {
		t.Errorf("an error logs as %q", last)
	}
	k = run(t, `for (let i = 0; i < 200; i++) console.log("x".repeat(20000))`)
	if last := k.console[len(k.console)-1]; len(k.console) != 200 ||
		!strings.HasSuffix(last, "x… (3616 more characters)") {
		t.Errorf("%d lines of console, and the last ends with %q", len(k.console), last[max(0, len(last)-40):])
	}
}

func TestEnglish(t *testing.T) {
	check(t, [][2]string{
		{`return [(1234567.891).toLocaleString(), (1e21).toLocaleString(), 12345678901234567890n.toLocaleString(), ` +
			`(1.005).toLocaleString("en-US", { maximumFractionDigits: 2 })]`,
			`["1,234,567.891","1,000,000,000,000,000,000,000","12,345,678,901,234,567,890","1.01"]`},
		{`return ["USD", "EUR", "GBP", "JPY", "CHF"].map((currency) => (-1234.5).toLocaleString("en-US", { style: ` +
			`"currency", currency }))`, `["-$1,234.50","-€1,234.50","-£1,234.50","-¥1,235","-CHF` + "\u00a0" +
			`1,234.50"]`},
		{`const f = new Intl.NumberFormat("en-US", { notation: "compact" }); return [999, 1050, 12345, 999999, ` +
			`1.5e9].map((x) => f.format(x))`, `["999","1.1K","12K","1M","1.5B"]`},
		{`return [(0.256).toLocaleString("en-US", { style: "percent" }), (0.256).toLocaleString(undefined, { style: ` +
			`"percent", minimumFractionDigits: 1 })]`, `["26%","25.6%"]`},
		{`const d = new Date(Date.UTC(2024, 1, 29, 13, 5, 9)); return [d.toLocaleString(), d.toLocaleDateString(), ` +
			`d.toLocaleTimeString("en-US", { timeStyle: "short" }), d.toLocaleDateString("en-US", { weekday: "long", ` +
			`year: "numeric", month: "long", day: "numeric" })]`,
			`["2/29/2024, 1:05:09 PM","2/29/2024","1:05 PM","Thursday, February 29, 2024"]`},
		{`return new Date(0).toLocaleString("en-US", { timeZone: "America/New_York" })`, `"12/31/1969, 7:00:00 PM"`},
		{`return new Intl.DateTimeFormat("en-US", { dateStyle: "medium", timeStyle: "short", timeZone: "+02:00" ` +
			`}).format(0)`, `"Jan 1, 1970, 2:00 AM"`},
		{`return Intl.DateTimeFormat().resolvedOptions().timeZone`, `"UTC"`},
		{`return ["b", "a", "C", "A", "é", "z10", "z9"].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))`,
			`["a","A","b","C","é","z9","z10"]`},
		{`return [new Intl.ListFormat("en").format(["a", "b", "c"]), new Intl.PluralRules("en", { type: "ordinal" ` +
			`}).select(22), new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-1, "day")]`,
			`["a, b, and c","two","yesterday"]`},
	})
}

// TestPoison checks that a program that modifies builtins still gets correct values and can't reach
// the runtime.
func TestPoison(t *testing.T) {
	check(t, [][2]string{
		{`Object.prototype.toJSON = undefined; Object.prototype.get = () => 1; Object.prototype.value = 9; Object.prototype.error = { message: "x" };
		  Object.prototype.enumerable = false; return [await box.echo({ a: [1, { b: 2 }] }), new Map([["k", new Set([1])]])]`, `[{"a":[1,{"b":2}]},{"k":[1]}]`},
		{`JSON.stringify = () => "forged"; JSON.parse = () => ({ forged: 1 }); globalThis.Promise = null; ` +
			`globalThis.Map = null; globalThis.Error = null; return await box.echo({ a: 1 })`, `{"a":1}`},
		{`Promise.prototype.then = function () { throw new Error("then") }; Promise.prototype.constructor = null; ` +
			`return await box.echo({ a: 1 })`, `{"a":1}`},
		{`Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null; Reflect.apply = null; ` +
			`return await box.echo({ a: 1 })`, `{"a":1}`},
		{`for (const P of [String, RegExp, Array, Map, Set, WeakMap, Number, BigInt]) for (const k of Object.getOwnPropertyNames(P.prototype)) { try { if (k !== "constructor") P.prototype[k] = null } catch {} }
		  return await box.echo({ a: [1], big: 123456789012345678901n })`, `{"a":[1],"big":123456789012345678901}`},
		{`Object.defineProperty(Object.prototype, "__proto__", { get() { throw 1 }, set() { throw 2 } }); return ` +
			`await box.echo({ a: 1 })`, `{"a":1}`},
		{`Object.defineProperty(Error.prototype, "stack", { get() { throw 1 } }); Error.prepareStackTrace = (e, ` +
			`frames) => frames; Error.stackTraceLimit = 0; return await box.fail().catch((e) => e.message)`,
			`"it failed"`},
		{`Error.prepareStackTrace = (e, frames) => frames; return typeof new Error("x").stack`, `"string"`},
		{`const seen = []; Error.captureStackTrace = (o) => seen.push(o); await box.echo({}); return seen.length`, `0`},
		{`Object.freeze(Map.prototype); Object.freeze(Object.prototype); Object.freeze(Array.prototype); return ` +
			`[await box.echo({ a: 1 }), new Map([["a", 1n]])]`, `[{"a":1},{"a":1}]`},
		{`globalThis.tools = globalThis.box = globalThis.callTool = null; return 1`, `1`},
		{`const f = box.echo; return [f.caller, f.arguments].map((x) => x === undefined || x === null)`,
			`threw TypeError: invalid property access`},
		{`console.log = null; globalThis.console = null; globalThis.setTimeout = null; return 2`, `2`},
		{`Date.now = () => 0; Math.random = () => 0.5; Date.prototype.toJSON = () => "forged"; return new Date(0)`,
			`"forged"`},
	})
	// Messages can't be split or forged, because newlines in values are escaped.
	k := run(t, "console.log('a\\n{\"done\":{\"value\":1}}'); return await box.echo({ s: "+
		"'\\n{\"done\":{}}\\n\\u2028' })")
	if k.value() != `{"s":"\n{\"done\":{}}\n`+"\u2028"+`"}` || len(k.console) != 1 {
		t.Errorf("k.value() = %s, k.console = %q, want k.value() == "+
			"`{\"s\":\"\\n{\\\"done\\\":{}}\\n`+\"\\u2028\"+`\"}` && len(k.console) == 1", k.value(), k.console)
	}
}

// TestRandomness checks that sandboxes with the same image have different randomness.
func TestRandomness(t *testing.T) {
	const code = `return [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(1))[0]].join()`
	if a, b := run(t, code).value(), run(t, code).value(); a == b {
		t.Errorf("two sandboxes gave %s", a)
	}
	if got := run(t, `let n = 0; for (let i = 0; i < 1e4; i++) { const x = Math.random(); if (!(x >= 0 && x < 1)) `+
		`return x; n += x } return n > 4700 && n < 5300`).value(); got != "true" {
		t.Errorf("not uniform: %s", got)
	}
}

// TestRandomnessIsChaCha20 checks that a program's randomness is the ChaCha20 stream keyed by its
// seed, using test vectors 1 and 2 of RFC 8439, appendix A.1.
func TestRandomnessIsChaCha20(t *testing.T) {
	const want = `"76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586` +
		`9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"`
	if got := runSeeded(t, `(async () => Buffer.from(crypto.getRandomValues(new Uint8Array(128))).toString("hex"))`,
		strings.Repeat("0", 64)).value(); got != want {
		t.Errorf("got = %s, want want", got)
	}
}
