package guest_test

import "testing"

// TestRegularExpressions compares long texts that are split and replaced with what the engine does
// for a subclass, which it treats by the letter of the specification.
func TestRegularExpressions(t *testing.T) {
	check(t, [][2]string{
		{`class Own extends RegExp {}
		const patterns = ["a", "a+", "a*", "(a)|(b)", "(?<x>a)b?", "\\s+", "", "^", "$", "^a", "a$", "\\b", "\\B",
			"(?=a)", "(?<=a)", "(?<=(a))b", "(?!a)", "[ab]{2}", "(?:)", "a|", "|a", "b.", ".", "[^]", "\\n",
			"(a*)*", "(?:a|ab)(?:c|bcd)?", "é", "\\u0061"];
		const alphabets = ["ab", "abc ", "a\n", "aé€", "a😀", "x"];
		let seed = 1, differing = [], compared = 0;
		const next = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return (seed >>> 8) % n; };
		const all = ["", "g", "i", "m", "s", "y", "d", "gi", "gm", "gy", "gimsdy", "u", "gv"];
		for (const p of patterns) for (const flags of all) {
			for (const alphabet of alphabets) {
				const letters = [...alphabet];
				let text = "";
				while (text.length < 256) text += letters[next(letters.length)];
				const fast = new RegExp(p, flags), slow = new Own(p, flags);
				fast.lastIndex = slow.lastIndex = next(3);
				const run = (r) => JSON.stringify([text.split(r), r.lastIndex, text.replace(r, "-"), r.lastIndex,
					text.replace(r, "→"), text.match(r), r.lastIndex, text.replace(r, "[$&]"), r.lastIndex]);
				compared++;
				if (run(fast) !== run(slow)) differing.push([p, flags, text, run(fast), run(slow)]);
			}
		}
		return [compared, differing.slice(0, 3)]`, `[2262,[]]`},
		{`let text = ""; for (let i = 0; i < 500; i++) text += i % 7 ? "a1 " : "é€ ";
		const words = text.match(/[^ ]+/g); // of a text that is concatenated when it is read
		return [words.length, words.slice(6, 9), text.split(/ /).length, text.replace(/ /g, "").length,
			text.replace(/[^a1]/g, "") === "a1".repeat(428), ("x".repeat(300) + "€").match(/y/g)]`,
			`[500,["a1","é€","a1"],501,1000,true,null]`},
		{`const r = /,/g, text = "a,b".repeat(100), seen = [];
		RegExp.prototype.exec = function (s) { seen.push("exec"); return null };
		return [text.split(r).length, text.replace(r, "-") === text, seen.length > 1]`, `[1,true,true]`},
		{`const text = "a,b".repeat(100), seen = [];
		Object.defineProperty(RegExp, Symbol.species, { get() { seen.push("species"); return RegExp } });
		text.split(/,/); return seen`, `["species"]`},
		{`const text = "a,b".repeat(100), r = /,/g; let n = 0;
		Object.defineProperty(r, "flags", { get() { n++; return "g" } });
		text.split(r); text.replace(r, "-"); return n`, `2`},
		{`const text = "a,b".repeat(100); let n = 0;
		const get = (o, k) => { n++; const v = o[k]; return typeof v === "function" ? v.bind(o) : v };
		text.split(new Proxy(/,/g, { get }));
		return n > 0`, `true`},
		{`Array.prototype[0] = "x";
		Object.defineProperty(Object.prototype, 1, { set() { throw new Error("called") }, configurable: true });
		const parts = "a,b".repeat(100).split(/,/);
		return [parts.length, parts[0], parts[1], Object.keys(parts).length]`,
			`[101,"a","ba",101]`},
		{`Object.setPrototypeOf(Array.prototype, new Proxy(Object.prototype, { set() { return true } }));
		const parts = "a,b".repeat(100).split(/,/); return [parts.length, parts[0]]`, `[101,"a"]`},
		{`const text = "a,b".repeat(100), seen = [];
		Object.defineProperty(RegExp.prototype, Symbol.match, { get() { seen.push("match") } });
		text.split(/,/); return seen`, `["match"]`},
		{`try { "a,b".repeat(100).replace(Object.freeze(/,/g), "-") } catch (e) { return e.name }`, `"TypeError"`},
		{`try { "a,b".repeat(100).match(Object.freeze(/,/g)) } catch (e) { return e.name }`, `"TypeError"`},
		{`try { "a".repeat(3e6).match(/(a|a)+b/g) } catch (e) { return typeof e.message }`, `"string"`},
		{`const f = RegExp.prototype[Symbol.split], g = RegExp.prototype[Symbol.replace];
		const d = Object.getOwnPropertyDescriptor(RegExp.prototype, Symbol.split);
		let made = "no"; try { new f() } catch (e) { made = e.name }
		return [f.name, f.length, g.name, g.length, d.writable, d.enumerable, d.configurable, made, "prototype" in f,
			RegExp.prototype[Symbol.split].call(/,/, "a,b", 1)]`,
			`["[Symbol.split]",2,"[Symbol.replace]",2,true,false,true,"TypeError",false,["a"]]`},
		{`try { RegExp.prototype[Symbol.split].call(undefined, "a") } catch (e) { return e.name }`, `"TypeError"`},
	})
}
