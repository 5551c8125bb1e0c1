package wasm

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// jsonCases compares JSON.parse and JSON.stringify, which the host may serve, with the engine's own:
// a function as the second argument makes the engine do the work.
const jsonCases = `(async () => {
	const same = (key, value) => value, faults = [];
	const outcome = (f) => { try { return f(); } catch (e) { return e.name + ": " + e.message; } };
	const shown = (v) => JSON.stringify(v, (k, x) => Object.is(x, -0) ? "-0" : typeof x === "number" ? "n" + x : x);
	const checkText = (text, why) => {
		const long = text + " ".repeat(300);
		const want = outcome(() => shown(JSON.parse(long, same))), got = outcome(() => shown(JSON.parse(long)));
		if (want !== got) faults.push(["parse " + why, text.slice(0, 200), want, got]);
	};
	const checkValue = (v, why) => {
		for (const gap of [undefined, 2, "\t", "é", "→", 30, "0123456789abc", 0.5, NaN]) {
			const want = outcome(() => JSON.stringify(v, same, gap)), got = outcome(() => JSON.stringify(v, null, gap));
			if (want !== got) faults.push(["stringify " + why, String(gap), want, got]);
		}
		const text = outcome(() => JSON.stringify(v, same));
		if (typeof text === "string") checkText(text, why);
	};
	TEST
	return faults.slice(0, 5);
})`

func TestJSON(t *testing.T) {
	d := realDriver(t, Config{})
	for name, code := range map[string]string{
		"texts": `for (const text of [
			"{}", "[]", "[[]]", "[{}]", "{\"a\":{}}", "null", "true", "\"x\"", "-0", "[-0,0,1e999,-1e999,1e-999,1.0,2147483648,-2147483648,-2147483649]",
			"[123456789,1234567890,12345678901234567890,0.1,1e21,1e+2,1E-2,5e-324,1.7976931348623157e308,0e5,10,100]",
			"01", "[01]", "[-]", "[1.]", "[.5]", "[1e]", "[1e+]", "[+1]", "[0x1]", "[1_0]", "[NaN]", "[Infinity]", "[1,]", "[,1]", "[1 2]", "{,}",
			"{\"a\":1,}", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1 \"b\":2}", "[", "{", "\"", "[\"a", "{\"a", "{\"a\":", "]", "}", "tru", "truex", "nul", "[falsey]",
			"[1]]", "[1] x", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\", "\"a\nb\"", "\"a\tb\"", "\"\u007f\"", "\uFEFF[]", "\u00a0[]", "[1]\u2028", "\v[]",
			"[\"\\ud83d\\ude00\",\"\\ud83d\",\"\\u00e9\",\"\\u0000\",\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"]", "[\"é\",\"ÿ\",\"Ā\",\"😀\"]",
			"{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "[{\"a\":1,\"b\":2,\"a\":3}]", "{\"__proto__\":{\"x\":1}}", "{\"constructor\":1,\"toString\":2}",
			"{\"2\":0,\"1\":1,\"b\":2,\"0\":3,\"a\":4,\"-1\":5,\"01\":6,\"4294967294\":7,\"4294967295\":8}", "{\"\":1,\" \":2,\"\\n\":3,\"é\":4,\"→\":5,\"😀\":6,\"\\u0000\":7}",
			"[{\"a\":1},{\"a\":2},{\"b\":1,\"a\":2},{\"a\":2,\"b\":1},{\"a\\u0062\":1},{\"ab\":2}]", "[" .repeat(5000), "[".repeat(300) + "]".repeat(300), "[".repeat(256) + "]".repeat(256),
			"{\"a\":".repeat(300) + "1" + "}".repeat(300), "[" + "1,".repeat(70000) + "1]", "9".repeat(500), "[" + "9".repeat(400) + "]", "[0." + "1".repeat(398) + "]",
			"[" + Array.from({ length: 3000 }, (_, i) => '{"k' + i + '":' + i + "}").join() + "]",
			"{" + Array.from({ length: 70000 }, (_, i) => '"k' + i + '":' + i).join() + "}",
			"[" + Array.from({ length: 900 }, (_, i) => '{"k' + i % 300 + '":[' + i + ',{"x":"' + i + '"}]}').join() + "]",
		]) checkText(text, "");`,
		"values": `class Point { constructor() { this.x = 1; } }
		class Own { constructor() { this.x = 1; } toJSON() { return "own"; } }
		const bag = { a: 1, b: 2, c: 3 }; delete bag.b;
		const hidden = {}; Object.defineProperty(hidden, "x", { value: 1, enumerable: false, configurable: true }); hidden.y = 2;
		const getter = { get x() { return 7; }, y: 1 };
		const cycle = { a: [] }; cycle.a.push(cycle);
		const holes = [1, , 3], sparse = []; sparse[5] = 1;
		const named = [1, 2]; named.extra = 3; const jsonArray = [1]; jsonArray.toJSON = () => "array";
		const short = [1, 2, 3]; short.length = 2; const long = [1]; long.length = 3;
		const shared = { x: [1] };
		for (const v of [{}, [], [[]], [{}], { a: {} }, { a: undefined }, [undefined], { a: () => 1, b: 1 }, [() => 1], { [Symbol("s")]: 1, a: 2 }, [Symbol("s")],
			{ a: NaN, b: -Infinity, c: -0, d: 1e21, e: 1e-7, f: 123456789012345680000, g: 0.000001, h: 5e-324, i: 1.5e300, j: -1e-10, k: 2 ** 53 },
			{ d: new Date(0) }, [new Map([[1, 2]])], { s: new Set([1]) }, [new Point()], [new Own()], { toJSON() { return { x: 1 }; } }, { toJSON: 5 }, Object.create(null),
			Object.assign(Object.create(null), { a: 1 }), Object.create({ inherited: 1 }), bag, hidden, getter, cycle, holes, sparse, named, jsonArray, short, long,
			[shared, shared], { 2: "two", b: 1, 1: "one" }, { 4294967294: 1, a: 2 }, { "": 1, "\"": 2, "\n": 3, "é": 4, "→": 5, "\ud800": 6 },
			[1n], { a: 1n }, new String("s"), [new Number(1), new Boolean(false), new String("x")], [/x/g], [new Error("x")], new Proxy({ a: 1 }, {}), [new Proxy([1], {})],
			new Uint8Array([1, 2]), Object.freeze({ a: [1] }), "x", 5, null, [null], "\ud800", ["\ud800", "\udc00", "\ud83d\ude00", "\ude00\ud83d", "é\u0001\u001f\u007f\u2028"],
			"x".repeat(300).match(/x/), (function () { return arguments; })(1, 2), JSON.rawJSON("1e1000"), { r: JSON.rawJSON("\"x\"") }, globalThis.nothing, Math, JSON,
			{ text: "abc".repeat(50) + "→" }, ["→".repeat(40).slice(3, 30), "→abc".repeat(40).slice(1, 30), ("é".repeat(60)).slice(5, 40)],
			{ rope: Array.from({ length: 900 }, (_, i) => "part" + i).reduce((a, b) => a + b) }, Array.from({ length: 300 }, (_, i) => ({ ["k" + i]: i })),
			Array.from({ length: 300 }).reduce((a) => [a], 1), Array.from({ length: 200 }).reduce((a) => ({ a }), 1)]) checkValue(v, "");
		Object.prototype.toJSON = function () { return "all"; };
		checkValue({ a: 1 }, "Object.prototype.toJSON"); delete Object.prototype.toJSON;
		Array.prototype.toJSON = function () { return "all"; };
		checkValue([[1]], "Array.prototype.toJSON"); delete Array.prototype.toJSON;
		Object.defineProperty(Object.prototype, "x", { set() { throw new Error("setter"); }, configurable: true });
		checkText('[{"x":1},{"y":2,"x":3}]', "a setter"); delete Object.prototype.x;`,
		"random": `let seed = 12345;
		const next = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff; return (seed >>> 8) % n; };
		const chars = ["a", "é", "→", "😀", "\ud800", "\"", "\\", "\n", "\u0001", "/", "0", "longer text ", " "];
		const text = () => { let s = ""; for (let n = next(6); n > 0; n--) s += chars[next(next(2) ? chars.length : 2)]; return s; };
		const value = (depth) => {
			switch (next(depth > 5 ? 6 : 9)) {
			case 0: return null;
			case 1: return next(2) === 0;
			case 2: return next(2) ? next(100) - 50 : next(1e9) * (next(2) ? 7919 : -7919);
			case 3: return (next(1e9) - 5e8) / (next(1000) + 1) * 10 ** (next(40) - 20);
			case 4: case 5: return text();
			case 6: return Array.from({ length: next(5) }, () => value(depth + 1));
			default: { const o = {}; for (let n = next(6); n > 0; n--) o[next(3) ? "k" + next(8) : text()] = value(depth + 1); return o; }
			}
		};
		for (let i = 0; i < 400; i++) checkValue(Array.from({ length: 6 }, () => value(0)), "random " + i);`,
		"kept values": `const text = JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: "text " + i, a: [i, { b: i / 3 }] })));
		const kept = []; // objects of shared shapes may change, and be collected
		for (let i = 0; i < 40; i++) {
			const v = JSON.parse(text);
			v[5].extra = i; delete v[6].s; v[7].a.push(1, 2, 3); v[8].a[1].c = v; Object.setPrototypeOf(v[9], null); v.sort((x, y) => y.i - x.i);
			if (i % 8 === 0) kept.push(v);
		}
		for (const [i, v] of kept.entries()) {
			const back = JSON.parse(text);
			if (v[1994].extra !== i * 8 || "s" in v[1993] || v[1992].a.length !== 5 || v[1991].a[1].c !== v || back[5].extra !== undefined || back[6].s !== "text 6") faults.push(["kept", i]);
			v[1991].a[1].c = null;
			checkValue(v.slice(0, 20), "kept");
		}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := &script{Reader: strings.NewReader(program(strings.Replace(jsonCases, "TEST", code, 1)) + "\n")}
			if _, err := newKept(t, d, sandbox.Spec{}).Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
				t.Fatalf("Run: %v; output %s", err, c.String())
			}
			if got := c.String(); !strings.Contains(got, `"value":[]`) {
				t.Errorf("the host's JSON differs from the engine's: %s", got)
			}
		})
	}
}

// TestJSONMemory parses until the guest's memory is exhausted. The program can catch the error, and
// continue.
func TestJSONMemory(t *testing.T) {
	d := realDriver(t, Config{})
	c := &script{Reader: strings.NewReader(program(`(async () => {
		const text = "[" + '{"a":[1,"two",{"b":3.5}]},'.repeat(20000) + "0]", kept = [];
		let message;
		try { for (;;) kept.push(JSON.parse(text)); } catch (e) { message = e.message; }
		const n = kept.length;
		kept.length = 0;
		return [message, n > 0, JSON.parse(text).length, JSON.stringify(JSON.parse(text)) === text];
	})`) + "\n")}
	if _, err := newKept(t, d, sandbox.Spec{Memory: 64 << 20}).Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true}); err != nil {
		t.Fatalf("Run: %v; output %s", err, c.String())
	}
	if got := c.String(); !strings.Contains(got, `"value":["out of memory",true,20001,true]`) {
		t.Errorf("after the memory was exhausted: %s", got)
	}
}

// BenchmarkJSON does in a program what BenchmarkCPU does with the engine alone, which has only its
// own JSON.
func BenchmarkJSON(b *testing.B) {
	d := benchDriver(b)
	const code = `(async () => {
		const v = Array.from({ length: 2000 }, (_, i) => ({ i, s: "text " + i, a: [i, i / 3] }));
		for (let i = 0; i < 20; i++) JSON.stringify(JSON.parse(JSON.stringify(v)));
	})`
	for b.Loop() {
		k := newKept(b, d, sandbox.Spec{})
		c := &script{Reader: strings.NewReader(program(code) + "\n")}
		if _, err := k.Run(b.Context(), &sandbox.Cmd{Guest: c}); err != nil {
			b.Fatalf("Run: %v", err)
		}
		if err := k.Close(); err != nil {
			b.Fatalf("Close: %v", err)
		}
	}
}
