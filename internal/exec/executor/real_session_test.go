package executor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// realStage returns a stage with the real engine and real preparation, and the tools box.one,
// box.slow and box.gate.
func realStage(t testing.TB, tweak func(*executor.Config)) *stage {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	var tools []*tool.Tool
	for _, name := range []string{"one", "slow", "gate"} {
		tools = append(tools, &tool.Tool{Upstream: "box", Name: name, InputSchema: []byte(`{"type":"object"}`)})
	}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{Name: "box", Tools: tools, Health: tool.Health{State: tool.Ready}})
	return newStage(t, func(c *executor.Config) {
		c.Drivers, c.Programs = sandbox.OnlyDriver(d),
			program.New(program.Config{Catalog: catalog.NewResolver(cat, nil)})
		if tweak != nil {
			tweak(c)
		}
	})
}

// code runs a program that must succeed, and returns its value as JSON.
func (s *stage) code(session, language, code string) string {
	s.t.Helper()
	o := s.try(s.t.Context(), ann, session, code, "language", language)
	if o.failed {
		s.t.Fatalf("code = %s, o.err = %v, o.text = %s, want !o.failed", code, o.err, o.text)
	}
	return textsOf(s.t, o.res)[0]
}

func TestRealSessions(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	for _, c := range []struct{ language, code, want string }{
		{"typescript", `const counter = { n: 1 }; function inc() { return ++counter.n } let pending = box.slow; ` +
			`const later = new Promise((r) => setTimeout(() => r("rang"), 5)); counter.n`, `1`},
		{"typescript", `inc(); inc()`, `3`},
		{"typescript", `const counter2 = counter; class P { constructor(public x: number) {} } ; new P(4).x + ` +
			`counter2.n`, `7`},
		{"typescript", `await later`, `"rang"`},
		{"typescript", `import { writeFile, readFile, mkdir, readdir } from "node:fs/promises"; await mkdir("out"); ` +
			`await writeFile("out/a.txt", "hello"); await readdir("out")`, `["a.txt"]`},
		{"typescript", `await readFile("./workspace/out/a.txt", "utf8")`, `"hello"`},
		{"typescript", `(await box.one()) as string`, `"answer of box.one"`},
		{"python", "x = 41\ndef f():\n    return x + 1\nf()", `42`},
		{"python", "x = 42\nf()", `43`},
		{"python", "open('workspace/out/a.txt').read()", `"hello"`},
		{"python", "with open('b.txt', 'w') as h:\n    h.write('from python')\nawait box.one()", `"answer of box.one"`},
		{"typescript", `await readFile("b.txt", "utf8")`, `"from python"`},
	} {
		if got := s.code("work", c.language, c.code); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.code, got, c.want)
		}
	}
	s.restart()
	if got := s.code("work", "typescript", `[inc(), counter2.n]`); got != `[4,4]` {
		t.Errorf("got = %v, want got == `[4,4]`", got)
	}
	if got := s.code("work", "python", "f()"); got != `43` {
		t.Errorf("got = %v, want got == `43`", got)
	}
	o := s.try(t.Context(), ann, "work", `counter.n = 100; await writeFile("out/a.txt", "bad"); throw new Error("no")`)
	holds(t, o.text, "Error: no", "session work is as it was before this program")
	if got := s.code("work", "typescript", `[counter.n, await readFile("out/a.txt", "utf8")]`); got != `[4,"hello"]` {
		t.Errorf("got = %v, want got == `[4,\"hello\"]`", got)
	}
	if _, err := s.x.Sessions().Fork(t.Context(), ann, "work", "copy"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	a, b := s.code("work", "typescript", `[inc(), Math.random(), crypto.randomUUID()]`),
		s.code("copy", "typescript", `[inc(), Math.random(), crypto.randomUUID()]`)
	if a == b || !strings.HasPrefix(a, "[5,") || !strings.HasPrefix(b, "[5,") {
		t.Errorf("%s and %s", a, b)
	}
	if i, err := s.load("third", s.export("work", ""), ""); err != nil || i.Note != "" {
		t.Fatalf(`i = %+v, err = %v, want err == nil && i.Note == ""`, i, err)
	}
	if got := s.code("third", "python", "f()"); got != `43` {
		t.Errorf("got = %v, want got == `43`", got)
	}
}

// TestRealRoot checks that a program's initial directory lists what its relative names reach, in
// both languages, and that a walk finds each file once.
func TestRealRoot(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	for _, c := range []struct{ language, code, want string }{
		{"python", "import os, glob, pathlib\nos.makedirs('in')\nfor name in ['q.csv', 'in/r.csv']:\n    open(name, " +
			"'w').write('1')\n[sorted(os.listdir()), glob.glob('*.csv')]",
			`[["in","q.csv","skills","tools"],["q.csv"]]`},
		{"python", "[sorted(str(p) for p in pathlib.Path('.').rglob('*.csv')), sorted(os.listdir('/')), " +
			"os.path.exists('workspace/q.csv'), os.listdir('tools')]",
			`[["in/r.csv","q.csv"],["in","q.csv","skills","tools"],true,[]]`},
		{"typescript", `import { readdir } from "node:fs/promises"; [await readdir("."), (await readdir("/", { ` +
			`recursive: true })).filter((n) => n.endsWith(".csv")), await readdir("workspace")]`,
			`[["in","q.csv","skills","tools"],["q.csv","in/r.csv"],["in","q.csv"]]`},
	} {
		if got := s.code("work", c.language, c.code); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.code, got, c.want)
		}
	}
}

func TestRealConsoleNotes(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	for language, code := range map[string]string{
		"typescript": `for (let i = 0; i < 200; i++) console.log("x".repeat(1e5)); return undefined`,
		"python":     "for i in range(200):\n    print('x' * 10**5)\n",
	} {
		o := s.try(t.Context(), ann, "work", code, "language", language)
		want := "no value: the program returned undefined"
		if language == "python" {
			want = "no value: the program returned None"
		}
		if got := textsOf(t, o.res); o.failed || got[0] != want {
			t.Errorf("language = %s, got[0] = %.200s, want !o.failed && got[0] == want", language, got[0])
		}
		if end := o.text[max(0, len(o.text)-400):]; !strings.Contains(end,
			"185 console lines dropped: 262 KB are kept") {
			t.Errorf("language = %s, end = %s, want strings.Contains(end, \"185 console lines dropped: "+
				"262 KB are kept\")", language, end)
		}
	}
}

func TestRealProgramsAreSuspended(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"typescript", "python"} {
		s := realStage(t, napping)
		code := `const a = "kept"; const b = await Promise.all([box.slow(), box.gate()]); [a, b]`
		if language == "python" {
			code = "import asyncio\na = 'kept'\nb = await asyncio.gather(box.slow(), box.gate())\n[a, b]"
		}
		for _, session := range []string{"", "work"} {
			done := make(chan outcome)
			go func() { done <- s.try(t.Context(), ann, session, code, "language", language) }()
			eventually(t, "it is suspended", func() bool {
				run, _ := s.x.Load()
				return s.inside.Load() == 2 && run == 0
			})
			s.gate <- struct{}{}
			eventually(t, "it is suspended again", func() bool {
				run, _ := s.x.Load()
				return s.inside.Load() == 1 && run == 0
			})
			s.slow <- struct{}{}
			if o := <-done; o.failed || textsOf(t, o.res)[0] != `["kept",["answer of box.slow","answer of box.gate"]]` {
				t.Errorf("%s, session %q: %s %v", language, session, o.text, o.err)
			}
		}
	}
}

// TestRealProgramsStandStill checks a program that computes for longer than the suspension delay
// while a call is under way, and then blocks on another call. It should then be suspended, but
// can't be. The blocking call must return normally.
func TestRealProgramsStandStill(t *testing.T) {
	t.Parallel()
	s := realStage(t, napping)
	code := `import asyncio
t = asyncio.ensure_future(box.slow())
await asyncio.sleep(0)
n = 0
for i in range(1500000):
    n += i
def still(x):
    return [str(box.one()), str(box.gate()), x]
[still(1), await t]`
	done := make(chan outcome)
	go func() { done <- s.try(t.Context(), ann, "", code, "language", "python") }()
	eventually(t, "it stands still", func() bool { return s.inside.Load() == 2 })
	<-time.After(100 * time.Millisecond)
	s.gate <- struct{}{}
	s.slow <- struct{}{}
	if o := <-done; o.failed ||
		textsOf(t, o.res)[0] != `[["answer of box.one","answer of box.gate",1],"answer of box.slow"]` {
		t.Errorf("o.text = %s, o.err = %v, want !o.failed && textsOf(t, o.res)[0] == `[[\"answer of "+
			"box.one\",\"answer of box.gate\",1],\"answer of box.slow\"]`", o.text, o.err)
	}
}

// TestRealRebuild checks that the real engine rebuilds a session with damaged state from what its
// programs received, byte for byte as far as programs can tell.
func TestRealRebuild(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	for language, list := range map[string][]string{
		"typescript": {`const r = [Math.random(), Date.now(), crypto.randomUUID()]; const got = await ` +
			`Promise.all([box.one(), box.one()]); r`,
			`import { writeFile, readFileSync } from "node:fs"; import * as p from "node:fs/promises"; await ` +
				`p.writeFile("f.txt", "1"); const text = readFileSync("f.txt", "utf8"); text`,
			`[r, got, text]`},
		"python": {"import random, time, uuid\nr = [random.random(), time.time(), str(uuid.uuid4())]\ngot = await " +
			"box.one()",
			"open('g.txt', 'w').write('2')\ntime.sleep(0.001)\ntext = open('g.txt').read()", `[r, got, text]`},
	} {
		var was string
		for _, code := range list {
			was = s.code("work", language, code)
		}
		s.stop()
		s.execSQL(`DELETE FROM session_blob WHERE id IN (SELECT blob FROM session_ref WHERE seq IS NULL) AND ` +
			`length(data) > 5000 OR data IS NULL`)
		s.start()
		o := s.try(t.Context(), ann, "work", list[len(list)-1], "language", language)
		if o.failed || textsOf(t, o.res)[0] != was || o.from != "journal" {
			t.Errorf("%s: %s %v, want %s", language, o.text, o.err, was)
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func BenchmarkSessions(b *testing.B) {
	for language, code := range map[string][2]string{
		"typescript": {`const rows = Array.from({ length: 200 }, (_, i) => ({ id: i, name: "row " + i })); const by ` +
			`= new Map(rows.map((r) => [r.id, r])); function total() { return rows.length } total()`, `total()`},
		"python": {"rows = [dict(id=i, name=f'row {i}') for i in range(200)]\ndef total():\n    return " +
			"len(rows)\ntotal()", `total()`},
	} {
		b.Run(language+"/alone", func(b *testing.B) {
			s := realStage(b, nil)
			for b.Loop() {
				s.code("", language, "1 + 1")
			}
		})
		b.Run(language+"/hot", func(b *testing.B) {
			s := realStage(b, nil)
			s.code("work", language, code[0])
			var saves []float64
			for b.Loop() {
				_, ms := took(b, s.try(b.Context(), ann, "work", code[1], "language", language))
				saves = append(saves, ms)
			}
			b.ReportMetric(median(saves)*1e3, "save-us")
			i, err := s.x.Sessions().Get(b.Context(), ann, "work")
			if err != nil {
				b.Fatalf("Get: %v", err)
			}
			b.ReportMetric(float64(i.StateBytes), "state-bytes")
			b.ReportMetric(float64(i.JournalBytes)/float64(i.Programs), "journal-bytes/program")
		})
		b.Run(language+"/disk", func(b *testing.B) {
			s := realStage(b, func(c *executor.Config) { c.Limits.Sessions.HotBytes = 1 })
			s.code("work", language, code[0])
			var backs []float64
			for b.Loop() {
				o := s.try(b.Context(), ann, "work", code[1], "language", language)
				if o.failed || o.from != "disk" {
					b.Fatalf(`o.from = %v, o.text = %v, want !o.failed && o.from == "disk"`, o.from, o.text)
				}
				ms, _ := took(b, o)
				backs = append(backs, ms)
			}
			b.ReportMetric(median(backs)*1e3, "resume-us")
		})
		b.Run(language+"/fork", func(b *testing.B) {
			s := realStage(b, nil)
			s.code("work", language, code[0])
			for b.Loop() {
				if _, err := s.x.Sessions().Fork(b.Context(), ann, "work", "copy"); err != nil {
					b.Fatalf("Fork: %v", err)
				}
				b.StopTimer()
				if err := s.x.Sessions().End(b.Context(), ann, "copy"); err != nil {
					b.Fatalf("End: %v", err)
				}
				b.StartTimer()
			}
		})
	}
}
