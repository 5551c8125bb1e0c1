package folder_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/function"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/folder"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

// A loader loads files with the real engine, as package daemon does.
type loader struct {
	host *function.Host
	may  function.Permission
}

// newLoader returns a loader whose functions call door.
func newLoader(t testing.TB, door tool.CallerFunc) *loader {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("create the driver: %v", err)
	}
	names := program.New(program.Config{})
	l := &loader{host: &function.Host{Names: names}, may: function.Permission{Grantor: "folders.f"}}
	open := func(cpu time.Duration) *executor.Executor {
		x, err := executor.New(executor.Config{Drivers: []sandbox.Kind{{Name: "wasm", Driver: d}}, Door: door,
			Programs: names, Limits: executor.Limits{CPU: cpu}})
		if err != nil {
			t.Fatalf("create an executor: %v", err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	for i := range l.host.Levels {
		l.host.Levels[i] = open(0)
	}
	l.host.Loader = open(time.Second)
	return l
}

func (l *loader) AcceptsName(name string) bool { return function.LanguageOf(name) != "" }

func (l *loader) LoadFile(ctx context.Context, files fs.FS, name string) (folder.Module, error) {
	m, err := l.host.LoadFile(ctx, files, name, &l.may)
	if err != nil {
		return nil, err
	}
	return module{m}, nil
}

type module struct{ *function.Module }

func (m module) ListUses() []string { return m.File.Uses }

func (m module) ListExports() (out []folder.Export) {
	for i := range m.Module.Exports {
		e := &m.Module.Exports[i]
		out = append(out, folder.Export{Name: e.Name, Description: e.Description, Schema: e.Schema, Notes: e.Notes,
			Annotations: e.Annotations,
			Target: tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				return m.CallExport(ctx, c, e)
			})})
	}
	for _, b := range m.Broken {
		out = append(out, folder.Export{Name: b.Name, Broken: b.Reason})
	}
	return out
}

func noDoor(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, tool.Errorf(tool.Denied, "no calls here")
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatalf("create a directory: %v", err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
}

// start runs an upstream of a new folder with files.
func start(t testing.TB, l folder.Loader, files map[string]string) (*upstreamtest.Running, string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return upstreamtest.Start(t, func(t testing.TB, onChange func()) upstream.Upstream {
		return newUpstream(t, dir, l, onChange)
	}), dir
}

func newUpstream(t testing.TB, dir string, l folder.Loader, onChange func()) upstream.Upstream {
	t.Helper()
	u, err := folder.New(folder.Config{Name: "f", Path: dir, Loader: l, OnChange: onChange,
		Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatalf("create the upstream: %v", err)
	}
	return u
}

// TestUpstream runs the suite of all kinds of upstreams.
func TestUpstream(t *testing.T) {
	l := newLoader(t, noDoor)
	dir := t.TempDir()
	write(t, dir, map[string]string{"tools.ts": `
export function echo(i: number) { return "i is " + i; }
export function fail() { throw new Error("no such record"); }
export async function slow() { await new Promise((done) => setTimeout(done, 100_000)); }
`})
	upstreamtest.Run(t, upstreamtest.Peer{
		New: func(t testing.TB, onChange func()) upstream.Upstream { return newUpstream(t, dir, l, onChange) },
		Echo: func(i int) upstreamtest.Case {
			return upstreamtest.Case{Tool: "tools.echo", Args: fmt.Sprintf(`{"i":%d}`, i),
				Text: fmt.Sprintf("i is %d", i)}
		},
		Fails: &upstreamtest.Case{Tool: "tools.fail", Args: `{}`, Text: "no such record"},
		Slow:  &upstreamtest.Case{Tool: "tools.slow", Args: `{}`},
	})
}

// listing shows the tools and what was left out.
func listing(s upstream.Snapshot) string {
	var b strings.Builder
	for _, t := range s.Tools {
		fmt.Fprintf(&b, "%s\n", t.Name)
	}
	for _, x := range s.Broken {
		fmt.Fprintf(&b, "- %s: %s\n", x.Tool, x.Reason)
	}
	return b.String()
}

func TestNames(t *testing.T) {
	const f = "export function "
	r, _ := start(t, newLoader(t, noDoor), map[string]string{
		"database/query.ts":    f + "query(sql: string) {}\n" + f + "explain(sql: string) {}\n",
		"database/index.ts":    f + "ping() {}",
		"search-docs.js":       f + "searchDocs(q) {}",
		"search.py":            "def search(q: str): pass\ndef _hidden(): pass\n",
		"only.mjs":             "export default () => 1",
		"_lib.ts":              f + "hidden() {}",
		"a.test.ts":            f + "hidden() {}",
		"types.d.ts":           f + "hidden(): void",
		"node_modules/x/x.ts":  f + "hidden() {}",
		".git/x.ts":            f + "hidden() {}",
		"twice.ts":             f + "twice() {}",
		"twice.py":             "def twice(): pass\n",
		"bad name.ts":          f + "x() {}",
		"nothing.ts":           "export const a = 1",
		"syntax.ts":            "export function (",
		"missing.ts":           `import { x } from "./nowhere"; export function missing() { return x; }`,
		"outside.ts":           `import { x } from "../../etc/passwd"; export function outside() { return x; }`,
		"package.ts":           `import x from "left-pad"; export function packaged() { return x; }`,
		"throws.ts":            `throw new Error("on purpose");`,
		"loops.ts":             `for (;;) {}`,
		"calls.ts":             `export const calls = () => 1; fetch("https://x.example").catch(() => {}); await 1;`,
		"run.tool.yaml":        "name: run",
		"count.tool.yaml":      "description: Counts.",
		"count.py":             "def count(): pass\n",
		"broken_parameters.ts": `export function broken_parameters() {} broken_parameters.parameters = { a: 5 };`,
	})
	got := listing(r.Ready(t))
	for _, want := range []string{
		"count\ndatabase.ping\ndatabase.query\ndatabase.query.explain\nonly\nsearch\nsearch-docs\n- ",
		`- run.tool.yaml: run.tool.yaml: line 1: unknown field "name"`,
		`- bad name.x: "bad name" can't be part of a tool's name`,
		"- broken_parameters: its parameters have no JSON Schema: parameters.a is not a schema (in " +
			"broken_parameters.ts)",
		"- calls.ts: await at the top level isn't possible in a tool's file",
		"- loops.ts: the program used up its CPU time",
		`- missing.ts: there is no file "nowhere" in the folder (in missing.ts, line 1, column 19)`,
		"- nothing.ts: it exports no function",
		`- outside.ts: "../../etc/passwd" is outside of the folder`,
		`- package.ts: there is no package "left-pad" in the folder's node_modules`,
		`- syntax.ts: Expected identifier but found "(" (in syntax.ts, line 1, column 17)`,
		"- throws.ts: Error: on purpose (in ./throws.ts, line 1",
		"- twice: several functions have this name: rename all but one (in twice.py, twice.ts)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "hidden") {
		t.Errorf("a file that has no tools was loaded:\n%s", got)
	}
}

// TestReload changes files, and waits for the tools to follow.
func TestReload(t *testing.T) {
	r, dir := start(t, newLoader(t, noDoor), map[string]string{
		"a.ts": `import { x } from "./_x"; export function a() { return x; }`, "_x.ts": "export const x = 1;",
		"b.ts": "export function b() { return 2; }",
	})
	is := func(what, want string) {
		t.Helper()
		r.Wait(t, what, func(s upstream.Snapshot) bool { return listing(s) == want })
	}
	is("both tools", "a\nb\n")
	if got := text(r.Do(t.Context(), "a", "{}")); got != "1" {
		t.Errorf("a returns %s", got)
	}
	before := r.Snapshot().Tools[1]
	write(t, dir, map[string]string{"a.ts": "export function ("})
	is("the broken file", "b\n- a.ts: Expected identifier but found \"(\" (in a.ts, line 1, column 17)\n")
	if _, err := r.Do(t.Context(), "a", "{}"); err == nil || !strings.Contains(err.Error(), "no such tool any more") {
		t.Errorf("a stale tool can be called: %v", err)
	}
	if got := text(r.Do(t.Context(), "b", "{}")); got != "2" || before.Name != "b" {
		t.Errorf("the other tool: %s", got)
	}
	write(t, dir, map[string]string{"a.ts": `import { x } from "./_x"; export function a(n: number) { return x + n; }`,
		"_x.ts": "export const x = 40;", "c/d.ts": "export function d() {}"})
	is("the new tools", "a\nb\nc.d\n")
	if got := text(r.Do(t.Context(), "a", `{"n":2}`)); got != "42" {
		t.Errorf("a returns %s after a change of a file that it imports", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatalf("remove the folder: %v", err)
	}
	r.Wait(t, "the missing folder", func(s upstream.Snapshot) bool {
		return s.Health.State == tool.Down && strings.Contains(s.Health.Reason, "does not exist") && len(s.Tools) == 0
	})
	write(t, dir, map[string]string{"e.ts": "export function e() {}"})
	is("the folder again", "e\n")
}

// text returns the value of a result, or its error.
func text(r *tool.Result, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case r.IsError:
		return "failed: " + string(r.Raw)
	}
	return string(r.Structured)
}

// TestHostile checks that what is wrong in a folder costs a bounded amount, and only itself.
func TestHostile(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret.ts": "export const secret = 's3cret'; export function f() {}"})
	deep := strings.Repeat("d/", 12) + "deep.ts"
	write(t, dir, map[string]string{
		"good.ts":    "export function good() { return 1; }",
		"huge.ts":    "export function huge() {}\n//" + strings.Repeat("x", 1<<20),
		"binary.ts":  "export function binary() {} // \xff",
		deep:         "export function deep() {}",
		"imports.ts": `import { secret } from "./linked.ts"; export function imports() { return secret; }`,
		"memory.ts":  "const a = []; for (;;) a.push(new Array(1e6).fill(0));",
		"many.ts":    "for (let i = 0; i < 300; i++) exports['f' + i] = function () {};",
		"promise.ts": "export function promise() {}\n" +
			"promise.parameters = { get type() { throw new Error('trap'); } };",
		"proxy.ts": "export const proxy = new Proxy(function () {}, { get() { throw new Error('trap'); } });",
		"nested.ts": "export function nested() {} let s = {};\nfor (let i = 0; i < 500; i++) " +
			"s = { type: 'object', properties: { s } };\nnested.parameters = s;",
		"prototype.ts": "Object.prototype.toJSON = () => [{ name: 'fake', kind: 'function' }];\n" +
			"export function prototype() {}",
		"hidden.ts": "/** Hidden \u202e and \u200b text. */\nexport function hidden() {}",
	})
	for name, target := range map[string]string{"linked.ts": filepath.Join(outside, "secret.ts"), "dir": outside} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatalf("create a link: %v", err)
		}
	}
	r := upstreamtest.Start(t, func(t testing.TB, onChange func()) upstream.Upstream {
		return newUpstream(t, dir, newLoader(t, noDoor), onChange)
	})
	s := r.Ready(t)
	got := listing(s)
	for _, want := range []string{
		"good\n", "- linked.ts: it is a link: copy the file into the folder",
		"- huge.ts: huge.ts has 1.0 MB, at most 1.0 MB",
		"- binary.ts: binary.ts is not valid UTF-8", "its files are more than 8 directories deep",
		"- imports.ts: there is no file \"linked.ts\" in the folder", "- memory.ts: ",
		"- many.ts: many.ts exports 300 functions",
		"- promise: its parameters have no JSON Schema: trap", "- proxy.ts: Error: trap",
		"- nested: the schema of its parameters nests deeper than 128 levels",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "s3cret") || strings.Contains(got, "secret\n") {
		t.Errorf("a file outside of the folder was read:\n%s", got)
	}
	for _, x := range s.Tools {
		if x.Name == "hidden" && x.Description != "Hidden  and  text." {
			t.Errorf("hidden characters: got %q", x.Description)
		}
	}
	if got := text(r.Do(t.Context(), "good", "{}")); got != "1" {
		t.Errorf("the good tool returns %s", got)
	}
}

// TestManyFiles refuses a folder with more files than it looks at.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 20_001 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.txt", i)))
		if err != nil {
			t.Fatalf("create a file: %v", err)
		}
		f.Close()
	}
	r := upstreamtest.Start(t, func(t testing.TB, onChange func()) upstream.Upstream {
		return newUpstream(t, dir, newLoader(t, noDoor), onChange)
	})
	r.Wait(t, "the refusal", func(s upstream.Snapshot) bool {
		return s.Health.State == tool.Down && strings.Contains(s.Health.Reason, "the folder has over 20,000 files")
	})
}
