// Package child puts a locked-down process around a sandbox driver. Its Driver runs another driver
// in processes of the same binary, a pool for each owner of sandboxes. It carries their guest
// streams over one socket per process. Main runs in such a process: it arms every protection that
// the system has (arm), and then serves (serve) the requests from the socket, which is all that it
// can reach.
//
// A guest that breaks out of its engine is in a process without files, network, other processes,
// capabilities or new privileges, limited to the system calls of the Go runtime. Everything in that
// process belongs to one owner. Protections that a system lacks are listed in Capabilities.Missing.
// Probe tests the protections by trying what such a guest would try.
//
// # The protocol
//
// Each side writes frames (frame.go). The parent starts operations on sandboxes, and the child ends
// each with a result. Data, credit, questions and answers belong to a running operation and are
// ignored after its end. Each side treats the other as hostile: it checks sizes, numbers and
// states, and bounds what it buffers for the other. A process that breaks the protocol is killed.
package child

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Driver.
type Config struct {
	// Command is the arguments that make this binary a child: it must then call Main with the
	// arguments that follow them. They are preceded by the name under which the binary was called.
	Command []string
	// Begun is a process already started with Command. The Driver uses it first, and closes it. If
	// it is nil, the Driver starts one itself.
	Begun *launch.EarlyProcess
	// Strict makes Probe, Create and Restore fail if a protection can't be armed. Otherwise they
	// fail only if nothing separates the process from the host: on Linux neither a system call
	// filter, nor namespaces, nor Landlock.
	Strict bool
	Idle   time.Duration // how long a process without sandboxes is kept for its owner; 0 means a minute
	Most   int           // maximum number of processes; 0 means 64
	Served int           // number of sandboxes after which a process is replaced by a fresh one; 0 means 10,000
	// Snapshot is the maximum size of one snapshot, in bytes; 0 means 512 MiB.
	Snapshot int64
	Log      *slog.Logger // nil disables logging
}

// A Driver runs another driver in separate processes. Close it when no sandbox is left.
type Driver struct {
	cfg   Config
	log   *slog.Logger
	start launcher
	idled chan struct{}  // receives a token when a process becomes idle
	work  sync.WaitGroup // background work of the driver other than the processes

	probing chan struct{}         // holds a token while a caller probes, or reads caps
	caps    *sandbox.Capabilities // set by the first successful probe

	mu      sync.Mutex
	all     map[*process]bool   // processes that have not ended
	current map[string]*process // by owner: the process for the next sandbox
	spare   *process            // has no owner yet
	wanted  *time.Timer         // starts the next spare
	changed chan struct{}       // closed and replaced when a process ends
	closed  bool
}

// A launcher starts children.
type launcher interface {
	start(more ...string) (peer, error)
	close()
}

// New returns a driver and starts its first process.
func New(cfg Config) (*Driver, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("child driver: no command")
	}
	d := newDriver(cfg, newStarter(cfg.Command, cfg.Begun))
	d.work.Go(func() { _, _ = d.Probe(context.Background()) }) // in advance; a later caller gets the error
	return d, nil
}

func newDriver(cfg Config, start launcher) *Driver {
	if cfg.Idle <= 0 {
		cfg.Idle = time.Minute
	}
	if cfg.Most <= 0 {
		cfg.Most = 64
	}
	if cfg.Served <= 0 {
		cfg.Served = 10_000
	}
	if cfg.Snapshot <= 0 {
		cfg.Snapshot = 512 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{cfg: cfg, log: cfg.Log, start: start, idled: make(chan struct{}, 1), probing: make(chan struct{}, 1),
		all: map[*process]bool{}, current: map[string]*process{}, changed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = d.begin()
	return d
}

// Probe returns the capabilities of the inner driver, with the protections of its processes.
func (d *Driver) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	select {
	case d.probing <- struct{}{}:
		defer func() { <-d.probing }()
	case <-ctx.Done():
		return sandbox.Capabilities{}, fmt.Errorf("probe the engine's process: %w", context.Cause(ctx))
	}
	if d.caps != nil {
		return clone(*d.caps), nil
	}
	p, err := d.any(ctx)
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	caps, err := p.probeDriver(ctx)
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	d.caps = &caps
	return clone(caps), nil
}

func clone(c sandbox.Capabilities) sandbox.Capabilities {
	c.Runtimes, c.Missing, c.Details, c.Engines, c.Builds = slices.Clone(c.Runtimes), slices.Clone(c.Missing),
		maps.Clone(c.Details), maps.Clone(c.Engines), maps.Clone(c.Builds)
	return c
}

// Create returns a fresh sandbox, in a process of the owner that spec names.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	return d.make(ctx, spec, func(p *process) (*Sandbox, error) {
		return p.createSandbox(ctx, appendSpec(nil, spec))
	})
}

// Restore creates a sandbox from a snapshot, in a process of the owner that spec names.
func (d *Driver) Restore(ctx context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	if int64(len(snapshot)) > d.cfg.Snapshot {
		return nil, tool.Errorf(tool.Limit, "the snapshot has %d bytes: at most %d can be restored", len(snapshot),
			d.cfg.Snapshot)
	}
	return d.make(ctx, spec, func(p *process) (*Sandbox, error) {
		return p.makeSandbox(ctx, kindRestore, appendSpec(appendSize(nil, len(snapshot)), spec), snapshot)
	})
}

// make creates a sandbox with f. If the process turns out to have ended, nothing had started in the
// sandbox, so make retries.
func (d *Driver) make(ctx context.Context, spec sandbox.Spec, f func(*process) (*Sandbox, error)) (sandbox.Sandbox,
	error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("make a sandbox: %w", context.Cause(ctx))
	}
	if len(spec.Runtime) > maxRuntime {
		return nil, tool.Errorf(tool.Invalid, "unknown runtime %.20s...", spec.Runtime)
	}
	for again := range 4 { // the spare process may have ended, too
		p, err := d.of(ctx, spec.Owner)
		if err == nil {
			var box *Sandbox
			box, err = f(p)
			d.release(p)
			if err == nil {
				return box, nil
			}
		}
		if crash := (*sandbox.CrashError)(nil); again == 3 || !errors.As(err, &crash) {
			return nil, err
		}
	}
	panic("unreachable")
}

// Close kills all processes and everything that runs in them.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	if d.wanted != nil && d.wanted.Stop() {
		d.work.Done()
	}
	for p := range d.all {
		p.kill("was ended with its driver")
	}
	d.change()
	d.mu.Unlock()
	d.work.Wait()
	d.start.close()
	return nil
}

// explain adds the process's protections to caps, and fails if they are insufficient.
func (d *Driver) explain(caps *sandbox.Capabilities, ps []Protection) error {
	if caps.Details == nil {
		caps.Details = map[string]string{}
	}
	caps.Missing = slices.DeleteFunc(caps.Missing, func(m string) bool { return m == sandbox.Unenclosed })
	var armed []string
	for _, p := range ps {
		text := p.Name
		if p.Detail != "" {
			text += " (" + p.Detail + ")"
		}
		if p.Armed {
			armed = append(armed, text)
		} else {
			caps.Missing = append(caps.Missing, "around the engine's process: "+text)
		}
	}
	caps.Details["process"] = "a process of its own for each owner: " + strings.Join(armed, ", ")
	return d.checkProtections(ps)
}

// checkProtections returns an error if too few protections are armed.
func (d *Driver) checkProtections(ps []Protection) error {
	var missing []string
	separate := !confines
	for _, p := range ps {
		if !p.Armed {
			missing = append(missing, p.Name+" ("+p.Detail+")")
		}
		separate = separate || p.Armed && p.Separates
	}
	switch {
	case d.cfg.Strict && len(missing) > 0:
		return tool.Errorf(tool.Unavailable,
			"the engine's process can't be locked down as strictly as the configuration asks: %s",
			strings.Join(missing, ", "))
	case !separate:
		return tool.Errorf(tool.Unavailable, "nothing on this host separates the engine's process from it: %s",
			strings.Join(missing, ", "))
	}
	return nil
}
