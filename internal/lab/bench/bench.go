// Package bench measures the main figures of this binary, side by side in one run. It runs the
// binary as an agent's client does, and also measures parts with their own figures (the engine, its
// child process, search, the audit log). For comparison it measures other installed programs (Node,
// Deno, Python, gateways that the user names). It works offline. Its files are in a temporary
// folder that is removed afterwards, and every process that it starts has ended.
//
// Figures of a shared or throttled machine mean little on their own, so figures to be compared are
// measured in the same run. Only people judge them: a row states its target, and whether it was
// reached.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/demo"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config specifies what to measure, and how long.
type Config struct {
	// Biplane is the command line of this program; required. `mcp`, `run`, `version`, ServeArgs and
	// EngineArgs are appended to it.
	Biplane []string
	// ServeArgs makes this program run one of the demonstration's servers; kind and path are
	// appended.
	ServeArgs []string
	// EngineArgs makes this program run an engine process.
	EngineArgs []string
	Version    string    // of Biplane
	Quick      bool      // few rounds: shows that everything works, but the figures are not reliable
	Only       []string  // the groups to measure, as named by Groups; empty: all
	Gateways   []Gateway // others to compare with
	Images     string    // folder of the sandbox images; only read
	Progress   io.Writer // receives progress messages, line by line; may be nil
}

// Groups returns the names of all groups of figures, in the order of the report.
func Groups() []string {
	var out []string
	for _, g := range listGroups() {
		out = append(out, g.short)
	}
	return out
}

// A runner runs the measurements.
type runner struct {
	cfg        Config
	dir        string
	agent      *demo.Session // with a Biplane in front of the server used for measurements
	yardsticks []Figure
	notes      []string // remarks for the reader of the report
}

// addYardsticks adds yardsticks.
func (r *runner) addYardsticks(f ...Figure) { r.yardsticks = append(r.yardsticks, f...) }

func (r *runner) reportProgress(format string, a ...any) {
	fmt.Fprintf(r.cfg.Progress, format+"\n", a...)
}

// Run runs the measurements. Errors are *tool.Error: Invalid if cfg names an unknown group,
// Canceled if ctx was done, Unavailable if something could not be started or failed.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	for _, name := range cfg.Only {
		if !slices.Contains(Groups(), name) {
			return nil, tool.Errorf(tool.Invalid, "bench: no group %q: there are %s", name,
				strings.Join(Groups(), ", "))
		}
	}
	rep, err := measureAll(ctx, cfg)
	switch {
	case err == nil:
		return rep, nil
	case ctx.Err() != nil:
		return nil, tool.AsError(ctx.Err())
	}
	return nil, tool.Errorf(tool.Unavailable, "bench: %w", err)
}

func measureAll(ctx context.Context, cfg Config) (_ *Report, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "biplane-bench-")
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &runner{cfg: cfg, dir: dir}
	if r.agent, err = r.connectSession(ctx, "code", demo.Bench); err != nil {
		return nil, err
	}
	defer func() {
		if e := r.agent.Close(); err == nil {
			err = e
		}
	}()
	rep := newReport(cfg)
	for _, g := range listGroups() {
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, g.short) {
			continue
		}
		r.reportProgress("measuring: %s", g.title)
		figures, err := r.measureGroup(ctx, g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.title, err)
		}
		rep.addGroup(g, figures)
	}
	rep.Yardsticks, rep.notes = r.yardsticks, r.notes
	rep.took = time.Since(began)
	return rep, nil
}

// groupTime is the time limit of a group, without the gateways that the user named: many times what
// it needs. A group that hangs is an error, and doesn't block the run for ever.
const groupTime = 10 * time.Minute

// measureGroup measures a group.
func (r *runner) measureGroup(ctx context.Context, g group) ([]Figure, error) {
	most := groupTime + time.Duration(len(r.cfg.Gateways))*patience
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	figures, err := g.run(r, bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("not done within %s: %w", most, err)
	}
	return figures, err
}

// connectSession starts Biplane in a mode, in front of servers of the demonstration, and waits
// until all their tools are available.
func (r *runner) connectSession(ctx context.Context, mode string, kinds ...string) (*demo.Session, error) {
	file, err := r.writeConfig(mode, kinds...)
	if err != nil {
		return nil, err
	}
	s, err := demo.Connect(ctx, r.commandLine("mcp",
		"--config", file, "--data-dir", filepath.Join(r.dir, "data-"+mode), "--log-level", "error"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Calls and lists wait for the first connections.
	if _, err = s.ListDefinitions(ctx); err == nil && mode == "code" {
		_, err = s.CallTool(ctx, "bench.read", map[string]string{"text": "ready"})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// commandLine returns the command line of this program with args.
func (r *runner) commandLine(args ...string) []string {
	return append(append([]string{}, r.cfg.Biplane...), args...)
}

// countRounds returns n, or a small number if cfg.Quick is set.
func (r *runner) countRounds(n int) int {
	if r.cfg.Quick {
		return max(2, n/50)
	}
	return n
}

// measuringTime returns the time for which a measurement is repeated.
func (r *runner) measuringTime(d time.Duration) time.Duration {
	if r.cfg.Quick {
		return d / 20
	}
	return d
}
