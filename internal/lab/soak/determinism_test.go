package soak

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

var ann = tool.Principal{ID: "local:ann", Client: "test/1"}

// statements are the parts of random programs, by language. %[1]d is the number of the statement;
// %[2]d and %[3]d are small random numbers.
var statements = map[string][]string{
	"typescript": {
		`out.push(await box.wait({ ms: %[2]d, v: %[3]d }));`,
		`out.push(await Promise.all(Array.from({ length: %[3]d }, (_, j) => box.wait({ ms: (j * 7 + %[2]d) %% 9, v: ` +
			`j }).then((r) => { order.push([%[1]d, j, Date.now()]); return r; }))));`,
		`await new Promise((r) => setTimeout(r, %[2]d)); out.push(Date.now());`,
		`out.push(Math.random(), Math.floor(Math.random() * %[3]d));`,
		`out.push(crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(%[3]d))]);`,
		`out.push(new Date().toISOString(), performance.now());`,
		`out.push(await Promise.race([box.wait({ ms: %[2]d, v: "a" }), box.wait({ ms: %[3]d, v: "b" })]));`,
		`out.push((await Promise.allSettled([box.fail({}), box.wait({ ms: %[2]d }), box.echo({ x: %[3]d ` +
			`})])).map((r) => r.status));`,
		`await fs.writeFile("workspace/f%[2]d", String(Math.random())); out.push(await ` +
			`fs.readFile("workspace/f%[2]d", "utf8"), await fs.readdir("workspace"));`,
		`writeFileSync("workspace/g%[2]d", "x".repeat(%[3]d)); out.push(readFileSync("workspace/g%[2]d", ` +
			`"utf8").length, statSync("workspace/g%[2]d").mtimeMs);`,
		`for (const end = Date.now() + 2; Date.now() < end; ) order.push([%[1]d, "busy"]);
order.length = Math.min(order.length, 100);`,
		`console.log("statement", %[1]d, Math.random(), Date.now());`,
		`setTimeout(() => { order.push([%[1]d, "late", Math.random()]); console.log("late", %[1]d, Date.now()); }, ` +
			`%[2]d);`,
		`box.wait({ ms: %[2]d, v: "left alone" });`,
		`for (const i of [3, 1, 2]) queueMicrotask(() => order.push([%[1]d, "micro", i]));`,
		`try { await box.fail({ v: %[3]d }); } catch (e) { out.push(String(e)); }`,
		`const every%[1]d = setInterval(() => { order.push([%[1]d, "tick", Date.now()]); if (Math.random() < 0.5) ` +
			`clearInterval(every%[1]d); }, %[2]d + 1);`,
		`out.push([...new Set([%[3]d, %[2]d, 1].map((x) => ({ x }))).values()], new Map([[%[2]d, %[3]d]]).size);`,
	},
	"python": {
		`out.append(await box.wait(ms=%[2]d, v=%[3]d))`,
		`out.append(await asyncio.gather(*[noted(%[1]d, j, box.wait(ms=(j * 7 + %[2]d) %% 9, v=j)) for j in ` +
			`range(%[3]d)]))`,
		`await asyncio.sleep(%[2]d / 1000); out.append(time.time())`,
		`out.append([random.random(), random.randrange(%[3]d + 1), random.sample(range(100), 3)])`,
		`out.append([str(uuid.uuid4()), os.urandom(%[3]d).hex(), secrets.token_hex(4)])`,
		`out.append([datetime.datetime.now().isoformat(), time.monotonic(), time.perf_counter()])`,
		`done, pending = await asyncio.wait([asyncio.ensure_future(noted(%[1]d, j, box.wait(ms=m))) for j, m in ` +
			`enumerate([%[2]d, %[3]d])], return_when=asyncio.FIRST_COMPLETED); out.append(len(done))`,
		`out.append([type(r).__name__ for r in await asyncio.gather(box.fail(), box.wait(ms=%[2]d), ` +
			`box.echo(x=%[3]d), return_exceptions=True)])`,
		`open("workspace/f%[2]d", "w").write(str(random.random())); out.append([open("workspace/f%[2]d").read(), ` +
			`sorted(os.listdir("workspace"))])`,
		`time.sleep(%[2]d / 1000); out.append(time.time())`,
		`print("statement", %[1]d, random.random(), time.time())`,
		`asyncio.get_running_loop().call_later(%[2]d / 1000, lambda: (order.append([%[1]d, "late", random.random()]),` +
			` print("late", %[1]d)))`,
		`box.wait(ms=%[2]d, v="left alone")`,
		`out.append([hash("text %[3]d"), sorted({%[2]d, %[3]d, 1}), list({"a%[2]d": 1, "b": 2}), list({"x", "y", ` +
			`"z%[3]d"})])`,
		"try:\n    await box.fail(v=%[3]d)\nexcept Exception as e:\n    out.append(str(e))",
		`x%[1]d = box.echo(x=%[3]d); out.append(x%[1]d)`,
		`out.append([id(object()) == id(object()), repr(object)[:8]])`,
	},
}

// frames are the code around the statements.
var frames = map[string]string{
	"typescript": `import fs from "node:fs/promises";
import { readFileSync, writeFileSync, statSync } from "node:fs";
const out: unknown[] = [], order: unknown[] = [];
%s
return { out, order };`,
	"python": `import asyncio, datetime, os, random, secrets, time, uuid
out, order = [], []

async def noted(i, j, call):
    r = await call
    order.append([i, j, time.time()])
    return r

%s
{"out": out, "order": order}`,
}

// draw returns a random program.
func draw(t *rapid.T, language string) string {
	kinds := statements[language]
	var b strings.Builder
	for i := range rapid.IntRange(1, 8).Draw(t, "statements") {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		fmt.Fprintf(&b, kind+"\n",
			args(kind, i, rapid.IntRange(0, 8).Draw(t, "a"), rapid.IntRange(1, 6).Draw(t, "b"))...)
	}
	return fmt.Sprintf(frames[language], b.String())
}

// args returns the arguments that a statement uses: fmt reports unused ones.
func args(kind string, all ...any) []any {
	for n := len(all); n > 0; n-- {
		if strings.Contains(kind, fmt.Sprintf("%%[%d]", n)) {
			return all[:n]
		}
	}
	return nil
}

// A replaying test runs programs with one driver, and replays the guest's input with others.
type replaying struct {
	record  driver
	replay  []driver
	suspend time.Duration // live.Limits.SuspendAfter
	session bool          // all programs of a case use one session
}

// TestDeterminism runs random programs with parallel calls of random delay, timers, randomness,
// clocks and files. It replays the recorded input, with suspensions at random places, in this
// process and others. The guest must send the same bytes.
func TestDeterminism(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	here := inProcess(t)
	children := inChildren(t)
	for _, language := range languagesOf(t, here) {
		for _, c := range []struct {
			name string
			replaying
		}{
			{"here", replaying{record: here, replay: []driver{here}, suspend: -1}},
			{"suspended", replaying{record: here, replay: []driver{here}, suspend: time.Millisecond}},
			{"recorded in a child, replayed here", replaying{record: children, replay: []driver{here}, suspend: -1}},
			{"suspended in a child, replayed here and in children",
				replaying{record: children, replay: []driver{here, children}, suspend: time.Millisecond}},
			{"sessions", replaying{record: here, replay: []driver{here, children}, suspend: 2 * time.Millisecond,
				session: true}},
		} {
			t.Run(language+"/"+c.name, func(t *testing.T) { c.test(t, language) })
		}
	}
}

func (c replaying) test(t *testing.T, language string) {
	rec := newRecorder(c.record)
	limits := executor.Limits{}
	limits.Sessions.SuspendAfter = c.suspend
	limits.Sessions.Hot = 1
	p := open(t, setting{driver: rec, dir: t.TempDir(), key: newKey(t), limits: limits})
	defer p.close(t)
	cases, runs, guests := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rec.take()
		n := 1
		if c.session {
			n = rapid.IntRange(2, 3).Draw(rt, "programs")
		}
		where := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 3).Draw(rt, "suspended after so many percent of the lines")
		cases++
		name := fmt.Sprintf("s%d", cases)
		var texts []string
		for range n {
			code := draw(rt, language)
			texts = append(texts, code)
			args := map[string]any{"code": code, "language": language}
			if c.session {
				args["session"] = name
			}
			a, err := p.run(t.Context(), ann, args)
			if err != nil || a.failed {
				rt.Fatalf("the program failed: %v %s\n%s", err, a.all, code)
			}
		}
		if c.session {
			if err := p.Sessions().End(t.Context(), ann, name); err != nil {
				rt.Fatalf("End: %v", err)
			}
		}
		for _, tape := range rec.take() {
			guests++
			runs += tape.runs
			total := len(lines(tape.in))
			var cuts []int
			for _, percent := range where {
				cuts = append(cuts, max(1, total*percent/100))
			}
			for _, cuts := range [][]int{nil, cuts} {
				again, err := tape.replay(t.Context(), cuts, c.replay...)
				if err != nil {
					rt.Fatalf("replay: %v\n%s", err, strings.Join(texts, "\n---\n"))
				}
				if d := tape.differs(again); d != "" {
					rt.Fatalf("with %d suspensions, cuts %v of %d lines: %s\nprograms:\n%s\ninput:\n%s", len(cuts),
						cuts, total, d, strings.Join(texts, "\n---\n"), tape.in)
				}
			}
		}
	})
	t.Logf("%d cases, %d guests in %d runs", cases, guests, runs)
	if guests < cases || c.suspend > 0 && runs == guests {
		t.Error("nothing was recorded, or nothing suspended")
	}
}

// A replay with different input has different output: the comparison can fail.
func TestReplayTells(t *testing.T) {
	d := inProcess(t)
	rec := newRecorder(d)
	p := open(t, setting{driver: rec})
	defer p.close(t)
	a, err := p.run(t.Context(), ann, map[string]any{"code": `import { readFileSync, writeFileSync } from "node:fs";
writeFileSync("workspace/f", "12345");
return [await box.echo({ x: 12345 }), Math.random(), Date.now(), readFileSync("workspace/f", "utf8")]`})
	if err != nil || a.failed {
		t.Fatalf("err = %v, a.all = %v, want err == nil && !a.failed", err, a.all)
	}
	tapes := rec.take()
	if len(tapes) != 1 {
		t.Fatalf("%d tapes", len(tapes))
	}
	recorded := tapes[0]
	for _, c := range []struct {
		what   string
		change func(*tape)
		same   bool
	}{
		{"nothing", func(*tape) {}, true},
		{"an answer", func(t *tape) { t.in = bytes.ReplaceAll(t.in, []byte(`"x":12345`), []byte(`"x":12346`)) }, false},
		{"the clock", func(t *tape) { t.in = bytes.ReplaceAll(t.in, []byte(`"at":1`), []byte(`"at":2`)) }, false},
		{"the seed", func(t *tape) {
			i := bytes.Index(t.in, []byte(`"seed":"`)) + len(`"seed":"`)
			t.in[i] ^= 1 // another hexadecimal digit
		}, false},
		{"an answer to a question", func(t *tape) {
			last := len(t.answers) - 1
			t.answers = append(append([][]byte{}, t.answers[:last]...),
				bytes.Replace(t.answers[last], []byte("12345"), []byte("12347"), 1))
		}, false},
	} {
		changed := &tape{spec: recorded.spec, in: bytes.Clone(recorded.in), answers: recorded.answers}
		c.change(changed)
		again, err := changed.replay(t.Context(), nil, d)
		if err != nil {
			t.Fatalf("c.what = %v, err = %v, want nil", c.what, err)
		}
		if same := recorded.differs(again) == ""; same != c.same {
			t.Errorf("%s was changed: %q", c.what, recorded.differs(again))
		}
	}
}
