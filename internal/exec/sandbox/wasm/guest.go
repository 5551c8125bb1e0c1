package wasm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
)

// A guest is one instance of an engine in a region. It holds what all engines share.
type guest struct {
	region   *region
	engine   engine
	host     host
	random   *rand.ChaCha8 // only in the guest that becomes an image
	clock    int64         // milliseconds since the epoch
	readings int           // readings since the clock advanced

	mu      sync.Mutex
	inside  bool // a goroutine is inside enter
	dead    bool // the heap may be inconsistent: never enter again
	revoked bool // the memory was revoked
}

// A host is the interface through which a running guest accesses the outside. Lines and questions
// are in the guest's memory.
type host interface {
	interrupted() bool                            // reports whether the guest must stop
	write(line []byte)                            // writes a line, "\n" included
	ask(question []byte) (answer string, ok bool) // blocks until the answer arrives
	next() (line string, ok bool)                 // blocks until the host sends its next line
}

// newGuest attaches an engine of the image's language to a region that holds the image.
func newGuest(r *region, img *image, outside host) *guest {
	g := &guest{region: r, host: outside, clock: bootTime}
	g.engine = img.lang.attachEngine(g, img.words)
	return g
}

// Errors of a guest that can't continue.
var (
	errDead    = errors.New("the guest was stopped")
	errMemory  = errors.New("the guest is out of memory")
	errStack   = errors.New("the guest's stack is exhausted")
	errRevoked = errors.New("the guest's memory was revoked")
)

// An abort is a panic value that unwinds the guest with an error of the host.
type abort struct{ err error }

// An exception is an error thrown by the guest in a call from the host.
type exception struct{ text string }

// Error returns the guest's text of the exception, with its stack.
func (e *exception) Error() string { return e.text }

// enter runs f, which may run the guest. It recovers from any panic that ends the guest. After an
// error other than an *exception, the heap may be inconsistent, and the guest can't be entered
// again.
func (g *guest) enter(f func() error) (err error) {
	g.mu.Lock()
	if g.dead {
		g.mu.Unlock()
		return errDead
	}
	g.inside = true
	g.mu.Unlock()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		x := recover()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside = false
		g.dead = g.dead || x != nil || g.revoked
		switch {
		case x != nil:
			err = g.trapError(x)
		case g.revoked:
			err = errRevoked
		}
	}()
	return f()
}

// trapError returns the error for a recovered panic.
func (g *guest) trapError(x any) error {
	if a, ok := x.(abort); ok {
		return a.err
	}
	err := g.engine.trap(x)
	switch {
	case err == nil: // a defect of the host side: it must neither crash the process nor be hidden
		return fmt.Errorf("panic in the host side of a guest: %v\n%s", x, debug.Stack())
	case g.revoked:
		return errRevoked
	}
	return err
}

// revoke makes the memory inaccessible to a guest that is inside enter on another goroutine, and so
// ends it at its next access. Otherwise it does nothing.
func (g *guest) revoke() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.inside || g.revoked {
		return nil
	}
	g.revoked = true
	return g.region.revoke()
}

// readingsPerMS is how often the clock can be read before it advances by a millisecond.
const readingsPerMS = 4096

// now reads the guest's clock.
func (g *guest) now() int64 {
	if g.readings++; g.readings >= readingsPerMS {
		g.readings = 0
		g.clock++
	}
	return g.clock
}

// setClock sets the guest's clock, which never goes back.
func (g *guest) setClock(ms int64) { g.clock = max(g.clock, ms) }
