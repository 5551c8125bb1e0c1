let seed = 12345;
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
for (let i = 0; i < 400; i++) checkValue(Array.from({ length: 6 }, () => value(0)), "random " + i);
