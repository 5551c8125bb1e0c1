package typegen_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// python runs the Python interpreter, or skips the test.
func python(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 here")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mypy runs mypy, or skips the test.
func mypy(t *testing.T, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("mypy")
	if err != nil {
		t.Skip("there is no mypy here (scripts/tools.sh installs it)")
	}
	cmd := exec.Command(path, append([]string{"--strict", "--no-incremental", "--cache-dir=" + os.DevNull,
		"--no-error-summary"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("err = %v, want err == nil || len(out) != 0", err)
	}
	return string(out)
}

// onlyStubs fails if a file contains anything but declarations: no part of a description may become
// code.
const onlyStubs = `
import ast, sys
def doc(s): return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
for path in sys.argv[1:]:
    tree = ast.parse(open(path, encoding="utf-8").read(), path, type_comments=True)
    assert not tree.type_ignores, path
    for s in tree.body:
        if isinstance(s, (ast.Import, ast.ImportFrom)): continue
        if isinstance(s, (ast.AsyncFunctionDef, ast.FunctionDef)):
            assert [doc(b) for b in s.body] == [True, True], (path, s.lineno)
        elif isinstance(s, ast.ClassDef):
            assert all(doc(b) or isinstance(b, ast.AnnAssign) and b.value is None for b in s.body), (path, s.lineno)
        elif isinstance(s, ast.AnnAssign):
            assert ast.unparse(s.annotation).endswith("TypeAlias"), (path, s.lineno)
        else:
            assert isinstance(s, ast.Assign) and ast.unparse(s.value.func).endswith("TypedDict"), (path, s.lineno)
`

func pythonItems(t *testing.T) []typegen.Item {
	t.Helper()
	var items []typegen.Item
	files, err := filepath.Glob("testdata/tools/*.txtar")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, f := range files {
		ar, err := txtar.ParseFile(f)
		if err != nil {
			t.Fatalf("txtar.ParseFile: %v", err)
		}
		tl := load(t, ar)
		items = append(items, typegen.Item{Tool: tl, Names: typegen.Names{Namespace: "demo", Member: safe(tl.Name)}})
	}
	for i := range 150 {
		s := schemas()
		d := definition{Name: fmt.Sprintf("tool-%d", i), InputSchema: s.Example(2 * i),
			OutputSchema: s.Example(2*i + 1),
			Description: []string{`"""` + "\nevil()\n" + `"""`, `\`, `"`, "type: ignore", "a\f\rb\x00",
				"ends with \"\"\"\""}[i%6]}
		items = append(items, typegen.Item{Tool: d.tool("drawn"),
			Names: typegen.Names{Namespace: "drawn", Member: safe(d.Name)}})
	}
	for i, name := range []string{"list", "str", "dict", "from", "async", "Any", "a$b", "TypedDict", "search", "ﬁ",
		"日本", "_builtins"} {
		d := definition{Name: name, InputSchema: schemas().Example(1000 + i), OutputSchema: schemas().Example(2000 + i)}
		items = append(items, typegen.Item{Tool: d.tool("class"),
			Names: typegen.Names{Namespace: "class", Member: name}},
			typegen.Item{Tool: d.tool("names"), Names: typegen.Names{Namespace: "names", Member: name}})
	}
	return items
}

// TestPythonStubs runs Python and mypy on the stubs of the golden tools, of tools with generated
// schemas and hostile names, and of the reference servers.
func TestPythonStubs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	items := pythonItems(t)
	for _, name := range []string{"everything", "filesystem", "memory"} {
		for _, d := range referenceTools(t, name) {
			items = append(items,
				typegen.Item{Tool: d.tool(name), Names: typegen.Names{Namespace: name, Member: safe(d.Name)}})
		}
	}
	dir := t.TempDir()
	tree := typegen.PythonTree(items)
	writeTree(t, dir, tree)
	args := []string{"-c", onlyStubs}
	for p := range tree {
		if strings.HasSuffix(p, ".pyi") {
			args = append(args, p)
		}
	}
	if out, err := python(t, dir, args...); err != nil {
		t.Fatalf("err = %v, cutLines(out, 20) = %v, want err == nil", err, cutLines(out, 20))
	}
	if out := mypy(t, dir, "-p", "tools", "-m", "biplane"); out != "" {
		t.Errorf(`cutLines(out, 20) = %v, want out == ""`, cutLines(out, 20))
	}
}

// TestPythonPrograms type-checks a program against the stubs: mypy must find exactly the mistakes.
func TestPythonPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	var items []typegen.Item
	for _, f := range []string{"list_issues", "shapes", "nothing", "delete"} {
		ar, err := txtar.ParseFile("testdata/tools/" + f + ".txtar")
		if err != nil {
			t.Fatalf("txtar.ParseFile: %v", err)
		}
		tl := load(t, ar)
		items = append(items, typegen.Item{Tool: tl, Names: typegen.Names{Namespace: "demo", Member: safe(tl.Name)}})
	}
	dir := t.TempDir()
	tree := typegen.PythonTree(items)
	tree["program.py"] = `import asyncio
from biplane import ToolError, call_tool, search
from tools import demo
from tools.demo import list_issues

async def main() -> None:
    found = await list_issues(repo="a/b", state="open")
    titles: list[str] = [i["title"] for i in found["items"] if i["state"] == "open"]
    one, two = await asyncio.gather(demo.list_issues(repo="a/b", per_page=5), demo.get_me())
    exact = await call_tool("demo.list-issues", {"repo": "a/b"})
    try:
        await demo.shapes(map={"a": 1}, tuple=["a", 1], when="2026-01-01T00:00:00Z", shape={"kind": "circle", "r": 2})
    except ToolError as e:
        if e.kind == "timeout":
            print(e.upstream, e.tool, e.message)
    text: str = await search("issues", limit=3)
    print(titles, one["items"], two, exact, text)
    await list_issues(repo="a/b", state="opened")  # WRONG
    await list_issues()  # WRONG
    await list_issues(repo="a/b", repository="a/b")  # WRONG
    await list_issues("a/b")  # WRONG
    await demo.list_issue(repo="a/b")  # WRONG
    await demo.get_me(id=1)  # WRONG
    print(found["issues"])  # WRONG
`
	writeTree(t, dir, tree)
	out := mypy(t, dir, "program.py")
	for i, line := range strings.Split(tree["program.py"], "\n") {
		at := fmt.Sprintf("program.py:%d: error: ", i+1)
		if strings.Contains(line, "WRONG") != strings.Contains(out, at) {
			t.Errorf("line %d, %s: mypy says\n%s", i+1, strings.TrimSpace(line), out)
		}
	}
}

// TestPythonNames checks what Python can't express. An argument that is a keyword has _ appended. A
// tool whose name is not a valid one is an item of its namespace. Arguments with invalid names go
// into a dict. Other members are allowed if the schema allows them.
func TestPythonNames(t *testing.T) {
	stub := func(name, schema string) string {
		tl := &tool.Tool{Upstream: "up", Name: name, InputSchema: []byte(schema)}
		return typegen.PythonTree(
			[]typegen.Item{{Tool: tl, Names: typegen.Names{Namespace: "up", Member: name}}})["tools/up/__init__.pyi"]
	}
	for _, c := range []struct{ name, schema, want string }{
		{"from", `{"type":"object","additionalProperties":false}`,
			`# Python has no name for this tool: await up["from"](...)`},
		{"a$b", `{"type":"object","additionalProperties":false}`, `Example: await up["a$b"]()`},
		{"f", `{"type":"object","properties":{"from":{"type":"string"}},"required":["from"]}`,
			"async def f(*, from_: str) -> Any:"},
		{"f", `{"type":"object","properties":{"from":{"type":"string"}},"required":["from"]}`,
			`Example: await up.f(from_="from")`},
		{"f", `{"type":"object","properties":{"from":{},"from_":{}}}`, "async def f(args: FArgs = ..., /) -> Any:"},
		{"f", `{"type":"object","properties":{"a-b":{"type":"string"}},"required":["a-b"]}`,
			"async def f(args: FArgs, /) -> Any:"},
		{"f", `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}}`,
			"async def f(*, a: int = ..., **_extra: str) -> Any:"},
		{"f", `{"type":"object"}`, "async def f(**_extra: Any) -> Any:"},
		{"f", `{"type":"object","properties":{"a":{"type":["integer","null"]},"b":{"enum":["x",1,1.5,true,null]}}}`,
			`async def f(*, a: int | None = ..., b: Literal["x", 1, True] | float | None = ...) -> Any:`},
		{"f", `{"anyOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"type":"object",` +
			`"properties":{"b":{"type":"boolean"}},"required":["b"]}]}`,
			"async def f(args: FArgs | FArgs2, /) -> Any:"},
	} {
		if got := stub(c.name, c.schema); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: no %q in\n%s", c.name, c.schema, c.want, got)
		}
	}
}
