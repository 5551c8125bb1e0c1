package executor_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// through routes all calls of a scene's programs through f.
func through(f func(ctx context.Context, c *tool.Call, door tool.Caller) (*tool.Result, error)) func(*executor.Config) {
	return func(cfg *executor.Config) {
		door := cfg.Door
		var through tool.Caller = tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			return f(ctx, c, door)
		})
		cfg.Door = through
	}
}

// TestAfterDoubt checks that a corrected program does not repeat a call that was sent but never
// answered: it may have taken effect. A call that was certainly not sent, was reported as failed,
// or only reads, is made again.
func TestAfterDoubt(t *testing.T) {
	t.Parallel()
	var fail atomic.Pointer[tool.Error]
	s := newScene(t, through(func(ctx context.Context, c *tool.Call, door tool.Caller) (*tool.Result, error) {
		res, err := door.Call(ctx, c)
		if e := fail.Load(); e != nil && err == nil {
			return nil, e
		}
		return res, err
	}))
	for _, c := range []struct {
		call  string
		err   *tool.Error
		again bool
	}{
		{`box.write({ n: 1 })`, tool.Errorf(tool.Unavailable, "closed the connection"), false},
		{`box.write({ n: 2 })`, tool.Errorf(tool.Timeout, "no answer in time"), false},
		{`box.write({ n: 3 })`, tool.Errorf(tool.Limit, "the answer is too large"), false},
		{`box.write({ n: 4 })`, tool.Errorf(tool.Internal, "broke down inside"), false},
		{`box.write({ n: 5 })`, &tool.Error{Kind: tool.Unavailable, Msg: "is down", Unsent: true}, true},
		{`box.write({ n: 6 })`, tool.Errorf(tool.Invalid, "n must be a string"), true},
		{`box.read({ n: 7 })`, tool.Errorf(tool.Unavailable, "closed the connection"), true},
	} {
		fail.Store(c.err)
		first, _, err := s.execute(map[string]any{"code": "await " + c.call})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		fail.Store(nil)
		s.crash(0)
		_, res, err := s.execute(map[string]any{"code": "await " + c.call + "; 1", "after": first})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		key := strings.NewReplacer("(", " ", "{ n: ", `{"n":`, " })", "}").Replace(c.call)
		if n, text := s.count(key), strings.Join(textsOf(t, res), "\n"); res.IsError == c.again ||
			(n == 2) != c.again || !c.again && !strings.Contains(text, "is unknown") {
			t.Errorf("%s after %v: made %d times, %s", c.call, c.err, n, text)
		}
	}
}

// A turning observer reports that the tool may write, once turned is set.
type turning struct {
	tool.Observer
	turned *atomic.Bool
}

func (o turning) OnSend(c *tool.Call, decision string) func() error {
	if o.turned.Load() {
		now, changed := *c, *c.Tool
		changed.Annotations.ReadOnly = nil
		now.Tool = &changed
		return o.Observer.OnSend(&now, decision)
	}
	return o.Observer.OnSend(c, decision)
}

// TestRecoveryOfAChangedTool checks that a call that was read-only when it was sent, but may write
// now, is never repeated after a crash.
func TestRecoveryOfAChangedTool(t *testing.T) {
	t.Parallel()
	var turned atomic.Bool
	s := newScene(t, through(func(ctx context.Context, c *tool.Call, door tool.Caller) (*tool.Result, error) {
		next := *c
		next.Observer = turning{c.Observe(), &turned}
		return door.Call(ctx, &next)
	}))
	gate := make(chan struct{})
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `await box.read({ n: 1 })`})
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	eventually(t, "its intent is written", func() bool {
		all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
		return err == nil && len(all) == 1
	})
	turned.Store(true)
	s.crash(0)
	<-over
	close(gate)
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("executions: %v, %v, want one", all, err)
	}
	d := s.ended(all[0].ID)
	if d.State != journal.Interrupted || s.count(`box.read {"n":1}`) != 1 {
		t.Errorf("%+v, %d calls", d, s.count(`box.read {"n":1}`))
	}
	holds(t, d.Error.Message, "call 1, box.read", "is unknown", "may write")
	s.crash(0)
	_, res, err := s.execute(map[string]any{"code": `await box.read({ n: 1 })`, "after": d.ID})
	if err != nil || !res.IsError || s.count(`box.read {"n":1}`) != 1 {
		t.Errorf("the program that corrects it: error %v, answer %s, want it to fail, and one call of box.read",
			err, res.Raw)
	}
}

// TestRecoveryWithoutWhatItCorrects checks that a corrected program is recovered only while the
// execution that it corrects is still known.
func TestRecoveryWithoutWhatItCorrects(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	first, _, err := s.execute(map[string]any{"code": `await box.write({ n: 1 }); throw new Error("no")`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	gate := make(chan struct{})
	defer close(gate)
	s.hold["box.read"] = gate
	over := make(chan error, 1)
	go func() {
		_, _, err := s.execute(map[string]any{"code": `await box.read({ n: 1 }); await box.write({ n: 1 })`,
			"after": first})
		over <- err
	}()
	s.waitFor(`box.read {"n":1}`)
	if n, err := s.db.Executions(s.key).Trim(t.Context(), time.Now().Add(time.Hour), 1<<40); err != nil || n != 1 {
		t.Fatalf("executions deleted: %v, %v, want one", n, err)
	}
	s.crash(0)
	<-over
	all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
	if err != nil || len(all) != 1 {
		t.Fatalf("executions: %v, %v, want one", all, err)
	}
	d := s.ended(all[0].ID)
	if d.State != journal.Interrupted || s.count(`box.write {"n":1}`) != 1 {
		t.Errorf("the execution after the restart: %+v, calls %v, want it interrupted, and one call of box.write",
			d, s.order)
	}
	holds(t, d.Error.Message, "what it corrects is not known")
	if _, _, err := s.execute(map[string]any{"code": "1", "after": d.ID}); err == nil ||
		!strings.Contains(err.Error(), "not kept any more") {
		t.Errorf("correct an execution without a past: error %v, want one that says that it is not kept any more",
			err)
	}
}
