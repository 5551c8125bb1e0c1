package program_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// TestObservedFieldsFollowed follows results through variables, Promise.all and methods of arrays.
func TestObservedFieldsFollowed(t *testing.T) {
	_, p := newObserver(t)
	for _, tt := range []struct{ code, want string }{
		{"let r = await shop.page(); return r.rows", "1 shop.page rows"},
		{"let { rows } = await shop.page(); return rows", "1 shop.page rows"},
		{"const r = await shop.page(); const a = r; const b = a.items; return b[0].name", "1 shop.page name"},
		{"const r = await shop.page(); const { items } = r; const [first] = items; return first.name",
			"1 shop.page name"},
		{"const r = await shop.page(); const open = r.items.filter(x => x.id); return open.map(x => x.name)",
			"1 shop.page name"},
		{"const r = await shop.list(); return r.slice(0, 3).map(x => x.name)", "1 shop.list name"},
		{"const r = await shop.list(); const x = r.find(x => x.id === 1); return x.name", "1 shop.list name"},
		{"const r = await shop.list(); return [...r].sort((a, b) => a.rank - b.rank)", "1 shop.list rank"},
		{"const r = await shop.list(); return r.reduce((n, x) => n + x.amount, 0)", "1 shop.list amount"},
		{"const [a, b] = await Promise.all([shop.list(), shop.page()]); return [a[0].name, b.rows]",
			"1 shop.list name|1 shop.page rows"},
		{"const [, { rows }] = await Promise.all([shop.list(), shop.page()]); return rows", "1 shop.page rows"},
		{"const all = await Promise.all([shop.list(), shop.page()]); return all[1].rows", "1 shop.page rows"},
		{"const all = await Promise.all([1, 2].map(n => shop.page({ n }))); return all.map(r => r.rows)",
			"1 shop.page rows"},
		{"const all = await Promise.all([1, 2].map(async n => await shop.page({ n })));\n" +
			"for (const r of all) console.log(r.rows)", "2 shop.page rows"},
		{"const p = shop.page(); const [r] = await Promise.all([p]); return r.rows", "1 shop.page rows"},

		{"let r = await shop.page(); r = { rows: 1 }; return r.rows", ""},
		{"let r = await shop.page(); ({ r } = { r: { rows: 1 } }); return r.rows", ""},
		{"let r = await shop.page(), q = 1; [r, q] = [{ rows: 1 }, r]; return r.rows", ""},
		{"let r = await shop.page(); for (r of [{ rows: 1 }]) console.log(r.rows)", ""},
		{"const r = await shop.list(); r[0] = { name: 1 }; return r[0].name", ""},
		{"const r = await shop.page(); r.items = [{ name: 1 }]; return r.items[0].name", ""},
		{"const r = await shop.page(); for (const x of r.items.filter(x => x.id)) x.name = 1; return r.items[0].name",
			""},
		{"const r = await shop.list(); const x = r.find(x => x.id); x.name = 1; return r.map(x => x.name)", ""},
		{"const add = r => { for (const x of r.items) x.name = 1 }; const r = await shop.page(); add(r); " +
			"return r.items[0].name", ""},
		{"const r = await shop.page(); const o = { r }; o.r.rows = 1; return r.rows", ""},
		{"const r = await shop.page(); const q = r.total ? r : null; q.rows = 1; return r.rows", ""},
		{"const [a, b] = await Promise.all([shop.list(), shop.page()]); return [a[0].title, b.total]", ""},
		{"const [a] = await Promise.all([...[shop.page()]]); return a.rows", ""},
		{"const [a] = await Promise.allSettled([shop.page()]); return a.value.rows", ""},
		{"const [a] = await Promise.race([shop.page()]); return a.rows", ""},
		{"const all = await Promise.all([shop.list(), shop.page()]); all[1] = { rows: 1 }; return all[1].rows", ""},
		{"const all = await Promise.all([shop.page()]); fix(all); return all[0].rows\n" +
			"function fix(x) { x[0].rows = 1 }", ""},
		{"const [a = { rows: 1 }] = await Promise.all([shop.page()]); return a.rows", ""},
		{"const all = await Promise.all([1].map(shop => shop.page())); return all[0].rows", ""},
		{"const Promise = { all: async () => [{ rows: 1 }] }; const [a] = await Promise.all([shop.page()]); " +
			"return a.rows", ""},
	} {
		if s := listWarnings(t, p, tt.code, ""); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.code, s, tt.want)
		}
	}
}

// TestObservedFieldsInPython follows results through programs in Python.
func TestObservedFieldsInPython(t *testing.T) {
	_, p := newObserver(t)
	for _, tt := range []struct{ code, want string }{
		{"r = await shop.page()\nprint(r.rows)", "2 shop.page rows"},
		{"r = await shop.page({})\nprint(r[\"rows\"])", "2 shop.page rows"},
		{"print((await shop.page())['rows'])", "1 shop.page rows"},
		{"print((await tools.shop.page()).rows)", "1 shop.page rows"},
		{"for x in (await shop.page())[\"items\"]:\n    print(x[\"name\"])", "2 shop.page name"},
		{"r = await shop.list()\nprint([x[\"name\"] for x in r])", "2 shop.list name"},
		{"r = await shop.list()\nprint([x[\"id\"] for x in r if x[\"state\"] == \"open\"])", "2 shop.list state"},
		{"r = await shop.list()\nprint(r[0].by.name, r[-1][\"by\"][\"id\"])", "2 shop.list name|2 shop.list id"},
		{"r = await shop.list()\nfor i, x in enumerate(r):\n    print(i, x.name)", "3 shop.list name"},
		{"r = await shop.list()\nr.sort(key=lambda x: x[\"rank\"])", "2 shop.list rank"},
		{"r = await shop.list()\nbest = max(r, key=lambda x: x.id)\nprint(best.name)", "3 shop.list name"},
		{"r = await shop.list()\nprint(f\"{r[0]['name']}\")", "2 shop.list name"},
		{"async def main():\n    r = await shop.page()\n    return r[\"rows\"]\nawait main()", "3 shop.page rows"},
		{"r = await shop.page()\nsome = [x for x in r[\"items\"] if x[\"id\"]]\nprint(some[0][\"name\"])",
			"3 shop.page name"},
		{"import asyncio\na, b = await asyncio.gather(shop.list(), shop.page())\nprint(a[0].name, b.rows)",
			"3 shop.list name|3 shop.page rows"},
		{"import asyncio\nall = await asyncio.gather(shop.list(), shop.page())\nprint(all[1].rows)",
			"3 shop.page rows"},
		{"import asyncio\nrs = await asyncio.gather(*[shop.page(n=i) for i in range(3)])\nfor r in rs:\n" +
			"    print(r.rows)",
			"4 shop.page rows"},
		{"import asyncio\ncalls = [shop.page(n=i) for i in range(3)]\nrs = await asyncio.gather(*calls)\n" +
			"print([r[\"rows\"] for r in rs])", "4 shop.page rows"},

		{"r = await shop.page()\nprint(r.items(), r.keys(), r[\"items\"][0][\"title\"], r.total)", ""},
		{"r = await shop.page()\nprint(r.get(\"rows\"), r.get(\"data\", []))", ""},
		{"r = await shop.page()\nif r.get(\"rows\"):\n    print(r[\"rows\"])", ""},
		{"r = await shop.page()\nprint(r[\"rows\"] if \"rows\" in r else 1)", ""},
		{"r = await shop.page()\nprint(r[\"rows\"] if \"rows\" in r.keys() else 1)", ""},
		{"r = await shop.page()\nprint(r[\"rows\"] if \"rows\" in list(r) else 1)", ""},
		{"r = await shop.page()\nprint(r.rows if hasattr(r, \"rows\") else 1)", ""},
		{"r = await shop.page()\nprint(r.rows if isinstance(r, list) else 1)", ""},
		{"r = await shop.page()\ntry:\n    print(r[\"rows\"])\nexcept KeyError:\n    print(r[\"items\"])", ""},
		{"from contextlib import suppress\nr = await shop.page()\nwith suppress(KeyError):\n    print(r[\"rows\"])",
			""},
		{"r = await shop.page()\nr[\"rows\"] = 1\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nr.rows = 1\nprint(r.rows)", ""},
		{"r = await shop.page()\nr.update(rows=1)\nprint(r.rows)", ""},
		{"r = await shop.page()\nr.setdefault(\"rows\", 1)\nprint(r.rows)", ""},
		{"r = await shop.list()\nfor x in r:\n    x[\"score\"] = 1\nprint(r[0][\"score\"])", ""},
		{"r = await shop.list()\nr.append({\"score\": 1})\nprint(r[-1][\"score\"])", ""},
		{"r = await shop.list()\nr[0] = {\"score\": 1}\nprint(r[0][\"score\"])", ""},
		{"def fix(x):\n    x[\"rows\"] = 1\nr = await shop.page()\nfix(r)\nprint(r[\"rows\"])", ""},
		{"def fix():\n    global r\n    r = {\"rows\": 1}\nr = await shop.page()\nfix()\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nr = {\"rows\": 1}\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nif r.total > 1:\n    r = {\"rows\": 1}\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nfor r in [{\"rows\": 1}]:\n    print(r[\"rows\"])", ""},
		{"r = await shop.page()\nq = [r]\nq[0][\"rows\"] = 1\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nq = r if r.total else None\nq[\"rows\"] = 1\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\nkey = \"rows\"\nprint(r[key])", ""},
		{"r = await shop.rare()\nprint(r.rows)", ""},
		{"r = await shop.mixed()\nprint(r.rows)", ""},
		{"r = await shop.record()\nprint(r.rows)", ""},
		{"class Shop:\n    async def page(self):\n        return {\"rows\": 1}\nshop = Shop()\n" +
			"r = await shop.page()\n" +
			"print(r[\"rows\"])", ""},
		{"async def f(shop):\n    r = await shop.page()\n    return r[\"rows\"]", ""},
		{"r = await shop.page()\nmatch 1:\n    case r:\n        print(r.rows)", ""},
		{"r = await shop.page()\nexec(\"r = {'rows': 1}\")\nprint(r[\"rows\"])", ""},
		{"r = await shop.page()\ntry:\n    1 / 0\nexcept Exception as r:\n    pass\nprint(r.rows)", ""},
		{"import asyncio\na, b = await asyncio.gather(shop.list(), shop.page(), return_exceptions=True)\nprint(b.rows)",
			""},
		{"import asyncio\na, b = await asyncio.gather(*[shop.page(), shop.list()])\nprint(b[0].name)", ""},
		{"import asyncio\na, b = await asyncio.gather(shop.list(), shop.page())\nprint(a[0].title, b.total)", ""},
		{"import asyncio\nrs = await asyncio.gather(*[shop.page() for i in range(3)])\nrs[0][\"rows\"] = 1\n" +
			"print(rs[0][\"rows\"])", ""},
	} {
		if s := listWarnings(t, p, tt.code, "python"); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.code, s, tt.want)
		}
	}
}

// correctPrograms read a field which no result had, after they made sure that it is there. %[1]s
// is an object of a result.
var correctPrograms = map[string][]string{
	"javascript": {
		"%[1]s.extra = 1; console.log(%[1]s.extra)",
		"if (%[1]s.extra) console.log(%[1]s.extra.name)",
		"console.log(%[1]s.extra ?? 1, %[1]s?.extra)",
		"if (\"extra\" in %[1]s) console.log(%[1]s.extra)",
		"const one = %[1]s; one.extra = 1; console.log(%[1]s.extra, one.extra)",
		"const set = x => { x.extra = 1 }; set(%[1]s); console.log(%[1]s.extra)",
		"const box = [%[1]s]; box[0].extra = 1; console.log(%[1]s.extra)",
		"Object.assign(%[1]s, { extra: 1 }); console.log(%[1]s.extra)",
		"{ const a = { b: %[1]s }; a.b.extra = 1; console.log(%[1]s.extra) }",
		"let q = %[1]s; q = { extra: 1 }; console.log(q.extra)",
		"const { extra = 1 } = %[1]s; console.log(extra)",
	},
	"python": {
		"%[1]s[\"extra\"] = 1\nprint(%[1]s[\"extra\"])",
		"if %[1]s.get(\"extra\"):\n    print(%[1]s[\"extra\"])",
		"if \"extra\" in %[1]s:\n    print(%[1]s[\"extra\"])",
		"try:\n    print(%[1]s[\"extra\"])\nexcept KeyError:\n    pass",
		"one = %[1]s\none[\"extra\"] = 1\nprint(%[1]s[\"extra\"], one.extra)",
		"def set_extra(x):\n    x[\"extra\"] = 1\nset_extra(%[1]s)\nprint(%[1]s[\"extra\"])",
		"box = [%[1]s]\nbox[0][\"extra\"] = 1\nprint(%[1]s[\"extra\"])",
		"%[1]s.update(extra=1)\nprint(%[1]s.extra)",
		"box = {\"b\": %[1]s}\nbox[\"b\"][\"extra\"] = 1\nprint(%[1]s.extra)",
		"q = %[1]s\nq = {\"extra\": 1}\nprint(q[\"extra\"])",
		"print(%[1]s.get(\"extra\", 1))",
	},
}

// resultObjects are ways to get at an object of a result: what stands before, and the object.
var resultObjects = map[string][][2]string{
	"javascript": {
		{"const r = await shop.page();", "r"}, {"let r = await shop.page();", "r"},
		{"const r = await shop.page();", "r.items[0]"}, {"const r = await shop.list();", "r[0].by"},
		{"const { items } = await shop.page();", "items[0]"}, {"const [, r] = await Promise.all([1, shop.page()]);",
			"r"},
		{"const [r] = (await shop.list()).filter(x => x.id);", "r"},
		{"const all = await Promise.all([1, 2].map(n => shop.page({ n })));", "all[0]"},
		{"const list = await shop.list(); const r = list.find(x => x.id === 1);", "r"},
	},
	"python": {
		{"r = await shop.page()", "r"}, {"r = await shop.page()", "r[\"items\"][0]"}, {"r = await shop.list()",
			"r[0].by"},
		{"import asyncio\na, r = await asyncio.gather(shop.list(), shop.page())", "r"},
		{"import asyncio\nrs = await asyncio.gather(*[shop.page() for i in range(2)])", "rs[0]"},
		{"list_ = await shop.list()\nr = max(list_, key=lambda x: x.id)", "r"},
		{"list_ = await shop.list()\nsome = [x for x in list_ if x.id]", "some[0]"},
	},
}

// TestObservedPrecision checks that no correct program gets a warning, and that the same object's
// missing field gets one if nothing makes sure that it is there.
func TestObservedPrecision(t *testing.T) {
	_, p := newObserver(t)
	rapid.Check(t, func(t *rapid.T) {
		language := rapid.SampledFrom([]string{"javascript", "python"}).Draw(t, "language")
		object := rapid.SampledFrom(resultObjects[language]).Draw(t, "object")
		check := func(body, want string) {
			code := object[0] + "\n" + body
			prog, err := p.Prepare(program.Request{Source: code, Language: language})
			if err != nil {
				t.Fatalf("%s: %v, want no error", code, err)
			}
			if got := strings.Contains(strings.Join(prog.Notes, "\n"), "no result of"); got != (want != "") {
				t.Fatalf("%s: a warning: %t (%q), want %t", code, got, prog.Notes, want != "")
			}
		}
		var body []string
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			part := rapid.SampledFrom(correctPrograms[language]).Draw(t, "part")
			body = append(body, fmt.Sprintf(part, object[1]))
		}
		if language == "javascript" {
			for i := range body {
				body[i] = "{ " + body[i] + " }"
			}
		}
		check(strings.Join(body, "\n"), "")
		print := map[string]string{"javascript": "console.log(%s.extra)", "python": "print(%s.extra)"}[language]
		check(fmt.Sprintf(print, object[1]), "a warning")
	})
}
