package function_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/function"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
)

var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

// newExecutor returns an executor with the real engine, whose programs call door.
func newExecutor(t testing.TB, door tool.CallerFunc) *executor.Executor {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("create the driver: %v", err)
	}
	x, err := executor.New(executor.Config{Drivers: []sandbox.Kind{{Name: "wasm", Driver: d}}, Door: door,
		Programs: program.New(program.Config{})})
	if err != nil {
		t.Fatalf("create the executor: %v", err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func refuse(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, tool.Errorf(tool.Denied, "no calls here")
}

// A folder is files with the executor that runs them.
type folder struct {
	t *testing.T
	fstest.MapFS
	x *executor.Executor
}

func newFolder(t *testing.T, files map[string]string) *folder {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &folder{t, m, newExecutor(t, refuse)}
}

func (f *folder) run(file *function.File, p *program.Program) *execution.FunctionResult {
	f.t.Helper()
	r, err := f.x.RunFunction(f.t.Context(), &tool.Call{Principal: tool.Principal{ID: "test"}},
		&execution.Function{Program: p, Language: file.Language})
	if err != nil {
		f.t.Fatalf("run the program: %v", err)
	}
	return r
}

// describe returns the exports of a file.
func (f *folder) describe(name string) (*function.File, []function.Export, []function.Broken) {
	f.t.Helper()
	file, err := function.ReadFile(f, name)
	if err != nil {
		f.t.Fatalf("read the file: %v", err)
	}
	r := f.run(file, file.Description(nil))
	if r.Failure != nil {
		f.t.Fatalf("describe %s: %+v", name, r.Failure)
	}
	good, bad, err := file.ReadExports(r.Value)
	if err != nil {
		f.t.Fatalf("read the exports: %v", err)
	}
	return file, good, bad
}

// call calls an export of a file, and returns its value or its error.
func (f *folder) call(name, export, args string) string {
	f.t.Helper()
	file, all, bad := f.describe(name)
	for i := range all {
		if all[i].Name != export {
			continue
		}
		r := f.run(file, file.ProgramOf(tool.Principal{ID: "test"}, program.New(program.Config{}), &all[i],
			json.RawMessage(args), map[string]string{"KEY": "value"}))
		if r.Failure != nil {
			return "error: " + r.Failure.Message
		}
		return string(r.Value)
	}
	f.t.Fatalf("%s exports %v, broken %v", name, all, bad)
	return ""
}

const rows = `export interface Row { id: number; name: string }
export const rows: Row[] = [{ id: 1, name: "a" }, { id: 2, name: "b" }];
export const createTool = <T>(definition: T) => definition;
`

// forms are the forms in which authors write the tool database.query.
var forms = map[string]string{
	"function": `import { rows } from "../_rows.ts";
/**
 * Runs a query.
 * @param sql the query
 * @param limit at most so many rows
 * @readonly
 */
export async function query(sql: string, limit: number = 10): Promise<unknown> {
  return { sql, rows: rows.slice(0, limit) };
}
`,
	"properties": `import { rows } from "../_rows";
export async function query(sql, limit = 10) { return { sql, rows: rows.slice(0, limit) }; }
query.description = "Runs a query.";
query.annotations = { readOnlyHint: true };
query.parameters = { sql: { type: "string", description: "the query" },
  limit: { type: "number", default: 10, description: "at most so many rows" } };
`,
	"zod": `import { z } from "zod";
import { createTool } from "biplane";
import { rows } from "../_rows.ts";
export const query = createTool({
  name: "query", description: "Runs a query.", annotations: { readOnlyHint: true },
  parameters: z.object({ sql: z.string().describe("the query"),
    limit: z.number().default(10).describe("at most so many rows") }),
  execute: async ({ sql, limit }) => ({ sql, rows: rows.slice(0, limit) }),
});
`,
	"json schema": `import { createTool } from "biplane";
import { rows } from "../_rows.ts";
export const query = createTool({
  name: "query", description: "Runs a query.", annotations: { readOnlyHint: true },
  parameters: { type: "object", properties: { sql: { type: "string", description: "the query" },
    limit: { type: "number", description: "at most so many rows", default: 10 } }, required: ["sql"] },
  execute: async ({ sql, limit = 10 }) => ({ sql, rows: rows.slice(0, limit) }),
});
`,
	"own createTool": `import { createTool, rows } from "../_rows.ts";
export const query = createTool({
  id: "query", description: "Runs a query.", annotations: { readOnlyHint: true },
  inputSchema: { type: "object", properties: { sql: { type: "string", description: "the query" },
    limit: { type: "number", description: "at most so many rows", default: 10 } }, required: ["sql"] },
  execute: async ({ sql, limit = 10 }) => ({ sql, rows: rows.slice(0, limit) }),
});
`,
	"default": `import { rows } from "../_rows.ts";
/** Runs a query.
 *  @param sql - the query
 *  @param limit - at most so many rows
 *  @readonly */
export default async function (sql: string, limit: number = 10) { return { sql, rows: rows.slice(0, limit) }; }
`,
	"arrow": `import { rows } from "../_rows.ts";
/**
 * Runs a query.
 * @param sql the query
 * @param limit at most so many rows
 * @readonly
 */
export const query = async (sql: string, limit: number = 10): Promise<unknown> => ({ sql, rows: rows.slice(0, limit) });
`,
}

func TestForms(t *testing.T) {
	for form, text := range forms {
		t.Run(form, func(t *testing.T) {
			f := newFolder(t, map[string]string{"database/query.ts": text, "_rows.ts": rows})
			file, all, bad := f.describe("database/query.ts")
			if len(all) != 1 || len(bad) != 0 || len(all[0].Notes) != 0 {
				t.Fatalf("exports %+v, broken %v", all, bad)
			}
			e := all[0]
			if e.Description != "Runs a query." || !e.Annotations.Reads() {
				t.Errorf("export %+v, want a read-only one that runs a query", e)
			}
			var s struct {
				Type       string
				Properties map[string]struct {
					Type, Description string
					Default           any
				}
				Required []string
			}
			if err := json.Unmarshal(e.Schema, &s); err != nil {
				t.Fatalf("parse the schema: %v", err)
			}
			sql, limit := s.Properties["sql"], s.Properties["limit"]
			if s.Type != "object" || len(s.Properties) != 2 || sql.Type != "string" || sql.Description != "the query" ||
				limit.Type != "number" || limit.Default != 10.0 || limit.Description != "at most so many rows" ||
				len(s.Required) != 1 || s.Required[0] != "sql" {
				t.Errorf("schema %s", e.Schema)
			}
			if strings.Index(string(e.Schema), `"sql"`) > strings.Index(string(e.Schema), `"limit"`) {
				t.Errorf("the order of the parameters is lost: %s", e.Schema)
			}
			if got, want := f.call("database/query.ts", e.Name, `{"sql":"SELECT 1","limit":1}`),
				`{"sql":"SELECT 1","rows":[{"id":1,"name":"a"}]}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := f.call("database/query.ts", e.Name, `{"sql":"x"}`); !strings.Contains(got, `"name":"b"`) {
				t.Errorf("the default is missing: %s", got)
			}
			if len(file.Uses) != 2 {
				t.Errorf("it uses %v", file.Uses)
			}
		})
	}
}

// TestZod converts the same schema of zod 4, zod 3 and Biplane's own module.
func TestZod(t *testing.T) {
	const text = `import { z } from "%s";
const Address = z.object({ street: z.string().min(2), tags: z.array(z.string()).max(3).optional() });
export const order = {
  description: "Orders.",
  parameters: z.object({
    id: z.number().int().min(1).max(99),
    kind: z.enum(["book", "cd"]).describe("what it is"),
    mail: z.string().email().optional(),
    to: Address,
    note: z.string().nullable(),
    any: z.any(),
    either: z.union([z.string(), z.number()]),
    flags: z.record(z.string(), z.boolean()),
    fixed: z.literal("x"),
    amount: z.number().positive().default(2.5),
    trimmed: z.string().transform((s) => s.trim()),
  }),
  execute: async (a) => a,
};
`
	const want = `{"type":"object","properties":{"id":{"type":"integer","minimum":1,"maximum":99},` +
		`"kind":{"enum":["book","cd"],"description":"what it is"},"mail":{"type":"string","format":"email"},` +
		`"to":{"type":"object","properties":{"street":{"type":"string","minLength":2},"tags":{"type":"array",` +
		`"items":{"type":"string"},"maxItems":3}},"required":["street"]},` +
		`"note":{"anyOf":[{"type":"string"},{"type":"null"}]},"any":{},` +
		`"either":{"anyOf":[{"type":"string"},{"type":"number"}]},` +
		`"flags":{"type":"object","additionalProperties":{"type":"boolean"}},"fixed":{"const":"x"},` +
		`"amount":{"type":"number","exclusiveMinimum":0,"default":2.5},"trimmed":{"type":"string"}},` +
		`"required":["id","kind","to","note","either","flags","fixed","trimmed"]}`
	const good = `{"id":5,"kind":"cd","to":{"street":"ab"},"note":null,"any":1,"either":"e","flags":{"a":true},` +
		`"fixed":"x","trimmed":" s "}`
	for name, spec := range map[string]string{"zod 4": "zod", "zod 3": "zod/v3", "own": "zod"} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, map[string]string{"order.ts": fmt.Sprintf(text, spec)})
			if name != "own" {
				f.addPackage("zod", filepath.Dir(peertest.Module(t, "zod/package.json")))
			}
			_, all, bad := f.describe("order.ts")
			if len(all) != 1 {
				t.Fatalf("got %v, broken %v, want one tool", all, bad)
			}
			got := string(all[0].Schema)
			if name != "zod 4" && got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			for _, part := range []string{`"id":{"type":"integer","minimum":1,"maximum":99}`,
				`"description":"what it is"`,
				`"maxItems":3`, `"format":"email"`, `"exclusiveMinimum":0`, `"minLength":2`, `"default":2.5`} {
				if !strings.Contains(got, part) { // zod 4 converts its schemas itself
					t.Errorf("got %s, want %s in it", got, part)
				}
			}
			if got := f.call("order.ts", "order", good); !strings.Contains(got, `"trimmed":"s"`) ||
				!strings.Contains(got, `"amount":2.5`) {
				t.Errorf("got %s, want a trimmed text and the default", got)
			}
			wrong := strings.Replace(good, `"id":5`, `"id":500`, 1)
			if got := f.call("order.ts", "order", wrong); !strings.HasPrefix(got, "error: TypeError: id: ") {
				t.Errorf("an invalid argument: %s", got)
			}
		})
	}
}

// addPackage adds the files of a package to the folder's node_modules.
func (f *folder) addPackage(name, from string) {
	f.t.Helper()
	err := fs.WalkDir(os.DirFS(from), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(file, ".ts") || strings.HasSuffix(file, ".map") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(from, file))
		f.MapFS[path.Join("node_modules", name, file)] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		f.t.Fatalf("read the package %s: %v", name, err)
	}
}

// TestTypes converts the types of signatures.
func TestTypes(t *testing.T) {
	const types = `
/** An item. */
export interface Item extends Base {
  /** how many */ count: number; size?: Size; at: Date; readonly tags: readonly string[] }
interface Base { id: string }
enum Level { Low = "low", High = "high" }
enum Digit { Zero, One, Five = 5, Six }
type Size = "s" | "m" | "l";
type Tree = { value: string; children?: Tree[] };
type Wide = Pick<Item, "id" | "count"> & { extra: boolean };
type Loose = Partial<Base>;
type Page<T> = { items: T[] };
`
	for signature, want := range map[string]string{
		"a: string": `{"a":{"type":"string"}} a`, "a?: boolean": `{"a":{"type":"boolean"}} `,
		"a: string | undefined":     `{"a":{"type":"string"}} `,
		"a: 'x' | \"y\" | 3 | null": `{"a":{"enum":["x","y",3,null]}} a`,
		"a: string | number":        `{"a":{"anyOf":[{"type":"string"},{"type":"number"}]}} a`,
		"a: string[][]":             `{"a":{"type":"array","items":{"type":"array","items":{"type":"string"}}}} a`,
		"a: Array<{ b: number }>, c = 5": `{"a":{"type":"array","items":{"type":"object",` +
			`"properties":{"b":{"type":"number"}},"required":["b"]}},"c":{"default":5}} a`,
		"a: Record<string, number>, b: any": `{"a":{"type":"object",` +
			`"additionalProperties":{"type":"number"}},"b":{}} a,b`,
		"a: [string, number]": `{"a":{"type":"array","prefixItems":[{"type":"string"},` +
			`{"type":"number"}],"minItems":2,"maxItems":2}} a`,
		"a: Level, b: Digit, c: Size": `{"a":{"enum":["low","high"]},"b":{"enum":[0,1,5,6]},` +
			`"c":{"enum":["s","m","l"]}} a,b,c`,
		"a: Item, b: 1": `{"a":{"type":"object","properties":{"id":{"type":"string"},"count":{"type":"number",` +
			`"description":"how many"},"size":{"enum":["s","m","l"]},"at":{"type":"string","format":"date-time"},` +
			`"tags":{"type":"array","items":{"type":"string"}}},"required":["id","count","at","tags"]},` +
			`"b":{"const":1}} a,b`,
		"item: Wide": `{"id":{"type":"string"},"count":{"type":"number",` +
			`"description":"how many"},"extra":{"type":"boolean"}} id,count,extra`,
		"{ a, b = 2 }: { a: string; b?: number }": `{"a":{"type":"string"},"b":{"type":"number"}} a`,
		"{ a, b }":            `{"a":{},"b":{}} `,
		"options: Loose = {}": `{"id":{"type":"string"}} `,
		"a: Tree, b: Page<string>": `{"a":{"type":"object","properties":{"value":{"type":"string"},` +
			`"children":{"type":"array","items":{}}},"required":["value"]},"b":{}} a,b`,
		"a: (x: string) => void, b: typeof types":      `{"a":{},"b":{}} a,b`,
		"a: Map<string, number>, ...rest: string[]":    `{"a":{},"rest":{"type":"array","items":{"type":"string"}}} a`,
		"a: string /* , b: number */, // c\n d: 'it)'": `{"a":{"type":"string"},"d":{"const":"it)"}} a,d`,
		"": `{} `,
	} {
		f := newFolder(t, map[string]string{"f.ts": types + "export async function f(" + signature + ") {}\n"})
		_, all, bad := f.describe("f.ts")
		if len(all) != 1 {
			t.Errorf("%s: got %v, broken %v", signature, all, bad)
			continue
		}
		var s struct {
			Properties json.RawMessage
			Required   []string
		}
		if err := json.Unmarshal(all[0].Schema, &s); err != nil {
			t.Errorf("%s: parse the schema: %v", signature, err)
		}
		if got := string(s.Properties) + " " + strings.Join(s.Required, ","); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", signature, got, want)
		}
	}
}

// TestPython reads type hints and docstrings.
func TestPython(t *testing.T) {
	f := newFolder(t, map[string]string{
		"lib/shared.py": "import enum\nclass Size(enum.Enum):\n    S = 's'\n    M = 'm'\n",
		"tool.py": `"""A module."""
import asyncio, os
from dataclasses import dataclass
from typing import Literal, Optional, Annotated, TypedDict
from lib.shared import Size

class Point(TypedDict):
    x: float
    y: float

@dataclass
class Item:
    name: str
    count: int = 1

async def tool(text: str, order: Literal["new", "old"] = "new", *tags: str, at: Optional[Point] = None,
               size: Size = Size.S, item: Item | None = None, n: Annotated[int, "how many"] = 3, untyped=None) -> dict:
    """Looks for something.

    @readonly

    Args:
        text: what to look for
        order (str): the order
    """
    await asyncio.sleep(0)
    return {"text": text, "order": order, "tags": tags, "at": at, "n": n, "key": os.environ["KEY"]}

def fails():
    raise ValueError("no such thing")

def _hidden(): pass
Other = tool
`})
	file, all, bad := f.describe("tool.py")
	if len(all) != 2 || len(bad) != 0 || !all[0].Annotations.Reads() ||
		!strings.HasPrefix(all[0].Description, "Looks for something.\n") {
		t.Fatalf("got %+v, broken %v", all, bad)
	}
	for _, part := range []string{
		`"text":{"type":"string","description":"what to look for"}`,
		`"order":{"enum":["new","old"],"default":"new","description":"the order"}`,
		`"tags":{"type":"array","items":{"type":"string"}}`,
		`"at":{"anyOf":[{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},` +
			`"required":["x","y"]},{"type":"null"}]}`,
		`"size":{"enum":["s","m"]}`, `"n":{"type":"integer","description":"how many","default":3}`, `"untyped":{}`,
		`"required":["text"]`, `"additionalProperties":false`,
	} {
		if !strings.Contains(strings.ReplaceAll(string(all[0].Schema), " ", " "), part) {
			t.Errorf("got %s, want %s in it", all[0].Schema, part)
		}
	}
	if !strings.Contains(strings.Join(all[0].Notes, "\n"), "the parameter untyped has no type hint") {
		t.Errorf("notes %q", all[0].Notes)
	}
	if len(file.Uses) != 2 {
		t.Errorf("it uses %v", file.Uses)
	}
	if got, want := f.call("tool.py", "tool", `{"text":"a","order":"old","tags":["t","u"],"at":{"x":1,"y":2}}`),
		`{"text":"a","order":"old","tags":["t","u"],"at":{"x":1,"y":2},"n":3,"key":"value"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := f.call("tool.py", "fails", `{}`); !strings.Contains(got, "ValueError: no such thing") ||
		!strings.Contains(got, "tool.py, line 30") {
		t.Errorf("got %s, want the error and its place", got)
	}
}

// TestManifests checks which manifests of executables are refused.
func TestManifests(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"description: Counts.", ""},
		{"executable: other.sh", ""},
		{"executable: ../outside", "executable: \"../outside\" is not in the folder"},
		{"executable: /bin/sh", "is not in the folder"},
		{"executable: missing", "missing can't be read"},
		{"executable: sub", "sub is not a regular file"},
		{"descripton: Counts.", `unknown field "descripton"`},
		{"parameters: [a]", "the schema of its parameters is not an object"},
		{"parameters: {type: string}", "its parameters must be an object"},
		{"a: &a [1]\nparameters: { x: *a }", "line 1: aliases (&, *, <<) are not supported"},
		{"parameters: " + strings.Repeat("[", 1000), "nested too deeply"},
		{strings.Repeat("- ", 1000), "nested too deeply"},
		{"title: !a b", "line 1: tags are not supported: remove !a"},
		{"args: {a: b}", "line 1: "},
		{"title: a\n---\ntitle: b", "line 3: this begins a second document"},
		{strings.Repeat("# x\n", 20_000), "at most 65.5 KB are read"},
	} {
		_, err := function.ReadFile(fstest.MapFS{"x.tool.yaml": {Data: []byte(c.text)}, "x": {}, "other.sh": {},
			"sub/a": {}}, "x.tool.yaml")
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%.60q: got %v, want %q", c.text, err, c.want)
		}
	}
	_, err := function.ReadFile(fstest.MapFS{"x.tool.yaml": {}, "x.py": {}, "x.sh": {}}, "x.tool.yaml")
	if err == nil || !strings.Contains(err.Error(), "can be the executable (x.py, x.sh): choose one with executable") {
		t.Errorf("two files of its name: err = %v, want the choice", err)
	}
}
