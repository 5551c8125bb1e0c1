// Package soak tests the whole execution plane as the daemon wires it (executor, sessions in a
// store, the engine in child processes), over a long time and under disorder. It contains only
// tests.
package soak

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// engineCommand makes the test binary run an engine process.
const engineCommand = "__soak_engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		if err := child.Main(os.Args[2:], func() (sandbox.Driver, error) {
			return wasm.New(wasm.Config{})
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given { // each case runs programs for some tenths of a second, in several ways
		_ = flag.Set("rapid.checks", "12")
	}
	os.Exit(m.Run())
}

// A driver provides the sandboxes for the tests. They can be saved.
type driver interface {
	sandbox.Driver
	sandbox.Restorer
	Close() error
}

// inProcess returns a driver with the engine in this process.
func inProcess(t testing.TB) driver {
	t.Helper()
	d, err := wasm.New(wasm.Config{})
	return made(t, d, err)
}

// inChildren returns a driver with the engine in child processes.
func inChildren(t testing.TB) driver {
	t.Helper()
	var log *slog.Logger
	if os.Getenv("BIPLANE_SOAK") != "" { // log why processes end
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	d, err := child.New(child.Config{Command: []string{engineCommand}, Log: log})
	return made(t, d, err)
}

func made(t testing.TB, d driver, err error) driver {
	t.Helper()
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		if os.Getenv("BIPLANE_TEST_STRICT") != "" {
			t.Fatal("the engine can't run here: ", err)
		}
		t.Skip("the engine can't run here: ", err)
	}
	return d
}

// languagesOf returns the languages that a driver supports.
func languagesOf(t testing.TB, d sandbox.Driver) []string {
	t.Helper()
	caps, err := d.Probe(t.Context())
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	out := []string{"typescript"}
	if slices.Contains(caps.Runtimes, "python") {
		out = append(out, "python")
	} else {
		t.Logf("no Python: the engine of this build runs %v", caps.Runtimes)
	}
	return out
}

// A plane is an executor with its store, and the test's own gateway.
type plane struct {
	*executor.Executor
	store *store.Store
	in    atomic.Int64 // calls inside the gateway
}

// A setting configures a plane.
type setting struct {
	driver sandbox.Driver
	dir    string // of the store; empty: no sessions
	key    *secret.Key
	limits executor.Limits
	clock  *wallclock.Clock
}

func open(t testing.TB, s setting) *plane {
	t.Helper()
	p := &plane{}
	cat := catalog.New(catalog.Config{})
	var tools []*tool.Tool
	for _, name := range []string{"echo", "fail", "wait"} {
		tools = append(tools, &tool.Tool{Upstream: "box", Name: name,
			InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	cat.Set(catalog.Source{Name: "box", Tools: tools, Health: tool.Health{State: tool.Ready}})
	door := tool.CallerFunc(p.call)
	cfg := executor.Config{
		Drivers: sandbox.OnlyDriver(s.driver),
		Door:    door, Programs: program.New(program.Config{Catalog: catalog.NewResolver(cat, nil)}),
		Limits: s.limits, Clock: s.clock,
	}
	if s.dir != "" {
		var err error
		if p.store, err = store.Open(t.Context(), store.Config{Path: s.dir}); err != nil {
			t.Fatalf("store.Open: %v", err)
		}
		if cfg.Store, err = p.store.Sessions(t.Context(), s.key); err != nil {
			t.Fatalf("Sessions: %v", err)
		}
		cfg.Key = s.key
	}
	var err error
	if p.Executor, err = executor.New(cfg); err != nil {
		t.Fatalf("executor.New: %v", err)
	}
	return p
}

// close closes the plane, and ends everything in progress.
func (p *plane) close(t testing.TB) {
	t.Helper()
	if err := p.Executor.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if p.store != nil {
		if err := p.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if n := p.in.Load(); n != 0 {
		t.Errorf("%d calls are still inside the door", n)
	}
}

// call is the gateway: box.echo returns its arguments, box.wait does so after ms milliseconds,
// box.fail fails.
func (p *plane) call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	p.in.Add(1)
	defer p.in.Add(-1)
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	switch filepath.Ext(c.Path) {
	case ".echo":
		return tool.Text(false, string(args)), nil
	case ".fail":
		return tool.Text(true, "no such record"), nil
	case ".wait":
		var a struct{ MS float64 }
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		timer := time.NewTimer(time.Duration(a.MS * float64(time.Millisecond)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return tool.Text(false, string(args)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, tool.Errorf(tool.NotFound, "no tool %s", c.Path)
}

// An answer is the result of execute.
type answer struct {
	text   string // the first block: the value, or the error
	all    string // all blocks
	failed bool   // the program or the request failed
	kind   tool.Kind
}

// run runs a program.
func (p *plane) run(ctx context.Context, who tool.Principal, args map[string]any) (answer, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return answer{}, err
	}
	res, err := p.Execute().Call(ctx, &tool.Call{Path: "biplane.execute", Arguments: raw, Principal: who})
	if err != nil {
		return answer{text: err.Error(), all: err.Error(), failed: true, kind: tool.AsError(err).Kind}, nil
	}
	a := answer{failed: res.IsError}
	for i, block := range res.Content {
		var b struct{ Type, Text string }
		if err := json.Unmarshal(block, &b); err != nil {
			return answer{}, err
		}
		if i == 0 {
			a.text = b.Text
		}
		a.all += b.Text + "\n"
	}
	return a, nil
}

func newKey(t testing.TB) *secret.Key {
	t.Helper()
	k, err := secret.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	return k
}
