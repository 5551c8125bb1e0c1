package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/probe"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/tool"
)

// checkSandboxes checks every kind of sandbox. Of the kinds that the configuration allows, the
// cheapest that can run programs here is needed. If none can, all of them are.
func checkSandboxes(ctx context.Context, kinds []driver, s *config.Config, e engine) (checks []Check) {
	var settings config.Sandbox
	if s != nil {
		settings = s.Sandbox
	}
	found := false
	var unable []int // the checks of kinds of that tier that can't run
	for _, d := range kinds {
		usable := d.tier >= settings.Tier
		of, ok := checkSandbox(ctx, d, settings, e, usable && !found)
		if usable && !ok {
			unable = append(unable, len(checks))
		}
		found = found || usable && ok
		checks = append(checks, of...)
	}
	for _, i := range unable {
		checks[i].Needed = !found
	}
	return checks
}

// checkSandbox runs the probes in one kind of sandbox. They must succeed if it is needed. It also
// reports whether programs can run in it. If not, the only check says why.
func checkSandbox(ctx context.Context, d driver, s config.Sandbox, e engine, needed bool) (checks []Check, ok bool) {
	part := "sandbox " + d.name
	made, err := d.make(s, e)
	if err != nil {
		return []Check{{Part: part, Name: "can run here", Detail: err.Error()}}, false
	}
	defer made.Close()
	c := capability(ctx, sandbox.Kind{Name: d.name, Tier: d.tier, Driver: made})
	if c.Reason != "" {
		return []Check{{Part: part, Name: "can run here", Detail: c.Reason}}, false
	}
	checks = []Check{{Part: part, Name: "can run here", OK: true, Needed: needed,
		Detail: fmt.Sprintf("tier %s, %s, runs %s", c.Tier, c.Engine, strings.Join(c.Runtimes, ", "))}}
	if c.Details["process"] != "" {
		checks = append(checks, Check{Part: part, Name: "process", OK: true, Detail: c.Details["process"]})
	}
	for _, m := range c.Missing {
		checks = append(checks, Check{Part: part, Name: "not armed", Detail: m})
	}
	x, err := newProbeExecutor(made)
	if err != nil {
		return append(checks, Check{Part: part, Name: "probes", Needed: needed, Detail: err.Error()}), true
	}
	defer x.Close()
	for _, r := range probe.Run(ctx, x, d.tier, c.Runtimes, builtin()[1]) {
		checks = append(checks, Check{Part: part, Name: r.Name, OK: r.OK, Needed: needed, Detail: r.Detail})
	}
	return checks, true
}

// newProbeExecutor returns an executor without tools for the probes. Small limits keep bombs small.
func newProbeExecutor(d sandbox.Driver) (*executor.Executor, error) {
	noTools := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.NotFound, "no tool %s: there are none here", c.Path)
	})
	return executor.New(executor.Config{
		Drivers: sandbox.OnlyDriver(d), Door: noTools, Programs: program.New(program.Config{}),
		Limits: executor.Limits{Memory: 64 << 20, CPU: time.Second, Timeout: 5 * time.Second, Total: 20 * time.Second},
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
