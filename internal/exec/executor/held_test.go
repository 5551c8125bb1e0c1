package executor_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A desk is a tool.Caller at which calls of box.write wait for a person.
type desk struct {
	tool.Caller
	mu    sync.Mutex
	calls []*tool.Call
	said  map[string]chan error // by the arguments of the call
	ready func(c *tool.Call)    // waits until a call may report that it waits for a person; may be nil
}

func newDesk(door tool.Caller) *desk { return &desk{Caller: door, said: map[string]chan error{}} }

func (d *desk) line(args string) chan error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.said[args] == nil {
		d.said[args] = make(chan error, 1)
	}
	return d.said[args]
}

func (d *desk) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Path != "box.echo" || !strings.Contains(string(c.Arguments), "ask") {
		return d.Caller.Call(ctx, c)
	}
	d.mu.Lock()
	d.calls = append(d.calls, c)
	d.mu.Unlock()
	if d.ready != nil {
		d.ready(c)
	}
	c.Observe().OnHold(&tool.Hold{Request: "apr_1", Reason: "it writes"})
	defer c.Observe().OnHold(nil)
	select {
	case err := <-d.line(string(c.Arguments)):
		if err != nil {
			return nil, err
		}
		return d.Caller.Call(ctx, c)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestExecuteAnswersThatItWaitsForAPerson(t *testing.T) {
	t.Parallel()
	var d *desk
	r := newRig(t, standard(), func(c *executor.Config) {
		door := c.Door
		d = newDesk(door)
		c.Door = d
		c.AnswerWithin = time.Minute
	})
	texts, failed := r.run("const [a, b] = await Promise.all([box.echo({ask: 1}), box.echo({ask: 2}).catch(e => " +
		"e.message)]);\n[a, b]")
	if failed || !strings.Contains(texts[0], "waits for a person") || !strings.Contains(texts[0], `box.echo {"ask":`) ||
		!strings.Contains(texts[0], "apr_1") {
		t.Fatalf("answered %q", texts)
	}
	i := strings.Index(texts[0], "ex_")
	id := strings.FieldsFunc(texts[0][i:], func(c rune) bool { return c == ' ' || c == '"' })[0]
	deadline := time.Now().Add(2 * time.Minute)
	for { // until both calls have arrived
		d.mu.Lock()
		n := len(d.calls)
		d.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls wait, want 2", n)
		}
		time.Sleep(time.Millisecond)
	}
	if c := d.calls[0]; c.FromProgram().Execution != id || c.FromProgram().Digest == "" ||
		!strings.HasPrefix(c.ID, id+".") || c.ID == d.calls[1].ID {
		t.Errorf("call %+v", c)
	}
	d.line(`{"ask":1}`) <- nil
	d.line(`{"ask":2}`) <- tool.NotSent(tool.Errorf(tool.Denied, "bob said no"))
	args, _ := json.Marshal(map[string]string{"execution": id})
	res, err := r.x.Resume().Call(t.Context(),
		&tool.Call{Path: "biplane.resume", Arguments: args, Principal: d.calls[0].Principal})
	if err != nil || res.IsError || !strings.Contains(string(res.Raw), "bob said no") {
		t.Fatalf("resumed: %s, %v", res.Raw, err)
	}
}

// TestExecuteAnswersWhenMoreCallsWaitThanMayBeUnderWay checks that execute also answers if a
// program makes more concurrent calls than may be under way: the others are queued behind these.
func TestExecuteAnswersWhenMoreCallsWaitThanMayBeUnderWay(t *testing.T) {
	t.Parallel()
	var d *desk
	r := newRig(t, standard(), func(c *executor.Config) {
		d = newDesk(c.Door)
		c.Door = d
		c.AnswerWithin = time.Minute
		c.Limits.Concurrency = 2
	})
	d.ready = func(c *tool.Call) { // as soon as all five are known
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if e, ok := r.x.Execution(c.FromProgram().Execution); ok && len(e.Calls) == 5 {
				return
			}
		}
	}
	begun := time.Now()
	texts, failed := r.run("(await Promise.all([1, 2, 3, 4, 5].map(ask => box.echo({ask})))).length")
	if failed || !strings.Contains(texts[0], "waits for a person") ||
		!strings.Contains(texts[0], "and then on 3 more") || time.Since(begun) >= time.Minute {
		t.Fatalf("answered %q after %v", texts, time.Since(begun))
	}
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		d.line(`{"ask":` + n + `}`) <- nil
	}
	id := strings.FieldsFunc(texts[0][strings.Index(texts[0], "ex_"):], func(c rune) bool {
		return c == ' ' || c == '"'
	})[0]
	args, _ := json.Marshal(map[string]string{"execution": id})
	d.mu.Lock()
	who := d.calls[0].Principal
	d.mu.Unlock()
	res, err := r.x.Resume().Call(t.Context(), &tool.Call{Path: "biplane.resume", Arguments: args, Principal: who})
	if err != nil || res.IsError || !strings.Contains(string(res.Raw), `"text":"5"`) {
		t.Fatalf("resumed: %s, %v", res.Raw, err)
	}
}
