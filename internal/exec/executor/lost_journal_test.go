package executor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestAfterLostJournal checks that a program that corrects one whose journal grew too large gets no
// made-up values: calls that only read are made again, and a call that wrote is refused.
func TestAfterLostJournal(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(c *executor.Config) { c.Limits.Journal.Execution = 400 << 10 })
	const reads = `const seen = []; for (let n = 0; n < 8; n++) seen.push((await box.big({ n })).length > 99_000); `
	id, res, err := s.execute(map[string]any{"code": reads + `await box.write({ n: 1 }); throw new Error("half")`})
	if err != nil || !res.IsError {
		t.Fatalf("err = %v, want a program that fails", err)
	}
	next, res, err := s.execute(map[string]any{"after": id, "code": reads + `return seen`})
	if got := strings.Join(textsOf(t, res), "\n"); err != nil || res.IsError ||
		!strings.HasPrefix(got, "[true,true,true,true,true,true,true,true]") {
		t.Errorf("after a lost journal: %v %s, want all that was read", err, got)
	}
	_, res, err = s.execute(map[string]any{"after": next, "code": `return await box.write({ n: 1 })`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	holds(t, strings.Join(textsOf(t, res), "\n"), id, "box.write", "too large")
	if n := s.count(`box.write {"n":1}`); n != 1 {
		t.Errorf("the write was made %d times", n)
	}
}

// TestPlanWithLostJournal checks that no one is asked about a plan whose journal grew too large:
// the reads would be missing when it is carried out, and a correction would repeat its writes.
func TestPlanWithLostJournal(t *testing.T) {
	t.Parallel()
	asked := 0
	s := newScene(t, func(c *executor.Config) {
		c.Limits.Journal.Execution = 400 << 10
		door := c.Door
		c.Door = tool.CallerFunc(func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			switch call.Path {
			case tool.PlanPath:
				asked++
				return call.By.Plan.Call(ctx, call)
			case "box.write":
				sent := *call
				sent.Tool = sceneTools()[0]
				instead, err := call.By.Planner.TakeOver(&sent, "v1")
				if err != nil {
					return nil, err
				}
				return instead.Result, nil
			}
			return door.Call(ctx, call)
		})
	})
	_, res, err := s.execute(map[string]any{"mode": "plan",
		"code": `for (let n = 0; n < 8; n++) await box.big({ n }); await box.write({ n: 1 }); return "through"`})
	if err != nil || !res.IsError || asked != 0 {
		t.Fatalf("err = %v, asked %d times, want a program that fails", err, asked)
	}
	holds(t, strings.Join(textsOf(t, res), "\n"), "the plan was not submitted", "exceeds the maximum size")
}
