package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// randomProgram returns a program of random steps: sequential and concurrent calls with delays and
// failures, timers, files, random numbers and the clock.
func randomProgram(r *rand.Rand, python bool) string {
	var b strings.Builder
	put := func(ts, py string) {
		if python {
			ts = py
		}
		b.WriteString(ts + "\n")
	}
	put("const out = [];", "import asyncio, random, time\nout = []")
	for i := range 2 + r.IntN(6) {
		n := 1 + r.IntN(6)
		switch r.IntN(8) {
		case 0, 1:
			put(fmt.Sprintf(`out.push(...(await Promise.all([...Array(%d).keys()].map((k) => box.write({ i: %d, k `+
				`})))).map((v) => v.args.k));`, n, i),
				fmt.Sprintf(`out.extend([v["args"]["k"] for v in await asyncio.gather(*[box.write(i=%d, k=k) for k `+
					`in range(%d)])])`, i, n))
		case 2:
			put(fmt.Sprintf(`await Promise.all([...Array(%d).keys()].map(async (k) => { const v = await box.read({ `+
				`i: %d, k }); out.push(k); console.log(k, v.n); }));`, n, i),
				fmt.Sprintf("async def f%d(k):\n    v = await box.read(i=%d, k=k)\n    out.append(k)\n    print(k, "+
					"v[\"n\"])\nawait asyncio.gather(*[f%d(k) for k in range(%d)])", i, i, i, n))
		case 3:
			put(fmt.Sprintf(`try { await box.fail({ i: %d }); } catch (e) { out.push(e.message); }`, i),
				fmt.Sprintf("try:\n    await box.fail(i=%d)\nexcept Exception as e:\n    out.append(str(e))", i))
		case 4:
			put(`out.push(Math.random(), Date.now());`, `out.extend([random.random(), time.time()])`)
		case 5:
			put(fmt.Sprintf(`out.push(await Promise.race([box.read({ race: %d }).then(() => "call"), new `+
				`Promise((ok) => setTimeout(() => ok("timer"), %d))]));`, i, r.IntN(6)),
				fmt.Sprintf("await asyncio.sleep(%g)\nout.append(time.monotonic() > 0)", float64(r.IntN(6))/1e3))
		case 6:
			put(fmt.Sprintf(`const fs%d = await import("node:fs"); fs%d.writeFileSync("./workspace/f", `+
				`String(out.length)); out.push(fs%d.readFileSync("./workspace/f", "utf8"));`, i, i, i),
				"with open(\"f\", \"w\") as f:\n    f.write(str(len(out)))\nout.append(open(\"f\").read())")
		case 7:
			put(fmt.Sprintf(`out.push((await box.big({ i: %d })).length);`, i),
				fmt.Sprintf(`out.append(len(box.big(i=%d)))`, i))
		}
	}
	if r.IntN(6) == 0 {
		put(`throw new Error("at the end " + out.length);`, `raise ValueError("at the end " + str(len(out)))`)
	}
	put("return out;", "return out")
	return b.String()
}

// replayed replays an execution, which must succeed.
func (s *scene) replayed(id string, o execution.ReplayOptions) *execution.Replayed {
	s.t.Helper()
	r, err := s.x.Replay(s.t.Context(), s.who, id, o)
	if err != nil {
		s.t.Fatalf("replay %s: %v", id, err)
	}
	return r
}

// TestReplayGivesTheSameBytes checks that random programs in both languages, with concurrent calls
// of random delay and failure, have byte-identical replays. Programs that don't depend on time have
// the same result when run as a changed program, too.
func TestReplayGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	s := newScene(t, nil)
	s.wait = func(*tool.Call) time.Duration { return time.Duration(rand.IntN(4)) * time.Millisecond }
	for i := range 40 {
		language := "typescript"
		if i%4 == 3 {
			language = "python"
		}
		code := randomProgram(r, language == "python")
		id, res, err := s.execute(map[string]any{"code": code, "language": language})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, code)
		}
		d, err := s.x.Details(t.Context(), s.who, id)
		if err != nil {
			t.Fatalf("Details: %v", err)
		}
		got := s.replayed(id, execution.ReplayOptions{})
		if !got.Same || got.State != string(d.State) || string(got.Value) != string(d.Value) ||
			len(got.Console) != len(d.Console) || len(got.Calls) != len(d.Calls) {
			t.Errorf("seed %d, %s, %s: %+v\nwas %s\n%s", seed, id, language, got, res.Raw, code)
		}
		if (d.Error == nil) != (got.Error == nil) || d.Error != nil && *d.Error != *got.Error {
			t.Errorf("seed %d: error %+v, was %+v", seed, got.Error, d.Error)
		}
		if n := len(d.Calls); n > 0 {
			k := 1 + r.IntN(n)
			if got := s.replayed(id, execution.ReplayOptions{Until: k}); got.State != "stopped" || len(got.Calls) != k {
				t.Errorf("seed %d: until %d of %d: %s with %d calls\n%s", seed, k, n, got.State, len(got.Calls), code)
			}
		}
		if got := s.replayed(id, execution.ReplayOptions{Program: code}); got.State != string(d.State) ||
			len(got.Calls) != len(d.Calls) {
			t.Errorf("seed %d, %s: as a changed program: %+v\n%s", seed, language, got, code)
		}
	}
}

// TestReplayOfAChangedProgram checks that a changed program is answered from the journal until its
// first call that is not recorded.
func TestReplayOfAChangedProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := newScene(t, func(c *executor.Config) { c.Limits.CPU = 500 * time.Millisecond })
	for language, codes := range map[string][3]string{
		"typescript": {
			`const a = await box.write({ n: 1 }); const b = await box.read({ n: 2 }); return a.args.n + b.missing.n;`,
			`const a = await box.write({ n: 1 }); const b = await box.read({ n: 2 }); return a.args.n + b.args.n;`,
			`await box.write({ n: 1 }); console.log("so far"); return await box.write({ n: 3 });`,
		},
		"python": {
			"a = await box.write(n=1)\nb = box.read(n=2)\na['args']['n'] + b['missing']['n']",
			"a = await box.write(n=1)\nb = box.read(n=2)\na['args']['n'] + b['args']['n']",
			"box.write(n=1)\nprint('so far')\nawait box.write(n=3)",
		},
	} {
		id, res, err := s.execute(map[string]any{"code": codes[0], "language": language})
		if err != nil || !res.IsError {
			t.Fatalf("the %s program that failed: error %v, answer %s, want a failed program", language, err, res.Raw)
		}
		before := len(s.order)
		got := s.replayed(id, execution.ReplayOptions{Program: codes[1]})
		if got.State != "done" || string(got.Value) != "3" || got.Differs != "" {
			t.Errorf("the corrected %s program: replay %+v, want state done, value 3 and no difference",
				language, got)
		}
		got = s.replayed(id, execution.ReplayOptions{Program: codes[2]})
		if got.State != "diverged" || !strings.Contains(got.Differs, `call 2, box.write {"n":3}`) ||
			len(got.Console) != 1 {
			t.Errorf("the changed %s program: replay %+v, want it to diverge at box.write with n = 3, after one "+
				"line of output", language, got)
		}
		for _, endless := range map[string][]string{"typescript": {`for (;;) {}`,
			`for (;;) await new Promise((ok) => setTimeout(ok, 1))`},
			"python": {"while True: pass", "import asyncio\nwhile True: await asyncio.sleep(1)"}}[language] {
			if got := s.replayed(id, execution.ReplayOptions{Program: endless}); got.State == "done" {
				t.Errorf(`endless = %s, got = %+v, want got.State != "done"`, endless, got)
			}
		}
		if len(s.order) != before {
			t.Errorf("%s: a replay called %v", language, s.order[before:])
		}
	}
}

// TestReplayInASession checks that a program in a session is replayed from its initial state,
// whatever came after it.
func TestReplayInASession(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	var ids []string
	for _, code := range []string{`let n = (await box.read({ n: 5 })).args.n; n`, `n += 10; n`,
		`n *= 2; console.log(n); n`} {
		id, res, err := s.execute(map[string]any{"code": code, "session": "s"})
		if err != nil || res.IsError {
			t.Fatalf("a program of the session: error %v, answer %v, want success", err, string(res.Raw))
		}
		ids = append(ids, id)
	}
	s.crash(0)
	for i, want := range []string{"5", "15", "30"} {
		if got := s.replayed(ids[i], execution.ReplayOptions{}); !got.Same || string(got.Value) != want {
			t.Errorf("program %d: %+v", i, got)
		}
	}
	if got := s.replayed(ids[2], execution.ReplayOptions{Program: `n + 1`}); string(got.Value) != "16" {
		t.Errorf("another last program: replay %+v, want the value 16", got)
	}
	if err := s.x.Sessions().End(t.Context(), s.who, "s"); err != nil {
		t.Fatalf("End: %v", err)
	}
	if _, err := s.x.Replay(t.Context(), s.who, ids[2], execution.ReplayOptions{}); err == nil ||
		!strings.Contains(err.Error(), "has ended") {
		t.Errorf("of a session that has ended: %v", err)
	}
}

// TestResumeAfterRestart checks that an execution's answer is available after a restart, only to
// its owner.
func TestResumeAfterRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	id, res, err := s.execute(map[string]any{"code": `console.log("hello"); return box.big({ n: 1 })`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	s.crash(0)
	args := json.RawMessage(fmt.Sprintf(`{"execution":%q}`, id))
	again, err := s.x.Resume().Call(t.Context(), &tool.Call{Path: "biplane.resume", Arguments: args, Principal: s.who})
	if err != nil || string(again.Raw) != string(res.Raw) {
		t.Errorf("resume in the next process: error %v, answer %s, want the first answer again", err, again.Raw)
	}
	for _, who := range []string{"local:other", ""} {
		if _, err := s.x.Resume().Call(t.Context(), &tool.Call{Path: "biplane.resume", Arguments: args,
			Principal: tool.Principal{ID: who}}); tool.AsError(err) == nil || tool.AsError(err).Kind != tool.NotFound {
			t.Errorf("resume by %q: error %v, want kind not_found", who, err)
		}
		if _, err := s.x.Details(t.Context(), tool.Principal{ID: who}, id); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.NotFound {
			t.Errorf("details for %q: error %v, want kind not_found", who, err)
		}
	}
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 || all[0].ID != id || all[0].State != journal.Done || all[0].Calls != 1 {
		t.Errorf("executions: %+v, %v, want only the one that was made, done and with one call", all, err)
	}
}

// TestAfter checks that a corrected program repeats no completed call, and that its answer names
// these calls.
func TestAfter(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	s.who.Client = "test/1"
	first, res, err := s.execute(map[string]any{"code": `
		await Promise.all([1, 2, 2].map((n) => box.write({ n, id: 9007199254740993n })));
		const i = await box.image({});
		try { await box.fail({}) } catch {}
		return nothing.at.all;`})
	if err != nil || !res.IsError {
		t.Fatalf("the program to correct: error %v, answer %v, want a failed program", err, string(res.Raw))
	}
	run := func(after, code string) (string, string) {
		t.Helper()
		id, res, err := s.execute(map[string]any{"code": code, "after": after})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		return id, strings.Join(textsOf(t, res), "\n")
	}
	second, text := run(first,
		`const r = []; for (const n of [1, 2, 2, 2]) r.push((await box.write({ id: 9007199254740993n, n })).args.n);
		emit(await box.image({})); try { await box.fail({}) } catch {}; return r;`)
	holds(t, text, "[1,2,2,2]", "from "+first+": 4 calls were not made again: box.write x3, box.image", "aGVsbG8=")
	if n := s.count(`box.write {"id":9007199254740993,"n":2}`) +
		s.count(`box.write {"n":2,"id":9007199254740993}`); n != 3 {
		t.Errorf("%d writes: %v", n, s.order)
	}
	// Chains: the third execution knows the results of the first, once.
	s.crash(0)
	_, text = run(second, `await box.write({ n: 1, id: 9007199254740993n }); await box.write({ n: 1, id: `+
		`9007199254740993n }); await box.write({ n: 1, id: 9007199254740992n });`)
	holds(t, text, "from "+first+": 1 call was not made again: box.write")
	if n := s.count(`box.write {"n":1,"id":9007199254740993}`); n != 2 {
		t.Errorf("%d writes: %v", n, s.order)
	}
	if n := s.count(`box.write {"n":1,"id":9007199254740992}`); n != 1 {
		t.Errorf("%d writes: %v", n, s.order)
	}
	if _, _, err := s.execute(map[string]any{"code": "1", "after": "ex_nothing"}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("after an unknown execution: error %v, want kind not_found", err)
	}
	s.who.ID = "local:other"
	if _, _, err := s.execute(map[string]any{"code": "1", "after": first}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("after the execution of another user: error %v, want kind not_found", err)
	}
}

// waitFor waits until a call reaches its tool.
func (s *scene) waitFor(key string) {
	s.t.Helper()
	eventually(s.t, key, func() bool { return s.count(key) > 0 })
}

// TestRecoveryInASession checks that if the process ends while a program waits for a read-only
// tool, the next process makes that call again. The program's session is held until then, and a
// program queued behind it runs after it.
func TestRecoveryInASession(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	if _, res, err := s.execute(map[string]any{"code": `var list = ["a"]; list`, "session": "s"}); err != nil ||
		res.IsError {
		t.Fatalf("the session's first program: error %v, want success", err)
	}
	gate := make(chan struct{})
	s.hold["box.read"] = gate
	var ids [2]string
	codes := []string{
		`list.push("b"); await box.write({ n: 1 }); (await import("node:fs")).writeFileSync("./workspace/x", ` +
			`list.join()); await box.read({ n: 1 }); list.push("c"); list`,
		`list.push((await import("node:fs")).readFileSync("./workspace/x", "utf8")); list`,
	}
	over := make(chan error, 2)
	for i, code := range codes {
		go func() {
			_, _, err := s.execute(map[string]any{"code": code, "session": "s"})
			over <- err
		}()
		if i == 0 {
			s.waitFor(`box.read {"n":1}`)
		}
		eventually(t, "it is written down", func() bool {
			all, err := s.x.Executions(context.Background(), s.who,
				journal.Query{States: []journal.State{journal.Running}})
			if err != nil || len(all) != i+1 {
				return false
			}
			ids[i] = all[0].ID
			return true
		})
	}
	s.crash(0)
	<-over
	<-over
	eventually(t, "the read is made again", func() bool { return s.count(`box.read {"n":1}`) == 2 })
	close(gate)
	if d := s.ended(ids[0]); d.State != journal.Done || string(d.Value) != `["a","b","c"]` {
		t.Errorf("the first program after the crash: %+v, want it done with the value [\"a\",\"b\",\"c\"]", d)
	}
	if d := s.ended(ids[1]); d.State != journal.Done || string(d.Value) != `["a","b","c","a,b"]` {
		t.Errorf("the second program after the crash: %+v, want it done with the value [\"a\",\"b\",\"c\",\"a,b\"]",
			d)
	}
	if n := s.count(`box.write {"n":1}`); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// TestUnknownOutcome checks that a writing call with an unknown outcome is reported, and not
// repeated, neither by the program nor by a later one.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	gate := make(chan struct{})
	defer close(gate)
	s.hold["box.write"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `await box.read({ n: 0 }); await box.write({ n: 7 })`})
		over <- err
	}()
	s.waitFor(`box.write {"n":7}`)
	s.crash(0)
	<-over
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("executions: %v, %v, want one", all, err)
	}
	d := s.ended(all[0].ID)
	if d.State != journal.Interrupted || d.Error == nil {
		t.Fatalf("the execution after the crash: %+v, want it interrupted, with an error", d)
	}
	holds(t, d.Why, "call 2, box.write", "unknown")
	holds(t, d.Error.Message, "call 2, box.write")
	if len(d.Calls) != 2 || d.Calls[0].Value == nil || d.Calls[1].Known() {
		t.Errorf("calls: %+v, want a first one with its result and a second one with an unknown outcome", d.Calls)
	}
	_, res, err := s.execute(map[string]any{"code": `await box.read({ n: 0 }); await box.write({ n: 7 })`,
		"after": d.ID})
	if err != nil || !res.IsError {
		t.Fatalf("a program that repeats the unknown call: error %v, want a failed program", err)
	}
	holds(t, strings.Join(textsOf(t, res), "\n"), "whether it took effect is unknown")
	if n := s.count(`box.write {"n":7}`) + s.count(`box.read {"n":0}`); n != 2 {
		t.Errorf("calls made: %v, want each of the two calls once", s.order)
	}
	if got := s.replayed(d.ID, execution.ReplayOptions{}); got.State != "cut" || len(got.Calls) != 2 {
		t.Errorf("replay: %+v, want it cut after two calls", got)
	}
}

// otherBuild is a driver whose engine is a different build.
type otherBuild struct{ enclosed }

func (o otherBuild) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	caps, err := o.enclosed.Probe(ctx)
	caps.Builds = map[string]string{"js": "another", "python": "another"}
	return caps, err
}

// TestRecoveryInAnotherBuild checks that after an upgrade, a program can't continue in another
// build of the engine, but that the calls that it had made are reported.
func TestRecoveryInAnotherBuild(t *testing.T) {
	t.Parallel()
	upgraded := false
	told := make(chan *execution.Execution, 2)
	s := newScene(t, func(c *executor.Config) {
		if e, ok := c.Drivers[0].Driver.(enclosed); ok && upgraded {
			c.Drivers = sandbox.OnlyDriver(otherBuild{e})
			c.Supervisor = ends(func(e *execution.Execution) { told <- e })
		}
	})
	gate := make(chan struct{})
	defer close(gate)
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `await box.write({ n: 7 }); await box.read({ n: 1 })`})
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	upgraded = true
	s.crash(0)
	<-over
	select {
	case e := <-told:
		if e.State != execution.Interrupted || len(e.Calls) != 2 || e.Calls[0].Tool != "box.write" ||
			e.Calls[0].Error != "" || e.Calls[1].Error == "" {
			t.Errorf("e = %+v", e)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it has not ended")
	}
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 || all[0].Calls != 2 || !strings.Contains(all[0].Why, "another build") {
		t.Errorf("executions: %+v, %v, want one with two calls, interrupted because of another build", all, err)
	}
	if n := s.count(`box.write {"n":7}`); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// fullStore rejects all writes while it is full.
type fullStore struct {
	journal.Store
	full *atomic.Bool
}

func (f fullStore) Write(w *journal.Write) journal.Pending {
	if f.full.Load() {
		return nothing{}
	}
	return f.Store.Write(w)
}

// TestEndThatCanNotBeWritten checks an execution that was answered, but whose end could not be
// stored. Once writes succeed again it is recorded as ended, and it is not recovered.
func TestEndThatCanNotBeWritten(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	s := newScene(t, func(c *executor.Config) { c.Journal = fullStore{c.Journal, &full} })
	gate := make(chan struct{})
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, res, err := s.execute(map[string]any{"code": `await box.write({ n: 7 }); await box.read({ n: 1 })`})
		if err == nil && res.IsError {
			err = fmt.Errorf("answered %s", res.Raw)
		}
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	full.Store(true)
	close(gate)
	if err := <-over; err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	full.Store(false)
	s.crash(0)
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 || all[0].State != journal.Done || all[0].Lost == "" {
		t.Errorf("executions: %+v, %v, want one that is done and has lost its journal", all, err)
	}
	if n := s.count(`box.read {"n":1}`); n != 1 {
		t.Errorf("%d reads", n)
	}
}

// readmits is a Supervisor that is called for each execution that continues.
type readmits func(*tool.Call) func(*execution.Execution)

func (readmits) AdmitExecution(context.Context, *tool.Call) (func(*execution.Execution), error) {
	return nil, nil
}

func (readmits) AdmitMove(*tool.Call, string, string) error  { return nil }
func (readmits) AdmitImage(*tool.Call, string, string) error { return nil }

func (readmits) AdmitProgram(*tool.Call, string, []tool.Finding) error { return nil }

func (readmits) AdmitTrial(*tool.Call, string, []tool.Finding) error { return nil }

func (f readmits) ReadmitExecution(c *tool.Call) func(*execution.Execution) { return f(c) }

func (readmits) RecordStart(string, tool.Principal) {}

func (readmits) RecordEnd(*execution.Execution) {}

// TestRecoveryOfTimers checks that timers continue where they were: one due in an hour expires
// then, and one that has expired does not expire again.
func TestRecoveryOfTimers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	clock := new(wallclock.Clock)
	var again []string // log of executions that continue, and of how they end
	s := newScene(t, func(c *executor.Config) {
		c.Clock = clock
		c.Supervisor = readmits(func(call *tool.Call) func(*execution.Execution) {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, call.Path+" "+call.Principal.ID+" "+
				fmt.Sprint(strings.Contains(string(call.Arguments), "let ticks")))
			return func(e *execution.Execution) { mu.Lock(); defer mu.Unlock(); again = append(again, string(e.State)) }
		})
	})
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `
			let ticks = 0;
			await new Promise((ok) => setTimeout(ok, 5)); ticks++;
			await box.write({ n: 1 });
			setTimeout(() => ticks++, 3600_000);
			await new Promise((ok) => setTimeout(ok, 3600_000)); ticks++;
			return ticks;`})
		over <- err
	}()
	s.waitFor(`box.write {"n":1}`)
	var id string
	eventually(t, "the write is known", func() bool {
		all, err := s.x.Executions(context.Background(), s.who, journal.Query{})
		if err != nil || len(all) != 1 {
			return false
		}
		d, err := s.x.Details(context.Background(), s.who, all[0].ID)
		id = all[0].ID
		return err == nil && len(d.Calls) == 1 && d.Calls[0].Order == 1
	})
	clock.Advance(time.Hour) // the process is down for this long
	s.crash(0)
	<-over
	if d := s.ended(id); d.State != journal.Done || string(d.Value) != "3" || s.count(`box.write {"n":1}`) != 1 {
		t.Errorf("after the crash: %+v, want it done with the value 3, and one call of box.write", d)
	}
	eventually(t, "its end is told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(again, ", ") == "biplane.execute "+s.who.ID+" true, done"
	})
}

// TestRecoveryGivesUp checks that an execution that crashes the process again and again is not
// recovered forever.
func TestRecoveryGivesUp(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	gate := make(chan struct{})
	defer close(gate)
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `await box.read({ n: 1 })`})
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	for i := range 3 {
		s.crash(2) // the first write records the recovery
		eventually(t, "it goes on", func() bool { return s.count(`box.read {"n":1}`) == i+2 })
		<-s.dead.died
	}
	<-over
	s.crash(0)
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 || all[0].State != journal.Interrupted || !strings.Contains(all[0].Why, "3 times") {
		t.Errorf("executions: %+v, %v, want one that is interrupted after 3 attempts", all, err)
	}
	if n := s.count(`box.read {"n":1}`); n != 4 {
		t.Errorf("%d reads", n)
	}
}
