package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// thirtyLines is a program as agents write them, less the calls.
const thirtyLines = `const customers = Array.from({ length: 200 }, (_, i) => ({
  id: i,
  name: "customer " + i,
  region: ["north", "south", "east", "west"][i % 4],
  orders: Array.from({ length: i % 7 }, (_, k) => ({ total: (i * 31 + k * 17) % 500, paid: (i + k) % 3 !== 0 })),
}));
interface Sum { count: number; due: number; names: string[] }
const open = customers
  .map((c) => ({ ...c, due: c.orders.filter((o) => !o.paid).reduce((s, o) => s + o.total, 0) }))
  .filter((c) => c.due > 300);
const regions = new Map<string, Sum>();
for (const c of open) {
  const r = regions.get(c.region) ?? { count: 0, due: 0, names: [] };
  r.count++;
  r.due += c.due;
  if (/\d*[02468]$/.test(c.name)) {
    r.names.push(c.name.toUpperCase());
  }
  regions.set(c.region, r);
}
function line(region: string, { count, due, names }: Sum): string {
  return region + ": " + count + " owe " + due.toFixed(2) + " (" + names.slice(0, 3).join(", ") + ")";
}
const lines = [...regions].map(([region, r]) => line(region, r)).sort();
return {
  report: lines.join("; "),
  total: open.reduce((s, c) => s + c.due, 0),
  largest: Math.max(...open.map((c) => c.due)),
  regions: regions.size,
};`

// program executes code, and checks that the answer begins with want.
func (r *runner) program(ctx context.Context, code, want string) error {
	text, err := r.agent.Call(ctx, "execute", map[string]string{"code": code})
	if err == nil && !strings.HasPrefix(text, want) {
		err = fmt.Errorf("execute answered %.100q, not %q", text, want)
	}
	return err
}

// execute measures programs that call nothing.
func (r *runner) execute(ctx context.Context) ([]Figure, error) {
	var out []Figure
	for _, p := range []struct{ name, code, want string }{
		{"1+1", "1+1", "2"},
		{"a program of 30 lines", thirtyLines, `{"report":"`},
	} {
		do := func() error { return r.program(ctx, p.code, p.want) }
		if _, err := repeat(ctx, r.rounds(100), do); err != nil { // warm
			return nil, err
		}
		took, err := repeat(ctx, r.rounds(300), do)
		if err != nil {
			return nil, err
		}
		f := times(p.name, took)
		if f.PerSecond, err = rate(ctx, busy(), r.span(1500*time.Millisecond), do); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// calls measures one call: made directly by an agent, and from inside a program. Both go through the same door and the same
// record to the same process. From inside it is what a program of many calls takes longer than one of none, by call.
func (r *runner) calls(ctx context.Context) ([]Figure, error) {
	const each = 100
	var out []Figure
	for _, t := range []struct{ tool, what string }{
		{"read", "a tool that only reads"},
		{"write", "a tool that may write: its record is on the disk before the call leaves"},
	} {
		direct, err := repeat(ctx, r.rounds(500), func() error {
			_, err := r.agent.Call(ctx, "bench."+t.tool, map[string]string{"text": "x"})
			return err
		})
		if err != nil {
			return nil, err
		}
		nothing, err := repeat(ctx, r.rounds(50), func() error { return r.program(ctx, "let n = 0; return n", "0") })
		if err != nil {
			return nil, err
		}
		code := fmt.Sprintf(`let n = 0; while (n < %d) { await bench.%s({ text: "x" }); n++ } return n`, each, t.tool)
		inside, err := repeat(ctx, r.rounds(15), func() error { return r.program(ctx, code, fmt.Sprint(each)) })
		if err != nil {
			return nil, err
		}
		base := times("", nothing).P50
		in := times("from inside a program: "+t.what, inside)
		in.P50, in.P99, in.unlike = max(0, in.P50-base)/each, 0, true
		dir := times("directly, over MCP: "+t.what, direct)
		in.Against, dir.unlike = ratio(dir.P50, in.P50), true
		out = append(out, dir, in)
	}
	return out, nil
}

// parallel measures calls of a tool that takes 50 ms.
func (r *runner) parallel(ctx context.Context) ([]Figure, error) {
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	var out []Figure
	for _, p := range []struct{ name, code string }{
		{"%d calls of 50 ms, one after the other", `for (let i = 0; i < %d; i++) await bench.wait({ ms: 50 }); return "done"`},
		{"%d calls of 50 ms, with Promise.all", `await Promise.all(Array.from({ length: %d }, () => bench.wait({ ms: 50 }))); return "done"`},
	} {
		took, err := repeat(ctx, 1, func() error { return r.program(ctx, fmt.Sprintf(p.code, n), `"done"`) })
		if err != nil {
			return nil, err
		}
		out = append(out, times(fmt.Sprintf(p.name, n), took))
	}
	return out, nil
}

// memory measures what the process that runs programs holds: before it ran any, and while many wait for a tool.
func (r *runner) memory(ctx context.Context) ([]Figure, error) {
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	idle, err := resident(ctx, r.agent.PID())
	if err != nil { // this system doesn't say
		return []Figure{{Name: "idle", Skipped: err.Error()}, {Name: fmt.Sprintf("with %d programs waiting", n), Skipped: err.Error()}}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan error, n)
	for range n {
		wg.Go(func() { ended <- r.program(ctx, `await bench.hold({}); return "released"`, `"released"`) })
	}
	held, err := r.held(ctx, n, ended)
	if err != nil {
		cancel()
		return nil, err
	}
	full, err := resident(ctx, r.agent.PID())
	if err != nil {
		cancel()
		return nil, err
	}
	if _, err := r.agent.Call(ctx, "bench.release", map[string]any{}); err != nil {
		cancel()
		return nil, err
	}
	for range n {
		if err := <-ended; err != nil {
			cancel()
			return nil, err
		}
	}
	name := fmt.Sprintf("with %d programs waiting for a tool", n)
	if held < n {
		name += fmt.Sprintf(" (%d in sandboxes, the others for their turn)", held)
	}
	return []Figure{amount("idle, before the first program", idle, "MiB"), amount(name, full, "MiB")}, nil
}

// held waits until no more programs come to wait, and gives how many do: fewer than n, where n are more than may run.
func (r *runner) held(ctx context.Context, n int, ended <-chan error) (int, error) {
	const still = 25 // looks without a change
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, same := 0, 0
	for {
		text, err := r.agent.Call(ctx, "bench.held", map[string]any{})
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
		if last == n || last > 0 && same >= still {
			return last, nil
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
