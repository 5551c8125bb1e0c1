package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestValue(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for code, want := range map[string]string{
		`1 + 1`:                    `2`,
		`return "a"`:               `"a"`,
		`"never mind"; ({ a: 1 })`: `{"a":1}`,
		`const x = await box.echo({ a: [1, "b"] }); x.a`:                             `[1,"b"]`,
		`return await tools.box.echo({ n: 12345678901234567890n })`:                  `{"n":12345678901234567890}`,
		`return (await box.echo({ n: 9007199254740993n })).n + 1n`:                   `9007199254740994`,
		`return await callTool("box.text")`:                                          `"plain text"`,
		`const [a, b] = await Promise.all([box.text(), box.echo({ b: 1 })]); [a, b]`: `["plain text",{"b":1}]`,
		`import { echo } from "./tools/box"; return await echo({ x: 1 })`:            `{"x":1}`,
		`import echo from "./tools/box/echo.ts"; return await echo({ x: 2 })`:        `{"x":2}`,
		`try { await box.fail() } catch (e) { return [e instanceof ToolError, e] }`: `[true,{"name":"ToolError",` +
			`"message":"no such record","kind":"failed","upstream":"box","tool":"fail"}]`,
		`try { await box.fail({ status: 429, retryable: true, retry_after: 7, body: "b" }) } catch (e) { return ` +
			`[e.message, e.status, e.retryable, e.retryAfter, e.data.body] }`: `["slow down",429,true,7,"b"]`,
		`try { await box.down() } catch (e) { return [e.kind, e.message] }`: `["unavailable","box is down"]`,
		`return undefined`: `no value: the program returned undefined`,
		`return null`:      `null`,
		`export default async () => new Map([["a", new Set([1, 2n])]])`: `{"a":[1,2]}`,
	} {
		if got := r.value(code); got != want {
			t.Errorf("%s\n got %s\nwant %s", code, got, want)
		}
	}
}

func TestResultsInsideAProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":" {\"a\": 12345678901234567890} "}]}`: `{"a":12345678901234567890}`,
		`{"content":[{"type":"text","text":"{not json}"}]}`:                      `"{not json}"`,
		`{"content":[{"type":"text","text":"12"}]}`:                              `"12"`,
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"[1]"}]}`:  `["a",[1]]`,
		`{"content":[]}`: `null`,
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"big":12345678901234567890,"u":1}}`: `{"big":12345678901234567890,"u":1}`,
		`{"content":[{"type":"odd","x":{"y":1}}]}`:                                                        `{"type":"odd","x":{"y":1}}`,
		`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`:                             `{"type":"resource_link","uri":"file:///a","name":"a"}`,
	} {
		code := `const r = await box.raw({ result: ` + result + ` }); return r`
		if strings.Contains(result, "12345678901234567890") {
			code = strings.ReplaceAll(code, `"big":12345678901234567890`, `"big":12345678901234567890n`)
		}
		if got := r.value(code); got != want {
			t.Errorf("%s\n got %s\nwant %s", result, got, want)
		}
	}
}

func TestBlocksOfAnAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	texts, failed := r.run(`console.log("one", { a: 1 }); console.error("two"); await box.text(); await box.text(); ` +
		`await box.echo({}); return 7`)
	if failed || len(texts) != 3 {
		t.Fatalf("blocks: %q", texts)
	}
	if texts[0] != "7" {
		t.Errorf("value: %s", texts[0])
	}
	if want := "console:\none { a: 1 }\nerror: two"; texts[1] != want {
		t.Errorf("console: %q, want %q", texts[1], want)
	}
	holds(t, texts[2], "3 calls: box.text x2 (", "box.echo (")
	lacks(t, texts[2], "\n", "note")

	texts, _ = r.run(`box.text(); box.fail(); return 1`)
	holds(t, texts[1], "error: box.fail was never awaited, and failed: no such record")
	holds(t, texts[2], "2 calls:", "note: not awaited by the program: 2 calls (box.text, box.fail)")
}

// TestMissingProtections checks that every result mentions missing protections.
func TestMissingProtections(t *testing.T) {
	t.Parallel()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	r := newRig(t, standard(), func(c *executor.Config) { c.Drivers = sandbox.OnlyDriver(d) })
	for _, code := range []string{"1", "throw 1"} {
		texts, _ := r.run(code)
		if holds(t, texts[len(texts)-1], "protections not available here: a process around the engine"); len(
			texts) != 2 {
			t.Errorf("blocks: %q", texts)
		}
	}
}

// A lame driver fails the first few probes.
type lame struct {
	sandbox.Driver
	errs []error
}

func (l *lame) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return sandbox.Capabilities{}, err
	}
	return l.Driver.Probe(ctx)
}

// TestProbeThatFailsOnce checks that a driver's temporary failure doesn't keep programs from
// running.
func TestProbeThatFailsOnce(t *testing.T) {
	t.Parallel()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	broken := &lame{d, []error{fmt.Errorf("probe: %w", &sandbox.CrashError{Reason: "ended"}), errors.New("no memory")}}
	r := newRig(t, standard(), func(c *executor.Config) { c.Drivers = sandbox.OnlyDriver(broken) })
	lacks(t, r.failure("1"), "no sandbox can run here")
	holds(t, r.failure("1"), "no sandbox can run here: no memory")
	if texts, failed := r.run("1 + 1"); failed || texts[0] != "2" {
		t.Errorf("afterwards: %q", texts)
	}
}

func TestFailureText(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	texts, failed := r.run("const rows = await box.echo({ rows: [1] });\nconsole.log('seen');\n\nconst n: number = " +
		"rows.nope.length;\nreturn n")
	if !failed || len(texts) != 3 {
		t.Fatalf("blocks: %q", texts)
	}
	holds(t, texts[0], "TypeError: cannot read property 'length' of undefined (line 4, column ",
		"> 4 | const n: number = rows.nope.length;", "^",
		"1 call was made before it ended", `- box.echo {"rows":[1]} -> ok (`)
	holds(t, texts[1], "seen")

	text := r.failure("await box.text()\nawait box.fail({ id: 3 })")
	holds(t, text, "ToolError: no such record (from box.fail) (line 2, column", "> 2 | await box.fail({ id: 3 })",
		`- box.fail {"id":3} -> failed: no such record`)

	holds(t, r.failure(`return await new WebSocket("wss://example.com")`), "WebSocket is not defined",
		"hint: there is no network", "tools only")
	holds(t, r.failure(`const x: number = `), "(line 1")
	holds(t, r.failure(`await new Promise(() => {})`), "never settle", "no call and no timer")
	holds(t, r.failure(`throw { code: 3 }`), "the program threw { code: 3 }")
	holds(t, r.failure(`throw new TypeError()`), "TypeError, without a message (line 1")
	holds(t, r.failure(`return await box.ecko({})`), "ecko", "echo")
	holds(t, r.failure("const s = 'a';\ns.spilt(',')"), "TypeError: s.spilt is not a function (line 2, column 3)",
		"hint: the value called")
	holds(t, r.failure(`const list = null; for (const x of list) {}`), "TypeError: null is not iterable (line 1")
	holds(t, r.failure(`JSON.parse("no")`), "SyntaxError: unexpected token: 'no' in JSON (line 1")
	lacks(t, r.failure(`const x = null; const y = x.z`), "nothing returns it")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{}, "code is missing"},
		{map[string]any{"code": "1", "languge": "ts"}, `unknown argument "languge"`},
		{map[string]any{"code": "1", "language": "ruby"}, `"typescript"`},
		{map[string]any{"code": "1", "session": ".s"}, "no name for a session"},
		{map[string]any{"code": "1", "timeout_seconds": -1}, "timeout_seconds"},
		{map[string]any{"code": "1", "timeout_seconds": "5"}, "timeout_seconds must be a number"},
		{map[string]any{"code": 1}, "code must be a string"},
	} {
		_, err := r.execute(t.Context(), c.args)
		if e := tool.AsError(err); e == nil || e.Kind != tool.Invalid || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	_, err := r.x.Execute().Call(t.Context(), &tool.Call{By: &tool.Program{Execution: "ex_1"},
		Arguments: []byte(`{"code":"1"}`), Principal: ann})
	if err == nil {
		t.Error("a program could start a program")
	}
	holds(t, r.failure(`return await callTool("biplane.execute", { code: "1" })`), "can't start")
}

func TestImages(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	const image = `{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}`
	texts, failed := r.run(`const i = await box.raw({ result: { content: [` + image +
		`] } }); return { i, keys: Object.keys(i), data: await readResult(i.handle) }`)
	if failed || len(texts) != 2 {
		t.Fatalf("texts = %q, want !failed && len(texts) == 2", texts)
	}
	holds(t, texts[0], `"type":"image","mimeType":"image/png","size":5,"handle":"res_`, `"data":"aGVsbG8="`)
	texts, _ = r.run(`const i = await box.raw({ result: { content: [` + image + `] } }); emit(i); return 1`)
	if last := texts[len(texts)-1]; last != image {
		t.Errorf("emitted %s", last)
	}
	texts, _ = r.run(`return await box.raw({ result: { content: [` + image + `] } })`)
	if last := texts[len(texts)-1]; last != image {
		t.Errorf("value emitted as %s", last)
	}
	texts, _ = r.run(`emit("res_nothing"); return 1`)
	holds(t, strings.Join(texts, "\n"), "nothing to show is kept")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.execute(ctx, map[string]any{"code": `await Promise.all([box.never(), box.never()])`})
		done <- err
	}()
	eventually(t, "calls are under way", func() bool { return r.in.Load() == 2 })
	cancel()
	if err := <-done; err == nil {
		t.Fatal("a canceled execute answered")
	}
	eventually(t, "no call is under way", func() bool { return r.in.Load() == 0 })
}

// TestStacksOfTheProgram checks that a stack trace inspected by the program itself refers to the
// agent's text, too.
func TestStacksOfTheProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	texts, failed := r.run("interface X { a: number }\n\nfunction f(): string {\n  const e = new Error('s');\n  " +
		"console.log('seen', e.stack);\n  return e.stack!\n}\nreturn [f(), 'at (program.js:1:1)']")
	if failed || len(texts) < 2 {
		t.Fatalf("texts = %v, want !failed && len(texts) >= 2", texts)
	}
	holds(t, texts[0], "\"Error: s\\n    at f (program.js:4:17)\\n    at ", `(program.js:8:`, `"at (program.js:1:1)"`)
	holds(t, texts[1], "seen Error: s\n    at f (program.js:4:17)\n")
}

func TestManyNotes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := newRig(t, standard(), nil)
	texts, failed := r.run(`for (let i = 0; i < 1e4; i++) emit("res_none"); return 1`)
	if failed || len(texts) != 2 || len(texts[1]) > 2000 {
		t.Fatalf("texts = %.3000q, want !failed && len(texts) == 2 && len(texts[1]) <= 2000", texts)
	}
}

// TestCallsThatWereNotMade checks that calls refused before they were sent don't count as made.
func TestCallsThatWereNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	const refused = `const id = ["x"].pop(), name = ["box.ekko"].pop(); for (const f of [() => box.strict({ id }), ` +
		`() => box.down(), () => callTool(name)]) await f().catch(() => {});`
	text := r.failure(refused + ` await box.text(); await box.lost().catch(() => {}); await box.fail()`)
	made, unsent, ok := strings.Cut(text, "3 calls were not made, and changed nothing:")
	if !ok {
		t.Fatalf("text = %v, want ok", text)
	}
	holds(t, made, "3 calls were made before it ended; the next program must not repeat these changes:",
		"- box.text {} -> ok (",
		"- box.lost {} -> failed: upstream \"box\": the connection broke; whether box.lost took effect is unknown",
		"- box.fail {} -> failed: no such record")
	lacks(t, made, "box.strict", "box.down", "box.ekko")
	holds(t, unsent, `- box.strict {"id":"x"} -> not made: wrong arguments for box.strict: `,
		"- box.down {} -> not made: box is down", `- box.ekko {} -> not made: upstream "box" has no tool "ekko"`)

	text = r.failure(`const id = ["x"].pop(); await box.strict({ id })`)
	holds(t, text, "1 call was not made, and changed nothing:")
	lacks(t, text, "made before it ended", "must not repeat")

	texts, failed := r.run(refused + ` await box.text(); return 1`)
	if failed {
		t.Fatalf("texts = %v, want !failed", texts)
	}
	holds(t, texts[1], "1 call: box.text (", "; 3 calls not made: box.strict, box.down, box.ekko")
	texts, _ = r.run(`await box.down().catch(() => {}); await box.down().catch(() => {}); return 1`)
	if texts[1] != "2 calls not made: box.down x2" {
		t.Errorf(`texts[1] = %q, want "2 calls not made: box.down x2"`, texts[1])
	}
	texts, _ = r.run(`const a = [{}].pop(); box.strict(a); return 1`)
	holds(t, texts[len(texts)-1], "1 call not made: box.strict",
		"not awaited by the program: 1 call (box.strict); they were awaited")
}

// TestPlacesApartFromMessages checks that the error message of an invalid program contains no
// position. The position is separate, and the agent sees both.
func TestPlacesApartFromMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	res, err := r.execute(t.Context(), map[string]any{"code": "await box.ecko({})\n\nawait box.txet({})"})
	if err != nil || !res.IsError {
		t.Fatalf("err = %v, want err == nil && res.IsError", err)
	}
	holds(t, textsOf(t, res)[0], "(line 1, column ", "> 1 | await box.ecko", "(line 3, column ", "> 3 | await box.txet")
	lacks(t, strings.Join(textsOf(t, res), "\n"), "further problem")
	id, _ := idOf(t, res)
	e, _ := r.x.Execution(id)
	f := e.Error
	lacks(t, f.Message, "line 1", "line 3", " | ")
	holds(t, f.Message, "ecko", "txet")
	if f.Kind != "check" || f.Line != 1 || f.Column == 0 || len(e.Notes) != 1 {
		t.Errorf("%+v, notes %q", f, e.Notes)
	}
	holds(t, f.Frame, "> 1 | await box.ecko")
	holds(t, strings.Join(e.Notes, "\n"), "at line 3, column ", "> 3 | await box.txet")
}

// TestSizeOfTheConsole checks that text that the guest truncated is counted, too.
func TestSizeOfTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	texts, failed := r.run(`console.log("x".repeat(100_000)); return 1`)
	if failed {
		t.Fatalf("texts = %v, want !failed", texts)
	}
	holds(t, texts[1], "console (100 KB in 1 line;")
}
