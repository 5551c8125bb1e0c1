package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTotalStandsStill checks that an execution's total time limit is paused while people decide.
func TestTotalStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := assemble(&env{x: &Executor{cfg: Config{}}})
		r.state.exec.Calls, r.state.table.outstanding = make([]execution.Call, 2), 2
		r.state.pending.signal = make(chan struct{}, 1)
		var over atomic.Bool
		total := time.AfterFunc(time.Minute, func() { over.Store(true) })
		defer total.Stop()
		r.state.boundTotal(total, time.Minute)
		time.Sleep(40 * time.Second)
		r.state.setHold(0, &tool.Hold{})
		if len(r.state.pending.signal) != 0 || r.state.exec.State == execution.Waiting {
			t.Error("it waits for people alone, though a call is under way")
		}
		r.state.setHold(1, &tool.Hold{})
		if len(r.state.pending.signal) != 1 || r.state.exec.State != execution.Waiting {
			t.Error("it doesn't say that it waits")
		}
		time.Sleep(time.Hour)
		r.state.setHold(0, nil)
		time.Sleep(time.Hour)
		r.state.setHold(1, nil)
		if over.Load() || r.state.exec.State != execution.Running {
			t.Errorf("over %t, %s", over.Load(), r.state.exec.State)
		}
		time.Sleep(19 * time.Second)
		if over.Load() {
			t.Error("its time is over too early")
		}
		time.Sleep(2 * time.Second)
		if !over.Load() {
			t.Error("it has time without end")
		}
	})
}

// A twoCalls is a oneCall whose guest makes two concurrent calls.
type twoCalls struct{ oneCall }

func (twoCalls) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return twoCalls{}, nil
}

func (twoCalls) Run(_ context.Context, cmd *sandbox.Cmd) (int, error) {
	lines := bufio.NewScanner(cmd.Guest)
	lines.Scan() // the program
	if _, err := io.WriteString(cmd.Guest, `{"call":{"id":1,"path":"box.one"}}`+"\n"+
		`{"call":{"id":2,"path":"box.two"}}`+"\n"); err != nil {
		return 1, err
	}
	lines.Scan()
	lines.Scan()
	_, err := io.WriteString(cmd.Guest, `{"done":{"value":1}}`+"\n")
	return 0, err
}

// TestAnswersOnceNothingIsUnderWay checks that the answer of execute waits for calls that were
// approved in the meantime, and then reports the requests that are still pending.
func TestAnswersOnceNothingIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Bool
		door := tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			c.Observe().OnHold(&tool.Hold{Request: "apr_1", Reason: "it writes"})
			if c.Path == "box.two" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			time.Sleep(heldPatience / 2) // the program has reported that it waits, and execute is about to answer so
			c.Observe().OnHold(nil)
			time.Sleep(3 * heldPatience)
			made.Store(true)
			return tool.Text(false, "made"), nil
		})
		x, err := New(Config{Drivers: sandbox.OnlyDriver(twoCalls{}), Programs: twoCalls{},
			Door: door})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		defer x.Close()
		res, err := x.Execute().Call(t.Context(), &tool.Call{Arguments: json.RawMessage(`{"code":"x"}`)})
		if err != nil || !made.Load() || !strings.Contains(string(res.Raw), "box.two") ||
			strings.Contains(string(res.Raw), "box.one") {
			t.Errorf("answered %v, %v, the other call made: %v", res, err, made.Load())
		}
	})
}

// TestBusy checks that Busy counts a suspended program until it is known to wait only for people.
// It also counts a program that is about to continue with an answer.
func TestBusy(t *testing.T) {
	t.Parallel()
	x := &Executor{cfg: Config{}, runs: newRuns(1, 1, time.Hour, nil)}
	r := assemble(&env{x: x, id: "ex_1"})
	r.state.exec.Calls = make([]execution.Call, 2)
	r.state.pending.signal, r.state.pending.maxConcurrent = make(chan struct{}, 1), 2
	x.runs.begin(r)
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"a call is being made", func() { r.state.shift(r.state.beginCall) }, 1},
		{"it is suspended meanwhile", func() { r.state.setAsleep(true) }, 1},
		{"the call is answered", func() { r.state.shift(r.state.settleCall) }, 1},
		{"it goes on", func() { r.state.setAsleep(false) }, 1},
		{"a call waits for a person", func() { r.state.shift(r.state.beginCall); r.state.setHold(0, &tool.Hold{}) }, 0},
		{"it is suspended for that", func() { r.state.setAsleep(true) }, 0},
		{"another call is being made", func() { r.state.shift(r.state.beginCall) }, 1},
		{"that waits for a person too", func() { r.state.setHold(1, &tool.Hold{}) }, 0},
		{"one is decided", func() { r.state.setHold(0, nil) }, 1},
	} {
		step.do()
		if got := x.Busy(); got != step.want {
			t.Errorf("%s (%s): %d busy, want %d", step.what, r.state.exec.State, got, step.want)
		}
	}
}
