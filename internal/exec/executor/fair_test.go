package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

var eve = tool.Principal{ID: "local:eve"}

// TestWhatIsKeptIsShared checks that many executions of one principal don't evict the only one of
// another.
func TestWhatIsKeptIsShared(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), func(c *executor.Config) {
		c.Limits.Kept, c.Limits.KeptBytes, c.Limits.OutputTokens = 8, 64<<10, 20
	})
	as := func(p tool.Principal, code string) (id, text string) {
		t.Helper()
		raw, err := tool.Marshal(map[string]any{"code": code})
		if err != nil {
			t.Fatalf("tool.Marshal: %v", err)
		}
		res, err := r.x.Execute().Call(t.Context(), &tool.Call{Path: "biplane.execute", Arguments: raw, Principal: p})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		var v struct {
			Meta map[string]struct{ ID string } `json:"_meta"`
		}
		if err := json.Unmarshal(res.Raw, &v); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		return v.Meta["biplane.dev/execution"].ID, fmt.Sprint(textsOf(t, res))
	}
	const large = `return Array(2000).fill("some words ")`
	id, text := as(ann, large)
	handle := regexp.MustCompile("res_[a-z0-9]+").FindString(text)
	if handle == "" {
		t.Fatalf(`text = %v, want handle != ""`, text)
	}
	for range 20 {
		as(eve, large)
	}
	if _, ok := r.x.Execution(id); !ok {
		t.Error("ann's execution is forgotten for those of eve")
	}
	if _, text := as(ann, `return (await readResult("`+handle+`")).length`); text != "[2000]" &&
		!regexp.MustCompile(`^\[2000\b`).MatchString(text) {
		t.Errorf("ann's result is gone for those of eve: %s", text)
	}
}

// TestSessionsInMemoryAreShared checks that idle sessions of one principal are evicted before those
// of another that has fewer.
func TestSessionsInMemoryAreShared(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *executor.Config) { c.Limits.Sessions.Hot = 4 })
	s.do("work", op{Set: "x=1"})
	for i := range 10 {
		if o := s.try(t.Context(), eve, fmt.Sprint("s", i), ops(op{Set: "x=1"})); o.failed {
			t.Fatalf("o = %v, want !o.failed", o)
		}
	}
	s.want("work", "x", "1", "memory")
	if o := s.try(t.Context(), eve, "s0", ops(op{Get: "x"})); o.from != "disk" {
		t.Errorf("eve's first comes from %s", o.from)
	}
}

// TestHostWorkCounts checks that host time spent on a program counts as its CPU time, and ends the
// program when it exceeds the limit.
func TestHostWorkCounts(t *testing.T) {
	t.Parallel()
	a := standard()
	a["work"] = func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		c.Observe().OnWork(t.Context(), 6*time.Second)
		return tool.Text(false, "done"), nil
	}
	var ended []*execution.Execution
	r := newRig(t, a, func(c *executor.Config) {
		c.Turns = queue.New(1, 10)
		c.Supervisor = ends(func(e *execution.Execution) { ended = append(ended, e) })
	})
	if v := r.value(`await box.work({}); return 1`); v != "1" {
		t.Errorf(`v = %v, want "1"`, v)
	}
	if cpu := ended[0].CPU(); cpu < 6*time.Second {
		t.Errorf("%v are counted", cpu)
	}
	text := r.failure(`await box.work({}); await box.work({}); for (;;) await box.echo({})`)
	if !strings.Contains(text, "biplane has worked on the program's calls for 10s") || ended[1].Error.Limit != "cpu" {
		t.Errorf("text = %s, ended[1].Error = %+v, want strings.Contains(text, \"biplane has worked on "+
			"the program's calls for 10s\") && ended[1].Error.Limit == \"cpu\"", text, ended[1].Error)
	}
}

// TestResultsAndFilesCount checks that reading a large result again, and emitting a large file,
// wait for a turn of the host's work, and so count: a program could have it done without end.
func TestResultsAndFilesCount(t *testing.T) {
	t.Parallel()
	turns := queue.New(1, 10)
	r := newRig(t, standard(), func(c *executor.Config) { c.Turns = turns })
	handle := regexp.MustCompile(`res_\w+`).FindString(r.value(`return "x".repeat(1 << 20)`))
	for _, code := range []string{
		`return await readResult("` + handle + `", { limit: 1 })`,
		`await fs.writeFile("a", "x".repeat(1 << 20)); emit("a"); return "x"`,
	} {
		if err := turns.Enter(t.Context(), "another"); err != nil {
			t.Fatalf("enter the queue: %v", err)
		}
		done := make(chan string)
		go func() { done <- r.value(`import * as fs from "node:fs/promises"; ` + code) }()
		for waiting := 0; waiting == 0; {
			select {
			case v := <-done:
				turns.Leave("another")
				t.Fatalf("%s returns %s without a turn", code, v)
			case <-time.After(time.Millisecond):
				_, waiting = turns.Load()
			}
		}
		turns.Leave("another")
		if v := <-done; v != `"x"` {
			t.Errorf("%s returns %s", code, v)
		}
	}
}
