package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"

	"github.com/biplane-dev/biplane/internal/sandbox/wasm/qjs"
)

// A value is a handle of a JavaScript value: the address of a cell in the guest's memory that holds it. Zero is none.
type value uint32

// handles are the values that the host uses, made once while the image is and at the same addresses in every guest.
type handles struct {
	scratch   uint32 // address of scratchSize bytes for arguments and results
	undefined value
	runtime   value // the prelude's completion value
	deliver   value // its methods; zero where it has none
	idle      value
	hangup    value
	unhandled value
}

const scratchSize = 64

// A host is what a guest can ask of the outside while it runs. None of it waits for anything.
type host interface {
	interrupted() bool // whether the guest is to stop
	write(n int, text func() string)
	ask(question string) (answer string, ok bool) // stands still until the answer is there
}

// A guest is one instance of the engine in a region. Its methods touch the guest's memory: all but enter and stop may
// be called only inside enter.
type guest struct {
	region   *region
	m        *qjs.Module
	h        handles
	host     host
	rejected []rejection
	random   *rand.ChaCha8 // of the guest of which the image is made; no other has any
	clock    int64         // milliseconds since the epoch
	readings int           // of the clock

	mu      sync.Mutex
	inside  bool // a goroutine is inside enter
	dead    bool // the heap may be inconsistent: never enter again
	revoked bool // the memory was taken away
}

// A rejection is a promise that was rejected while nothing handled it.
type rejection struct {
	promise, reason value
}

// maxRejected bounds how many rejections are kept for the prelude to hear of.
const maxRejected = 16

// newGuest puts an engine over a region.
func newGuest(r *region, h handles, outside host) *guest {
	g := &guest{region: r, h: h, host: outside, clock: bootTime}
	g.m = qjs.New(imports{g})
	g.m.Grow = r.grow
	g.m.SetMemory(r.memory())
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

// Error gives the exception as JavaScript writes it, and its stack.
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
	trap, ok := g.m.AsTrap(x)
	switch {
	case !ok: // a defect of the host side: it must not take the process down, nor be hidden
		return fmt.Errorf("panic in the host side of a guest: %v\n%s", x, debug.Stack())
	case g.revoked:
		return errRevoked
	case trap == qjs.ErrDepth || trap == qjs.ErrMemory && g.m.StackPointer() > qjs.InitialStackPointer:
		return errStack // a stack that ran below address 0 wrapped around
	}
	return fmt.Errorf("the guest trapped: %w", trap)
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

// put copies s and a zero byte into the guest's heap; the caller frees it.
func (g *guest) put(s string) uint32 {
	p := g.m.WasmMalloc(uint32(len(s) + 1))
	if p == 0 {
		panic(abort{errMemory})
	}
	b := g.m.Memory()[p:][:len(s)+1]
	copy(b, s)
	b[len(s)] = 0
	return p
}

// newString makes a JavaScript string.
func (g *guest) newString(s string) value {
	p := g.put(s)
	v := g.m.QjsNewString(p, uint32(len(s)))
	g.m.WasmFree(p)
	if g.failed(value(v)) {
		panic(abort{errMemory})
	}
	return value(v)
}

// text calls use with the length of the string that v converts to and a function that copies it. It does nothing when
// the conversion fails.
func (g *guest) text(v value, use func(n int, copy func() string)) bool {
	p := g.m.QjsGetStringLen(uint32(v), g.h.scratch)
	if p == 0 {
		return false
	}
	n := binary.LittleEndian.Uint32(g.m.Memory()[g.h.scratch:])
	use(int(n), func() string { return string(g.m.Memory()[p:][:n]) })
	g.m.QjsFreeCstring(p)
	return true
}

// maxText bounds what the host copies of an exception, in bytes.
const maxText = 16 << 10

// describe gives at most maxText bytes of the string that v converts to.
func (g *guest) describe(v value) (s string) {
	g.text(v, func(n int, text func() string) {
		if n <= maxText {
			s = text()
		} else {
			s = fmt.Sprintf("(a text of %d bytes)", n)
		}
	})
	return s
}

// property gives a property of v, which the caller frees. The name is of at most scratchSize/2-1 bytes.
func (g *guest) property(v value, name string) value {
	p := g.put(name)
	x := g.m.QjsGetPropString(uint32(v), p)
	g.m.WasmFree(p)
	return value(x)
}

// readingsPerMS is how often the clock can be read before it moves on by itself, by a millisecond.
const readingsPerMS = 4096

// now reads the guest's clock.
func (g *guest) now() int64 {
	if g.readings++; g.readings == readingsPerMS {
		g.readings = 0
		g.clock++
	}
	return g.clock
}

// setClock sets the guest's clock, which never goes back.
func (g *guest) setClock(ms int64) { g.clock = max(g.clock, ms) }

func (g *guest) free(v value) {
	if v != 0 {
		g.m.QjsFreeValue(uint32(v))
	}
}

// failed reports whether v says that an exception is pending, as none does.
func (g *guest) failed(v value) bool { return v == 0 || g.m.QjsIsException(uint32(v)) != 0 }

// caught takes the pending exception.
func (g *guest) caught() error {
	e := value(g.m.QjsGetException())
	if e == 0 {
		return errMemory
	}
	defer g.free(e)
	if g.host.interrupted() { // no more code of the guest's
		return &exception{"interrupted"}
	}
	text := g.describe(e)
	if g.m.QjsIsError(uint32(e)) != 0 {
		s := g.property(e, "stack")
		if !g.failed(s) {
			text += "\n" + g.describe(s)
		}
		g.free(s)
	}
	return &exception{text}
}

// eval runs a script and gives its completion value, which the caller frees.
func (g *guest) eval(code, name string) (value, error) {
	p, n := g.put(code), g.put(name)
	v := value(g.m.QjsEval(p, uint32(len(code)), n, 0))
	g.m.WasmFree(p)
	g.m.WasmFree(n)
	if g.failed(v) {
		g.free(v)
		return 0, g.caught()
	}
	return v, nil
}

// call calls a method of the prelude's runtime and drops what it gives. It does nothing where f is no method.
func (g *guest) call(f value, args ...value) error {
	if f == 0 {
		return nil
	}
	argv := g.h.scratch + 16
	for i, a := range args {
		binary.LittleEndian.PutUint32(g.m.Memory()[argv+uint32(4*i):], uint32(a))
	}
	v := value(g.m.QjsCall(uint32(f), uint32(g.h.runtime), uint32(len(args)), argv))
	if g.failed(v) {
		g.free(v)
		return g.caught()
	}
	g.free(v)
	return nil
}

// jobs runs what is queued until nothing is, and then tells the prelude of promises whose rejection nothing handled.
func (g *guest) jobs() error {
	for {
		for g.m.QjsIsJobPending() != 0 {
			if int32(g.m.QjsExecutePendingJob()) < 0 {
				if err := g.caught(); g.host.interrupted() {
					return err
				}
			}
			if g.host.interrupted() {
				return &exception{"interrupted"}
			}
		}
		if len(g.rejected) == 0 {
			return nil
		}
		all := g.rejected
		g.rejected = nil
		for _, r := range all {
			err := g.call(g.h.unhandled, r.reason)
			g.free(r.reason)
			g.free(r.promise)
			if err != nil {
				return err
			}
		}
	}
}
