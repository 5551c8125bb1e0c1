1 + 1
//---
(function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); })(18)
//---
JSON.stringify(JSON.parse('{"a":[1,2.5,-0,1e300,"é\\u0000😀",null,true],"b":{"c":{}}}'), null, 2)
//---
Array.from({ length: 5000 }, (_, i) => (i * 7919) % 5003).sort((a, b) => a - b).slice(0, 50).join()
//---
Array.from({ length: 3000 }, (_, i) => ({ k: i % 17, i })).sort((a, b) => a.k - b.k).map((x) => x.i).slice(0, 200).join()
//---
["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "floor", "ceil", "round", "trunc", "fround", "f16round", "sign"].map((f) => [0, -0, 0.5, -1.5, 1e-10, 3.7, 1e10, Infinity, NaN].map((x) => String(Math[f](x))).join()).join("\n")
//---
[0.1, 1 / 3, 1e21, 1e-7, 123456789.123, 5e-324, 1.7976931348623157e308, 0.000001, 4.35, 1.005].map((x) => [x, x.toFixed(2), x.toPrecision(3), x.toExponential(4), x.toString(2).slice(0, 40), x.toString(36)].join()).join("\n")
//---
["0x1f", "1e3", " 12 ", "0b101", "1_0", "Infinity", "", "-0", "1e400", "4.9e-324", ".5."].map((s) => [Number(s), parseFloat(s), parseInt(s)].join()).join("\n")
//---
String(2n ** 521n - 1n) + (-7n / 2n) + (-7n % 2n) + BigInt.asIntN(8, 255n) + (1n << 100n) + BigInt("0xffffffffffffffffffff")
//---
(() => { let a = 1n; for (let i = 1n; i < 200n; i++) a *= i; return a.toString(36); })()
//---
"The quick brown fox jumps over the lazy dog".replace(/(?<first>\w)(\w*)/g, (m, a, b, o, s, g) => b + g.first + "ay") + "aBc".replace(/b/i, "[$`|$&|$']")
//---
[..."2026-01-02 and 1999-12-31".matchAll(/(?<y>\d{4})-(?<m>\d\d)-(?<d>\d\d)/g)].map((m) => JSON.stringify(m.groups) + m.index).join()
//---
/(?<=\$)\d+(?!\d|\.)/.exec("cost $42, $43.5") + "" + /\p{Lu}\p{Ll}+/u.exec("straße Äpfel") + "ǅ".toLowerCase() + "ß".toUpperCase() + "I\u0307".normalize("NFC") + "é".normalize("NFD").length
//---
(() => { const out = []; for (const [k, v] of Object.entries(Object.groupBy([1, 2, 3, 4, 5], (x) => x % 2 ? "odd" : "even"))) out.push(k + v); return out.join() + [3, 1, 2].toSorted() + [1, 2, 3].toSpliced(1, 1) + [1, 2].with(0, 9) + [1, 2, 3].at(-1) + [[1, [2, [3]]]].flat(9); })()
//---
(() => { class A { #x = 1; static #n = 0; static { A.#n = 5; } get x() { return this.#x; } set x(v) { this.#x = v; A.#n++; } static get n() { return A.#n; } has(o) { return #x in o; } } class B extends A { y = super.x + 1; toString() { return `B${this.y}${this.has(this)}${A.n}`; } } const b = new B(); b.x = 10; return String(b) + b.x; })()
//---
(() => { function* g() { try { const a = yield 1; yield a * 2; yield* [7, 8]; return 9; } finally { yield "f"; } } const i = g(); return [i.next(), i.next(5), i.next(), i.return(3), i.next(), i.next()].map((x) => JSON.stringify(x)).join(); })()
//---
var log = []; (async () => { log.push(1); await null; log.push(2); for await (const x of (async function* () { yield 3; yield 4; })()) log.push(x); try { await Promise.reject(new Error("e")); } catch (e) { log.push(e.message); } finally { log.push("f"); } })(); Promise.all([1, Promise.resolve(2)]).then((v) => log.push(String(v))); Promise.any([Promise.reject(1), 5]).then((v) => log.push("any" + v)); Promise.allSettled([Promise.reject(1), 2]).then((v) => log.push(JSON.stringify(v))); log.push(0); log.length
//---
log.join()
//---
[new Date(0), new Date(8.64e15), new Date(2026, 1, 29, 12, 34, 56, 789), new Date("2026-03-04T05:06:07.008+09:00"), new Date("Mar 7, 2026 10:00 GMT")].map((d) => d.toISOString() + d.toString() + d.getDay()).join("\n") + Date.UTC(99, 0) + Date.parse("nonsense")
//---
(() => { const b = new ArrayBuffer(64), v = new DataView(b); v.setFloat64(0, Math.PI); v.setFloat32(8, 1 / 3, true); v.setInt16(12, -2); v.setBigUint64(16, 2n ** 63n + 1n); v.setFloat16?.(24, 1.5); return [...new Uint8Array(b)].join() + new Int16Array(b, 0, 4) + new Float32Array([1e40, NaN, -0]).map((x) => x * 2) + Uint8ClampedArray.of(-5, 300, 1.5, NaN) + new BigInt64Array(b.slice(16, 24)); })()
//---
(() => { const m = new Map([[NaN, 1], [0, 2], ["a", 3]]); m.set(-0, 9).delete("a"); const s = new Set([1, 2, 3]); return [...m].join("|") + [...s.union(new Set([9]))] + [...s.intersection(new Set([2, 3, 4]))] + new WeakMap([[m, 1]]).has(m); })()
//---
(() => { const seen = []; const p = new Proxy({ a: 1 }, { get: (t, k, r) => (seen.push("get " + String(k)), Reflect.get(t, k, r)), has: (t, k) => (seen.push("has " + String(k)), k in t), ownKeys: (t) => (seen.push("keys"), Reflect.ownKeys(t)), deleteProperty: (t, k) => (seen.push("delete " + k), delete t[k]) }); p.a; "b" in p; Object.keys(p); delete p.a; ({ ...p }); `${p[Symbol.toStringTag]}`; return seen.join(); })()
//---
(() => { try { null.x; } catch (e) { var a = e.message + e.stack; } try { undefinedName; } catch (e) { a += e.message; } try { (void 0)(); } catch (e) { a += e; } try { new (class { constructor() { this.#p; } #p = 1; })().constructor(); } catch (e) { a += e; } return a; })()
//---
throw new RangeError("thrown", { cause: "why" })
//---
syntax error here
//---
(() => { outer: for (let i = 0, s = ""; ; i++) { for (let j = 0; j < 5; j++) { if (j == 3) continue outer; if (i == 4) return s; s += `${i}${j} `; } } })()
//---
(() => { const { a = 5, b: { c: [, d = 7, ...e] = [] } = {}, ...rest } = { b: { c: [1, undefined, 3, 4] }, x: 1, y: 2 }; return JSON.stringify([a, d, e, rest, a?.b?.[0] ?? "none"]); })()
//---
(() => { let h = 0x811c9dc5; for (let i = 0; i < 20000; i++) { h ^= i & 255; h = Math.imul(h, 0x01000193) >>> 0; h = ((h << 5) | (h >>> 27)) >>> 0; } return h; })()
//---
(() => { const text = "lorem ipsum dolor sit amet ".repeat(400), n = {}; for (const w of text.split(/\s+/)) if (w) n[w] = (n[w] || 0) + 1; return Object.entries(n).sort(([a], [b]) => a.localeCompare(b)).join("|") + text.lastIndexOf("amet") + text.replaceAll("o", "0").slice(-30); })()
//---
(() => { const s = Symbol("d"), o = { [s]: 1, 2: "b", 1: "a", z: 1, get g() { return 5; } }; return Reflect.ownKeys(o).map(String).join() + JSON.stringify(Object.getOwnPropertyDescriptors(o)) + Object.isFrozen(Object.freeze(o)) + s.description + Symbol.for("x").toString(); })()
//---
encodeURIComponent("ä/?&=😀 ") + decodeURIComponent("%F0%9F%98%80") + escape("ü€") + unescape("%u20AC") + btoa("hello") + atob("aGVsbG8=")
//---
eval("var q = 1; { let q = 2; function hoisted() { return q; } } hoisted() + q") + new Function("a", "b", "return a * b")(6, 7) + (0, eval)("typeof q")
//---
(function f(n) { try { return f(n + 1); } catch (e) { return e.constructor.name + (n > 100); } })(0)
//---
(() => { const a = []; for (let i = 0; i < 30000; i++) a.push({ i, s: "s" + i, n: [i, i * 2] }); return a.filter((x) => x.i % 3 == 0).map((x) => x.n[1]).reduce((x, y) => x + y, 0); })()
//---
(() => { let s = ""; for (let i = 0; i < 20000; i++) s += String.fromCharCode(32 + (i % 90)); return s.length + s.indexOf("zzz") + [...s].reverse().join("").slice(0, 20); })()
//---
[1, 2, 3].values().map((x) => x * 2).filter((x) => x > 2).toArray() + "" + Iterator.from([5, 6]).take(1).toArray() + structuredCloneMissing()
