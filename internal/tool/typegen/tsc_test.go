package typegen_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// tsc runs the TypeScript compiler in dir and returns its output.
func tsc(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(peertest.Node(t), append([]string{peertest.Module(t, "typescript/bin/tsc")}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("err = %v, want err == nil || len(out) != 0", err)
	}
	return string(out)
}

func writeTree(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for p, text := range tree {
		p = filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
}

// TestCompiler compiles the tree of the golden tools, of tools with generated schemas, and of the
// reference servers: with its own tsconfig.json, and with --strict alone, as a user would.
func TestCompiler(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	peertest.Module(t, "typescript/bin/tsc")
	var items []typegen.Item
	add := func(ns string, d definition) {
		items = append(items, typegen.Item{Tool: d.tool(ns), Names: typegen.Names{Namespace: ns, Member: safe(d.Name)}})
	}
	files, _ := filepath.Glob("testdata/tools/*.txtar")
	for _, f := range files {
		ar, err := txtar.ParseFile(f)
		if err != nil {
			t.Fatalf("txtar.ParseFile: %v", err)
		}
		var d definition
		if err := json.Unmarshal(ar.Files[0].Data, &d); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		add("demo", d)
	}
	for i := range 150 {
		s := schemas()
		add("drawn", definition{Name: fmt.Sprintf("tool-%d", i), InputSchema: s.Example(2 * i),
			OutputSchema: s.Example(2*i + 1)})
	}
	for _, name := range []string{"everything", "filesystem", "memory"} {
		for _, d := range referenceTools(t, name) {
			add(name, d)
		}
	}
	program := ""
	for _, name := range []string{"web", "runtime", "globals"} { // names of files that are beside the folders
		add(name, definition{Name: "echo"})
		program += fmt.Sprintf("import { echo as %[1]s } from \"./%[1]s\";\n%[1]s();\n", name)
	}
	dir := t.TempDir()
	tree := typegen.Tree(items)
	tree["tools/program.ts"] = program
	writeTree(t, dir, tree)
	if out := tsc(t, dir, "-p", "tools/tsconfig.json"); out != "" {
		t.Errorf(`cutLines(out, 20) = %v, want out == ""`, cutLines(out, 20))
	}
	if out := tsc(t, dir, "--strict", "--noEmit", "tools/lib.globals.d.ts"); out != "" {
		t.Errorf(`cutLines(out, 20) = %v, want out == ""`, cutLines(out, 20))
	}
}

// TestPrograms compiles programs against the tree: correct ones must pass, and mistakes must be
// found.
func TestPrograms(t *testing.T) {
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
	tree := typegen.Tree(items)
	tree["tools/program.ts"] = `
import { list_issues, type ListIssuesArgs } from "./demo";
import { get_me, delete as remove } from "./demo/index.js";
import { readFile } from "node:fs/promises";

const args: ListIssuesArgs = { repo: "a/b", state: "open" };
const { items, next } = await list_issues(args);
const titles: string[] = items.filter((i) => i.state === "open").map((i) => i.title);
const same = await demo.list_issues({ repo: "a/b", per_page: 5 });
const also = await tools.demo.list_issues({ repo: "a/b" });
const exact = await callTool<{ n: number }>("demo.list-issues", { repo: "a/b" });
const me: unknown = await get_me();
await remove({ id: "1" });
await demo.delete();
try {
  await demo.shapes({ map: { a: 1 }, tuple: ["a", 1], when: "2026-01-01T00:00:00Z", shape: { kind: "circle", r: 2 } });
} catch (e) {
  if (e instanceof ToolError && e.kind === "timeout") console.log(e.upstream, e.tool, e.message);
}
const text: string = await readFile("./tools/demo/index.ts", "utf8");
const hits: string = await search("issues", { limit: 3 });
emit(new URL("https://example.com/" + titles.length + exact.n + next).searchParams.get("q"));
export default [same, also, me, text, hits];

// @ts-expect-error no such state
await demo.list_issues({ repo: "a/b", state: "opened" });
// @ts-expect-error repo is required
await demo.list_issues({});
// @ts-expect-error no such argument
await demo.list_issues({ repo: "a/b", repository: "a/b" });
// @ts-expect-error no such tool
await demo.list_issue({ repo: "a/b" });
// @ts-expect-error has no parameters
await demo.get_me({ id: 1 });
// @ts-expect-error a circle has no width
await demo.shapes({ map: {}, tuple: ["a", 1], when: "", shape: { kind: "circle", w: 2 } });
// @ts-expect-error the result has no such member
same.issues;
// @ts-expect-error there is no network
fetch("https://example.com");
`
	writeTree(t, dir, tree)
	if out := tsc(t, dir, "-p", "tools/tsconfig.json"); out != "" {
		t.Errorf(`cutLines(out, 20) = %v, want out == ""`, cutLines(out, 20))
	}
}

func cutLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// referenceTools returns the tools of one of the reference servers.
func referenceTools(t *testing.T, name string) []definition {
	t.Helper()
	argv := peertest.Server(t, name)
	if name == "filesystem" {
		argv = append(argv, t.TempDir())
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.json"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	r := bufio.NewReader(out)
	send(t, in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	answer(t, r, 1)
	send(t, in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(t, in, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var list struct {
		Tools []definition `json:"tools"`
	}
	if err := json.Unmarshal(answer(t, r, 2), &list); err != nil || len(list.Tools) == 0 {
		t.Fatalf("%s: %d tools, %v", name, len(list.Tools), err)
	}
	return list.Tools
}

func send(t *testing.T, w io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(w, line+"\n"); err != nil {
		t.Fatalf("io.WriteString: %v", err)
	}
}

// answer reads messages until the response to a request.
func answer(t *testing.T, r *bufio.Reader, id int) json.RawMessage {
	t.Helper()
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatalf("ReadBytes: %v", err)
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(line, &m) == nil && m.ID != nil && *m.ID == id && m.Result != nil {
			return m.Result
		}
	}
}
