// Package demo is the demonstration: real MCP servers (a customer database in SQLite, and an API to
// change accounts) with a real Biplane in front of them. Scripted agents do one job in three ways
// through Biplane's own MCP interface: tool by tool, tool by tool with parallel calls, and as one
// program. On the messages themselves, with a real tokenizer, it counts what a model would have
// read and written. It checks that all ways had the same effect on the database.
//
// No model is involved: the agents make the choices that a good model would make. The remaining
// assumption (a model's time) is an option, and printed with the result.
package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures the demonstration.
type Config struct {
	// Biplane is the command line of this program; required. `mcp` and ServeArgs are appended to
	// it.
	Biplane []string
	// ServeArgs makes this program run one of the demonstration's servers; kind and database path
	// are appended.
	ServeArgs []string
	// TurnLatency is the assumed time of a model from a request to the first token; 0: 1.5 s.
	TurnLatency time.Duration
	// WriteSpeed is the assumed number of tokens per second that a model writes; 0: 70.
	WriteSpeed float64
	Progress   io.Writer // receives progress messages, line by line; may be nil
}

func (c *Config) setDefaults() {
	if c.TurnLatency == 0 {
		c.TurnLatency = 1500 * time.Millisecond
	}
	if c.WriteSpeed == 0 {
		c.WriteSpeed = 70
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
}

// Run runs the demonstration. All its files are in a temporary folder that is removed when it
// returns, and all its processes have ended.
//
// Errors are *tool.Error: Canceled if ctx was done, Unavailable if something could not be started
// or failed, Internal if the ways had different effects.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg.setDefaults()
	r, err := runDemo(ctx, cfg)
	var e *tool.Error
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return nil, tool.AsError(ctx.Err())
	case errors.As(err, &e) && e.Kind == tool.Internal:
		return nil, tool.Errorf(tool.Internal, "demo: %w", err)
	}
	return nil, tool.Errorf(tool.Unavailable, "demo: %w", err)
}

func runDemo(ctx context.Context, cfg Config) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "biplane-demo-")
	if err != nil {
		return nil, fmt.Errorf("demo folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &runner{cfg: cfg, dir: dir, tokens: &tokens.Counter{}}
	path := filepath.Join(dir, "customers.db")
	if r.db, err = openDatabase(path); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	return r.runWays(ctx, path)
}

type runner struct {
	cfg    Config
	dir    string
	db     *sql.DB
	tokens *tokens.Counter
	want   state // the effect that each way must have
}

func (r *runner) reportProgress(format string, a ...any) {
	fmt.Fprintf(r.cfg.Progress, format+"\n", a...)
}

func (r *runner) runWays(ctx context.Context, path string) (*Report, error) {
	start := time.Now()
	r.reportProgress("making a customer database: %d customers, with orders, invoices, notes, tickets and sessions",
		customerCount)
	if err := r.resetDatabase(ctx); err != nil {
		return nil, err
	}
	rep := newReport(r.cfg)
	err := r.withBiplane(ctx, "direct", path, (*client).hasAllTools, func(c *client) error {
		for _, parallel := range []bool{false, true} {
			name := map[bool]string{false: "tool by tool", true: "parallel calls"}[parallel]
			w, err := r.runWay(ctx, name, c, func(a *agent) error { return a.toolByTool(ctx, parallel) })
			if err != nil {
				return err
			}
			rep.Ways = append(rep.Ways, w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.withBiplane(ctx, "code", path, (*client).findsTools, func(c *client) error {
		w, err := r.runWay(ctx, "one program", c, func(a *agent) error { return a.oneProgram(ctx) })
		rep.Ways = append(rep.Ways, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	rep.Deactivated = r.want.deactivated
	rep.Seconds = roundSeconds(time.Since(start))
	return rep, nil
}

// ServeConfig is a Biplane configuration.
type ServeConfig struct {
	Servers   map[string]StdioServer `json:"mcpServers"`
	Mode      string                 `json:"mode"`
	Policy    string                 `json:"policy"`
	StartWait string                 `json:"start_wait,omitempty"`
}

// A StdioServer is a configured MCP server over stdio.
type StdioServer struct {
	Args    []string `json:"args"`
	Command string   `json:"command"`
}

// withBiplane starts Biplane in a mode in front of both servers, waits until it is ready, calls f,
// and stops Biplane.
func (r *runner) withBiplane(ctx context.Context, mode, path string,
	isReady func(*client, context.Context) (bool, error), f func(*client) error) (err error) {
	r.reportProgress("starting Biplane in mode %s, with two MCP servers over stdio: crm and accounts", mode)
	servers := map[string]StdioServer{}
	for _, kind := range Kinds {
		argv := append(append(append([]string{}, r.cfg.Biplane...), r.cfg.ServeArgs...), kind, path)
		servers[kind] = StdioServer{argv[1:], argv[0]}
	}
	text, err := json.MarshalIndent(ServeConfig{Servers: servers, Mode: mode, Policy: "open"}, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(r.dir, mode+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("demo folder: %w", err)
	}
	argv := append(append([]string{}, r.cfg.Biplane...), "mcp", "--config", file, "--data-dir",
		filepath.Join(r.dir, "data-"+mode))
	c, err := connectClient(ctx, argv)
	if err != nil {
		return err
	}
	defer func() {
		if e := c.close(); err == nil {
			err = e
		}
	}()
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := waitUntilReady(wait, func() (bool, error) { return isReady(c, wait) }); err != nil {
		return err
	}
	return f(c)
}

// resetDatabase restores the database to its state before the job, and computes the state it must
// have afterwards.
func (r *runner) resetDatabase(ctx context.Context) error {
	if err := seedDatabase(ctx, r.db); err != nil {
		return err
	}
	ids, err := expectedCustomers(ctx, r.db)
	if err != nil {
		return err
	}
	if len(ids) != inactiveCount {
		return tool.Errorf(tool.Internal,
			"the customer database has %d inactive customers, not %d: this is a defect of the demo", len(ids),
			inactiveCount)
	}
	r.want = state{deactivated: ids}
	for _, id := range ids {
		r.want.actions = append(r.want.actions, "deactivate "+id)
	}
	return nil
}

// runWay does the job in one way on a fresh database, and checks its effect.
func (r *runner) runWay(ctx context.Context, name string, c *client, do func(*agent) error) (Way, error) {
	if err := r.resetDatabase(ctx); err != nil {
		return Way{}, err
	}
	r.reportProgress("doing the job: %s", name)
	a := &agent{client: c, tokens: r.tokens, way: Way{Name: name}}
	if err := do(a); err != nil {
		return Way{}, fmt.Errorf("%s: %w", name, err)
	}
	got, err := readState(ctx, r.db)
	if err != nil {
		return Way{}, err
	}
	if !got.isEqual(r.want) {
		return Way{}, tool.Errorf(tool.Internal,
			"%s left the wrong state: deactivated %v, wanted %v; changes on record: %v", name, got.deactivated,
			r.want.deactivated, got.actions)
	}
	w := a.way
	w.Deactivated = len(got.deactivated)
	w.setTotals(r.cfg)
	r.reportProgress("  %d model turns, %d tool calls, %s tokens read, %.2f s in tools; %d customers deactivated, "+
		"checked in the database",
		w.Turns, w.Calls, text.Group(w.Tokens.Read), w.Seconds.Tools, w.Deactivated)
	return w, nil
}
