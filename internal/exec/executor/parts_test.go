package executor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// These tests check the rule that each part of a run holds, without an executor around it.

// newParts returns a run that has not begun, of an executor that only has what the parts use.
func newParts(t *testing.T, tweak func(*Config)) *run {
	t.Helper()
	x := &Executor{cfg: Config{Limits: Limits{OutputTokens: 8}.complete(), Log: slog.New(slog.DiscardHandler),
		Tools: NoTools{}, Supervisor: Unsupervised{}, Control: NoControl{}}}
	if tweak != nil {
		tweak(&x.cfg)
	}
	x.left, x.tokens = newLeftovers(1<<20, time.Hour, nil), &tokens.Counter{}
	x.queue = queue.New(1, 1)
	r := x.newRun(t.Context(), tool.Principal{ID: "local:ann"}, arguments{timeout: time.Minute})
	t.Cleanup(func() { r.cancel(nil) })
	r.dialog.stream = stream.New(stream.Config[about]{Line: 1 << 20, Recorder: r.dialog.history})
	return r
}

// say sends a message of the guest to the dialog.
func (r *run) say(t *testing.T, m sandbox.GuestMessage) error {
	t.Helper()
	line, err := tool.Marshal(m)
	if err != nil {
		t.Fatalf("tool.Marshal: %v", err)
	}
	return r.dialog.handleLine(line)
}

// hears returns the next line sent to the guest.
func (r *run) hears(t *testing.T) (m sandbox.HostMessage) {
	t.Helper()
	if err := json.Unmarshal(r.dialog.stream.Next(t.Context()), &m); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return m
}

func wantLimit(t *testing.T, err error, limit string) {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Limit != limit {
		t.Errorf("got %v, want an error of the limit %s", err, limit)
	}
}

func TestDialogEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		about string
		do    func(r *run) error
		kind  tool.Kind // of the error that ends the program
	}{
		{"a broken message", func(r *run) error { return r.dialog.handleLine([]byte(`{"call":`)) }, tool.Internal},
		{"an empty message", func(r *run) error { return r.say(t, sandbox.GuestMessage{}) }, tool.Internal},
		{"deep nesting", func(r *run) error {
			deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
			return r.dialog.handleLine([]byte(`{"done":{"value":` + deep + `}}`))
		}, tool.Limit},
		{"one message too many", func(r *run) error {
			r.state.messages = maxMessages
			return r.say(t, sandbox.GuestMessage{Timer: &sandbox.Timer{MS: 1}})
		}, tool.Limit},
	} {
		r := newParts(t, nil)
		err := c.do(r)
		if e := tool.AsError(err); e == nil || e.Kind != c.kind || !errors.Is(context.Cause(r.ctx), err) {
			t.Errorf("%s: %v, the program was stopped because of %v; want an error of kind %s, twice", c.about, err,
				context.Cause(r.ctx), c.kind)
		}
	}
}

// TestDialogAfterTheEnd checks that nothing counts that a guest sends after its last message, and
// that a program that was stopped doesn't succeed.
func TestDialogAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := newParts(t, nil)
	r.pauses.startRun(func(error) {})
	if err := r.say(t, sandbox.GuestMessage{Done: &sandbox.Done{Value: []byte("1")}}); err != nil {
		t.Fatalf("say: %v", err)
	}
	for _, m := range []sandbox.GuestMessage{
		{Console: &sandbox.Console{Level: "log", Text: "late"}}, {Fail: &sandbox.Fail{}},
		{Call: &sandbox.GuestCall{}},
	} {
		if err := r.say(t, m); err != nil {
			t.Errorf("after the end: %v", err)
		}
	}
	if e := r.state.snapshot(); !r.hasSucceeded() || len(e.Console) != 0 || len(e.Calls) != 0 {
		t.Errorf("after the end: succeeded %t, %+v", r.hasSucceeded(), e)
	}
	r = newParts(t, nil)
	r.cancel(errStopped)
	if err := r.say(t, sandbox.GuestMessage{Done: &sandbox.Done{}}); !errors.Is(err, errStopped) || r.hasSucceeded() {
		t.Errorf("a program that was stopped: %v, succeeded %t; want why it was stopped", err, r.hasSucceeded())
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	calls := 0
	door := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		calls++
		return tool.Text(false, "made"), nil
	})
	r := newParts(t, func(c *Config) {
		c.Door, c.Limits.Calls = door, 1
	})
	for i, path := range []string{tool.ExecutePath, tool.ResumePath, strings.Repeat("x", maxPath+1), "box.\x00",
		"box.a", "box.b"} {
		if err := r.say(t, sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: int64(i + 1), Path: path}}); err != nil {
			t.Fatalf("say: %v", err)
		}
		a := r.hears(t).Answer
		if a == nil || a.ID != int64(i+1) || (a.Error == nil) != (path == "box.a") {
			t.Errorf("the answer to %.20q: %+v, want an error unless it is box.a", path, a)
		}
	}
	if calls != 1 || len(r.state.snapshot().Calls) != 1 {
		t.Errorf("%d calls went through the gateway, %d are reported; want one", calls, len(r.state.snapshot().Calls))
	}
	r.state.table.refused = maxRefused
	err := r.say(t, sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: 99, Path: "box.c"}})
	wantLimit(t, err, execution.CallsLimit)
}

// TestCallsTakeTurns checks that calls wait for their turns in the order in which the program makes
// them, that a panic in one doesn't affect the others, and that none is started after the program.
func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	began, finish := make(chan string), make(chan struct{})
	door := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		began <- c.Path
		<-finish
		if c.Path == "box.panics" {
			panic("broken")
		}
		return tool.Text(false, "made"), nil
	})
	r := newParts(t, func(c *Config) {
		c.Door, c.Limits.Concurrency = door, 1
	})
	paths := []string{"box.panics", "box.b", "box.late"}
	for i, path := range paths {
		if err := r.say(t, sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: int64(i + 1), Path: path}}); err != nil {
			t.Fatalf("say: %v", err)
		}
	}
	for _, want := range paths[:2] {
		if got := <-began; got != want {
			t.Errorf("%s began, want %s", got, want)
		}
		if want == "box.b" {
			close(r.calls.over)
		}
		finish <- struct{}{}
	}
	r.calls.running.Wait()
	got := map[int64]*sandbox.Answer{}
	for range paths {
		a := r.hears(t).Answer
		got[a.ID] = a
	}
	if a := got[1]; a.Error == nil || a.Error.Kind != string(tool.Internal) {
		t.Errorf("the call that panicked: %+v, want an error of kind %s", a, tool.Internal)
	}
	if a := got[2]; string(a.Value) != `"made"` {
		t.Errorf("the call after it: %+v, want its result", a)
	}
	if a, e := got[3], r.state.snapshot(); a.Error == nil || !e.Calls[2].Unsent {
		t.Errorf("the call after the program's end: %+v, %+v; want it not made", a, e.Calls[2])
	}
}

// A stepJournal is a store of journals whose writes report how they are waited for.
type stepJournal struct {
	journal.Store
	waits *[]string
}

func (s stepJournal) Write(*journal.Write) journal.Pending { return stepPending(s) }
func (stepJournal) Digest(data []byte) string              { return string(data) }

type stepPending stepJournal

func (p stepPending) Safe() error { *p.waits = append(*p.waits, "safe"); return nil }
func (p stepPending) Sync() error { *p.waits = append(*p.waits, "sync"); return nil }
func (stepPending) Wait() error   { return nil }
func (stepPending) Hurry()        {}

// TestCallsWaitForTheirIntents checks that a call that may write waits until its intent is on disk,
// and that one that reads only waits for what was written before it.
func TestCallsWaitForTheirIntents(t *testing.T) {
	t.Parallel()
	var waits []string
	r := newParts(t, func(c *Config) { c.Journal = stepJournal{waits: &waits} })
	r.history.beginLog(arguments{}, nil)
	yes := true
	reads := &tool.Tool{Name: "get", Annotations: tool.Annotations{ReadOnly: &yes}}
	for i, c := range []struct {
		about string
		tool  *tool.Tool
		want  string
	}{
		{"a first read", reads, ""}, {"a write", &tool.Tool{Name: "put"}, "sync"}, {"a read after it", reads, "safe"},
	} {
		waits = nil
		n, _ := r.state.addCall(&sandbox.GuestCall{ID: int64(i + 1)}, "box."+c.tool.Name, "", 10)
		if err := (callObserver{calls: &r.calls, n: n}).OnSend(&tool.Call{Tool: c.tool}, "allow")(); err != nil {
			t.Errorf("c.about = %s, err = %v, want nil", c.about, err)
		}
		if got := strings.Join(waits, " "); got != c.want {
			t.Errorf("%s waits for %q, want %q", c.about, got, c.want)
		}
		r.calls.finishCall(n, "box."+c.tool.Name, tool.Text(false, "made"), nil)
		r.state.releaseCall(0)
	}
}

// A pausedBox is a sandbox whose guest pauses in its first Run, and ends in its second.
type pausedBox struct {
	sandbox.Sandbox
	r        *run
	runs     []time.Duration // the limits of CPU time
	snapshot error
	tried    chan struct{} // receives each attempt to store the guest
	closed   int
}

func (b *pausedBox) Run(_ context.Context, cmd *sandbox.Cmd) (int, error) {
	b.runs = append(b.runs, cmd.CPU)
	cmd.Usage.CPU = 3 * time.Second
	if len(b.runs) == 1 && !b.r.dialog.stream.Pause() {
		return -1, errors.New("the guest can't be paused")
	}
	return 0, nil
}

func (b *pausedBox) Snapshot(context.Context) ([]byte, error) {
	b.tried <- struct{}{}
	return []byte("state"), b.snapshot
}

func (b *pausedBox) Fork(context.Context) (sandbox.Sandbox, error) {
	return nil, errors.New("no forks")
}
func (b *pausedBox) Close() error { b.closed++; return nil }

// A fullStore is a store of sessions that can't store guests.
type fullStore struct {
	session.Store
	mu    sync.Mutex
	tries int
}

func (s *fullStore) Spool(context.Context, session.Blob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	return tool.Errorf(tool.Unavailable, "the disk is full")
}

// TestMachineThatCantSuspend checks that a guest that can't be stored waits in memory for its next
// line, keeps its slot, isn't suspended again, and has the rest of its CPU time.
func TestMachineThatCantSuspend(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{nil, errors.New("no snapshot")} {
		store := &fullStore{}
		r := newParts(t, func(c *Config) { c.Store, c.Limits.CPU = store, 10*time.Second })
		if err := r.x.queue.Enter(t.Context(), r.principal.ID); err != nil {
			t.Fatalf("Enter: %v", err)
		}
		box := &pausedBox{r: r, snapshot: broken, tried: make(chan struct{}, 2)}
		r.machine.box, r.machine.slot = box, true
		r.pauses.setAble(true)
		exit := make(chan error, 1)
		go func() {
			_, err := r.machine.runGuest()
			exit <- err
		}()
		<-box.tried
		if err := r.dialog.stream.Send([]byte(`{}`), about{}, false); err != nil {
			t.Fatalf("Send: %v", err)
		}
		if err := <-exit; err != nil {
			t.Fatalf("snapshot %v: %v", broken, err)
		}
		if r.pauses.startRun(nil) {
			t.Errorf("snapshot %v: it can be suspended again", broken)
		}
		if under, _ := r.x.queue.Load(); under != 1 || box.closed != 0 || r.machine.box == nil {
			t.Errorf("snapshot %v: %d slots are used, and the guest was closed %d times; want 1 and 0", broken, under,
				box.closed)
		}
		if len(box.runs) != 2 || box.runs[0] != 0 || box.runs[1] != 7*time.Second {
			t.Errorf("snapshot %v: the limits of CPU time were %v, want the default and then 7 s", broken, box.runs)
		}
		if r.meter.total() != 6*time.Second {
			t.Errorf("snapshot %v: used %s of CPU time, want 6 s", broken, r.meter.total())
		}
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	r := newParts(t, func(c *Config) { c.Limits.CPU = 20 * time.Second })
	m := &r.meter
	if got := m.remaining(20 * time.Second); got != 0 {
		t.Errorf("before the first Run, %s remain; want 0, the default", got)
	}
	m.addCPU(30 * time.Second)
	if got := m.remaining(20 * time.Second); got != time.Millisecond {
		t.Errorf("after the limit, %s remain; want 1 ms: the driver reports it", got)
	}
	m.resetCPU()
	m.addHostTime(19 * time.Second)
	if m.total() != 19*time.Second || r.ctx.Err() != nil {
		t.Errorf("total %s, stopped: %v; want 19 s, not stopped", m.total(), context.Cause(r.ctx))
	}
	worked := 0
	m.doWork(1<<30, func() { worked++ }) // without turns, no work waits
	m.addHostTime(2 * time.Second)
	wantLimit(t, context.Cause(r.ctx), "cpu")
	r.x.cfg.Turns = queue.New(1, 1)
	m.doWork(1<<30, func() { worked++ }) // the program has ended, but its call was made
	if worked != 2 {
		t.Errorf("worked %d times, want twice", worked)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	r := newParts(t, nil)
	s := &r.results
	e := &execution.Execution{Value: json.RawMessage(`"short"`)}
	if got := s.valueText(e); got != `"short"` {
		t.Errorf("a short value is shown as %s", got)
	}
	r.taint.labels.Add([]string{"pii"})
	e.Value = json.RawMessage(`["` + strings.Repeat("word ", 200) + `","b","c"]`)
	shown := s.valueText(e)
	_, rest, ok := strings.Cut(shown, `readResult("`)
	handle, _, _ := strings.Cut(rest, `"`)
	if !ok || len(shown) > 1000 {
		t.Fatalf("a long value is shown as %s", shown)
	}
	later := newParts(t, nil)
	later.x.left = r.x.left
	got, err := later.results.readResult(json.RawMessage(`{"handle":"` + handle + `","offset":1,"limit":1}`))
	if err != nil || string(got) != `["b"]` {
		t.Errorf("the second item: %s, %v", got, err)
	}
	if labels := later.taint.labels.All(); len(labels) != 1 || labels[0] != "pii" {
		t.Errorf("after reading it, the labels are %q, want pii", labels)
	}
	eve := newParts(t, nil)
	eve.x.left, eve.principal = r.x.left, tool.Principal{ID: "key:eve"}
	if got, err := eve.results.readResult(json.RawMessage(`{"handle":"` + handle + `"}`)); err == nil ||
		tool.AsError(err).Kind != tool.NotFound || len(eve.taint.labels.All()) != 0 {
		t.Errorf("another principal reads %s, %v", got, err)
	}
	for _, args := range []string{`{"handle":"` + handle + `","offset":-1}`, `{"handle":1}`, `{"of":"x"}`} {
		if got, err := later.results.readResult(json.RawMessage(args)); err == nil ||
			tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("%s: %s, %v, want an error of kind %s", args, got, err, tool.Invalid)
		}
	}
}

// TestWatchers checks that everyone who watches is notified of the next change.
func TestWatchers(t *testing.T) {
	t.Parallel()
	var w watchers
	w.notifyAll() // no one watches
	first, second := w.nextChange(), w.nextChange()
	w.notifyAll()
	<-first
	<-second
	select {
	case <-w.nextChange():
		t.Error("notified of a change that was before")
	default:
	}
}
