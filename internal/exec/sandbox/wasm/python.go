package wasm

import (
	_ "embed"
	"errors"
	"io"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm/pyguest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// pythonImage is the packed golden image, created by bootPython from the engine and its runtime
// (TestGolden writes it).
//
//go:embed python.image
var pythonImage []byte

// python returns the language whose engine is CPython. It doesn't poll: its guests are stopped by
// revoking their memory.
func python() language {
	return language{
		name: "python", title: "CPython " + pyguest.Version, module: py.Sum,
		first: `{"at":1767225600001,"run":{"code":"1 + 1","name":"program.py",` +
			`"seed":"00000000000000000000000000000000000000000000000000000000000000ff",` +
			`"namespaces":{"github":["list_issues"]}}}`,
		golden: pythonImage, starter: pythonStarter{pyguest.NewLibrary()},
	}
}

// A pythonStarter creates Python engines.
type pythonStarter struct{ library *pyguest.Library }

func (pythonStarter) bootSource() string { return pyguest.Source() }

func (s pythonStarter) attachEngine(g *guest, words []uint32) engine {
	e := newPython(g, s.library)
	if len(words) == 1 {
		e.heap = words[0]
	}
	return e
}

func (s pythonStarter) bootEngine(g *guest, _ string) ([]uint32, string, error) {
	if !g.region.grow(py.MemoryPages * wasmPage) {
		return nil, "", errMemory
	}
	e := newPython(g, s.library)
	g.engine = e
	if err := e.p.Boot(); err != nil {
		return nil, "", err
	}
	_, err := e.state()
	return []uint32{e.p.Heap() - chunkHead}, pyguest.Version, err
}

// A pyEngine is CPython over the memory of one guest. Between entries all of the guest's state is
// in its memory.
type pyEngine struct {
	p    *pyguest.Guest
	m    *py.Module
	heap uint32 // address of the heap's first chunk
}

func newPython(g *guest, library *pyguest.Library) *pyEngine {
	p := pyguest.New(pyHost{g}, library)
	e := &pyEngine{p: p, m: p.Module()}
	e.m.Grow = g.region.grow
	e.m.SetMemory(g.region.memory())
	return e
}

// limit does nothing: the mapping limits the memory, and the interpreter its own recursion.
func (e *pyEngine) limit(int64, int64) {}

func (e *pyEngine) deliver(line string) error { return runtimeError(e.p.Deliver([]byte(line))) }

func (e *pyEngine) work() error { return runtimeError(e.p.Idle()) }

// runtimeError converts an error that the guest's runtime didn't catch to an *exception.
func runtimeError(err error) error {
	var e *pyguest.RuntimeError
	if errors.As(err, &e) {
		if strings.HasPrefix(e.Text, "MemoryError") { // not enough memory left to report it
			return errMemory
		}
		return &exception{e.Text}
	}
	return err
}

func (e *pyEngine) trap(x any) error {
	if err, ok := x.(error); ok {
		switch {
		case errors.Is(err, pyguest.ErrMemory):
			return errMemory
		case errors.Is(err, pyguest.ErrExit):
			return &tool.Error{Kind: tool.Invalid,
				Msg: err.Error() + ": let it come to its end, return, or raise an exception", Err: err}
		}
	}
	trap, ok := e.m.AsTrap(x)
	switch {
	case !ok:
		return nil
	case trap == py.ErrDepth || trap == py.ErrMemory && e.m.StackPointer() > py.InitialStackPointer:
		return errStack // the stack pointer wrapped around below address 0
	}
	return &tool.Error{Kind: tool.Internal, Msg: "the interpreter crashed (" + trap.Error() +
		"): the program aborted it (os.abort, a signal) or triggered a bug", Err: trap}
}

func (e *pyEngine) state() ([]byte, error) {
	if e.m.StackPointer() != py.InitialStackPointer {
		return nil, errors.New("the guest is not at rest")
	}
	return nil, nil
}

// dead returns the unused stack and the insides of the C library's free chunks.
func (e *pyEngine) dead() []span {
	spans := []span{{0, e.m.StackPointer()}}
	for _, c := range freeChunks(e.m.Memory(), e.heap) {
		if c.to-c.from > chunkLinks {
			spans = append(spans, span{c.from + chunkLinks, c.to})
		}
	}
	return spans
}

func (e *pyEngine) resume(state []byte) error {
	if len(state) > 0 {
		return errors.New("it contains more engine state than exists")
	}
	return nil
}

func (e *pyEngine) runTrial(endless bool) error {
	code := "6 * 7"
	if endless {
		code = "while True: pass"
	}
	if err := e.deliver(`{"run":{"code":"` + code + `"}}`); err != nil {
		return err
	}
	return e.work()
}

// A pyHost adapts a guest's host for its engine.
type pyHost struct{ g *guest }

// Write writes a line.
func (h pyHost) Write(line []byte) {
	h.g.host.write(line)
}

// Ask asks the host.
func (h pyHost) Ask(question []byte) ([]byte, bool) {
	a, ok := h.g.host.ask(question)
	return []byte(a), ok
}

// Next blocks until the host's next line.
func (h pyHost) Next() ([]byte, bool) {
	line, ok := h.g.host.next()
	return []byte(line), ok
}

// Now reads the guest's clock.
func (h pyHost) Now() int64 { return h.g.now() }

// SetClock sets the guest's clock.
func (h pyHost) SetClock(ms int64) { h.g.setClock(ms) }

// errHeld ends a run whose host closed the stream while the guest blocked for a line.
var errHeld = errors.New("the guest waited for the host, which disconnected: it can't be kept")

// next waits for the host's next line, in the same way as ask waits for an answer.
func (r *guestRun) next() (string, bool) {
	r.finishEntry()
	if r.nonblocking != nil {
		r.out.flush(r.nonblocking, false)
	}
	line, err := r.await()
	r.beginEntry()
	switch {
	case r.halting.Load():
		panic(abort{errDead}) // the line no longer matters
	case err != nil:
		panic(abort{err})
	}
	return line, true
}

// await waits for a line. Its error explains why none will come.
func (r *guestRun) await() (string, error) {
	for {
		line, ok, end := r.in.take()
		switch {
		case ok:
			return line, nil
		case end == io.EOF && r.cmd.Keep && r.cmd.Next != nil:
			next := r.cmd.Next(r.ctx)
			switch {
			case r.halting.Load():
				return "", errDead
			case next == nil:
				return "", errHeld
			}
			return string(next), nil
		case end != nil && r.cmd.Keep:
			return "", errHeld
		case end != nil: // its output would be unused
			r.stop(errHungUp)
			return "", errDead
		}
		select {
		case <-r.in.more:
		case <-r.halted:
			return "", errDead
		}
	}
}

func (silentHost) next() (string, bool) { return "", false }
func (booter) next() (string, bool)     { return "", false }
