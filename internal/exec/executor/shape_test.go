package executor_test

import (
	"strings"
	"testing"
)

// TestWrongShapes checks that the error of a program that mistakes the shape of a result shows what
// the tool returned.
func TestWrongShapes(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	const object = `box.echo returned {rows: array of 2 {id: number}, total: number}. Results come unwrapped: use ` +
		`this value as it is`
	for _, c := range []struct{ language, code, want string }{
		{"typescript", "const listing = await box.echo({ rows: [{ id: 1 }, { id: 2 }], total: 2 });\nreturn " +
			"listing.split('\\n')", object},
		{"typescript", "const r = await box.echo({ rows: [{ id: 1 }, { id: 2 }], total: 2 });\nconst t: string = " +
			"r.content[0].text;\nreturn t", object + ", without .content"},
		{"typescript", "const r = await tools.box.echo({ rows: [{ id: 1 }, { id: 2 }], total: 2 }) as any;\nreturn " +
			"r.structuredContent.rows", object + ", without .content"},
		{"typescript", "const r = await callTool('box.echo', { rows: [{ id: 1 }, { id: 2 }], total: 2 });\nfor " +
			"(const x of r) console.log(x)", object},
		{"typescript", "const r = await box.echo({ rows: [{ id: 1 }, { id: 2 }], total: 2 });\nconst { items } = " +
			"r;\nreturn items.map((i) => i.id)", object},
		{"typescript", "const r = JSON.parse(await box.text());\nreturn r",
			"box.text returned string. Results come unwrapped"},
		{"typescript", "return (await box.echo({ rows: [{ id: 1 }, { id: 2 }], total: 2 })).data.rows.map(x => x)",
			object},
		{"python", "r = await box.echo(rows=[{'id': 1}, {'id': 2}], total=2)\nr['content'][0]['text']",
			object + ", without .content"},
		{"python", "r = await box.echo(rows=[{'id': 1}, {'id': 2}], total=2)\nr.content[0].text",
			object + ", without .content"},
		{"python", "r = box.echo(rows=[{'id': 1}, {'id': 2}], total=2)\nr.split('\\n')", object},
		{"python", "result = await box.echo(rows=[{'id': 1}, {'id': 2}], total=2)\nfor row in result:\n    " +
			"print(row['id'])", object},
		{"python", "result = await box.echo(rows=[{'id': 1}, {'id': 2}], total=2)\nfor row in result:\n    " +
			"print(row.id)", object},
		{"python", "import json\nr = await box.text()\njson.loads(r)",
			"box.text returned string. Results come unwrapped"},
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		text := textsOf(t, res)[0]
		if !res.IsError || !strings.Contains(text, "\n\nhint: "+c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.code, text, c.want)
		}
	}
	for _, code := range []string{
		"const r = await box.echo({ content: 'three lines' });\nreturn r.content[0].text",
		"const r = await box.echo({ content: 'three lines' });\nconst text = r?.structuredContent?.content;\nreturn text",
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": code})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		if text := strings.Join(textsOf(t, res), "\n"); res.IsError ||
			!strings.Contains(text, "box.echo returned {content: string}. Results come unwrapped") {
			t.Errorf("%s\n got %s", code, text)
		}
	}
	for _, code := range []string{
		"const r = await box.echo({ rows: [] });\nconst own = { a: 1 };\nown.b.c",
		"const r = await box.echo({ rows: [] });\nthrow new Error('content')",
		"const own = {};\nown.content[0].text",
	} {
		lacks(t, r.failure(code), "Results come unwrapped")
	}
}

// TestDecodedResults checks that JSON.parse and json.loads return a tool's result unchanged, and
// behave as usual for all other values.
func TestDecodedResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for _, c := range []struct{ language, code, value, note string }{
		{"typescript", "const r = await box.echo({ rows: [1] });\nreturn [JSON.parse(r).rows, JSON.parse(await " +
			"box.echo({ a: 1 })), JSON.parse(r) === r]", `[[1],{"a":1},true]`, "note: JSON.parse received a tool"},
		{"typescript", "return JSON.parse(await box.raw({ result: { content: [{ type: 'text', text: '[1,2]' }] } }))",
			`[1,2]`, "note: JSON.parse received a tool"},
		{"typescript", "const r = await box.echo({ n: 1 }); const refused = (v) => { try { JSON.parse(v); return " +
			"'parsed' } catch (e) { return e.name } };\nreturn [refused({ n: 1 }), refused({ ...r }), refused([1, " +
			"2]), JSON.parse([7]), JSON.parse('{\"a\":1}', (k, v) => k ? 2 : v), JSON.parse.name, JSON.parse.length]",
			`["SyntaxError","SyntaxError","SyntaxError",7,{"a":2},"parse",2]`, ""},
		{"python", "import json\njson.loads(box.echo(rows=[1]))['rows']", `[1]`, "note: json.loads received a tool"},
		{"typescript", "const r = await box.echo({ content: [{ text: 'own' }], structuredContent: 1 });\nreturn " +
			"[r.content[0].text, r.structuredContent]", `["own",1]`, ""},
		{"python", "r = box.echo(content=[{'text': 'own'}], split=1)\n[r.content[0].text, r['split']]",
			`["own",1]`, ""},
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		texts := textsOf(t, res)
		all := strings.Join(texts, "\n")
		if res.IsError || texts[0] != c.value || strings.Contains(all, "note: ") != (c.note != "") ||
			!strings.Contains(all, c.note) || strings.Contains(all, "console:") {
			t.Errorf("%s\n got %s\nwant %s %s", c.code, all, c.value, c.note)
		}
	}
}

// TestProgramsThatEndInAnAssignment checks that a program's last statement is its value, even if it
// is a declaration, and that the answer says so.
func TestProgramsThatEndInAnAssignment(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for _, c := range []struct{ language, code, value, note string }{
		{"typescript", "const r = await box.echo({ n: 1 });", `{"n":1}`,
			"so the value of r is returned. End with `return r`"},
		{"typescript", "const { n, m: [k] } = await box.echo({ n: 1, m: [2] }), z = 3;\n", `{"n":1,"k":2,"z":3}`,
			"so the value of { n, k, z } is returned"},
		{"javascript", "let x\nx = 5", `5`, ""},
		{"typescript", "const f = async () => 4;", `4`, ""},
		{"typescript", "let x;", "no value: the program returned undefined", "nothing returns it"},
		{"typescript", "if ([1].length) return 'early'\nconst late = 1", `"early"`, "so the value of"},
		{"python", "r = await box.echo(n=1)", `{"n":1}`, "so the value of r is returned. End it with return r"},
		{"python", "a, b = 1, 2", `{"a":1,"b":2}`, `so the value of {"a": a, "b": b} is returned`},
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		texts := textsOf(t, res)
		if all := strings.Join(texts, "\n"); res.IsError || texts[0] != c.value ||
			strings.Contains(all, "note: ") != (c.note != "") || !strings.Contains(all, c.note) {
			t.Errorf("%s\n got %s\nwant %s %s", c.code, all, c.value, c.note)
		}
	}
}

// TestUnknownNames checks that errors about unknown names list the upstreams, in both languages.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for language, code := range map[string]string{"python": "bax.echo(n=1)",
		"typescript": "const f = () => bax;\nf()"} {
		res, err := r.execute(t.Context(), map[string]any{"code": code, "language": language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		holds(t, textsOf(t, res)[0], "bax is neither defined in the program nor an upstream; upstreams: box")
	}
}

// TestPythonNamedFunction checks that a call of a Python function named "function" is not mistaken
// for TypeScript.
func TestPythonNamedFunction(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	res, err := r.execute(t.Context(),
		map[string]any{"language": "python", "code": "def function(x):\n    return x + 1\nfunction(1)\nfunction (2)"})
	if err != nil || res.IsError || textsOf(t, res)[0] != "3" {
		t.Errorf(`res = %v, err = %v, want err == nil && !res.IsError && textsOf(t, res)[0] == "3"`, res, err)
	}
	for _, code := range []string{"function f(x) {\n}", "async function (x) { }",
		"x = 1\nfunction (a: number): number { }", "export default function (a) {\n}"} {
		res, err := r.execute(t.Context(), map[string]any{"language": "python", "code": code})
		if err != nil || !res.IsError || !strings.Contains(textsOf(t, res)[0], "this looks like TypeScript") {
			t.Errorf("code = %s, res = %v, err = %v, want err == nil && res.IsError && "+
				"strings.Contains(textsOf(t, res)[0], \"this looks like TypeScript\")", code, res, err)
		}
	}
}
