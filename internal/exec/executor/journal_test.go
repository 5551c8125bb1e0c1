package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A scene is an executor with the real engine, a real store and a door that counts calls. Its
// process can crash: from then on it writes nothing, and another process replaces it.
type scene struct {
	t     testing.TB
	dir   string
	key   *secret.Key
	db    *store.Store
	x     *executor.Executor
	tweak func(*executor.Config)
	who   tool.Principal

	mu    sync.Mutex
	made  map[string]int // calls that reached the tool, by tool and arguments
	order []string
	hold  map[string]chan struct{} // tools that answer when the channel is closed, or when their context is done
	wait  func(c *tool.Call) time.Duration
	reach chan string // receives each call that reaches its tool; may be nil
	dead  *mortal
}

// A mortal is a store of journals that crashes at its n-th write: from then on it accepts nothing,
// like a process that is gone.
type mortal struct {
	journal.Store
	mu     sync.Mutex
	writes int
	dies   int // number of the write; 0: never
	died   chan struct{}
}

func (m *mortal) Write(w *journal.Write) journal.Pending {
	m.mu.Lock()
	m.writes++
	n := m.writes
	if n == m.dies {
		close(m.died)
	}
	gone := m.dies > 0 && n >= m.dies
	m.mu.Unlock()
	if gone {
		return nothing{}
	}
	return m.Store.Write(w)
}

// nothing is a Pending that never completes, since its process is gone; in tests it returns an
// error.
type nothing struct{}

func (nothing) Wait() error { return errDead }
func (nothing) Sync() error { return errDead }
func (nothing) Safe() error { return errDead }
func (nothing) Hurry()      {}

var errDead = tool.Errorf(tool.Unavailable, "this process is gone")

func newScene(t testing.TB, tweak func(*executor.Config)) *scene {
	t.Helper()
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s := &scene{t: t, dir: t.TempDir(), key: key, tweak: tweak, who: tool.Principal{ID: "local:test"},
		made: map[string]int{}, hold: map[string]chan struct{}{}}
	s.start(0)
	t.Cleanup(s.stop)
	return s
}

var yes = true

// sceneTools returns the tools that programs can call: box.write may write, box.read only reads.
func sceneTools() []*tool.Tool {
	schema := json.RawMessage(`{"type":"object"}`)
	return []*tool.Tool{
		{Upstream: "box", Name: "write", InputSchema: schema},
		{Upstream: "box", Name: "read", InputSchema: schema, Annotations: tool.Annotations{ReadOnly: &yes}},
		{Upstream: "box", Name: "fail", InputSchema: schema},
		{Upstream: "box", Name: "image", InputSchema: schema, Annotations: tool.Annotations{ReadOnly: &yes}},
		{Upstream: "box", Name: "big", InputSchema: schema, Annotations: tool.Annotations{ReadOnly: &yes}},
	}
}

// start opens the store and creates the executor of a process that crashes at a given write of its
// journal; 0: never.
func (s *scene) start(dies int) {
	s.t.Helper()
	ctx := context.Background()
	d, err := driver()
	if err != nil {
		s.t.Fatalf("driver: %v", err)
	}
	if s.db, err = store.Open(ctx, store.Config{Path: s.dir}); err != nil {
		s.t.Fatalf("store.Open: %v", err)
	}
	sessions, err := s.db.Sessions(ctx, s.key)
	if err != nil {
		s.t.Fatalf("Sessions: %v", err)
	}
	s.dead = &mortal{Store: s.db.Executions(s.key), dies: dies, died: make(chan struct{})}
	index := catalog.New(catalog.Config{})
	index.Set(catalog.Source{Name: "box", Tools: sceneTools(), Health: tool.Health{State: tool.Ready}})
	door := tool.CallerFunc(s.door)
	cfg := executor.Config{Drivers: sandbox.OnlyDriver(enclosed{d}),
		Door: door, Programs: program.New(program.Config{Catalog: catalog.NewResolver(index, nil)}),
		Store: sessions, Key: s.key, Journal: s.dead}
	if s.tweak != nil {
		s.tweak(&cfg)
	}
	if s.x, err = executor.New(cfg); err != nil {
		s.t.Fatalf("executor.New: %v", err)
	}
}

func (s *scene) stop() {
	if s.x == nil {
		return
	}
	if err := s.x.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	s.x = nil
	if err := s.db.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
}

// door is the gateway of the scene: it reports that a call is sent, ensures that its intent is
// stored, and counts it.
func (s *scene) door(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	var found *tool.Tool
	for _, t := range sceneTools() {
		if t.Path() == c.Path {
			found = t
		}
	}
	if found == nil {
		return nil, tool.NotSent(tool.Errorf(tool.NotFound, "no tool %s", c.Path))
	}
	next := *c
	next.Tool = found
	if confirm := c.Observe().OnSend(&next, "allow"); confirm != nil {
		if err := confirm(); err != nil {
			return nil, tool.NotSent(err)
		}
	}
	key := c.Path + " " + string(orEmpty(c.Arguments))
	s.mu.Lock()
	s.made[key]++
	s.order = append(s.order, key)
	hold, reach := s.hold[c.Path], s.reach
	var wait time.Duration
	if s.wait != nil {
		wait = s.wait(c)
	}
	s.mu.Unlock()
	if reach != nil {
		reach <- key
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.result(found.Name, c.Arguments)
}

func (s *scene) result(name string, args json.RawMessage) (*tool.Result, error) {
	switch name {
	case "fail":
		return tool.Text(true, "no such record: "+string(args)), nil
	case "image":
		return tool.ParseResult(
			json.RawMessage(`{"content":[{"type":"image","mimeType":"image/png","data":"aGVsbG8="}]}`))
	case "big":
		return tool.Text(false, strings.Repeat("much ", 20_000)+string(args)), nil
	}
	return tool.ParseResult(json.RawMessage(fmt.Sprintf(
		`{"content":[],"structuredContent":{"of":%q,"args":%s,"n":9007199254740993}}`, name, orEmpty(args))))
}

// count returns how often a call reached its tool.
func (s *scene) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[key]
}

// execute runs a program until it or its executor ends, and returns its id and answer.
func (s *scene) execute(args map[string]any) (string, *tool.Result, error) {
	s.t.Helper()
	raw, err := tool.Marshal(args)
	if err != nil {
		s.t.Fatalf("tool.Marshal: %v", err)
	}
	res, err := s.x.Execute().Call(context.Background(),
		&tool.Call{Path: "biplane.execute", Arguments: raw, Principal: s.who})
	return executionOf(res), res, err
}

// executionOf returns the execution id of an answer.
func executionOf(res *tool.Result) string {
	if res == nil {
		return ""
	}
	var m struct {
		Meta map[string]struct{ ID string } `json:"_meta"`
	}
	_ = json.Unmarshal(res.Raw, &m)
	return m.Meta["biplane.dev/execution"].ID
}

// crash ends the executor's process, from the perspective of its store, and starts another one.
func (s *scene) crash(dies int) {
	s.t.Helper()
	s.stop()
	s.start(dies)
	if err := s.x.Recover(context.Background()); err != nil {
		s.t.Fatalf("Recover: %v", err)
	}
}

// ended waits until an execution has ended, and returns it.
func (s *scene) ended(id string) *execution.Details {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var last *execution.Details
	if err := s.x.Watch(ctx, s.who, id, func(d *execution.Details) error { last = d; return nil }); err != nil {
		s.t.Fatalf("watch %s: %v", id, err)
	}
	if !last.State.Ended() {
		s.t.Fatalf("%s is %s", id, last.State)
	}
	return last
}

const tenWrites = `
const one = await box.write({ n: 1 });
const some = await Promise.all([2, 3, 4, 5].map((n) => box.write({ n })));
const seen = await box.read({ n: 1 });
console.log("half", Math.random(), Date.now(), seen.n);
const rest = [];
for (const n of [6, 7]) rest.push(await box.write({ n }));
const last = await Promise.all([8, 9, 10].map(async (n) => { await box.read({ n }); return box.write({ n }); }));
return [one, ...some, ...rest, ...last].map((r) => r.args.n);`

// TestDeathAtEachWrite crashes the process of an execution with ten writing calls at each write of
// its journal. No call may be made more than once. An execution that can be recovered must end, and
// one that can't must name the call.
func TestDeathAtEachWrite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	deathAtEachWrite(t, "", map[string]any{"code": tenWrites})
}

// TestDeathAtEachWriteInASession also checks that the program has changed its session once, or not
// at all.
func TestDeathAtEachWriteInASession(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	deathAtEachWrite(t, "s", map[string]any{"code": "runs++; " + strings.Replace(tenWrites, "return [", "[", 1),
		"session": "s"})
}

// TestDeathAtEachWriteInPython uses file operations, sleeps and blocking calls.
func TestDeathAtEachWriteInPython(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	deathAtEachWrite(t, "", map[string]any{"language": "python", "code": `
import asyncio, time, random
one = box.write(n=1)["args"]["n"]
with open("kept.txt", "w") as f:
    f.write(str(one))
some = await asyncio.gather(*[box.write(n=n) for n in (2, 3, 4, 5)])
time.sleep(0.003)
print("half", random.random(), time.time(), open("kept.txt").read())
rest = []
for n in (6, 7):
    await asyncio.sleep(0.002)
    box.read(n=n)
    rest.append(await box.write(n=n))
last = await asyncio.gather(*[box.write(n=n) for n in (8, 9, 10)])
[int(open("kept.txt").read())] + [r["args"]["n"] for r in [*some, *rest, *last]]`})
}

func deathAtEachWrite(t *testing.T, session string, args map[string]any) {
	done, interrupted := 0, 0
	first, step := 1+rand.IntN(4), 4
	if os.Getenv("BIPLANE_SOAK") != "" {
		first, step = 1, 1
	}
	for dies := first; ; dies += step {
		s := newScene(t, nil)
		if session != "" {
			if _, _, err := s.execute(map[string]any{"code": "var runs = 0", "session": session}); err != nil {
				t.Fatalf("execute: %v", err)
			}
		}
		s.stop()
		s.start(dies)
		over := make(chan error, 1)
		go func() {
			_, _, err := s.execute(args)
			over <- err
		}()
		finished := false
		select {
		case <-s.dead.died:
		case err := <-over:
			select {
			case <-s.dead.died: // and the program ended at the same time
				over <- err
			default:
				if finished = true; err != nil {
					t.Fatalf("err = %v, want nil", err)
				}
			}
		}
		s.crash(0)
		if !finished {
			<-over
		}
		all, err := s.x.Executions(context.Background(), s.who, journal.Query{})
		if err != nil {
			t.Fatalf("Executions: %v", err)
		}
		state := journal.Interrupted
		for _, e := range all {
			d := s.ended(e.ID)
			if d.Program == "var runs = 0" {
				continue
			}
			state = d.State
			switch d.State {
			case journal.Done:
				done++
				if want := "[1,2,3,4,5,6,7,8,9,10]"; string(d.Value) != want || len(d.Console) != 1 {
					t.Errorf("dies at %d: %s, %v", dies, d.Value, d.Console)
				}
			case journal.Interrupted:
				interrupted++
				if !strings.Contains(d.Why, "box.write") || !strings.Contains(d.Why, "unknown") {
					t.Errorf("dies at %d: %s", dies, d.Why)
				}
			default:
				t.Errorf("dies at %d: %s: %+v", dies, d.State, d.Error)
			}
			for n := 1; n <= 10; n++ {
				if got := s.count(fmt.Sprintf(`box.write {"n":%d}`, n)); got > 1 ||
					got == 0 && d.State == journal.Done {
					t.Errorf("dies at %d: write %d was made %d times, and the execution is %s", dies, n, got, d.State)
				}
			}
		}
		if session != "" {
			_, res, err := s.execute(map[string]any{"code": "runs", "session": session})
			if err != nil {
				t.Fatalf("execute: %v", err)
			}
			if got := textsOf(t, res)[0]; got != "1" && got != "0" ||
				(got == "1") != (state == journal.Done) && len(all) > 1 {
				t.Errorf("dies at %d: the session saw %s runs, and the execution is %s", dies, got, state)
			}
		}
		s.stop()
		if finished {
			break
		}
	}
	t.Logf("%d came to their end, %d were interrupted", done, interrupted)
	if done == 0 {
		t.Error("none came to its end")
	}
}

// TestJournalIsBounded checks that a journal that grows too large is abandoned. The execution
// continues and reports this, and its calls are still known.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(c *executor.Config) { c.Limits.Journal.Execution = 400 << 10 })
	id, res, err := s.execute(map[string]any{"code": `for (let n = 0; n < 8; n++) await box.big({ n }); await ` +
		`box.write({ n: 1 }); return "through"`})
	if err != nil || res.IsError {
		t.Fatalf("err = %v, string(res.Raw) = %v, want err == nil && !res.IsError", err, string(res.Raw))
	}
	holds(t, strings.Join(textsOf(t, res), "\n"), "through", "can't be replayed")
	s.crash(0)
	d := s.ended(id)
	if d.State != journal.Done || len(d.Calls) != 9 || string(d.Value) != `"through"` || d.Lost == "" ||
		d.Bytes > 600<<10 {
		t.Errorf("%s, %d calls, %s, %q, %d bytes", d.State, len(d.Calls), d.Value, d.Lost, d.Bytes)
	}
	if _, err := s.x.Replay(t.Context(), s.who, id, execution.ReplayOptions{}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == tool.Conflict", err)
	}
	gate := make(chan struct{})
	defer close(gate)
	s.hold["box.write"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(
			map[string]any{"code": `for (let n = 0; n < 8; n++) await box.big({ n }); await box.write({ n: 2 })`})
		over <- err
	}()
	s.waitFor(`box.write {"n":2}`)
	s.crash(0)
	<-over
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{States: []journal.State{journal.Interrupted}})
	if err != nil || len(all) != 1 || !strings.Contains(all[0].Why, "call 9, box.write,") ||
		strings.Contains(all[0].Why, `"n"`) {
		t.Errorf("all = %+v, err = %v", all, err)
	}
}

// TestRetention checks that executions that are too old or too many are deleted, with everything
// that only they reference.
func TestRetention(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	big := func(n int) string {
		t.Helper()
		id, res, err := s.execute(map[string]any{"code": fmt.Sprintf(`return (await box.big({ n: %d })).length`, n)})
		if err != nil || res.IsError {
			t.Fatalf("err = %v, want err == nil && !res.IsError", err)
		}
		return id
	}
	first, second, third := big(1), big(1), big(2)
	there := func(ids ...string) {
		t.Helper()
		all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
		if err != nil || len(all) != len(ids) {
			t.Fatalf("%d are there: %v", len(all), err)
		}
		for i, e := range all { // newest first
			if e.ID != ids[i] {
				t.Errorf("%d is %s, want %s", i, e.ID, ids[i])
			}
		}
	}
	there(third, second, first)
	kept := s.db.Executions(s.key)
	trim := func(before time.Time, bytes int64, want int) {
		t.Helper()
		if n, err := kept.Trim(t.Context(), before, bytes); err != nil || n != want {
			t.Fatalf("%d are thrown away: %v", n, err)
		}
	}
	trim(time.Time{}, 250_000, 1)
	there(third, second)
	if got := s.replayed(second, execution.ReplayOptions{}); !got.Same { // the result that it shared still exists
		t.Errorf("got = %+v, want got.Same", got)
	}
	trim(time.Now().Add(time.Hour), 1<<30, 2)
	there()
	shown, err := s.db.Executions(s.key).Result(t.Context(),
		kept.Digest([]byte(`"`+strings.Repeat("much ", 20_000)+`{\"n\":1}"`)))
	if tool.AsError(err) == nil || tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("%d bytes are left: %v", len(shown), err)
	}
}
