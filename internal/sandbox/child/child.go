// Package child puts a locked-down process around a sandbox driver. Its Driver is one itself: it runs another driver in
// processes of the same binary, a pool for each owner of sandboxes, and carries their guest streams over one socket for
// each process. Main is what such a process does: it arms every protection that the system has (arm), and then serves
// (serve) whatever comes over the socket, which is all that it can reach.
//
// A guest that breaks out of its engine so finds itself in a process without files, network, other processes,
// capabilities or new privileges, whose system calls are those of the Go runtime; and everything in it belongs to one
// owner. What of this a system doesn't have is among the Missing of the Capabilities. Probe tries it out: it does what
// such a guest would.
//
// # The protocol
//
// Each side writes frames (frame.go). The parent begins operations on sandboxes, the child ends each of them with a
// result; data, credit, questions and answers belong to an operation under way, and are ignored after it. Either side
// takes the other for hostile: sizes, numbers and states are checked, what one side holds for the other is bounded,
// and a process that breaks the protocol is ended.
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

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config makes a Driver.
type Config struct {
	// Command are the arguments by which this binary becomes a child: it must call Main then, with what follows them. The
	// name that the binary was called by stands before them.
	Command []string
	// Begun is a process by that Command which was begun already, the first that the Driver uses, and closes; nil: it begins one.
	Begun *launch.Begun
	// Strict makes Probe, Create and Restore fail where a protection can't be armed. Otherwise they fail only where
	// nothing separates the process from the host: neither system call filter, nor namespaces, nor Landlock, on Linux.
	Strict bool
	Idle   time.Duration // how long a process is kept for an owner who uses none of its sandboxes; 0 means a minute
	Most   int           // most processes at once; 0 means 64
	Served int           // after how many sandboxes a process is replaced by a fresh one; 0 means 10,000
	// Snapshot bounds the bytes of one snapshot; 0 means 512 MiB.
	Snapshot int64
	Log      *slog.Logger // nil: none
}

// A Driver runs another driver in processes of their own. Close it when no sandbox is left.
type Driver struct {
	cfg   Config
	log   *slog.Logger
	start launcher
	idled chan struct{}  // has a token when a process became idle
	work  sync.WaitGroup // what the driver has begun beside the processes

	probing chan struct{}         // has a token while somebody probes, or looks at caps
	caps    *sandbox.Capabilities // known since the first probe that went well

	mu      sync.Mutex
	all     map[*process]bool   // that have not ended
	current map[string]*process // of each owner: where the next sandbox is made
	spare   *process            // of no owner yet
	wanted  *time.Timer         // when the next spare is begun
	changed chan struct{}       // closed and replaced when a process ends
	closed  bool
}

// A launcher starts children.
type launcher interface {
	start(more ...string) (peer, error)
	close()
}

// New makes a driver and begins its first process.
func New(cfg Config) (*Driver, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("child driver: no command")
	}
	d := newDriver(cfg, newStarter(cfg.Command, cfg.Begun))
	d.work.Go(func() { _, _ = d.Probe(context.Background()) }) // ahead of whoever asks, who hears what goes wrong
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

// Probe says what the inner driver can do, with the protections of the processes that it runs in.
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
	caps, err := p.probe(ctx)
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	d.caps = &caps
	return clone(caps), nil
}

func clone(c sandbox.Capabilities) sandbox.Capabilities {
	c.Runtimes, c.Missing, c.Details, c.Engines, c.Builds = slices.Clone(c.Runtimes), slices.Clone(c.Missing), maps.Clone(c.Details), maps.Clone(c.Engines), maps.Clone(c.Builds)
	return c
}

// Create makes a fresh sandbox, in a process of the owner that spec names.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	return d.make(ctx, spec, func(p *process) (*Sandbox, error) {
		return p.create(ctx, appendSpec(nil, spec))
	})
}

// Restore makes a sandbox out of a snapshot, in a process of the owner that spec names.
func (d *Driver) Restore(ctx context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	if int64(len(snapshot)) > d.cfg.Snapshot {
		return nil, tool.Errorf(tool.Limit, "the snapshot has %d bytes: at most %d can be restored", len(snapshot), d.cfg.Snapshot)
	}
	return d.make(ctx, spec, func(p *process) (*Sandbox, error) {
		return p.make(ctx, kindRestore, appendSpec(appendSize(nil, len(snapshot)), spec), snapshot)
	})
}

// make makes a sandbox with f, again when the process turns out to have ended: nothing had begun in it.
func (d *Driver) make(ctx context.Context, spec sandbox.Spec, f func(*process) (*Sandbox, error)) (sandbox.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("make a sandbox: %w", context.Cause(ctx))
	}
	if len(spec.Runtime) > maxRuntime {
		return nil, tool.Errorf(tool.Invalid, "no runtime is called %.20s...", spec.Runtime)
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

// Close ends all processes, and what still runs in them.
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
		p.end("was ended with its driver")
	}
	d.change()
	d.mu.Unlock()
	d.work.Wait()
	d.start.close()
	return nil
}

// explain adds to caps what is around the inner driver, and fails where that is too little.
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
	return d.enough(ps)
}

// enough fails where too few protections are armed.
func (d *Driver) enough(ps []Protection) error {
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
		return tool.Errorf(tool.Unavailable, "the engine's process can't be locked down as strictly as the configuration asks: %s", strings.Join(missing, ", "))
	case !separate:
		return tool.Errorf(tool.Unavailable, "nothing on this host separates the engine's process from it: %s", strings.Join(missing, ", "))
	}
	return nil
}
