// Package wasm is the sandbox kind that needs nothing but this binary: QuickJS-NG, compiled to WebAssembly and
// translated to Go ahead of time (package qjs, by internal/w2x), in a linear memory whose every page the host can take
// away. No system call reaches the guest; what it can ask of the host is the type imports, and none of it waits.
//
// The engine boots once. Its memory is then the image that every sandbox maps copy-on-write, so that a new sandbox
// costs microseconds and holds nothing of any other.
//
// # The prelude
//
// A driver carries the guest stream and reads none of it. The JavaScript inside that speaks the protocol is the
// prelude (package guest): a script that is evaluated once, while the image is made. While it runs, and no longer, it
// finds a global __host, which it must capture and delete:
//
//	__host("write", s)          writes one line, "\n" included, to the guest stream
//	__host("ask", s)            asks the host (Cmd.Ask) and gives its answer, or undefined where nobody answers
//	__host("clock", ms)         sets the guest's clock, in milliseconds since the epoch; it never goes back
//	__host("now")               reads it; every 4,096th reading moves it by a millisecond, so that who waits in a loop gets on
//	__host("eval", code, name)  runs a script, named so in stack traces, and gives its completion value
//
// Its completion value is an object with the methods deliver(line) (a line of the host's, without "\n"), idle() (no job
// is left after one of these), and, if it likes, hangup() (the host has gone) and unhandled(reason) (a promise was
// rejected and nothing handled it). None of them may throw.
//
// Nothing else of the outside reaches a guest, neither time nor randomness: the lines and answers of the host determine
// what it does.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	prelude "github.com/biplane-dev/biplane/internal/sandbox/wasm/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a sandbox where its Spec has none, and the bounds of what a Spec may ask for.
const (
	defaultMemory = 256 << 20
	defaultCPU    = 10 * time.Second
	defaultOutput = 64 << 20
	minMemory     = 8 << 20 // the engine and its image need about half of it
	maxMemory     = 2 << 30
	maxStack      = 512 << 10 // half of the engine's stack: the rest is for what it does between its checks
	minStack      = 32 << 10
	headroom      = 2 << 20 // of Memory: the engine's own stack and data, which JavaScript's limit doesn't count
)

// Config makes a Driver. Its zero value is what everybody but a test wants.
type Config struct {
	Prelude string // the guest's side of the protocol; prelude.Source if empty
	// Parallel is how many guests run at the same instant; 0 means one for each processor that Go uses. The others
	// wait for a turn, those that run long step back for them.
	Parallel int
	// Spare is how many reservations of address space are kept for the next sandboxes; 0 means 64.
	Spare int
}

// A Driver makes sandboxes, each with a JavaScript engine of its own. Close it when no sandbox is left.
type Driver struct {
	cfg   Config
	turns *turns
	boot  func() (*image, error) // once
	probe func() (sandbox.Capabilities, error)

	mu     sync.Mutex
	image  *image // once it is made
	spare  []*region
	closed bool
}

// New makes a driver. The engine boots when it is first needed.
func New(cfg Config) (*Driver, error) {
	if cfg.Prelude == "" {
		cfg.Prelude = prelude.Source
	}
	if cfg.Prelude == "" {
		return nil, errors.New("wasm driver: no prelude")
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = runtime.GOMAXPROCS(0)
	}
	if cfg.Spare == 0 {
		cfg.Spare = 64
	}
	d := &Driver{cfg: cfg, turns: newTurns(cfg.Parallel)}
	d.boot = sync.OnceValues(d.makeImage)
	d.probe = sync.OnceValues(d.tryOut)
	return d, nil
}

// makeImage boots the engine.
func (d *Driver) makeImage() (*image, error) {
	img, err := newImage(d.cfg.Prelude)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		img.close()
		return nil, errDriverClosed
	}
	d.image = img
	return img, nil
}

var errDriverClosed = errors.New("the driver is closed")

// Probe boots the engine, runs a guest and stops an endless one, once; it says what it saw.
func (d *Driver) Probe(context.Context) (sandbox.Capabilities, error) { return d.probe() }

// Create makes a fresh sandbox.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	spec, err := complete(spec)
	if err != nil {
		return nil, err
	}
	r, err := d.newRegion(int(spec.Memory))
	if err != nil {
		return nil, &tool.Error{Kind: tool.Unavailable, Msg: "can't make a sandbox here: " + err.Error(), Err: err}
	}
	return newSandbox(d, spec, r), nil
}

// complete puts the defaults where spec has no limit.
func complete(s sandbox.Spec) (sandbox.Spec, error) {
	if s.Memory == 0 {
		s.Memory = defaultMemory
	}
	if s.CPU == 0 {
		s.CPU = defaultCPU
	}
	if s.Stack == 0 {
		s.Stack = maxStack
	}
	if s.Output == 0 {
		s.Output = defaultOutput
	}
	switch {
	case s.Memory < minMemory || s.Memory > maxMemory:
		return s, tool.Errorf(tool.Invalid, "sandbox memory of %d bytes: the wasm engine takes %d MiB to %d MiB", s.Memory, minMemory>>20, maxMemory>>20)
	case s.Stack < minStack || s.Stack > maxStack:
		return s, tool.Errorf(tool.Invalid, "sandbox stack of %d bytes: the wasm engine takes %d KiB to %d KiB", s.Stack, minStack>>10, maxStack>>10)
	case s.Runtime != "" && s.Runtime != "js":
		return s, tool.Errorf(tool.Invalid, "the wasm driver runs js, not %q", s.Runtime)
	case s.CPU < 0 || s.Output < 0:
		return s, tool.Errorf(tool.Invalid, "sandbox limits may not be negative")
	}
	s.Memory = s.Memory / wasmPage * wasmPage
	return s, nil
}

// newRegion gives a region that holds the image and may grow to max bytes.
func (d *Driver) newRegion(max int) (*region, error) {
	img, err := d.boot()
	if err != nil {
		return nil, err
	}
	if least := img.size + headroom; max < least {
		return nil, fmt.Errorf("a guest needs %d KiB of memory before it does anything", least>>10)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errDriverClosed
	}
	var r *region
	if n := len(d.spare); n > 0 {
		r, d.spare = d.spare[n-1], d.spare[:n-1]
	}
	d.mu.Unlock()
	if r == nil {
		if r, err = newRegion(); err != nil {
			return nil, err
		}
	}
	if err := r.load(img, max); err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// release takes a region back. What it held is gone when release returns.
func (d *Driver) release(r *region) {
	if err := r.clear(); err != nil {
		r.free()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.spare) >= d.cfg.Spare {
		r.free()
		return
	}
	d.spare = append(d.spare, r)
}

// Close gives back what the driver keeps. Sandboxes that are open go on until they are closed.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	for _, r := range d.spare {
		r.free()
	}
	d.spare = nil
	if d.image != nil {
		d.image.close()
	}
	return nil
}

// tryOut runs a guest, stops an endless one the hard way, and says what this host can do.
func (d *Driver) tryOut() (sandbox.Capabilities, error) {
	img, err := d.boot()
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	if err := d.tryGuest(); err != nil {
		return sandbox.Capabilities{}, fmt.Errorf("try the embedded engine: %w", err)
	}
	return sandbox.Capabilities{
		Driver:   "wasm",
		Tier:     tool.WASM,
		Runtimes: []string{"js"},
		Engine:   "QuickJS-NG " + img.version + " (WebAssembly, translated to Go)",
		Details: map[string]string{
			"memory":  fmt.Sprintf("copy-on-write of an image of %d KiB in a %s; a reservation of 8 GiB without access around each guest", img.size>>10, img.file.kind),
			"stop":    "the engine's interrupts, then revocation of the guest's memory (tried)",
			"cpu":     cpuClockName,
			"imports": "one stream of lines; no clock, randomness, files, network or modules but what those lines bring",
		},
		Missing: append([]string{
			"a process around the engine: it runs inside this one, with no seccomp, Landlock or namespaces between them",
		}, missing...),
	}, nil
}

// tryGuest evaluates something in a guest, then revokes the memory under a loop that no interrupt reaches.
func (d *Driver) tryGuest() error {
	img, err := d.boot()
	if err != nil {
		return err
	}
	r, err := d.newRegion(defaultMemory)
	if err != nil {
		return err
	}
	defer d.release(r)
	g := newGuest(r, img.h, deafHost{})
	err = g.enter(func() error {
		v, err := g.eval("6 * 7", "probe")
		if err == nil && g.describe(v) != "42" {
			err = errors.New("it can't multiply")
		}
		return err
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- g.enter(func() error { _, err := g.eval("for (;;);", "probe"); return err }) }()
	for {
		if err := g.revoke(); err != nil {
			return fmt.Errorf("revoke a guest's memory: %w", err)
		}
		select {
		case err := <-done:
			if !errors.Is(err, errRevoked) {
				return fmt.Errorf("revoke a guest's memory: it ended with %w", err)
			}
			return nil
		case <-time.After(time.Millisecond): // it may not be inside yet
		}
	}
}

// A deafHost is the outside of a guest that nobody stops by asking.
type deafHost struct{}

func (deafHost) interrupted() bool         { return false }
func (deafHost) write(int, func() string)  {}
func (deafHost) ask(string) (string, bool) { return "", false }
