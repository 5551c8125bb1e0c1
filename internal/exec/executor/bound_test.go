package executor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
)

// bounded are programs that each reach one limit, which the first line of the answer and the
// metadata name.
var bounded = []struct{ name, language, code, kind, limit string }{
	{"memory", "typescript", `const all = []; for (;;) all.push(new Array(1e5).fill(7))`, "limit", "memory"},
	{"memory", "python", "a = []\nwhile True:\n    a.append(bytearray(1000000))", "limit", "memory"},
	{"cpu", "typescript", `while (true) {}`, "limit", "cpu"},
	{"cpu", "python", "while True: pass", "limit", "cpu"},
	{"time", "typescript", `await new Promise((r) => setTimeout(r, 1e6))`, "timeout", "time"},
	{"time", "python", "import asyncio\nawait asyncio.sleep(1000)", "timeout", "time"},
	{"stack", "typescript", `function f() { return f() + 1 } return f()`, "limit", "stack"},
	{"stack", "python", "def f(): return f() + 1\nf()", "limit", "stack"},
	{"output", "typescript", `let v = 1; for (let i = 0; i < 10_050; i++) v = [v]; return v`, "limit", "output"},
	{"console", "typescript", `for (;;) try { console.log("x".repeat(1000)) } catch {}`, "limit", "output"},
	{"console", "python", "while True:\n    try: print('x' * 1000)\n    except BaseException: pass", "limit", "output"},
	{"calls", "typescript", `for (let i = 0; i < 5; i++) await box.text()`, "limit", "calls"},
	{"calls", "python", "for i in range(5): await box.text()", "limit", "calls"},
	{"result", "typescript", `await box.big({ N: 1000000 })`, "limit", "result"},
	{"files", "typescript", `import { writeFile } from "node:fs/promises"; for (let i = 0; i < 9; i++) await ` +
		`writeFile("f" + i, "x")`, "limit", "files"},
	{"bytes of files", "typescript", `import { writeFile } from "node:fs/promises"; for (let i = 0; i < 9; i++) ` +
		`await writeFile("f", "x".repeat(2e4 * i))`, "limit", "files"},
	{"files", "python", "for i in range(9):\n    with open(f'f{i}', 'w') as f: f.write('x')", "limit", "files"},
	{"bytes of files", "python", "with open('f', 'w') as f: f.write('x' * 200000)", "limit", "files"},
}

func TestEachLimitIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Limits.CPU, c.Limits.Memory, c.Limits.Calls, c.Limits.Result, c.Limits.Console = 2*time.Second, 64<<20, 3,
			1<<20, 16<<10
		c.Limits.Sessions.Files, c.Limits.Sessions.Workspace = 5, 100_000
	})
	for _, b := range bounded {
		t.Run(b.language+"/"+b.name, func(t *testing.T) {
			t.Parallel()
			seconds := 600.0
			if b.limit == "time" {
				seconds = 0.3
			}
			res, err := r.execute(t.Context(),
				map[string]any{"code": b.code, "language": b.language, "timeout_seconds": seconds})
			if err != nil {
				t.Fatalf("execute: %v", err)
			}
			text := textsOf(t, res)[0]
			if head := b.kind + " (" + b.limit + "): "; !res.IsError || !strings.HasPrefix(text, head) ||
				strings.Count(text, head) > 1+strings.Count(text, "failed: "+head) {
				t.Errorf("it doesn't begin with %q: %.300s", head, text)
			}
			var v struct {
				Meta map[string]struct {
					Error struct{ Kind, Limit string }
				} `json:"_meta"`
			}
			if err := json.Unmarshal(res.Raw, &v); err != nil {
				t.Fatalf("json.Unmarshal: %v", err)
			}
			if e := v.Meta["biplane.dev/execution"].Error; e.Kind != b.kind || e.Limit != b.limit {
				t.Errorf("the answer's meta data say %+v", e)
			}
		})
	}
}

// TestDroppedConsole checks that answers say how much console output was dropped, both for a
// program that succeeds and for an endless one.
func TestDroppedConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.Console = 16 << 10 })
	for _, c := range []struct {
		language, code string
		ends           bool
		want           string
	}{
		{"typescript", `for (let i = 0; i < 100; i++) console.log("x".repeat(1000)); return 1`, true,
			"84 console lines dropped: 16.4 KB are kept"},
		{"python", "for i in range(100): print('x' * 1000)\n1", true, "84 console lines dropped: 16.4 KB are kept"},
		{"typescript", `for (;;) console.log("x".repeat(1000))`, false, "501 console lines dropped: 16.4 KB are kept"},
		{"python", "while True: print('x' * 1000)", false, "501 console lines dropped: 16.4 KB are kept"},
		{"typescript", `for (;;) console.log()`, false, " console lines dropped: 16.4 KB are kept"},
		{"python", "while True: print('x' * 100000, end='')", false, " console lines dropped: 16.4 KB are kept"},
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		texts := textsOf(t, res)
		if all := strings.Join(texts, "\n"); res.IsError == c.ends || !strings.Contains(all, c.want) ||
			!c.ends && !strings.HasPrefix(texts[0],
				"limit (output): the program wrote more than 524 KB to its console") {
			t.Errorf("%s\n%.200s … %s\nwant %s", c.code, all, all[max(0, len(all)-400):], c.want)
		}
	}
}

// TestLimitsThatAreCaught checks that limits that a program can catch are errors of its language,
// and have no other cost.
func TestLimitsThatAreCaught(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.Calls, c.Limits.Sessions.Files = 3, 5 })
	for _, c := range []struct{ language, code, want string }{
		{"typescript", `function f() { return f() + 1 } try { f() } catch (e) { return e.name }`, `"RangeError"`},
		{"python", "def f(): return f() + 1\ntry:\n    f()\nexcept RecursionError as e:\n    r = type(e).__name__\nr",
			`"RecursionError"`},
		{"typescript", `import { writeFile } from "node:fs/promises"; try { for (let i = 0; i < 9; i++) await ` +
			`writeFile("f" + i, "x") } catch (e) { return e.code }`, `"EDQUOT"`},
		{"python", "import errno\ntry:\n    for i in range(9): open(f'f{i}', 'w').close()\nexcept OSError as e:\n    " +
			"r = errno.errorcode[e.errno]\nr", `"EDQUOT"`},
		{"typescript", `const out = []; for (let i = 0; i < 4; i++) out.push(await box.text().catch((e) => e.kind + ` +
			`"/" + e.message.slice(0, 14))); return out[3]`, `"limit/limit (calls):"`},
	} {
		res, err := r.execute(t.Context(), map[string]any{"code": c.code, "language": c.language})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		if text := textsOf(t, res)[0]; text != c.want {
			t.Errorf("%s\n%s, want %s", c.code, text, c.want)
		}
	}
}
