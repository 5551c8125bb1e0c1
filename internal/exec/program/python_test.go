package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
)

// TestPython prepares Python with all kinds of surrounding text.
func TestPython(t *testing.T) {
	p := program.New(program.Config{})
	for _, c := range []struct {
		name, language, source string
		code                   string // code of the program, or "!" and the start of the error
		line                   int
	}{
		{"plain", "python", "x = 1\nx", "x = 1\nx", 0},
		{"names", "Python3", "x", "x", 0},
		{"py", "py", "x", "x", 0},
		{"fence", "python", "```python\nx = 1\nx\n```\n", "x = 1\nx\n", 1},
		{"fence says so", "", "```python\nx = 1\n```", "x = 1\n", 1},
		{"py fence says so", "", "Here it's:\n\n```py\nx = 1\n```\nThat's all.", "x = 1\n", 3},
		{"bare fence", "python", "```\nx\n```", "x\n", 1},
		{"first line", "", "python\nx = 1", "x = 1", 1},
		{"first line again", "python", "python\nx = 1", "x = 1", 1},
		{"two blocks", "python", "a\n```py\nx = 1\n```\nand\n```py\nx\n```", "x = 1\n\n\n\nx\n", 2},
		{"one line", "python", "```python x + 1```", "x + 1", 0},
		{"fence in a string", "python", "md = \"\"\"\n```python\nno\n```\n\"\"\"\nmd",
			"md = \"\"\"\n```python\nno\n```\n\"\"\"\nmd", 0},
		{"fence in a fenced string", "python", "```python\nmd = '''\n```\nno\n```\n'''\n```\nbye",
			"md = '''\n```\nno\n```\n'''\n", 1},
		{"not shut", "python", "```python\nx = 1\n", "x = 1", 1},
		{"dedent", "python", "    x = 1\n    if x:\n        y\n\n    z", "x = 1\nif x:\n    y\n\nz", 0},
		{"dedent with a string", "python", "  s = '''\na\n  b'''\n  s", "s = '''\na\nb'''\ns", 0},
		{"dedent of comments", "python", "  # a\n  b", "# a\nb", 0},
		{"no dedent", "python", "if x:\n    y", "if x:\n    y", 0},
		{"mark", "python", "\ufeffx", "x", 0},
		{"empty", "python", " \n", "!the program is empty", 0},
		{"empty fence", "python", "```python\n```", "!the program is empty", 0},
		{"typescript", "python", "x = 1\nconst a = await github.list_issues({})",
			"!this looks like TypeScript, but was sent as Python", 0},
		{"typescript import", "python", "import { a } from \"./b\"", "!this looks like TypeScript", 0},
		{"import after import", "python", "import re\nfrom json import dumps\nre",
			"import re\nfrom json import dumps\nre", 0},
		{"typescript function", "python", "async function main() {\n}", "!this looks like TypeScript", 0},
		{"typescript in a string", "python", "s = '''\nconst a = 1\n'''", "s = '''\nconst a = 1\n'''", 0},
		{"typescript fence", "python", "```ts\n1\n```", "!the text contains a block of ts, but not Python", 0},
		{"python as typescript", "typescript", "def f(x):\n    return x\nf(1)",
			`!this looks like Python: set language to "python"`, 0},
		{"python without a word", "", "import json\nprint(json.dumps({'a': 1}))\nfor x in y:\n  pass",
			`!this looks like Python: set language to "python"`, 0},
		{"python fence as typescript", "typescript", "```python\nx\n```",
			"!the text contains a block of python, but not TypeScript or JavaScript", 0},
		{"both fences", "", "```python\nx\n```\n```ts\n1\n```", "js", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			prog, err := p.Prepare(program.Request{Source: c.source, Language: c.language})
			var e *program.Error
			switch {
			case errors.As(err, &e):
				if want, ok := strings.CutPrefix(c.code, "!"); !ok || !strings.Contains(e.Message, want) {
					t.Errorf("e = %v, want ok && strings.Contains(e.Message, want)", e)
				}
			case c.code == "js":
				if prog.Runtime != "js" {
					t.Errorf(`prog.Runtime = %v, want "js"`, prog.Runtime)
				}
			case prog.Runtime != "python" || prog.Code != c.code || prog.Line != c.line ||
				prog.Name != program.PythonName:
				t.Errorf("%s program %q at line %d, want python, %q, %d", prog.Runtime, prog.Code, prog.Line,
					c.code, c.line)
			}
		})
	}
}

// TestPythonChecks checks programs against a catalog.
func TestPythonChecks(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/session/tools.txtar")
	if err != nil {
		t.Fatalf("txtar.ParseFile: %v", err)
	}
	p := program.New(program.Config{Catalog: catalog.NewResolver(tools(t, ar.Files), nil)})
	for _, c := range []struct{ source, want string }{
		{"await github.list_issues(repo='a')", ""},
		{"  x = await github.list_issue(repo='a')", "list_issues"},
		{"```py\ny = 1\nx = await github.list_issue(repo='a')\n```", "list_issues"},
		{"await gihub.list_issues(repo='a')", "github"},
		{"import gihub\nawait gihub.list_issues(repo='a')", ""},
		{"gihub.list_issues(repo='a')", ""},
		{"github = Thing()\ngithub.nothing()", ""},
		{"def f(github):\n    return github.nothing()", ""},
		{"try:\n    await github.nothing()\nexcept Exception: pass", ""},
		{"# github.nothing()\n'github.nothing()'\nself.github.nothing()", ""},
		{"'''\ngithub.nothing()\n'''", ""},
		{"await tools.github.list_issues(repo='a')", ""},
		{"await asyncio.gather(github.list_issues(repo='a'), github . lst_issues())", "list_issues"},
	} {
		prog, err := p.Prepare(program.Request{Source: c.source, Language: "python"})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("prepare %s: %v, want an error with %q", c.source, err, c.want)
		case err == nil && prog.Namespaces["github"] == nil:
			t.Errorf("namespaces %v, want github among them", prog.Namespaces)
		}
	}
	_, err = p.Prepare(program.Request{Source: "```py\n  y = 'ü'; x = await github.list_issue()\n```",
		Language: "python"})
	var e *program.Error
	if !errors.As(err, &e) || e.Line != 2 || e.Column != 22 {
		t.Errorf("e = %+v, want errors.As(err, &e) && e.Line == 2 && e.Column == 22", e)
	}
	if _, err := p.Prepare(program.Request{Source: "github.nothing()", Language: "python", Session: true,
		Declared: []string{"github"}}); err != nil {
		t.Errorf("Prepare: %v", err)
	}
}

// TestPythonPlaces checks the positions found in tracebacks.
func TestPythonPlaces(t *testing.T) {
	prog, err := program.New(program.Config{}).Prepare(
		program.Request{Source: "Look:\n```python\n    def f():\n        return 1 / 0\n    f()\n```\n"})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	for _, c := range []struct {
		stack     string
		line, col int
	}{
		{"File \"program.py\", line 5, in <module>\nFile \"program.py\", line 4, in f", 4, 9},
		{"File \"program.py\", line 5, in <module>\nFile \"skills/a.py\", line 1, in g", 5, 5},
		{"File \"program.py\", line 3, column 5", 3, 9},
		{"File \"program.py\", line 99, in f", 0, 0},
		{"", 0, 0},
	} {
		if line, col, ok := prog.Locate(c.stack); line != c.line || col != c.col || ok != (c.line > 0) {
			t.Errorf("c.stack = %s, line = %d, col = %d, ok = %v, want line == c.line && col == c.col "+
				"&& ok == (c.line > 0)", c.stack, line, col, ok)
		}
	}
	if got, want := prog.Frame(4, 9),
		"  2 | ```python\n  3 |     def f():\n> 4 |         return 1 / 0\n    |         ^\n  5 |     f()\n  6 | ```"; got != want {
		t.Errorf("got = %s, want want", got)
	}
	a, err := program.New(program.Config{}).Prepare(program.Request{Source: "f()", Language: "python", Session: true})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	if _, _, ok := a.Locate("File \"program.py\", line 1, in f"); ok || a.Name == program.PythonName {
		t.Error("the frames of two programs of a session can't be told apart")
	}
}

// TestPythonLines checks that line numbers refer to the agent's text, whatever is added around it.
func TestPythonLines(t *testing.T) {
	p := program.New(program.Config{})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		n := 0
		lead := rapid.SampledFrom([]string{"", "  ", "\t"}).Draw(t, "lead")
		for range rapid.IntRange(1, 3).Draw(t, "blocks") {
			b.WriteString(rapid.SampledFrom([]string{"", "Isn't it?\n\n", "π\n"}).Draw(t, "prose") + "```py\n")
			for range rapid.IntRange(1, 5).Draw(t, "lines") {
				n++
				b.WriteString(lead +
					strings.ReplaceAll(rapid.SampledFrom([]string{"mark_@_ = 1", "if mark_@_:\n" + lead + "  pass",
						"s = '''\n```\n''' + mark_@_", "# mark_@_ it's", "f(mark_@_, \"#\")"}).Draw(t, "line"), "@",
						fmt.Sprint(n)) + "\n")
			}
			b.WriteString("```\n")
		}
		source := b.String()
		prog, err := p.Prepare(program.Request{Source: source})
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		for i := 1; i <= n; i++ {
			name := fmt.Sprintf("mark_%d_", i)
			line := strings.Count(prog.Code[:strings.Index(prog.Code, name)], "\n") + 1 + prog.Line
			if want, _ := placeOf(source, name); line != want {
				t.Fatalf("%s is on line %d, not %d\n%s\n%s", name, line, want, source, prog.Code)
			}
		}
	})
}
