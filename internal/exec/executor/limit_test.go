package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// hostile are malicious programs; each must end in a clear error.
var hostile = map[string]struct{ code, want string }{
	"endless loop":       {`while (true) {}`, "CPU time"},
	"async endless loop": {`async function f() { for (;;) await null } await f()`, "CPU time"},
	"recursion":          {`function f() { return f() + 1 } return f()`, "stack"},
	"array bomb":         {`const a = []; for (;;) a.push(new Array(1e6).fill(7))`, "memory"},
	"string bomb": {`let s = "x".repeat(1e6); const all = []; for (;;) { all.push(s + all.length); s += s }`,
		""},
	"regex bomb":     {`return /^(a+)+$/.test("a".repeat(40) + "!")`, "CPU time"},
	"never settling": {`await new Promise(() => {})`, "never settle"},
	"console flood":  {`for (;;) console.log("x".repeat(1000))`, "to its console"},
	"call flood":     {`const all = []; for (;;) all.push(box.text().catch(() => 0))`, ""},
	"timer flood":    {`for (;;) setTimeout(() => {}, 1e6)`, ""},
	"huge value":     {`return "x".repeat(40e6)`, "memory"},
	"buffer bomb":    {`const all = []; for (;;) all.push(new Uint8Array(1e6))`, "memory"},
	"cycles":         {`const a = []; for (let i = 0; i < 1e5; i++) a.push({ a, i }); a.push(a); throw a`, ""},
	"deep value": {`let v = 1; for (let i = 0; i < 1e5; i++) v = [v]; throw new Error(JSON.stringify(v).length)`,
		""},
	"shared bomb": {`const bomb = []; let b = bomb; for (let i = 0; i < 40; i++) { const c = []; b.push(c, ` +
		`c); b = c } return bomb`, ""},
	"error with traps": {`throw new Proxy(new Error("x"), { get() { throw 1 } })`, "threw"},
	"prototype tricks": {`Object.prototype.then = function (f) { f(1) }; JSON.stringify = () => "{}"; Promise.prototype.then = null;
		Function.prototype.call = null; Array.prototype[Symbol.iterator] = null; Object.defineProperty(Object.prototype, "get", { get() { throw 1 } });
		await box.text(); throw new Error("got here")`, ""},
}

func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	with := func(cpu time.Duration) *rig {
		return newRig(t, standard(), func(c *executor.Config) {
			c.Limits.CPU, c.Limits.Memory, c.Limits.Console = cpu, 48<<20, 4<<10
		})
	}
	quick, roomy := with(200*time.Millisecond), with(20*time.Second)
	for name, h := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := quick
			if h.want != "" && h.want != "CPU time" {
				r = roomy
			}
			res, err := r.execute(t.Context(), map[string]any{"code": h.code, "timeout_seconds": 600})
			if err != nil {
				t.Fatalf("execute: %v", err)
			}
			text := textsOf(t, res)[0]
			if !res.IsError {
				t.Fatalf("it ended well: %.300s", text)
			}
			holds(t, text, h.want)
			lacks(t, text, "internal error", "broke its protocol")
			if len(text) > 20_000 {
				t.Errorf("an error of %d bytes", len(text))
			}
		})
	}
}

func TestMessageLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := newRig(t, standard(), nil)
	holds(t, r.failure(`let v = 1; for (let i = 0; i < 2e4; i++) v = [v]; return v`), "levels deep")
	holds(t, r.failure(`return "x".repeat(18e6)`), "over 16.8 MB of JSON")
	holds(t, r.failure(`return await box.text({ x: "x".repeat(18e6) })`), "over 16.8 MB of JSON")
}

func TestNeighboursOfHostilePrograms(t *testing.T) {
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Limits.CPU = 150 * time.Millisecond
		c.Limits.Memory = 32 << 20
	})
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	n := 0
	for _, h := range hostile {
		if n++; n > 10 {
			break
		}
		all.Go(func() {
			res, err := r.execute(t.Context(), map[string]any{"code": h.code})
			if err != nil || !res.IsError {
				t.Errorf("h.code = %s, err = %v, want err == nil && res.IsError", h.code, err)
			}
		})
	}
	for i := range 40 {
		all.Go(func() {
			code := fmt.Sprintf(`const rs = await Promise.all(Array.from({ length: 20 }, (_, i) => box.echo({ i `+
				`}))); rs.reduce((s, r) => s + r.i, %d)`, i)
			res, err := r.execute(t.Context(), map[string]any{"code": code})
			if err != nil {
				t.Errorf("execute: %v", err)
				return
			}
			if got := textsOf(t, res)[0]; got != fmt.Sprint(190+i) {
				t.Errorf("program %d: %s", i, got)
			}
		})
	}
	all.Wait()
	eventually(t, "every goroutine is gone", func() bool { return runtime.NumGoroutine() <= before })
}

func TestCallLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.Calls = 3 })
	got := r.value(`const out = []; for (let i = 0; i < 5; i++) out.push(await box.text().catch((e) => e.kind)); out`)
	if want := `["plain text","plain text","plain text","limit","limit"]`; got != want {
		t.Errorf("got = %s, want want", got)
	}
	holds(t, r.failure(`for (let i = 0; i < 5; i++) await box.text()`), "3 calls, which is the limit",
		"3 calls were made")
}

func TestConcurrencyOfCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	a := standard()
	a["busy"] = func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		return a["wait"](ctx, c)
	}
	r := newRig(t, a, func(c *executor.Config) { c.Limits.Concurrency = 4 })
	if got := r.value(`(await Promise.all(Array.from({ length: 40 }, () => box.busy({ MS: 1 })))).length`); got != "40" {
		t.Errorf(`got = %v, want "40"`, got)
	}
	if most > 4 {
		t.Errorf("%d calls at once", most)
	}
}

func TestHundredCallsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	begin := time.Now()
	if got := r.value(`(await Promise.all(Array.from({ length: 100 }, () => box.wait({ MS: 50 })))).length`); got != "100" {
		t.Errorf(`got = %v, want "100"`, got)
	}
	t.Logf("100 calls of 50 ms took %s", time.Since(begin))
}

func TestOwnTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	// Waiting on timers is the program's own time; waiting for tools is not.
	res, err := r.execute(t.Context(), map[string]any{"code": `await new Promise((r) => setTimeout(r, 60000))`,
		"timeout_seconds": 0.1})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	holds(t, textsOf(t, res)[0], "own time of 100ms is over")
	for ms := 300; ; ms *= 4 { // on a slow machine, part of it passes before the call is made
		res, err = r.execute(t.Context(), map[string]any{"code": fmt.Sprintf(`return await box.wait({ MS: %d })`, 2*ms),
			"timeout_seconds": float64(ms) / 1000})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		if got := textsOf(t, res)[0]; got == `"waited"` {
			break
		} else if ms > 4000 {
			t.Fatalf("got = %v, want ms <= 4000", got)
		}
	}
}

func TestTotalTime(t *testing.T) {
	t.Parallel()
	for total := 100 * time.Millisecond; ; total *= 4 { // on a slow machine, part of it passes before the call is made
		r := newRig(t, standard(), func(c *executor.Config) { c.Limits.Total = total })
		text := r.failure(`await box.never()`)
		if holds(t, text, "took longer than "+total.String()+" in all"); strings.Contains(text, "box.never {} -> ") {
			return
		} else if total > 10*time.Second {
			t.Fatalf("text = %v, want total <= 10*time.Second", text)
		}
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	a, gate := standard(), make(chan struct{})
	a["gate"] = func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		select {
		case <-gate:
			return tool.Text(false, "open"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r := newRig(t, a, func(c *executor.Config) { c.AnswerWithin = 50 * time.Millisecond })
	res, err := r.execute(t.Context(), map[string]any{"code": `await box.gate(); return "done"`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	id, state := idOf(t, res)
	holds(t, textsOf(t, res)[0], "still running", id, "resume")
	if state != "running" && state != "queued" || res.IsError {
		t.Errorf("state %s", state)
	}
	resume := func(p tool.Principal, args string) (*tool.Result, error) {
		return r.x.Resume().Call(t.Context(), &tool.Call{Arguments: json.RawMessage(args), Principal: p})
	}
	args := fmt.Sprintf(`{"execution":%q}`, id)
	if _, err := resume(tool.Principal{ID: "local:bob"}, args); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("another principal resumed it: %v", err)
	}
	if _, err := resume(ann, `{"execution":"ex_nothing"}`); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("an unknown execution: %v", err)
	}
	if _, err := resume(ann, `{"id":"x"}`); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("an unknown argument: %v", err)
	}
	close(gate)
	for range 2 { // each time it is called
		eventually(t, "it is done", func() bool {
			res, err = resume(ann, args)
			if err != nil {
				t.Fatalf("resume: %v", err)
			}
			_, state = idOf(t, res)
			return state == "done"
		})
		if got := textsOf(t, res)[0]; got != `"done"` {
			t.Errorf("got = %v, want got == `\"done\"`", got)
		}
	}
	e, ok := r.x.Execution(id)
	if !ok || e.State != execution.Done || string(e.Value) != `"done"` || len(e.Calls) != 1 ||
		e.Calls[0].Tool != "box.gate" {
		t.Errorf("execution %+v", e)
	}
}

// TestStop stops programs that run, that wait, and that belong to someone else.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.AnswerWithin = 50 * time.Millisecond })
	for _, code := range []string{`for (;;);`, `await box.never()`, `await new Promise((r) => setTimeout(r, 1e6))`} {
		res, err := r.execute(t.Context(), map[string]any{"code": code})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		id, _ := idOf(t, res)
		if err := r.x.Stop(t.Context(), tool.Principal{ID: "local:bob"}, id); tool.AsError(err) == nil ||
			tool.AsError(err).Kind == tool.Conflict {
			t.Errorf("%s: another principal stopped it: %v", code, err)
		}
		if e, _ := r.x.Execution(id); e.State != execution.Running && e.State != execution.Queued {
			t.Fatalf("%s: it ended by itself: %+v", code, e)
		}
		if err := r.x.Stop(t.Context(), ann, id); err != nil {
			t.Fatalf("code = %s, err = %v, want nil", code, err)
		}
		if e, _ := r.x.Execution(id); e.State != execution.Failed || e.Error.Kind != string(tool.Canceled) {
			t.Errorf("code = %s, e = %+v, want e.State == execution.Failed && e.Error.Kind == "+
				"string(tool.Canceled)", code, e)
		}
		if err := r.x.Stop(t.Context(), ann, id); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("%s: stopped twice: %v", code, err)
		}
	}
}

// TestStopAtTheEnd checks that Stop reports an execution that continues in the next process as not
// stopped.
func TestStopAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.AnswerWithin = 20 * time.Millisecond })
	o := s.try(t.Context(), ann, "", ops(op{Call: "box.slow"}))
	if o.err != nil {
		t.Fatalf("o.err = %v, want nil", o.err)
	}
	id, _ := idOf(t, o.res)
	if err := s.x.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := s.x.Stop(t.Context(), ann, id); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Unavailable {
		t.Errorf("it goes on, and Stop says %v", err)
	}
	s.restart()
	if err := s.x.Stop(t.Context(), ann, id); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("no process has it, and Stop says %v", err)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.OutputTokens = 200 })
	texts, failed := r.run(`return Array.from({ length: 500 }, (_, i) => ({ id: i, name: "item " + i, tags: ["a", ` +
		`"b"] }))`)
	if failed {
		t.Fatalf("texts = %v, want !failed", texts)
	}
	holds(t, texts[0], "too large to show in full", "array of 500 {id: number, name: string, tags: array of 2 string}",
		`[{"id":0,`, `"id":499,`, "await readResult(", "{ offset: 0, limit: ")
	py, err := r.execute(t.Context(),
		map[string]any{"code": `["item %d" % i for i in range(500)]`, "language": "python"})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	holds(t, textsOf(t, py)[0], "await read_result(", ", offset=0, limit=")
	if len(texts[0]) > 3000 {
		t.Errorf("%d bytes are shown", len(texts[0]))
	}
	handle := regexp.MustCompile(`res_\w+`).FindString(texts[0])
	if got := r.value(`return await readResult("` + handle +
		`", { offset: 250, limit: 1 })`); got != `[{"id":250,"name":"item 250","tags":["a","b"]}]` {
		t.Errorf("got = %v, want got == `[{\"id\":250,\"name\":\"item 250\",\"tags\":[\"a\",\"b\"]}]`", got)
	}
	texts, _ = r.run(`return "é😀".repeat(2000)`)
	handle = regexp.MustCompile(`res_\w+`).FindString(texts[0])
	if got := r.value(`return await readResult("` + handle + `", { offset: 1, limit: 2 })`); got != `"😀é"` {
		t.Errorf("got = %v, want got == `\"😀é\"`", got)
	}
	if got := r.value(`return (await readResult("` + handle + `")).length`); got != `6000` {
		t.Errorf("got = %v, want got == `6000`", got)
	}
	res, err := r.x.Execute().Call(t.Context(), &tool.Call{Principal: tool.Principal{ID: "local:bob"},
		Arguments: json.RawMessage(`{"code":"return await readResult('` + handle + `')"}`)})
	if err != nil || !res.IsError {
		t.Errorf("another principal read it: %v", err)
	}
	// Many bytes, few tokens: shown.
	if got := r.value(`return " ".repeat(1000)`); len(got) != 1002 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	clock := wallclock.At(time.Now())
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Limits.Kept = 3
		c.Limits.KeptFor = time.Hour
		c.Clock = clock
	})
	var ids []string
	for i := range 5 {
		res, err := r.execute(t.Context(), map[string]any{"code": fmt.Sprint(i)})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		id, _ := idOf(t, res)
		ids = append(ids, id)
	}
	for i, id := range ids {
		if _, ok := r.x.Execution(id); ok != (i >= 2) {
			t.Errorf("execution %d is kept: %v", i, ok)
		}
	}
	clock.Advance(2 * time.Hour)
	if _, ok := r.x.Execution(ids[4]); ok {
		t.Error("an old execution is kept")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	done := make(chan string, 1)
	go func() {
		res, err := r.execute(t.Context(), map[string]any{"code": `await box.never()`})
		if err != nil {
			done <- err.Error()
			return
		}
		done <- textsOf(t, res)[0]
	}()
	eventually(t, "it runs", func() bool { return r.in.Load() == 1 })
	if err := r.x.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	holds(t, <-done, "shutting down")
	if _, err := r.execute(t.Context(), map[string]any{"code": "1"}); err == nil {
		t.Error("a closed executor ran a program")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	a, told := standard(), make(chan struct{})
	a["told"] = func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		select {
		case <-told:
			return tool.Text(false, "it was"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r := newRig(t, a, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	once := sync.OnceFunc(func() { close(told) })
	res, err := r.x.Execute().Call(ctx, &tool.Call{
		Arguments: json.RawMessage(`{"code":"await box.text(); await box.told()"}`), Principal: ann,
		Observer: watch{progress: func(p tool.Progress) {
			if strings.Contains(p.Message, "1 call done, 1 running: box.told") {
				once()
			}
		}},
	})
	if err != nil || res.IsError {
		t.Fatal("nothing was told of the call: ", err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	res, err := r.execute(t.Context(), map[string]any{"code": `const a = await box.big({ N: 1000 }); return a.length`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	id, _ := idOf(t, res)
	e, _ := r.x.Execution(id)
	for range 2 {
		n, err := e.Count()
		if err != nil || n.Returned < 10 || n.Returned > 60 || n.KeptOut < 900 || n.KeptOut > 1200 {
			t.Errorf("n = %+v, err = %v, want err == nil && n.Returned >= 10 && n.Returned <= 60 && "+
				"n.KeptOut >= 900 && n.KeptOut <= 1200", n, err)
		}
	}
}

// toolFiles are Tools with the same files for everyone.
type toolFiles struct {
	executor.NoTools
	files map[string]string
}

func (f toolFiles) ToolFiles(tool.Principal) map[string]string { return f.files }

func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Tools = toolFiles{files: map[string]string{"tools/box/index.ts": "export *",
			"tools/box/echo.ts": "declare", "tools/index.ts": "x"}}
	})
	for code, want := range map[string]string{
		`await readFile("./tools/box/echo.ts", "utf8")`:                                 `"declare"`,
		`await readdir("./tools")`:                                                      `["box","index.ts"]`,
		`await readdir("tools/box/")`:                                                   `["echo.ts","index.ts"]`,
		`(await stat("/tools/box")).isDirectory()`:                                      `true`,
		`await readFile("../../../etc/passwd", "utf8").catch((e) => e.code)`:            `"ENOENT"`,
		`await readdir("./tools", { recursive: true })`:                                 `["box","index.ts","box/echo.ts","box/index.ts"]`,
		`(await readdir("tools", { withFileTypes: true })).map((d) => d.isDirectory())`: `[true,false]`,
		`await writeFile("tools/x", "y").catch((e) => e.code)`:                          `"EROFS"`,
	} {
		if got := r.value(`import { readFile, readdir, stat, writeFile } from "node:fs/promises"; return ` +
			code); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

// kept runs a program whose value is too large to show, and returns its handle.
func (r *rig) kept(code string) string {
	r.t.Helper()
	m := regexp.MustCompile(`readResult\("(res_\w+)"`).FindStringSubmatch(r.value(code))
	if m == nil {
		r.t.Fatalf("no handle of %s", code)
	}
	return m[1]
}

func TestReadResultBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	list := r.kept(`return Array.from({ length: 30000 }, (_, i) => i)`)
	text := r.kept(`return "häh".repeat(30000)`)
	object := r.kept(`return { a: "x".repeat(60000) }`)
	for _, c := range []struct{ options, list, text, object string }{
		{`{ offset: 1, limit: 9223372036854775807n }`, "29999", "89999", "60007"},
		{`{ offset: 9223372036854775807n, limit: 9223372036854775807n }`, "0", "0", "0"},
		{`{ offset: 29999, limit: 2 }`, "1", "2", "2"},
		{`{ offset: 0, limit: 0 }`, "0", "0", "0"},
		{`{ offset: 10 }`, "29990", "89990", "59998"},
		{`{ offset: -1 }`, `"invalid"`, `"invalid"`, `"invalid"`},
		{`{ offset: 1e300 }`, `"invalid"`, `"invalid"`, `"invalid"`},
		{`{ offset: "1" }`, `"invalid"`, `"invalid"`, `"invalid"`},
	} {
		for h, want := range map[string]string{list: c.list, text: c.text, object: c.object} {
			if got := r.value(fmt.Sprintf(`return await readResult(%q, %s).then((v) => v.length, (e) => e.kind)`, h,
				c.options)); got != want {
				t.Errorf("readResult(%s, %s) gave %s, want %s", h, c.options, got, want)
			}
		}
	}
}

// TestReadResultFlood checks that the host doesn't have to hold everything for a program that
// requests far more than it reads.
func TestReadResultFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.CPU = 2 * time.Second })
	h := r.kept(`return "x y ".repeat(75e4)`)
	peak := heapPeak(t, func() {
		holds(t, r.failure(fmt.Sprintf(`for (let i = 0; i < 1500; i++) readResult(%q).catch(() => {}); for (;;);`, h)),
			"CPU time")
	})
	if peak > 300<<20 {
		t.Errorf("the heap grew by %d MiB", peak>>20)
	}
	r = newRig(t, standard(), func(c *executor.Config) { c.Limits.CPU = time.Minute })
	h = r.kept(`return "x y ".repeat(75e4)`)
	got := r.value(fmt.Sprintf(
		`const all = await Promise.allSettled(Array.from({ length: 20 }, () => readResult(%q).then((s) => s.length)));
		return all.map((x) => x.value ?? x.reason.kind).filter((x) => x !== 3e6 && x !== "limit")`, h))
	if got != "[]" {
		t.Errorf("many at once: %s", got)
	}
}

func TestValueOfManyItems(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := newRig(t, standard(), nil)
	peak := heapPeak(t, func() {
		holds(t, r.value(`return Array(7e6).fill(1)`), "array of 7,000,000 number")
	})
	if peak > 200<<20 {
		t.Errorf("the heap grew by %d MiB", peak>>20)
	}
}

// heapPeak returns how much the heap grew at most while f ran, including uncollected garbage.
func heapPeak(t *testing.T, f func()) (peak uint64) {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			if runtime.ReadMemStats(&m); m.HeapAlloc > before {
				peak = max(peak, m.HeapAlloc-before)
			}
		}
	}
}

func TestOddPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	got := r.value(`const out = [];
		for (const p of ["box.text\n", "box.\0text", "x".repeat(1e6), "box.execute", "biplane.execute", "tools.biplane.resume", "__proto__.__proto__", "constructor"])
			out.push(await callTool(p, {}).catch((e) => e.kind));
		return out`)
	if want := `["not_found","not_found","not_found","not_found","invalid","invalid","not_found","not_found"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	texts, _ := r.run(`await callTool("box.te\nxt").catch(() => {}); await callTool("y".repeat(15e6)).catch(() => ` +
		`{}); return 1`)
	if len(texts) != 1 {
		t.Errorf("calls that can't be were recorded: %q", texts)
	}
}

// TestLimitWithCallsUnderWay checks that the limit that ended a program is reported, whatever the
// outcomes of its calls afterwards.
func TestLimitWithCallsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.CPU = 100 * time.Millisecond })
	holds(t, r.failure(`box.never(); await box.text(); for (;;);`), "CPU time", "box.never {} -> canceled")
}

// TestCallsAfterTheEnd checks that calls that are still queued when the program fails are not made,
// and that the agent is informed.
func TestCallsAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) { c.Limits.Concurrency = 2 })
	text := r.failure(`const all = [box.fail()];
		for (let i = 0; i < 10; i++) all.push(box.wait({ ms: 2000 }));
		await Promise.all(all)`)
	r.mu.Lock()
	n := len(r.calls) // another call may get the failed call's turn before the program receives the error
	r.mu.Unlock()
	if n < 2 || n > 3 {
		t.Errorf("%d calls came through the door", n)
	}
	holds(t, text, "no such record", fmt.Sprintf("%d calls were made before", n),
		`box.wait {"ms":2000} -> not made: the program ended before its turn came`)
}

// A lingering driver creates a sandbox only after its context is done.
type lingering struct{ enclosed }

func (l lingering) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Sandbox, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCutShortBeforeItRuns checks that the answer reports why an execution ended before its program
// ran.
func TestCutShortBeforeItRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Drivers = sandbox.OnlyDriver(lingering{c.Drivers[0].Driver.(enclosed)})
		c.Limits.Total = 50 * time.Millisecond
	})
	if texts, failed := r.run("1"); !failed || !strings.Contains(texts[0], "took longer than") {
		t.Errorf("answered %q", texts)
	}
}
