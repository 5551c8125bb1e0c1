package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// arguments are the arguments of execute.
type arguments struct {
	Code     string `json:"code"`
	Language string `json:"language,omitempty"`
	Session  string `json:"session,omitempty"`
}

// runProgram executes code, and checks that the result begins with want.
func (r *runner) runProgram(ctx context.Context, a arguments, want string) error {
	text, err := r.agent.CallTool(ctx, "execute", a)
	return checkAnswer(text, err, want)
}

func checkAnswer(text string, err error, want string) error {
	if err == nil && !strings.HasPrefix(text, want) {
		err = fmt.Errorf("execute answered %.100q, not %q", text, want)
	}
	return err
}

// measureExecute measures programs without calls, as seen by an agent.
func (r *runner) measureExecute(ctx context.Context) ([]Figure, error) {
	out := r.measureIdle(ctx)
	simple := arguments{Code: "1+1"}
	for _, p := range []struct {
		name string
		arguments
		first, want string // the first program of a session; the start of the result
	}{
		{"execute_stdio", simple, "", "2"},
		{"execute_30_lines", arguments{Code: thirtyLines}, "", `{"report":"`},
		{"execute_py", arguments{Code: "1+1", Language: "python"}, "", "2"},
		{"session_reuse", arguments{Code: "x+1", Session: "bench"}, "const x = 1", "2"},
		{"session_reuse_py", arguments{Code: "x+1", Session: "bench-py", Language: "python"}, "x = 1", "2"},
	} {
		do := func() error { return r.runProgram(ctx, p.arguments, p.want) }
		if p.first != "" {
			begin := p.arguments
			begin.Code = p.first
			if err := r.runProgram(ctx, begin, ""); err != nil {
				out = append(out, missingFigures(err.Error(), p.name)...)
				continue
			}
		}
		if _, err := repeatCalls(ctx, r.countRounds(50), do); err != nil { // warm up
			if ctx.Err() != nil {
				return nil, err
			}
			out = append(out, missingFigures(err.Error(), p.name)...)
			continue
		}
		took, err := repeatCalls(ctx, r.countRounds(300), do)
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(p.name, took))
	}
	often, err := measureRate(ctx, "execute_per_second",
		busyWorkers(), r.measuringTime(2500*time.Millisecond), func() error { return r.runProgram(ctx, simple, "2") })
	if err != nil {
		return nil, err
	}
	web, err := r.overHTTP(ctx, simple, "2")
	if err != nil {
		return nil, err
	}
	waiting, err := r.measureWaiting(ctx)
	if err != nil {
		return nil, err
	}
	return append(out, often, web, waiting), r.measureGateways(ctx)
}

// measureCalls measures one call, made directly by an agent and from inside a program. Both go
// through the same gateway and audit log to the same process. For calls from inside, it measures
// how much a call adds to the duration of a program with many calls.
func (r *runner) measureCalls(ctx context.Context) ([]Figure, error) {
	const each = 100
	var out []Figure
	for _, t := range []string{"read", "write"} {
		direct, err := repeatCalls(ctx, r.countRounds(500), func() error {
			_, err := r.agent.CallTool(ctx, "bench."+t, map[string]string{"text": "x"})
			return err
		})
		if err != nil {
			return nil, err
		}
		nothing, err := repeatCalls(ctx, r.countRounds(50), func() error {
			return r.runProgram(ctx, arguments{Code: "let n = 0; return n"}, "0")
		})
		if err != nil {
			return nil, err
		}
		base := durationFigure("call_inside_"+t, nothing).Median
		code := arguments{Code: fmt.Sprintf(`let n = 0; while (n < %d) { await bench.%s({ text: "x" }); n++ } return n`,
			each, t)}
		took, err := repeatCalls(ctx, r.countRounds(100), func() error {
			return r.runProgram(ctx, code, fmt.Sprint(each))
		})
		if err != nil {
			return nil, err
		}
		inside := make([]float64, len(took))
		for i, d := range took {
			inside[i] = max(0, float64(d)/float64(time.Millisecond)-base) / each
		}
		out = append(out, durationFigure("call_direct_"+t, direct), numberFigure("call_inside_"+t, inside...))
	}
	waits, err := r.measureParallel(ctx)
	return append(out, waits...), err
}

// measureParallel measures calls of a tool that answers after 50 ms.
func (r *runner) measureParallel(ctx context.Context) ([]Figure, error) {
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	var out []Figure
	for _, p := range []struct {
		name, code string
		rounds     int
	}{
		{"parallel_100x50ms", `await Promise.all(Array.from({ length: %d }, () => bench.wait({ ms: 50 }))); return "done"`, r.countRounds(20)},
		{"sequential_100x50ms", `for (let i = 0; i < %d; i++) await bench.wait({ ms: 50 }); return "done"`, 1},
	} {
		took, err := repeatCalls(ctx, p.rounds, func() error {
			return r.runProgram(ctx, arguments{Code: fmt.Sprintf(p.code, n)}, `"done"`)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(p.name, took))
	}
	return out, nil
}

// measureIdle measures the memory of the process that runs programs before it has run any.
func (r *runner) measureIdle(ctx context.Context) []Figure {
	const name = "memory_idle_bytes"
	idle, err := r.idleMemory(ctx, r.agent.PID())
	if err != nil { // this system doesn't report it
		return missingFigures(err.Error(), name)
	}
	return []Figure{numberFigure(name, idle)}
}

// measureWaiting measures its memory while many programs wait for a tool.
func (r *runner) measureWaiting(ctx context.Context) (Figure, error) {
	const name = "memory_100_waiting_bytes"
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ended := make(chan error, n)
	for range n {
		wg.Go(func() {
			ended <- r.runProgram(ctx, arguments{Code: `await bench.hold({}); return "released"`}, `"released"`)
		})
	}
	held, err := r.waitForHeld(ctx, n, ended)
	if err != nil {
		return Figure{}, err
	}
	full, err := residentMemory(ctx, r.agent.PID())
	if err != nil {
		return missingFigures(err.Error(), name)[0], nil
	}
	if _, err := r.agent.CallTool(ctx, "bench.release", struct{}{}); err != nil {
		return Figure{}, err
	}
	for range n {
		if err := <-ended; err != nil {
			return Figure{}, err
		}
	}
	if held < n {
		r.reportProgress("%d of %d programs waited in sandboxes, the others for their turn", held, n)
	}
	return numberFigure(name, full), nil
}

// waitForHeld waits until the number of waiting programs no longer grows, and returns it. It is
// less than n if not that many may run at once.
func (r *runner) waitForHeld(ctx context.Context, n int, ended <-chan error) (int, error) {
	const still = 25 // checks without a change
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, same := 0, 0
	for {
		text, err := r.agent.CallTool(ctx, "bench.held", struct{}{})
		if err != nil {
			return 0, err
		}
		var now struct{ Held int }
		if err := json.Unmarshal([]byte(text), &now); err != nil {
			return 0, err
		}
		if same++; now.Held != last {
			last, same = now.Held, 0
		}
		switch {
		case last == n || last > 0 && same >= still:
			return last, nil
		case same >= 40*still:
			return 0, fmt.Errorf("no program came to wait")
		}
		select {
		case <-tick.C:
		case err := <-ended:
			return 0, fmt.Errorf("a program ended that had to wait: %w", err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
