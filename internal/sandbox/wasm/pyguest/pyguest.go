// Package pyguest is the Python half of the embedded engine: CPython, translated to Go (third_party/cpython), the
// functions of WASI preview 1 that it imports, and the runtime in which programs run.
//
// The runtime is written in Python (the folder _biplane, imported once, while the golden image is made). It speaks the
// guest's end of the protocol of package sandbox, as the JavaScript runtime of package guest does. What it needs of the
// driver is a Host.
//
// Files are those of the host (sandbox.File, asked for one operation at a time) but for /lib, which holds the standard
// library and comes out of the binary. The table of open files is in the guest's own memory, so that linear memory and
// the two words of the clock are all there is to a snapshot.
package pyguest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/biplane-dev/biplane/third_party/cpython"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// A Host is the outside of a guest. Its methods may panic to unwind the guest.
type Host interface {
	// Write takes one line of the guest protocol, with its '\n'.
	Write(line []byte)
	// Ask asks and stands still until the answer is there, both lines without '\n'. It reports false where nobody answers.
	Ask(question []byte) (answer []byte, ok bool)
	// Next stands still until the host sends its next line and gives it, without '\n'. It reports false at the end.
	Next() (line []byte, ok bool)
	// Now reads the guest's clock, in milliseconds since the epoch.
	Now() int64
	// SetClock sets the guest's clock, which never goes back.
	SetClock(ms int64)
}

// A Guest is one interpreter. It is not safe for concurrent use. All methods run the guest, but Module.
type Guest struct {
	m       *py.Module
	host    Host
	library *Library
	answer  []byte // of the last question
	heap    uint32
}

// ErrExit is what a guest panics with that ends itself by the system's exit function.
var ErrExit = errors.New("the program ended the interpreter")

// New makes a guest, which reads of the library as it needs. Module's SetMemory comes next; then Boot, where the memory isn't that of a guest which has booted.
func New(host Host, library *Library) *Guest {
	g := &Guest{host: host, library: library}
	g.m = py.New(imports{g})
	return g
}

// Module is the guest's engine.
func (g *Guest) Module() *py.Module { return g.m }

// bootstrap is what the interpreter runs first.
const bootstrap = "from _biplane.guest import deliver, idle\n"

// Boot starts the interpreter in fresh memory.
func (g *Guest) Boot() error {
	g.m.Init()
	g.heap = g.m.BpAlloc(16)
	g.m.Initialize()
	p := g.put([]byte(bootstrap))
	bad := g.m.BpBoot(p, uint32(len(bootstrap)))
	g.m.BpFree(p)
	return g.result(bad)
}

// Heap is the address of the first thing that was allocated in the guest, which stays so. It is known after Boot.
func (g *Guest) Heap() uint32 { return g.heap }

// Deliver gives the guest a line of the host, without its '\n'.
func (g *Guest) Deliver(line []byte) error {
	p := g.put(line)
	bad := g.m.BpDeliver(p, uint32(len(line)))
	g.m.BpFree(p)
	return g.result(bad)
}

// Idle lets the guest do what is left to do when there are no more lines for now.
func (g *Guest) Idle() error { return g.result(g.m.BpIdle()) }

// A RuntimeError is an exception that the runtime didn't catch: a defect, or a guest whose heap is no more.
type RuntimeError struct{ Text string }

// Error gives the exception's type and message.
func (e *RuntimeError) Error() string { return e.Text }

// ErrMemory is what a guest panics with that has no memory left for a line of the host.
var ErrMemory = errors.New("the guest is out of memory")

func (g *Guest) result(bad uint32) error {
	if bad == 0 {
		return nil
	}
	b := g.m.Memory()[g.m.BpError():][:errorSize]
	for i, c := range b {
		if c == 0 {
			b = b[:i]
			break
		}
	}
	return &RuntimeError{string(b)}
}

// errorSize is the length of the reactor's buffer for an error.
const errorSize = 4096

// put copies b and a zero byte into the guest's heap; the caller frees it.
func (g *Guest) put(b []byte) uint32 {
	p := g.m.BpAlloc(uint32(len(b) + 1))
	if p == 0 {
		panic(ErrMemory)
	}
	to := g.m.Memory()[p:][:len(b)+1]
	copy(to, b)
	to[len(b)] = 0
	return p
}

//go:embed _biplane/*.py lib/*.py
var sources embed.FS

// Version is that of the interpreter.
const Version = "3.13.5"

// Source is what the engine runs beside its module: the text of the runtime, and the sum of the library.
func Source() string {
	var b strings.Builder
	_ = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := sources.ReadFile(name) // it is in the binary
			fmt.Fprintf(&b, "# %s %d\n%s", name, len(text), text)
		}
		return err
	})
	return b.String() + cpython.LibrarySum
}
