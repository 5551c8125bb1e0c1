package wasm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
)

// A guest is one instance of an engine in a region: what all engines have in common.
type guest struct {
	region   *region
	engine   engine
	host     host
	random   *rand.ChaCha8 // of the guest of which an image is made; no other has any
	clock    int64         // milliseconds since the epoch
	readings int           // of the clock

	mu      sync.Mutex
	inside  bool // a goroutine is inside enter
	dead    bool // the heap may be inconsistent: never enter again
	revoked bool // the memory was taken away
}

// A host is what a guest can ask of the outside while it runs.
type host interface {
	interrupted() bool                                      // whether the guest is to stop
	write(n int, text func() string)                        // a line of n bytes, "\n" included
	ask(n int, text func() string) (answer string, ok bool) // stands still until the answer is there
	next() (line string, ok bool)                           // stands still until the host sends its next line
}

// newGuest puts an engine of the image's language over a region that holds the image.
func newGuest(r *region, img *image, outside host) *guest {
	g := &guest{region: r, host: outside, clock: bootTime}
	g.engine = img.lang.attach(g, img.words)
	return g
}

// Errors of a guest that can't go on.
var (
	errDead    = errors.New("the guest was stopped")
	errMemory  = errors.New("the guest is out of memory")
	errStack   = errors.New("the guest's stack is exhausted")
	errRevoked = errors.New("the guest's memory was revoked")
)

// An abort unwinds the guest with an error of the host's.
type abort struct{ err error }

// An exception is what the guest threw where the host called it.
type exception struct{ text string }

// Error gives the exception as the guest writes it, and its stack.
func (e *exception) Error() string { return e.text }

// enter runs f, in which the guest may run. It recovers from whatever ends the guest: after an error other than an
// *exception, the heap may be inconsistent, and the guest can't be entered again.
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
			err = g.trapped(x)
		case g.revoked:
			err = errRevoked
		}
	}()
	return f()
}

// trapped says what the recovered panic x means.
func (g *guest) trapped(x any) error {
	if a, ok := x.(abort); ok {
		return a.err
	}
	err := g.engine.trap(x)
	switch {
	case err == nil: // a defect of the host side: it must not take the process down, nor be hidden
		return fmt.Errorf("panic in the host side of a guest: %v\n%s", x, debug.Stack())
	case g.revoked:
		return errRevoked
	}
	return err
}

// revoke takes the memory away from a guest that is inside enter, on another goroutine, which ends it at its next
// access. It does nothing to one that isn't.
func (g *guest) revoke() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.inside || g.revoked {
		return nil
	}
	g.revoked = true
	return g.region.revoke()
}

// readingsPerMS is how often the clock can be read before it moves on by itself, by a millisecond.
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
