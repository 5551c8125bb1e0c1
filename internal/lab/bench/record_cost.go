package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/lab/demo"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// recordCosts are programs that make ten calls, for measuring the cost of the audit log. The
// duration of a call to a network service, ten milliseconds and more, hides most of it. A tool that
// answers immediately hides nothing.
var recordCosts = []struct{ name, code string }{
	{"record_cost_percent", `for (let i = 0; i < 10; i++) await callTool("bench.wait", { ms: 10 }); return "done"`},
	{"record_cost_instant_percent",
		`for (let i = 0; i < 10; i++) await callTool("bench.read", { text: "call " + i }); return "done"`},
	{"record_cost_instant_write_percent",
		`for (let i = 0; i < 10; i++) await callTool("bench.write", { text: "call " + i }); return "done"`},
	{"record_cost_instant_parallel_percent", `await Promise.all(Array.from({ length: 10 }, (_, i) => ` +
		`callTool("bench.write", { text: "call " + i }))); return "done"`},
}

// A ledger is a gateway that can record calls or not. Everything else is the same: executor,
// journal, store and upstream. The difference is the cost of the audit log.
type ledger struct {
	log   *audit.Log
	on    atomic.Bool
	store *store.Store
	tools map[string]*tool.Tool
	own   tool.Caller
	up    *demo.Session
}

// Call does the gateway's steps that matter here, in the same order.
func (l *ledger) Call(ctx context.Context, c *tool.Call) (_ *tool.Result, err error) {
	next := *c
	next.Tool, next.ID = l.tools[c.Path], "call_"+rand.Text()
	sure := c.Observe().OnSend(&next, "allow")
	if sure == nil {
		sure = func() error { return nil }
	}
	if !l.on.Load() {
		if err := sure(); err != nil {
			return nil, err
		}
		return l.call(ctx, &next)
	}
	entry, err := l.log.Begin(ctx, &next,
		audit.Decision{Effect: "allow", Policy: "open", Reason: "the open policy allows every call"})
	if err != nil {
		return nil, err
	}
	if err := sure(); err != nil {
		return nil, err
	}
	res, err := l.call(ctx, &next)
	return res, errors.Join(err, entry.End(ctx, res, err))
}

func (l *ledger) call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool.Upstream != "bench" {
		return l.own.Call(ctx, c)
	}
	text, err := l.up.CallTool(ctx, c.Tool.Name, c.Arguments)
	if err != nil {
		return nil, err
	}
	return tool.Text(false, text), nil
}

// recordCost measures what the audit log adds to execute of programs that make ten calls of an MCP
// server over stdio. It alternates runs with and without it, so that other load affects both.
func (r *runner) recordCost(ctx context.Context) (_ []Figure, err error) {
	var names []string
	for _, c := range recordCosts {
		names = append(names, c.name)
	}
	if len(r.cfg.Biplane) == 0 {
		return missingFigures("this program has no command that is an MCP server", names...), nil
	}
	driver, err := r.childDriver()
	if err != nil {
		return missingFigures(err.Error(), names...), nil
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(r.dir, "data-record-cost")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, x, err := r.newLedger(ctx, s, driver)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close(), l.up.Close()) }()
	var out []Figure
	for _, c := range recordCosts {
		f, err := l.measureCost(ctx, r.countRounds(50), c.name, c.code)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (r *runner) newLedger(ctx context.Context, s *store.Store, driver closingDriver) (*ledger,
	*executor.Executor, error) {
	key, err := secret.Open(filepath.Join(r.dir, "key"))
	if err != nil {
		return nil, nil, err
	}
	stored, err := s.Audit(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	yes := true
	l := &ledger{store: s, log: audit.New(audit.Config{Store: stored, Key: key}), tools: map[string]*tool.Tool{
		"bench.read":     {Upstream: "bench", Name: "read", Annotations: tool.Annotations{ReadOnly: &yes}},
		"bench.wait":     {Upstream: "bench", Name: "wait"},
		"bench.write":    {Upstream: "bench", Name: "write"},
		tool.ExecutePath: {Upstream: "biplane", Name: "execute"},
	}}
	x, err := executor.New(executor.Config{
		Drivers: sandbox.OnlyDriver(driver), Key: key, Journal: s.Executions(key),
		Programs: program.New(program.Config{}), Door: l,
	})
	if err != nil {
		return nil, nil, err
	}
	l.own = x.Execute()
	argv := r.commandLine(append(slices.Clone(r.cfg.ServeArgs), demo.Bench, filepath.Join(r.dir, "customers.db"))...)
	if l.up, err = demo.Connect(ctx, argv); err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	return l, x, nil
}

// measureCost returns by how many percent the median of executes with the audit log exceeds that of
// executes without it, of which there are as many rounds.
func (l *ledger) measureCost(ctx context.Context, rounds int, name, code string) (Figure, error) {
	args, err := tool.Marshal(arguments{Code: code})
	if err != nil {
		return Figure{}, err
	}
	do := func(on bool) (time.Duration, error) {
		l.on.Store(on)
		start := time.Now()
		res, err := l.Call(ctx, &tool.Call{Path: tool.ExecutePath, Arguments: json.RawMessage(args),
			Principal: tool.Principal{ID: "local:bench", Client: "bench/1"}})
		took := time.Since(start)
		if err == nil && res.IsError {
			err = fmt.Errorf("execute: %.300s", res.Raw)
		}
		settled := l.store.Settle(ctx) // pending writes complete before the next run starts
		return took, errors.Join(err, settled)
	}
	var all []float64
	for range rateSamples {
		took := map[bool][]time.Duration{}
		for i := range 2 * rounds {
			if err := ctx.Err(); err != nil {
				return Figure{}, err
			}
			on := i%2 == 1
			d, err := do(on)
			if err != nil {
				return Figure{}, err
			}
			took[on] = append(took[on], d)
		}
		with, without := durationFigure("", took[true]), durationFigure("", took[false])
		all = append(all, max(0, 100*(with.Median/without.Median-1)))
	}
	return numberFigure(name, all...), nil
}
