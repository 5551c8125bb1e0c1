package guest_test

import (
	"strings"
	"testing"
)

// TestSort compares arrays that the host sorts with what the engine does for a comparison of
// another form.
func TestSort(t *testing.T) {
	check(t, [][2]string{
		{`const forms = [
			["", (a, b) => a - b, (a, b) => { const d = a - b; return d; }],
			["", function (p, q) { return q - p }, (a, b) => { const d = b - a; return d; }],
			["key", (x, y) => x.key - y.key, (a, b) => { const d = a.key - b.key; return d; }],
			["key", function by($a, _b) { return _b.key - $a.key; }, (a, b) => { const d = b.key - a.key; return d; }],
			["[1]", (a, b) => { return b[1] - a[1] }, (a, b) => { const d = b[1] - a[1]; return d; }],
		];
		let seed = 1;
		const next = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return (seed >>> 8) % n; };
		const odd = [0, -0, Infinity, -Infinity, 5e-324, -5e-324, 1e308, -1e308, 2 ** 53, 2 ** 53 - 1,
			-2147483648, 0.1];
		const number = [() => next(10), () => next(1e6) - 5e5, () => next(1e6) / 7 - 1e5, () => odd[next(odd.length)],
			() => next(1e6) * 2 ** (next(200) - 100)];
		let differing = 0, compared = 0;
		const same = (a, b) => a.length === b.length && a.every((v, i) => Object.is(v, b[i]));
		for (const [of, fast, slow] of forms) for (const make of number) for (const n of [64, 65, 300, 5000]) {
			const list = Array.from({ length: n }, (_, i) =>
				of === "" ? make() : of === "key" ? (i % 3 ? { i, key: make() } : { key: make() }) : [i, make()]);
			const got = list.slice();
			compared++;
			if (got.sort(fast) !== got || !same(got, list.slice().sort(slow))) differing++;
		}
		return [compared, differing]`, `[100,0]`},

		// What the host declines is sorted by the engine.
		{`const by = (a, b) => a - b, list = (f) => Array.from({ length: 100 }, (_, i) => f(i * 37 % 100));
		const kinds = [list((n) => n === 7 ? NaN : n), list((n) => n === 7 ? undefined : n), list((n) => String(n)),
			list((n) => n === 7 ? null : n), list((n) => new Date(n))];
		const holes = list((n) => n); delete holes[50]; holes.length = 120; kinds.push(holes);
		const more = list((n) => n); more.name = "x"; kinds.push(more);
		class Own extends Array {} kinds.push(Own.from(list((n) => n)));
		kinds.push(Object.assign({ length: 100 }, list((n) => n)), Object.seal(list((n) => n)));
		const plain = (l) => Array.from(l, String).join();
		return kinds.map((k) => {
			const copy = k instanceof Own ? Own.from(k) : Array.isArray(k) ? k.slice() : { ...k };
			if (Array.isArray(k)) copy.length = k.length;
			const slow = (a, b) => { const d = a - b; return d; };
			return plain(Array.prototype.sort.call(k, by)) === plain(Array.prototype.sort.call(copy, slow));
		}).join()`, `"` + repeatTrue(10) + `"`},
		{`const list = Array.from({ length: 100 }, (_, i) => BigInt(i));
		try { list.sort((a, b) => a - b) } catch (e) { return e.name }`, `"TypeError"`},
		{`const seen = [], list = Array.from({ length: 100 }, (_, i) => ({ get key() { seen.push(i); return i } }));
		list.sort((a, b) => a.key - b.key); return seen.length > 100`, `true`},
		{`let n = 0; const get = (o, k) => { n++; return o[k] };
		const list = Array.from({ length: 100 }, (_, i) => new Proxy({ key: -i }, { get }));
		return [list.sort((a, b) => a.key - b.key)[0].key, n > 100]`, `[-99,true]`},
		{`const proto = { key: 5 }, own = (i) => i % 2 ? { key: { value: i } } : {};
		const list = Array.from({ length: 100 }, (_, i) => Object.create(proto, own(i)));
		return list.sort((a, b) => b.key - a.key).map((o) => o.key).slice(46).join()`,
			`"7,` + strings.Repeat("5,", 51) + `3,1"`},
		{`const list = Object.freeze(Array.from({ length: 100 }, (_, i) => -i));
		try { list.sort((a, b) => a - b) } catch (e) { return e.name }`, `"TypeError"`},
		{`const a = 1, list = () => Array.from({ length: 100 }, (_, i) => i * 37 % 100);
		const odd = [(x, y) => a - y, (x, y) => x - x, (x, y) => y.length - x.length, function (x, y) { return
			x - y }, (x, y = 1) => x - y, (x, y) => x - y - 0, async (x, y) => x - y, (x, y) => x.valueOf - y.toString];
		return odd.map((f) => {
			const copy = list();
			return list().sort(f).join() === copy.sort((...args) => f(...args)).join();
		}).join()`, `"` + repeatTrue(8) + `"`},
		{`const octal = new Function("a", "b", "return a[010] - b[010]"); // a[8]
		const list = Array.from({ length: 100 }, (_, i) => Array.from({ length: 12 }, (_, n) => n === 8 ? i : -i));
		return list.reverse().sort(octal)[0][8]`, `0`},
		{`const f = Array.prototype.sort, d = Object.getOwnPropertyDescriptor(Array.prototype, "sort");
		let made = "no"; try { new f() } catch (e) { made = e.name }
		const bad = [];
		for (const x of [undefined, null]) try { f.call(x, (a, b) => a - b) } catch (e) { bad.push(e.name) }
		try { [].sort(1) } catch (e) { bad.push(e.name) }
		return [f.name, f.length, d.writable, d.enumerable, d.configurable, made, "prototype" in f, bad]`,
			`["sort",1,true,false,true,"TypeError",false,["TypeError","TypeError","TypeError"]]`},
		{`try { [3, 1, 2].sort(function bad() { throw new Error("x") }) } catch (e) {
			return e.stack.split("\n").slice(1, 3).map((l) => l.trim().split(" ")[1]) }`, `["bad","sort"]`},
		{`const bad = () => { throw new Error("x") };
		try { [3, 1, 2].sort(bad) } catch (e) { return e.stack.includes("call") }`, `false`},
		{`Function.prototype.toString = () => "(a, b) => a - b"; RegExp.prototype.exec = () => null;
		String.prototype.slice = () => "no";
		const list = Array.from({ length: 100 }, (_, i) => ({ key: i * 37 % 100 }));
		return [list.sort((a, b) => b.key - a.key)[0].key, list.sort((a, b) => 0)[0].key]`, `[99,99]`},
	})
}

// repeatTrue returns true n times, separated by commas.
func repeatTrue(n int) string { return strings.TrimSuffix(strings.Repeat("true,", n), ",") }
