package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

var skills = map[string]string{
	"report.ts": "import { list_issues } from \"../tools/github\";\nimport { double } from \"./math\";\nexport " +
		"interface Row { n: number }\nexport async function report(repo: string): Promise<number> {\n  const r = " +
		"await list_issues({ repo });\n  return double(r.items.length);\n}\nexport default report;\n",
	"math.ts": "export const double = (x: number): number => x * 2;\nexport function half(x: number) { return x / " +
		"2 }\nexport let count = 0;\nexport function inc() { return ++count }\n",
	"a.ts": "import { b } from \"./b\";\nexport function a(n: number): string { return n <= 0 ? \"a\" : \"a\" + " +
		"b(n - 1) }\n",
	"b.ts": "import { a } from \"./a.ts\";\nexport const b = (n: number): string => n <= 0 ? \"b\" : \"b\" + " +
		"a(n - 1);\n",
	"bad.ts":   "\nexport function fails(x: any) {\n  // here\n  return x.y.z;\n}\n",
	"wrong.ts": "export const a = 1\nexport const b = = 2\n",
	"top.ts":   "export const data = await fetch('x');\n",
	"old.js":   "module.exports = { f() { return 1 }, g: 2 };\n",
	"all.ts":   "export * from \"./math\";\nexport { a as first } from \"./a\";\n",
	"deep/x.ts": "import { double } from \"../math\";\nimport * as os from \"node:os\";\nexport const four = " +
		"double(2), eol = os.EOL;\n",
	"throws.ts": "export const a = 1;\nthrow new Error(\"while it loads\");\n",
	"enum.ts":   "export enum Color { Red, Blue }\nexport class Box<T> { constructor(public v: T) {} }\n",
	"lazy.ts":   "export const lazy = async () => (await import(\"./math\")).half(10);\n",
}

// TestSkills runs programs that import skills and modules in ./workspace.
func TestSkills(t *testing.T) {
	p := program.New(program.Config{})
	for _, c := range []struct{ source, want string }{
		{`import { report } from "./skills/report"; await report("a/b")`, "=> 6\ngithub.list_issues"},
		{`import report from "./skills/report.ts"; await report("a/b")`, "=> 6\ngithub.list_issues"},
		{`import * as m from "skills/math"; m.half(m.double(4))`, "=> 4"},
		{`import { a } from "./skills/a"; a(3)`, `=> "abab"`},
		{`const { b } = await import("./skills/b"); b(2)`, `=> "bab"`},
		{`const n = "math"; const m = await import("./skills/" + n); m.half(4)`, "=> 2"},
		{`import { inc, count } from "./skills/math"; inc(); inc()`, "=> 2"},
		{`import { f, g } from "../skills/old.js"; [f(), g]`, "=> [1,2]"},
		{`import { double, first } from "/skills/all"; [double(2), first(0)]`, `=> [4,"a"]`},
		{`import { four, eol } from "./skills/deep/x"; [four, eol]`, `=> [4,"\n"]`},
		{`import { Color, Box } from "./skills/enum"; [Color.Blue, new Box("v").v]`, `=> [1,"v"]`},
		{`import { lazy } from "./skills/lazy"; await lazy()`, "=> 5"},
		{`import { fails } from "./skills/bad";` + "\n\nfails({})",
			"throws TypeError: cannot read property 'z' of undefined (line 3, column 1)\n  1 | import { fails } from " +
				"\"./skills/bad\";\n  2 |\n> 3 | fails({})\n    | ^" +
				"\nin skills/bad.ts (line 4, column 10)\n  2 | export function fails(x: any) {\n  3 |   // here\n> 4 |   " +
				"return x.y.z;\n    |          ^\n  5 | }"},
		{`import { a } from "./skills/throws"; a`, "throws Error: while it loads (line 1, column 1)\n> 1 | import { " +
			"a } from \"./skills/throws\"; a\n    | ^\nin skills/throws.ts (line 2, column 11)\n  1 | export const a " +
			"= 1;\n> 2 | throw new Error(\"while it loads\");\n    |           ^"},
		{`import { reprt } from "./skills/report"; reprt`, "error: ./skills/report.ts exports no reprt: did you mean " +
			"report? It exports Row, report (line 1, column 1)"},
		{`import { report } from "./skills/reprot"; report`,
			"error: there is no skill ./skills/reprot: did you mean ./skills/report? There are"},
		{"// first\nimport { a } from \"./skills/wrong\"; a", "error: ./skills/wrong.ts: unexpected \"=\" (line 2, " +
			"column 18 of it)\n  1 | export const a = 1\n> 2 | export const b = = 2\n    |                  ^ (line " +
			"2, column 1)"},
		{`import { data } from "./skills/top"; data`,
			"error: ./skills/top.ts: an imported module can't use await at the top level"},
		{`import { u } from "./workspace/util"; u(1)`, "=> 2"},
		{`import { u } from "./workspace/none"; u(1)`, "throws Error: cannot import \"./workspace/none\": there was " +
			"no module workspace/none when the program began"},
		{`import d from "./workspace/d.json"; d.n`, "=> 5"},
		{`import { n } from "./workspace/d.json"; n`, "=> 5"},
		{`import type { Row } from "./skills/report"; const r: Row = { n: 1 }; r.n`, "=> 1"},
	} {
		prog, err := p.Prepare(program.Request{Source: c.source, Skills: skills, Files: utilFile{}})
		var got string
		var e *program.Error
		switch {
		case errors.As(err, &e):
			got = "error: " + e.Error()
		default:
			en := newEngine(t, false)
			en.files = map[string]string{"workspace/d.json": `{"n":5}`}
			got = en.run(prog)
			en.close()
		}
		if got != c.want && !(strings.HasPrefix(got, c.want) && strings.Contains(c.want, "rror: ")) {
			t.Errorf("%s\n got %s\nwant %s", c.source, got, c.want)
		}
	}
}

// utilFile are Files with the module workspace/util.ts.
type utilFile struct{}

func (utilFile) LoadModule(path string) (string, bool) {
	return "export const u = (x: number) => x + 1", path == "workspace/util.ts"
}

// TestSkillsOfSessions checks that a session loads a module once, until it or a module that it
// imports changes.
func TestSkillsOfSessions(t *testing.T) {
	p := program.New(program.Config{})
	mine := map[string]string{"n.ts": "import { step } from \"./step\";\nlet n = 0;\nexport const next = () => n += " +
		"step;\n", "step.ts": "export const step = 1;\n"}
	e := newEngine(t, true)
	defer e.close()
	for i, c := range []struct{ source, want string }{
		{`import { next } from "./skills/n"; next()`, "=> 1"},
		{`next()`, "=> 2"},
		{`import { next as again } from "./skills/n"; again()`, "=> 3"},
		{`import * as n from "./skills/n"`, "=> undefined"},
		{`n.next()`, "=> 4"},
		{`import { next } from "./skills/n"; next() // step is 10 now`, "=> 10"},
		{`(await import("./skills/n")).next()`, "=> 20"},
	} {
		if i == 5 {
			mine["step.ts"] = "export const step = 10;\n"
		}
		prog, err := p.Prepare(program.Request{Source: c.source, Skills: mine, Session: true})
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		if got := e.run(prog); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.source, got, c.want)
		}
	}
}

// TestSkillBounds checks that programs that import too much are rejected.
func TestSkillBounds(t *testing.T) {
	many := map[string]string{}
	for i := range 150 {
		many[fmt.Sprintf("m%d.ts", i)] = fmt.Sprintf("import \"./m%d\";\nexport const a = 1;", i+1)
	}
	big := map[string]string{"a.ts": "import './b'; export const a = `" + strings.Repeat("x", 200<<10) + "`"}
	big["b.ts"], big["c.ts"] = strings.ReplaceAll(big["a.ts"], "./b", "./c"), big["a.ts"]
	deep := map[string]string{"a.ts": strings.Repeat("(", 5000), "m0.ts": strings.Repeat("x", 300<<10)}
	for _, c := range []struct {
		source string
		skills map[string]string
		want   string
	}{
		{`import "./skills/m0"`, many, "imports too much"},
		{`import "./skills/a"`, big, "imports too much"},
		{`import "./skills/a"`, deep, "./skills/a.ts: the program nests too deep"},
		{`import "./skills/m0"`, deep, "./skills/m0.ts: the program is too large"},
	} {
		_, err := program.New(program.Config{}).Prepare(program.Request{Source: c.source, Skills: c.skills})
		var e *program.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, c.want) || e.Line != 1 {
			t.Errorf("err = %v, want errors.As(err, &e) && strings.Contains(e.Message, c.want) && e.Line == 1", err)
		}
	}
	if _, err := program.New(program.Config{}).Prepare(program.Request{Source: `await import("./skills/" + name)`,
		Skills: many}); err != nil {
		t.Errorf("Prepare: %v", err)
	}
}

// TestRewrite checks that frames of stack traces in texts are mapped.
func TestRewrite(t *testing.T) {
	prog, err := program.New(program.Config{}).Prepare(program.Request{Skills: skills,
		Source: "import { fails } from './skills/bad'\n\ntry { fails(1) } catch (e) { return e.stack }"})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	got := prog.Rewrite(run(t, prog))
	if want := `"TypeError: cannot read property 'z' of undefined\n    at fails (skills/bad.ts:4:10)\n    at ` +
		`<anonymous> (program.js:3:7)`; !strings.Contains(got, want) {
		t.Errorf("got = %v, want strings.Contains(got, want)", got)
	}
}
