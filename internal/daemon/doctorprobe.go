package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/probe"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/serve/local"
	"github.com/biplane-dev/biplane/internal/tool"
)

// checkSandboxes checks every kind of sandbox. Only the cheapest one of the configured tier is
// needed: sessions and most programs run in it.
func checkSandboxes(ctx context.Context, kinds []driver, s *config.Config, e engine) (checks []Check) {
	var settings config.Sandbox
	if s != nil {
		settings = s.Sandbox
	}
	first := slices.IndexFunc(kinds, func(d driver) bool { return d.tier >= settings.Tier })
	for i, d := range kinds {
		checks = append(checks, checkSandbox(ctx, d, settings, e, i == first)...)
	}
	return checks
}

// checkSandbox runs the probes in one kind of sandbox. They must succeed if it is needed.
func checkSandbox(ctx context.Context, d driver, s config.Sandbox, e engine, needed bool) []Check {
	part := "sandbox " + d.name
	made, err := d.make(s, e)
	if err != nil {
		return []Check{{Part: part, Name: "can run here", Needed: needed, Detail: err.Error()}}
	}
	defer made.Close()
	c := describeKind(ctx, sandbox.Kind{Name: d.name, Tier: d.tier, Driver: made})
	if c.Reason != "" {
		return []Check{{Part: part, Name: "can run here", Needed: needed, Detail: c.Reason}}
	}
	checks := []Check{{Part: part, Name: "can run here", OK: true, Needed: needed,
		Detail: fmt.Sprintf("tier %s, %s, runs %s", c.Tier, c.Engine, strings.Join(c.Runtimes, ", "))}}
	if c.Details["process"] != "" {
		checks = append(checks, Check{Part: part, Name: "process", OK: true, Detail: c.Details["process"]})
	}
	for _, runtime := range slices.Sorted(maps.Keys(c.Unavailable)) {
		checks = append(checks, Check{Part: part, Name: "runs " + runtime, Detail: c.Unavailable[runtime]})
	}
	for _, m := range c.Missing {
		checks = append(checks, Check{Part: part, Name: "not armed", Detail: m})
	}
	checks = append(checks, checkStarts(part, c)...)
	x, err := newProbeExecutor(made)
	if err != nil {
		return append(checks, Check{Part: part, Name: "probes", Needed: needed, Detail: err.Error()})
	}
	defer x.Close()
	for _, r := range probe.Run(ctx, x, d.tier, c.Runtimes, builtin()[1]) {
		checks = append(checks, Check{Part: part, Name: r.Name, OK: r.OK, Needed: needed, Detail: r.Detail})
	}
	return checks
}

// checkStarts returns a warning if sandboxes of a kind start slowly.
func checkStarts(part string, c api.Capability) []Check {
	if c.Details[sandbox.SlowStart] == "" {
		return nil
	}
	return []Check{{Part: part, Name: sandbox.SlowStart, Detail: c.Details[sandbox.SlowStart]}}
}

// checkRunning returns warnings about the sandboxes of the process that owns the data folder, if
// there is one. That it doesn't answer is a result of other checks.
func checkRunning(ctx context.Context, c DoctorConfig) (checks []Check) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	kinds, err := local.Client(c.DataDir).Sandboxes(ctx)
	if err != nil {
		return nil
	}
	for _, k := range kinds {
		checks = append(checks, checkStarts("running sandboxes "+k.Driver, k)...)
	}
	return checks
}

// newProbeExecutor returns an executor without tools for the probes. Small limits keep bombs small.
// The time is long, so that programs reach the other limits on a busy machine.
func newProbeExecutor(d sandbox.Driver) (*executor.Executor, error) {
	noTools := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.NotFound, "no tool %s: there are none here", c.Path)
	})
	return executor.New(executor.Config{
		Drivers: sandbox.OnlyDriver(d), Door: noTools, Programs: program.New(program.Config{}),
		Limits: executor.Limits{Memory: 64 << 20, CPU: time.Second / 2, Timeout: 30 * time.Second,
			Total: time.Minute},
	})
}

// checkEscapes makes, in a process of the embedded engine, every escape attempt of a guest that has
// taken it over.
func checkEscapes(ctx context.Context, e engine) []Check {
	const part = "escape from the engine's process"
	if len(e.command) == 0 {
		return []Check{{Part: part, Name: "can be tried", Needed: true,
			Detail: "this program can't start processes around its engine"}}
	}
	attempts, armed, err := child.TryEscapes(ctx, e.command)
	var checks []Check
	for _, p := range armed {
		checks = append(checks, Check{Part: "protections of the engine's process", Name: p.Name, OK: p.Armed,
			Detail: p.Detail})
	}
	for _, a := range attempts {
		checks = append(checks, Check{Part: part, Name: a.Name, OK: a.Refused, Needed: true, Detail: a.How})
	}
	if err != nil {
		checks = append(checks, Check{Part: part, Name: "all were tried", Needed: true, Detail: tool.AsError(err).Msg})
	}
	return checks
}
