// Compares JSON.parse and JSON.stringify, which the host may serve, with the engine's own: a function as
// the second argument makes the engine do the work.
(async () => {
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
})
