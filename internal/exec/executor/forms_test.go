package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// formTool is a tool of the programs in testdata/forms.
type formTool struct {
	upstream, name, schema string
	answer                 func(a map[string]any) string // JSON, or text
}

func schemaOf(required string, props ...string) string {
	var list []string
	for _, p := range props {
		name, typ, _ := strings.Cut(p, ":")
		list = append(list, fmt.Sprintf("%q:{\"type\":%q}", name, typ))
	}
	need, _ := json.Marshal(strings.Fields(required))
	return `{"type":"object","properties":{` + strings.Join(list, ",") + `},"required":` + string(need) + `}`
}

func js(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type m = map[string]any

func formTools() []formTool {
	issues := func(a m) string {
		out := []m{}
		for _, i := range []m{{"number": 1, "title": "Crash on start", "state": "open"},
			{"number": 2, "title": "Add docs", "state": "open"},
			{"number": 3, "title": "Slow search", "state": "closed"}} {
			if a["state"] == nil || a["state"] == "all" || a["state"] == i["state"] {
				out = append(out, i)
			}
		}
		return js(out)
	}
	return []formTool{
		{"github", "list_issues", schemaOf("owner repo", "owner:string", "repo:string", "state:string"), issues},
		{"github", "get_issue", schemaOf("owner repo issue_number", "owner:string", "repo:string",
			"issue_number:integer"), func(a m) string {
			return js(m{"number": a["issue_number"], "title": fmt.Sprintf("Issue %v", a["issue_number"])})
		}},
		{"github", "create_issue", schemaOf("owner repo title", "owner:string", "repo:string", "title:string",
			"body:string"), func(a m) string {
			return js(m{"number": 42, "title": a["title"]})
		}},
		{"github", "search_code", schemaOf("query", "query:string", "max_results:integer"), func(a m) string {
			return js(m{"query": a["query"], "max": a["max_results"]})
		}},
		{"filesystem", "read_file", schemaOf("path", "path:string"), func(a m) string {
			if a["path"] == "data.json" {
				return `{"items":[{"price":2},{"price":3}]}`
			}
			return "alpha\nbeta\ngamma"
		}},
		{"filesystem", "write_file", schemaOf("path content", "path:string", "content:string"), func(a m) string {
			return fmt.Sprintf("wrote %d bytes to %v", len(a["content"].(string)), a["path"])
		}},
		{"filesystem", "list_directory", schemaOf("path", "path:string"), func(a m) string {
			return `["a.txt","b.txt"]`
		}},
		{"weather", "get_current", schemaOf("city", "city:string", "units:string"), func(a m) string {
			return js(m{"city": a["city"], "temperature": map[any]int{"London": 12, "Paris": 18}[a["city"]] + 0})
		}},
		{"weather", "get-forecast", schemaOf("city days", "city:string", "days:integer"), func(a m) string {
			var days []m
			for i := range int(a["days"].(float64)) {
				days = append(days, m{"day": i + 1, "high": 20 + i})
			}
			return js(m{"city": a["city"], "days": days})
		}},
		{"google-drive", "getDocument", schemaOf("documentId", "documentId:string"), func(a m) string {
			return js(m{"title": "Doc " + a["documentId"].(string), "content": "hello world"})
		}},
		{"crm", "updateRecord", schemaOf("objectType recordId data", "objectType:string", "recordId:string",
			"data:object"), func(a m) string { return js(m{"id": a["recordId"], "updated": len(a["data"].(m))}) }},
		{"slack", "send_message", schemaOf("channel message", "channel:string", "message:string"), func(a m) string {
			return js(m{"ok": true, "channel": a["channel"]})
		}},
		{"slack", "list_channels", schemaOf(""), func(m) string {
			return `[{"id":"C1","name":"general"},{"id":"C2","name":"random"}]`
		}},
		{"db", "query", schemaOf("sql", "sql:string"), func(a m) string {
			for region, revenue := range map[string]int{"West": 100, "East": 150, "Central": 50} {
				if strings.Contains(a["sql"].(string), region) {
					return js([]m{{"region": region, "revenue": revenue}})
				}
			}
			return `[]`
		}},
		{"db", "get_user", schemaOf("user_id", "user_id:integer"), func(a m) string {
			return js(m{"id": a["user_id"], "name": fmt.Sprintf("User %v", a["user_id"])})
		}},
		{"calc", "add", schemaOf("a b", "a:number", "b:number"), func(a m) string {
			return js(m{"result": a["a"].(float64) + a["b"].(float64)})
		}},
		{"calc", "multiply", schemaOf("a b", "a:number", "b:number"), func(a m) string {
			return js(m{"result": a["a"].(float64) * a["b"].(float64)})
		}},
		{"linear", "issues.list", schemaOf("team_id", "team_id:string"), func(a m) string {
			return js([]m{{"id": "L1", "team": a["team_id"]}})
		}},
		{"linear", "issues.create", schemaOf("team_id title", "team_id:string", "title:string"), func(a m) string {
			return js(m{"id": "L2", "title": a["title"]})
		}},
		{"notion", "notion-search", schemaOf("query", "query:string"), func(a m) string {
			return js([]m{{"page": a["query"]}})
		}},
		{"lists", "between", schemaOf("item", "item:string", "page:integer", "tags:array"), func(a m) string {
			return js(m{"from": a["item"]})
		}},
		{"east", "status", schemaOf(""), func(m) string { return `{"up":true}` }},
		{"west", "status", schemaOf(""), func(m) string { return `{"up":false}` }},
		{"secret", "launch", schemaOf(""), func(m) string { return `{"launched":true}` }},
	}
}

// A formRig is an executor behind a door that resolves, validates and records calls like the
// gateway. The upstream "secret" is hidden from everyone.
type formRig struct {
	rig
	catalog *catalog.Catalog
	asked   []string // the calls that reached the door: plain path and arguments
}

func newFormRig(t testing.TB) *formRig {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	r := &formRig{rig: rig{t: t}, catalog: catalog.New(catalog.Config{})}
	tools, answers := map[string][]*tool.Tool{}, map[string]func(m) string{}
	for _, f := range formTools() {
		tools[f.upstream] = append(tools[f.upstream],
			&tool.Tool{Upstream: f.upstream, Name: f.name, InputSchema: json.RawMessage(f.schema)})
		answers[f.upstream+"/"+f.name] = f.answer
	}
	for name, list := range tools {
		r.catalog.Set(catalog.Source{Name: name, Tools: list, Health: tool.Health{State: tool.Ready}})
	}
	r.catalog.Set(catalog.Source{Name: tool.Own, Tools: []*tool.Tool{catalog.SearchDefinition()},
		Health: tool.Health{State: tool.Ready}})
	visible := func(tool.Principal) *catalog.View {
		return r.catalog.View().Only(func(e *catalog.Entry) bool { return e.Tool.Upstream != "secret" })
	}
	search := r.catalog.SearchTool(visible)
	door := tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		e, err := r.catalog.View().Resolve(c.Path)
		if err != nil {
			if _, own := visible(c.Principal).Resolve(c.Path); own != nil {
				err = own
			}
			return nil, tool.NotSent(err)
		}
		if e.Tool.Upstream == tool.Own {
			return search.Call(ctx, c)
		}
		r.mu.Lock()
		r.asked = append(r.asked, c.Path+" "+string(orEmpty(c.Arguments)))
		r.mu.Unlock()
		if e.Tool.Upstream == "secret" {
			return nil, tool.NotSent(tool.Errorf(tool.Denied, "%s is denied by policy p: no", c.Path))
		}
		if err := e.Validate(orEmpty(c.Arguments)); err != nil {
			return nil, tool.NotSent(err)
		}
		var a m
		if err := json.Unmarshal(orEmpty(c.Arguments), &a); err != nil {
			return nil, err
		}
		return tool.Text(false, answers[e.Tool.Upstream+"/"+e.Tool.Name](a)), nil
	})
	resolver := catalog.NewResolver(r.catalog, visible)
	programs := program.New(program.Config{Catalog: resolver})
	cfg := executor.Config{Drivers: sandbox.OnlyDriver(enclosed{d}),
		Door: door, Programs: programs, Tools: plainTools{resolver: resolver}}
	if r.x, err = executor.New(cfg); err != nil {
		t.Fatalf("executor.New: %v", err)
	}
	t.Cleanup(func() {
		if err := r.x.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// do runs a program and returns its text blocks, whether it failed, and the calls that it made.
func (r *formRig) do(language, code string) (texts []string, failed bool, calls []string) {
	r.t.Helper()
	r.mu.Lock()
	r.asked = nil
	r.mu.Unlock()
	res, err := r.execute(r.t.Context(), map[string]any{"code": code, "language": language})
	if err != nil {
		r.t.Fatalf("execute: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return textsOf(r.t, res), res.IsError, slices.Clone(r.asked)
}

const least = 0.95 // the fraction of other systems' programs that run unchanged; it may only rise

// TestForms runs programs in the forms of other systems, unchanged. Each archive in testdata/forms
// is one system, whose name and source are in the archive's comment. Its files are programs; the
// comment in a program's last line is the expected result.
func TestForms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/forms/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	r := newFormRig(t)
	var all, right int
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatalf("txtar.ParseFile: %v", err)
		}
		good := 0
		for _, f := range ar.Files {
			language, comment := "javascript", "// => "
			switch filepath.Ext(f.Name) {
			case ".py":
				language, comment = "python", "# => "
			case ".ts":
				language = "typescript"
			}
			code, want, ok := strings.Cut(strings.TrimSpace(string(f.Data)), comment)
			if !ok {
				t.Fatalf("%s: %s does not say what it comes to", file, f.Name)
			}
			texts, failed, _ := r.do(language, code)
			if got := texts[0]; failed || got != want && !strings.HasPrefix(got, want+"\n") {
				t.Logf("%s: %s: got %q, want %q", filepath.Base(file), f.Name, texts, want)
				continue
			}
			good++
		}
		t.Logf("%-22s %3d of %3d", strings.TrimSuffix(filepath.Base(file), ".txtar"), good, len(ar.Files))
		all, right = all+len(ar.Files), right+good
	}
	t.Logf("%d of %d programs of other systems ran unchanged and right (%.1f %%)", right, all,
		100*float64(right)/float64(all))
	if all < 150 {
		t.Errorf("%d programs are too few to tell", all)
	}
	if float64(right) < least*float64(all) {
		t.Errorf("%d of %d ran right, at least %.0f %% must", right, all, 100*least)
	}
}

// TestFormsArePlain checks that policy and audit records see the plain form of a call in another
// form, and that hidden or ambiguous tools stay unreachable.
func TestFormsArePlain(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for code, want := range map[string]string{
		`await mcp__github__get_issue({ owner: "o", repo: "r", issueNumber: 1 })`: `github.get_issue {"owner":"o",` +
			`"repo":"r","issue_number":1}`,
		`await filesystem.read_file("a.txt")`: `filesystem.read_file ` +
			`{"path":"a.txt"}`,
		`await callTool("weather", "get-forecast", { city: "x", days: 1 })`: `weather.get-forecast ` +
			`{"city":"x","days":1}`,
		`await tools.github.listIssues("o", "r", { state: "open" })`: `github.list_issues ` +
			`{"owner":"o","repo":"r","state":"open"}`,
		`await linear.issues.list({ teamId: "T" })`: `linear.issues_list ` +
			`{"team_id":"T"}`,
		`await github.get_issue({ owner: "o", repo: "r", issue_number: 2 })`: `github.get_issue {"owner":"o",` +
			`"repo":"r","issue_number":2}`,
		`const name = "mcp__secret__launch"; try { await tools[name]() } catch {}`:  ``,
		`try { await callTool("mcp__secret__launch") } catch (e) { e.message }`:     `secret.launch {}`,
		`const get = "launch"; try { await callTool(get) } catch (e) { e.message }`: ``,
		`try { await callTool("filesystem.write_file", "a") } catch (e) { e.message }`: `filesystem.write_file ` +
			`{"path":"a"}`,
	} {
		_, failed, calls := r.do("typescript", code)
		if got := strings.Join(calls, "; "); failed || got != want {
			t.Errorf("%s\n got %q (failed: %v)\nwant %q", code, got, failed, want)
		}
	}
}

func TestFormsInDoubt(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for code, parts := range map[string][]string{
		`await status({})`: {"names more than one tool", "east.status",
			"west.status"},
		`const s = "status"; await callTool(s, {})`: {"names more than one tool", "east.status",
			"west.status"},
		`await tools.nope.list()`:                            {"nope"},
		`await github.get_issue("o", "r", 1, 2, 3)`:          {"github.get_issue", "3 by position"},
		`await github.list_issue({ owner: "o", repo: "r" })`: {"did you mean github.list_issues"},
	} {
		texts, failed, calls := r.do("typescript", code)
		if !failed || len(calls) != 0 {
			t.Errorf("%s: it did not fail, and called %q", code, calls)
		}
		holds(t, texts[0], parts...)
		lacks(t, texts[0], "secret")
	}
	texts, failed, _ := r.do("python", "status()")
	if !failed {
		t.Error("status() did not fail in Python")
	}
	holds(t, texts[0], "names more than one tool", "east.status", "west.status")
}

// TestFormsCaptureNothing checks that a program's own declarations take precedence, whatever their
// names.
func TestFormsCaptureNothing(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for _, x := range []struct{ language, code, want string }{
		{"typescript", `const text = "a b"; return text.split(" ")`, `["a","b"]`},
		{"typescript", `function store(x: number) { return x + 1 } return store(1)`, `2`},
		{"typescript", `const load = { image: 1 }; const { image } = load; return image`, `1`},
		{"typescript", `let exit = 0; for (const sleep of [1, 2]) exit += sleep; return exit`, `3`},
		{"typescript", `const get_user = (n: number) => n * 2; return get_user(4)`, `8`},
		{"typescript", `class notify { n = 3 } return new notify().n`, `3`},
		{"typescript", `const final_answer = 7; return final_answer`, `7`},
		{"typescript", `const mcp = { callTool: () => 1 }; return mcp.callTool()`, `1`},
		{"typescript", `return [typeof tools.nope, tools.nope ? 1 : 2, "nope" in tools, "nope" in tools.github]`,
			`["undefined",2,false,false]`},
		{"typescript", `return [typeof tools.github, typeof tools.github.list_issues, "github" in tools]`,
			`["object","function",true]`},
		{"typescript", `return [{ ..."ab" }, { x: 1, ...null }, { ...[3], ...{ y: 2 } }]`,
			`[{"0":"a","1":"b"},{"x":1},{"0":3,"y":2}]`},
		{"typescript", `const { a, ...rest } = { a: 1, b: 2 }; const f = ({ a, ...more }: any) => more; return [rest,` +
			` f({ a: 1, c: 3 })]`, `[{"b":2},{"c":3}]`},
		{"typescript", `const a = new Int32Array(2); Atomics.add(a, 0, 5); Atomics.store(a, 1, 3); return ` +
			`[Atomics.load(a, 0), Atomics.compareExchange(a, 1, 3, 9), a[1]]`, `[5,3,9]`},
		{"typescript", `return [NaN, -Infinity, new Uint8Array([1, 2])]`, `["NaN","-Infinity","AQI="]`},
		{"typescript", `return [Buffer.from("ab"), new Uint8Array([97, 98]).buffer, new Float64Array([0.5]), ` +
			`JSON.stringify(Buffer.from("a"))]`, `["YWI=","YWI=",[0.5],"{\"type\":\"Buffer\",\"data\":[97]}"]`},
		{"typescript", `text("a"); const z = 3`, `"a"`},
		{"typescript", `const text = (x: string) => x; text("a"); const z = 3`, `3`},
		{"typescript", `return [typeof tools["a__".repeat(20000)], typeof tools.github["a_".repeat(20000)], ` +
			`"x__".repeat(20000) in tools.github]`, `["undefined","function",false]`},
		{"python", "text('a')\nz = 3", `"a"`},
		{"python", "import os\nos.environ['A'] = 'b'", `no value: the program returned None`},
		{"python", "import locale\ntry:\n    locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\nexcept locale.Error as " +
			"e:\n    said = str(e)\n[locale.setlocale(locale.LC_ALL, ''), 'only \"C\"' in said]", `["C",true]`},
		{"python", "[float('nan'), -float('inf'), b'ab']", `["NaN","-Infinity","YWI="]`},
		{"typescript", `text("a"); text({ type: "text", text: "b" })`, `["a","b"]`},
		{"python", "text('a')\ntext([1])", `["a",[1]]`},
		{"typescript", `try { exit() } catch {} finally {} return 1`, `no value: the program returned undefined`},
		{"python", "text = 'a b'\ntext.split()", `["a","b"]`},
		{"python", "def store(x):\n    return x + 1\nstore(1)", `2`},
		{"python", "def get_user(n):\n    return n * 2\nget_user(4)", `8`},
		{"python", "load = [1, 2]\nsum(load)", `3`},
		{"python", "[sleep for sleep in range(3)]", `[0,1,2]`},
		{"python", "status = {'a': 1}\nstatus.get('a')", `1`},
		{"python", "json = 'mine'\njson.upper()", `"MINE"`},
	} {
		texts, failed, _ := r.do(x.language, x.code)
		if failed || texts[0] != x.want {
			t.Errorf("%s\n got %q\nwant %s", x.code, texts, x.want)
		}
	}
}

// TestExitIsFinal checks that a program that catches the exception of exit has ended all the same:
// it makes no more calls.
func TestExitIsFinal(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for _, code := range []string{
		`try { exit() } catch { await calc.add({ a: 1, b: 2 }) }; return 1`,
		`try { final_answer(undefined) } catch { try { await callTool("calc.add", { a: 1, b: 2 }) } catch {} } return 1`,
		`import fs from "node:fs/promises"; try { exit() } catch { await fs.writeFile("a.txt", "x") } return 1`,
	} {
		if texts, failed, calls := r.do("typescript", code); failed || len(calls) != 0 ||
			texts[0] != "no value: the program returned undefined" {
			t.Errorf("%s\n got %q, calls %q", code, texts, calls)
		}
	}
}

// TestFormsStandStill checks that programs written for blocking calls make them one after another,
// with an await only if the language has one.
func TestFormsStandStill(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for code, want := range map[string]string{
		`try { call_tool("db.get_user", { user_id: "x" }); return "no error" } catch (e) { return "caught" }`:    `"caught"`,
		`let n = 0; for (const a of [1, 2]) call_tool("calc.add", { a, b: n++ }); return n`:                      `2`,
		`class A { x = call_tool("calc.add", { a: 1, b: 2 }) } return new A().x`:                                 `{"result":3}`,
		`class A { static x; static { A.x = call_tool("calc.add", { a: 1, b: 2 }) } } return A.x`:                `{"result":3}`,
		`const f = (a = call_tool("calc.add", { a: 1, b: 2 })) => a; return f()`:                                 `{"result":3}`,
		`const o = { ...call_tool("calc.add", { a: 1, b: 2 }) }; call_tool("calc.add", { a: 1, b: 1 }); o`:       `{"result":3}`,
		`const u = call_tool("db.get_user", { user_id: 1 })\ncall_tool("calc.add", { a: 1, b: 1 }).result\nu.id`: `1`,
	} {
		texts, failed, _ := r.do("typescript", code)
		if failed || texts[0] != want && !strings.HasPrefix(texts[0], want+"\n") {
			t.Errorf("%s\n got %q\nwant %s", code, texts, want)
		}
	}
}

// TestFormsAsCallbacks checks that the arguments that map and similar functions pass to a callback
// are not treated as positional arguments.
func TestFormsAsCallbacks(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for _, code := range []string{
		`return await Promise.all(["a", "b"].map(lists.between))`,
		`return await Promise.all(["a", "b"].flatMap((...all) => callTool("lists.between", ...all)))`,
	} {
		if texts, failed, _ := r.do("typescript", code); !failed {
			t.Errorf("%s\n got %q", code, texts)
		}
	}
	texts, failed, _ := r.do("typescript", `return await lists.between("a", 1, ["x"])`)
	if failed || texts[0] != `{"from":"a"}` {
		t.Errorf("got %q", texts)
	}
}

// TestFormsLeaveGeneratorsAlone checks that a program that ends by creating a generator does not
// run it.
func TestFormsLeaveGeneratorsAlone(t *testing.T) {
	t.Parallel()
	r := newFormRig(t)
	for _, code := range []string{
		"g = (calc.add(a=1, b=n) for n in [1, 2])",
		"def gen():\n    yield calc.add(a=1, b=2)\ng = gen()",
		"import itertools\ng = itertools.count()",
	} {
		if texts, failed, calls := r.do("python", code); failed || len(calls) != 0 ||
			texts[0] != "no value: the program returned None" {
			t.Errorf("%s\n got %q, calls %q", code, texts, calls)
		}
	}
}

// plainTools are Tools whose calls have a plain form.
type plainTools struct {
	executor.NoTools
	resolver *catalog.Resolver
}

func (p plainTools) PlainForm(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage) {
	return p.resolver.Plain(who, path, args)
}
