class Point { constructor() { this.x = 1; } }
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
checkText('[{"x":1},{"y":2,"x":3}]', "a setter"); delete Object.prototype.x;
