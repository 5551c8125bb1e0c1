// Package wasm is the sandbox kind that needs nothing but this binary: engines such as QuickJS-NG, compiled to
// WebAssembly and translated to Go ahead of time (by internal/w2x), in a linear memory whose every page the host can take
// away. No system call reaches the guest; what it can ask of the host is what the engine imports (type imports), and
// nothing of it waits but Cmd.Ask.
//
// An engine boots once. Its memory is then the image that every sandbox maps copy-on-write, so that a new sandbox
// costs microseconds and holds nothing of any other.
//
// What all engines have in common is type guest; an engine of one language is the interface engine, and what the driver
// knows of it a row of the table languages.
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
//	__host("lend", "c")         gives a function (promise, s) that does what "write" does, and has the engine report no rejection of promise
//
// Its completion value is an object with the methods deliver(line, long) (a line of the host's, without "\n", and whether it
// has 16 digits in a row, which a JavaScript number may not hold), if it likes give(id, text) (what deliver would be told in a line that
// answers a call with a value of which text is the JSON, without 16 digits in a row; false sends it to deliver), idle() (no job is left after one of these), and, if it likes, unhandled(reason) (a promise was rejected and nothing handled it). None
// of them may throw.
//
// The runtime of Python is package pyguest, which has the same from its Host, and one thing more: a guest in which nothing can
// be awaited may stand still for the host's next line.
//
// Nothing else of the outside reaches a guest, neither time nor randomness: the lines and answers of the host determine
// what it does.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
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
	Prelude string // the guest's side of the protocol in JavaScript; that of package guest if empty
	// Parallel is how many guests run at the same instant; 0 means one for each processor that Go uses. The others
	// wait for a turn, those that run long step back for them.
	Parallel int
	// Relief has the driver raise GOMAXPROCS by one while guests hold every processor but one for long, so that they are stopped in
	// time: for a process that does nothing else.
	Relief bool
	// Spare is how many regions are kept for the next sandboxes: a few with 16 MiB of pages in all for each language, of
	// the others only the reservation of address space; 0 means 64.
	Spare int
	// Idle is how many bytes the guests that were saved (Sandbox.Snapshot) keep mapped while nothing runs in them, all together
	// and beside the one that was used last; 0 means 32 MiB. The others, least recently used first, are kept packed, at a tenth of that,
	// until they run again.
	Idle int64
	// Pagemap is /proc/self/pagemap, opened for reading by this process, which tells what a guest has written to. Where it
	// is nil the driver opens it, and where it can't it compares a guest's memory with the image instead. The driver
	// closes it.
	Pagemap *os.File
}

// A Driver makes sandboxes, each with an engine of its own. Close it when no sandbox is left.
type Driver struct {
	cfg    Config
	turns  *turns
	relief *relief // nil: none is asked for
	codec  codec
	pool   pool
	idle   idle
	kinds  []*kind
	probe  func() (sandbox.Capabilities, error) // once

	inUse sync.RWMutex // held for reading while the bytes of an image are read

	mu     sync.Mutex
	images []*image // that were made
	closed bool
}

// A kind is a language that the driver runs.
type kind struct {
	lang  language
	image func() (*image, error) // makes it once, when it is first needed
}

// New makes a driver. What an engine needs is made ready when it is first needed.
func New(cfg Config) (*Driver, error) { return newDriver(cfg, languages()) }

func newDriver(cfg Config, languages []language) (*Driver, error) {
	if cfg.Parallel <= 0 {
		cfg.Parallel = runtime.GOMAXPROCS(0)
	}
	if cfg.Spare == 0 {
		cfg.Spare = 64
	}
	if cfg.Idle == 0 {
		cfg.Idle = idleMemory
	}
	if cfg.Pagemap == nil {
		cfg.Pagemap = openPagemap()
	}
	d := &Driver{cfg: cfg, turns: newTurns(cfg.Parallel)}
	if cfg.Relief {
		d.relief = newRelief(runtime.GOMAXPROCS)
	}
	d.idle.most = cfg.Idle
	d.pool.spare, d.pool.pagemap, d.pool.ready, d.pool.pages = cfg.Spare, cfg.Pagemap, map[*image][]*region{}, map[*image]int{}
	for _, l := range languages {
		d.kinds = append(d.kinds, &kind{l, sync.OnceValues(func() (*image, error) { return d.makeImage(l) })})
	}
	d.probe = sync.OnceValues(d.tryOut)
	return d, nil
}

// makeImage unpacks the language's image, or boots its engine where there is none.
func (d *Driver) makeImage(l language) (img *image, err error) {
	if l.name == "js" && d.cfg.Prelude != "" {
		l.source, l.golden = func() string { return d.cfg.Prelude }, nil
	}
	if len(l.golden) > 0 {
		img, err = unpackImage(&d.codec, l)
	} else {
		img, err = bootImage(l)
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		img.close()
		return nil, errDriverClosed
	}
	d.images = append(d.images, img)
	return img, nil
}

var errDriverClosed = errors.New("the driver is closed")

// Create makes a fresh sandbox.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	k, spec, err := d.complete(spec)
	if err != nil {
		return nil, err
	}
	s, err := d.newSandbox(k, spec)
	if err != nil {
		return nil, &tool.Error{Kind: tool.Unavailable, Msg: "can't make a sandbox here: " + err.Error(), Err: err}
	}
	return s, nil
}

// kind finds a language by its name.
func (d *Driver) kind(runtime string) (*kind, error) {
	names := make([]string, len(d.kinds))
	for i, k := range d.kinds {
		if names[i] = k.lang.name; runtime == names[i] || runtime == "" {
			return k, nil
		}
	}
	return nil, tool.Errorf(tool.Invalid, "the wasm driver runs %s, not %q", strings.Join(names, " and "), runtime)
}

// complete finds the language of a spec and puts the defaults where it has no limit.
func (d *Driver) complete(s sandbox.Spec) (*kind, sandbox.Spec, error) {
	k, err := d.kind(s.Runtime)
	if err != nil {
		return nil, s, err
	}
	s.Runtime = k.lang.name
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
		return nil, s, tool.Errorf(tool.Invalid, "sandbox memory of %d bytes: the wasm engine takes %d MiB to %d MiB", s.Memory, minMemory>>20, maxMemory>>20)
	case s.Stack < minStack || s.Stack > maxStack:
		return nil, s, tool.Errorf(tool.Invalid, "sandbox stack of %d bytes: the wasm engine takes %d KiB to %d KiB", s.Stack, minStack>>10, maxStack>>10)
	case s.CPU < 0 || s.Output < 0:
		return nil, s, tool.Errorf(tool.Invalid, "sandbox limits may not be negative")
	}
	s.Memory = s.Memory / wasmPage * wasmPage
	return k, s, nil
}

// newRegion gives a region that holds an image and may grow to max bytes.
func (d *Driver) newRegion(img *image, max int) (*region, error) {
	if least := img.size + headroom; max < least {
		return nil, fmt.Errorf("a guest needs %d KiB of memory before it does anything", least>>10)
	}
	return d.pool.take(img, max)
}

// use gives the image of k, whose bytes the caller may read until done.
func (d *Driver) use(k *kind) (img *image, done func(), err error) {
	d.inUse.RLock()
	if img, err = k.image(); err == nil {
		d.mu.Lock()
		if d.closed {
			err = errDriverClosed
		}
		d.mu.Unlock()
	}
	if err != nil {
		d.inUse.RUnlock()
		return nil, nil, err
	}
	return img, d.inUse.RUnlock, nil
}

// Close gives back what the driver keeps. Sandboxes that are open go on until they are closed, but can't be copied, nor
// mapped again where they are parked.
func (d *Driver) Close() error {
	d.inUse.Lock()
	defer d.inUse.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.relief.close()
	d.pool.close()
	for _, i := range d.images {
		i.close()
	}
	if d.cfg.Pagemap != nil {
		_ = d.cfg.Pagemap.Close() // it was only read from
	}
	return nil
}
