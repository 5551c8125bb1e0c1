// Package pyguest is the Python half of the embedded engine: CPython, translated to Go
// (third_party/cpython), the functions of WASI preview 1 that it imports, and the runtime in which
// programs run.
//
// The runtime is written in Python (the folder _biplane, imported once, when the golden image is
// created). It implements the guest's end of the protocol of package sandbox, like the JavaScript
// runtime of package guest. It accesses the driver through a Host.
//
// Files belong to the host (sandbox.File, requested one operation at a time), except /lib, which
// holds the standard library and comes from the binary. The table of open files is in the guest's
// own memory, so a snapshot consists only of the linear memory and the two words of the clock.
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

// A Host is a guest's access to the outside. Its methods may panic to unwind the guest.
type Host interface {
	// Write sends one line of the guest protocol, with its '\n'.
	Write(line []byte)
	// Ask sends a question and blocks until the answer arrives, both lines without '\n'. It reports
	// false if there is no answer.
	Ask(question []byte) (answer []byte, ok bool)
	// Next blocks until the host sends its next line and returns it, without '\n'. It reports false
	// at the end.
	Next() (line []byte, ok bool)
	// Now reads the guest's clock, in milliseconds since the epoch.
	Now() int64
	// SetClock sets the guest's clock, which never goes back.
	SetClock(ms int64)
}

// A Guest is one interpreter. It is not safe for concurrent use. All methods except Module run the
// guest.
type Guest struct {
	m       *py.Module
	host    Host
	library *Library
	answer  []byte // answer to the last question
	heap    uint32
}

// ErrExit is the panic value of a guest that ends itself by the system's exit function.
var ErrExit = errors.New("the program ended the interpreter")

// New returns a guest that reads from the library on demand. The caller must call SetMemory of its
// Module next, and then Boot, unless the memory is that of a booted guest.
func New(host Host, library *Library) *Guest {
	g := &Guest{host: host, library: library}
	g.m = py.New(imports{g})
	return g
}

// Module returns the guest's engine.
func (g *Guest) Module() *py.Module { return g.m }

// bootstrap is the first code that the interpreter runs.
const bootstrap = "from _biplane.guest import deliver, idle\n"

// Boot starts the interpreter in fresh memory.
func (g *Guest) Boot() error {
	g.m.Init()
	g.heap = g.m.BpAlloc(16)
	g.m.Initialize()
	p := g.copyBytes([]byte(bootstrap))
	bad := g.m.BpBoot(p, uint32(len(bootstrap)))
	g.m.BpFree(p)
	return g.result(bad)
}

// Heap returns the address of the guest's first allocation, which is never freed. It is known after
// Boot.
func (g *Guest) Heap() uint32 { return g.heap }

// Deliver passes a line from the host, without its '\n', to the guest.
func (g *Guest) Deliver(line []byte) error {
	p := g.copyBytes(line)
	bad := g.m.BpDeliver(p, uint32(len(line)))
	g.m.BpFree(p)
	return g.result(bad)
}

// Idle lets the guest finish its remaining work when there are no more lines for now.
func (g *Guest) Idle() error { return g.result(g.m.BpIdle()) }

// A RuntimeError is an exception that the runtime didn't catch: a defect, or a guest with a
// corrupted heap.
type RuntimeError struct{ Text string }

// Error returns the exception's type and message.
func (e *RuntimeError) Error() string { return e.Text }

// ErrMemory is the panic value of a guest without memory for a line from the host.
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

// copyBytes copies b and a zero byte into the guest's heap; the caller frees it.
func (g *Guest) copyBytes(b []byte) uint32 {
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

// Version is the interpreter's version.
const Version = "3.13.5"

// Source returns what the engine runs besides its module: the text of the runtime, and the checksum
// of the library.
func Source() string {
	var b strings.Builder
	_ = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := sources.ReadFile(name) // embedded in the binary
			fmt.Fprintf(&b, "# %s %d\n%s", name, len(text), text)
		}
		return err
	})
	return b.String() + cpython.LibrarySum
}

// Runtime returns the files of the runtime: the folder _biplane. They also run in an ordinary
// interpreter that has a module _host.
func Runtime() fs.FS {
	sub, err := fs.Sub(sources, "_biplane")
	if err != nil {
		panic(err) // the name is valid
	}
	return sub
}
