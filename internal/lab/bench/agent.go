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

// program executes code, and checks that the result begins with want.
func (r *runner) program(ctx context.Context, a arguments, want string) error {
	text, err := r.agent.Call(ctx, "execute", a)
	return expect(text, err, want)
}

func expect(text string, err error, want string) error {
	if err == nil && !strings.HasPrefix(text, want) {
		err = fmt.Errorf("execute answered %.100q, not %q", text, want)
	}
	return err
}

// execute measures programs without calls, as seen by an agent.
func (r *runner) execute(ctx context.Context) ([]Figure, error) {
	out := r.idle(ctx)
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
		do := func() error { return r.program(ctx, p.arguments, p.want) }
		if p.first != "" {
			begin := p.arguments
			begin.Code = p.first
			if err := r.program(ctx, begin, ""); err != nil {
				out = append(out, missing(err.Error(), p.name)...)
				continue
			}
		}
		if _, err := repeat(ctx, r.rounds(50), do); err != nil { // warm up
			if ctx.Err() != nil {
				return nil, err
			}
			out = append(out, missing(err.Error(), p.name)...)
			continue
		}
		took, err := repeat(ctx, r.rounds(300), do)
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(p.name, took))
	}
	often, err := measureRate(ctx, "execute_per_second",
		busy(), r.span(2500*time.Millisecond), func() error { return r.program(ctx, simple, "2") })
	if err != nil {
		return nil, err
	}
	web, err := r.overHTTP(ctx, simple, "2")
	if err != nil {
		return nil, err
	}
	waiting, err := r.waiting(ctx)
	if err != nil {
		return nil, err
	}
	return append(out, often, web, waiting), r.gateways(ctx)
}

// calls measures one call, made directly by an agent and from inside a program. Both go through the
// same gateway and audit log to the same process. For calls from inside, it measures how much
// longer a program with many calls takes than one with none, per call.
func (r *runner) calls(ctx context.Context) ([]Figure, error) {
	const each = 100
	var out []Figure
	for _, t := range []string{"read", "write"} {
		direct, err := repeat(ctx, r.rounds(500), func() error {
			_, err := r.agent.Call(ctx, "bench."+t, map[string]string{"text": "x"})
			return err
		})
		if err != nil {
			return nil, err
		}
		nothing, err := repeat(ctx, r.rounds(50), func() error { return r.program(ctx, arguments{Code: "let n = 0; return n"}, "0") })
		if err != nil {
			return nil, err
		}
		base := durationFigure("call_inside_"+t, nothing).Median
		code := arguments{Code: fmt.Sprintf(`let n = 0; while (n < %d) { await bench.%s({ text: "x" }); n++ } return n`, each, t)}
		took, err := repeat(ctx, r.rounds(100), func() error { return r.program(ctx, code, fmt.Sprint(each)) })
		if err != nil {
			return nil, err
		}
		inside := make([]float64, len(took))
		for i, d := range took {
			inside[i] = max(0, float64(d)/float64(time.Millisecond)-base) / each
		}
		out = append(out, durationFigure("call_direct_"+t, direct), numberFigure("call_inside_"+t, inside...))
	}
	waits, err := r.parallel(ctx)
	return append(out, waits...), err
}

// parallel measures calls of a tool that takes 50 ms.
func (r *runner) parallel(ctx context.Context) ([]Figure, error) {
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	var out []Figure
	for _, p := range []struct {
		name, code string
		rounds     int
	}{
		{"parallel_100x50ms", `await Promise.all(Array.from({ length: %d }, () => bench.wait({ ms: 50 }))); return "done"`, r.rounds(20)},
		{"sequential_100x50ms", `for (let i = 0; i < %d; i++) await bench.wait({ ms: 50 }); return "done"`, 1},
	} {
		took, err := repeat(ctx, p.rounds, func() error { return r.program(ctx, arguments{Code: fmt.Sprintf(p.code, n)}, `"done"`) })
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(p.name, took))
	}
	return out, nil
}

// idle measures the memory of the process that runs programs before it has run any.
func (r *runner) idle(ctx context.Context) []Figure {
	const name = "memory_idle_bytes"
	idle, err := resident(ctx, r.agent.PID())
	if err != nil { // this system doesn't report it
		return missing(err.Error(), name)
	}
	return []Figure{numberFigure(name, idle)}
}

// waiting measures its memory while many programs wait for a tool.
func (r *runner) waiting(ctx context.Context) (Figure, error) {
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
			ended <- r.program(ctx, arguments{Code: `await bench.hold({}); return "released"`}, `"released"`)
		})
	}
	held, err := r.waitForHeld(ctx, n, ended)
	if err != nil {
		return Figure{}, err
	}
	full, err := resident(ctx, r.agent.PID())
	if err != nil {
		return missing(err.Error(), name)[0], nil
	}
	if _, err := r.agent.Call(ctx, "bench.release", struct{}{}); err != nil {
		return Figure{}, err
	}
	for range n {
		if err := <-ended; err != nil {
			return Figure{}, err
		}
	}
	if held < n {
		r.say("%d of %d programs waited in sandboxes, the others for their turn", held, n)
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
		text, err := r.agent.Call(ctx, "bench.held", struct{}{})
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
