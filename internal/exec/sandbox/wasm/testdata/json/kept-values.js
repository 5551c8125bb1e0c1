const text = JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: "text " + i, a: [i, { b: i / 3 }] })));
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
}
