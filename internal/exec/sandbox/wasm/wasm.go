// Package wasm is a kind of sandbox that needs nothing but this binary. Engines such as QuickJS-NG
// are compiled to WebAssembly and translated to Go ahead of time (by internal/lab/w2x). Their
// linear memory is mapped so that the host can revoke every page. A guest can make no system calls.
// It can only call the functions that the engine imports (type imports). Of these, only those
// functions block that ask the host (Cmd.Ask) or, in Python, wait for its next line.
//
// An engine boots once. Its memory then becomes the image that every sandbox maps copy-on-write. So
// a new sandbox costs microseconds, and holds no state of another one.
//
// Type guest implements what all engines share. Interface engine is implemented by the engine of
// each language. The table languages holds the driver's knowledge of each.
//
// # The prelude
//
// A driver carries the guest stream without reading it. The JavaScript inside the guest that speaks
// the protocol is the prelude (package guest). It is a script that is evaluated once, when the
// image is created. The global __host exists only while the prelude runs. The prelude must capture
// and delete it:
//
//	__host("write", s)          writes one line, "\n" included, to the guest stream
//	__host("ask", s)            asks the host (Cmd.Ask) and returns its answer,
//	                            or undefined if there is none
//	__host("clock", ms)         sets the guest's clock, in milliseconds since the epoch;
//	                            it never goes back
//	__host("now")               reads the clock; every 4,096th reading advances it
//	                            by a millisecond, so that polling loops end
//	__host("eval", code, name)  runs a script, named so in stack traces, and
//	                            returns its completion value
//	__host("lend", "c")         returns a function (promise, s) that acts as "write",
//	                            and makes the engine report no rejection of promise
//
// Its completion value is an object with these methods, none of which may throw. deliver(line,
// long) handles a line from the host, without "\n"; long reports whether the line has 16
// consecutive digits, which a JavaScript number may not be able to hold. The optional give(id,
// text) handles the answer to a call whose value is the JSON text, without 16 consecutive digits;
// if it returns false, the line goes to deliver. idle() is called when no job is left after these.
// The optional unhandled(reason) is called when a promise was rejected and nothing handled the
// rejection.
//
// The Python runtime is package pyguest, whose Host offers the same functions. In addition, a guest
// that can't await may block for the host's next line.
//
// Nothing else from outside reaches a guest, neither time nor randomness: the host's lines and
// answers determine its behavior.
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

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Default limits of a sandbox, and the bounds of a Spec.
const (
	defaultMemory = 256 << 20
	defaultCPU    = 10 * time.Second
	defaultOutput = 64 << 20
	minMemory     = 8 << 20 // the engine and its image need about half
	maxMemory     = 2 << 30
	maxStack      = 512 << 10 // half of the engine's stack: the rest is for the engine's work between its checks
	minStack      = 32 << 10
	headroom      = 2 << 20 // part of Memory: the engine's own stack and data, which JavaScript's limit doesn't count
)

// Config configures a Driver. The zero value suits everything but tests.
type Config struct {
	Prelude string // the guest's side of the protocol in JavaScript; default: package guest's
	// Parallel is how many guests run simultaneously; 0 means one per processor that Go uses. The
	// others wait for a turn, and guests that run long yield to them.
	Parallel int
	// Relief makes the driver raise GOMAXPROCS by one while guests occupy all processors but one
	// for long, so that they can be stopped in time. It is meant for a process that does nothing
	// else.
	Relief bool
	// Spare is how many regions are kept for later sandboxes; 0 means 64. A few, with 16 MiB of
	// pages in total per language, keep their pages. Of the others only the address space stays
	// reserved.
	Spare int
	// Idle is how many bytes snapshotted guests (Sandbox.Snapshot) may keep mapped in total while
	// they are idle, in addition to the most recently used one; 0 means 32 MiB. Beyond that, the
	// least recently used are packed, to a tenth of the size, until they run again.
	Idle int64
	// Pagemap is /proc/self/pagemap, opened for reading by this process. It shows the pages that a
	// guest has written to. If it is nil the driver opens it; if that fails, it compares the
	// guest's memory with the image instead. The driver closes it.
	Pagemap *os.File
}

// A Driver creates sandboxes, each with its own engine. Close it when no sandbox is left.
type Driver struct {
	cfg    Config
	turns  *turns
	relief *relief // nil unless Config.Relief is set
	codec  codec
	pool   pool
	idle   idle
	kinds  []*kind
	probed probed

	images imageSet
	inUse  sync.RWMutex // read-locked while an image's bytes are read
}

// An imageSet holds the images that a driver has created, until the driver is closed.
type imageSet struct {
	mu     sync.Mutex
	all    []*image
	closed bool
}

// addImage adds an image. If the set is closed, it closes the image.
func (s *imageSet) addImage(img *image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		img.close()
		return errDriverClosed
	}
	s.all = append(s.all, img)
	return nil
}

func (s *imageSet) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// closeSet closes the set, and returns the images for the caller to close. It returns false if the
// set was closed before.
func (s *imageSet) closeSet() ([]*image, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.closed
	s.closed = true
	return s.all, first
}

// A kind is a language supported by the driver.
type kind struct {
	lang language
	d    *Driver

	once sync.Once // creates img, on first use
	img  *image
	err  error
}

// loadImage returns the kind's image. It creates it on the first call.
func (k *kind) loadImage() (*image, error) {
	k.once.Do(func() { k.img, k.err = k.d.makeImage(k.lang) })
	return k.img, k.err
}

// probed is the result of Driver.Probe.
type probed struct {
	once sync.Once
	caps sandbox.Capabilities
	err  error
}

// New returns a driver. Engines are prepared on first use.
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
	d.pool.spare, d.pool.pagemap, d.pool.ready, d.pool.pages = cfg.Spare, cfg.Pagemap, map[*image][]*region{},
		map[*image]int{}
	for _, l := range languages {
		d.kinds = append(d.kinds, &kind{lang: l, d: d})
	}
	return d, nil
}

// A preludeStarter boots engines with another prelude.
type preludeStarter struct {
	starter
	prelude string
}

func (s preludeStarter) bootSource() string { return s.prelude }

// makeImage unpacks the language's image, or boots its engine if there is none.
func (d *Driver) makeImage(l language) (img *image, err error) {
	if l.name == "js" && d.cfg.Prelude != "" {
		l.starter, l.golden = preludeStarter{l.starter, d.cfg.Prelude}, nil
	}
	if len(l.golden) > 0 {
		img, err = unpackImage(&d.codec, l)
	} else {
		img, err = bootImage(l)
	}
	if err != nil {
		return nil, err
	}
	if err := d.images.addImage(img); err != nil {
		return nil, err
	}
	return img, nil
}

var errDriverClosed = errors.New("the driver is closed")

// Create returns a fresh sandbox.
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

// kind returns the language with the given name; "" means the first.
func (d *Driver) kind(runtime string) (*kind, error) {
	names := make([]string, len(d.kinds))
	for i, k := range d.kinds {
		if names[i] = k.lang.name; runtime == names[i] || runtime == "" {
			return k, nil
		}
	}
	return nil, tool.Errorf(tool.Invalid, "the wasm driver runs %s, not %q", strings.Join(names, " and "), runtime)
}

// complete returns the spec's language, and the spec with defaults for missing limits.
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
		return nil, s, tool.Errorf(tool.Invalid, "sandbox memory of %d bytes: the wasm engine takes %d MiB to %d MiB",
			s.Memory, minMemory>>20, maxMemory>>20)
	case s.Stack < minStack || s.Stack > maxStack:
		return nil, s, tool.Errorf(tool.Invalid, "sandbox stack of %d bytes: the wasm engine takes %d KiB to %d KiB",
			s.Stack, minStack>>10, maxStack>>10)
	case s.CPU < 0 || s.Output < 0:
		return nil, s, tool.Errorf(tool.Invalid, "sandbox limits may not be negative")
	}
	s.Memory = s.Memory / wasmPage * wasmPage
	return k, s, nil
}

// newRegion returns a region that holds an image and may grow to max bytes.
func (d *Driver) newRegion(img *image, max int) (*region, error) {
	if least := img.size + headroom; max < least {
		return nil, fmt.Errorf("a guest needs %d KiB of memory before it does anything", least>>10)
	}
	return d.pool.take(img, max)
}

// use returns the image of k. The caller may read its bytes until it calls done.
func (d *Driver) use(k *kind) (img *image, done func(), err error) {
	d.inUse.RLock()
	if img, err = k.loadImage(); err == nil && d.images.isClosed() {
		err = errDriverClosed
	}
	if err != nil {
		d.inUse.RUnlock()
		return nil, nil, err
	}
	return img, d.inUse.RUnlock, nil
}

// Close releases the driver's resources. Open sandboxes continue until they are closed, but can't
// be copied, nor mapped again once they are parked.
func (d *Driver) Close() error {
	d.inUse.Lock()
	defer d.inUse.Unlock()
	images, first := d.images.closeSet()
	if !first {
		return nil
	}
	d.relief.close()
	d.pool.close()
	for _, i := range images {
		i.close()
	}
	if d.cfg.Pagemap != nil {
		_ = d.cfg.Pagemap.Close() // only read from
	}
	return nil
}
