package wasm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/biplane-dev/biplane/third_party/quickjs-wasi/qjs"
)

// freeHeap is how much free heap the image holds, in bytes, so that typical programs never grow
// their memory.
const freeHeap = 2 << 20

// garbage is how much a guest allocates before the engine first collects cycles, in bytes. A
// collection visits every object, including the prelude's, and makes each page with one private to
// the guest.
const garbage = freeHeap

// slots is a script whose value occupies the gaps that booting left in the engine's blocks of small
// objects. The allocations of a program are then contiguous, and a typical program writes to a
// tenth fewer pages. Long strings fill only the first rounds: they enlarge the image, of which each
// process keeps a copy, and more of them save hardly a page.
const slots = `(() => {
	const a = [];
	for (let k = 0; k < 200; k++) {
		for (let n = 1; n < (k < 10 ? 17 : 6); n++) a.push(String.fromCharCode(97 + k % 26).repeat(n * 16 - 8));
		a.push({}, { a: 1 }, [], () => k);
	}
	return a;
})()`

// bootEngine starts the engine, evaluates the prelude and returns the handles.
func (jsStarter) bootEngine(g *guest, prelude string) (words []uint32, version string, err error) {
	code, err := compileJS(g.host, prelude)
	if err != nil {
		return nil, "", err
	}
	e, err := startJS(g)
	if err != nil {
		return nil, "", err
	}
	g.engine = e
	m := e.m
	if err := e.prelude(code); err != nil {
		return nil, "", err
	}
	if p := m.WasmMalloc(freeHeap); p != 0 {
		m.WasmFree(p)
	}
	m.QjsRunGc()
	m.QjsSetGcThreshold(m.QjsGetGcThreshold()/3*2 + garbage)
	if _, err := e.eval(slots, preludeName); err != nil { // its value is never freed
		return nil, "", err
	}
	if err := e.settle(); err != nil {
		return nil, "", err
	}
	if _, err := e.state(); err != nil {
		return nil, "", err
	}
	return e.h.words(), e.cstring(m.QjsGetQuickjsVersion()), nil
}

// startJS starts the engine in the empty region of g.
func startJS(g *guest) (*jsEngine, error) {
	if !g.region.grow(qjs.MemoryPages * wasmPage) {
		return nil, errMemory
	}
	e := newJS(g)
	m := e.m
	m.Init()
	e.h.scratch = m.WasmMalloc(scratchSize)
	m.Initialize()
	if m.QjsInit() != 0 {
		return nil, errMemory
	}
	m.QjsSetMaxStackSize(maxStack)
	m.QjsSetInterruptHandler(1)
	m.QjsSetPromiseRejectionHandler(1)
	m.QjsSetModuleLoader(1)
	e.h.undefined = value(m.QjsGetUndefined())
	if e.h.scratch == 0 || e.h.undefined == 0 {
		return nil, errMemory
	}
	return e, nil
}

const (
	preludeName = "biplane:guest" // in stack traces
	// stripSource omits the text of functions from the compiled code. The engine would keep it, and
	// that of a nested function once for each enclosing one.
	stripSource = 1 << 4
	stripDebug  = 1 << 5 // omit the positions of functions too: they are never shown
)

// compileJS compiles a prelude in a separate engine, so that the image holds nothing of the
// compiler.
func compileJS(outside host, prelude string) ([]byte, error) {
	r, err := newRegion()
	if err != nil {
		return nil, err
	}
	defer r.free()
	r.setMax(bootMemory)
	e, err := startJS(&guest{region: r, host: outside, clock: bootTime, random: rand.NewChaCha8([32]byte{})})
	if err != nil {
		return nil, err
	}
	p, name := e.copyString(prelude), e.copyString(preludeName)
	b := e.m.QjsCompile(p, uint32(len(prelude)), name, 0, stripSource|stripDebug, e.h.scratch)
	if b == 0 {
		return nil, fmt.Errorf("compile the prelude: %w", e.takeException())
	}
	n := binary.LittleEndian.Uint32(e.m.Memory()[e.h.scratch:])
	return bytes.Clone(e.m.Memory()[b:][:n]), nil
}

// prelude evaluates the compiled prelude with the host function as a global, and stores the methods
// of its completion value.
func (e *jsEngine) prelude(code []byte) error {
	global, name := value(e.m.QjsGetGlobal()), e.copyString(hostFunction)
	f := e.m.QjsNewHostFunction(name, uint32(len(hostFunction)), 1)
	e.m.QjsSetPropString(uint32(global), name, f)
	e.m.QjsFreeValue(f)
	e.m.WasmFree(name)
	at := e.copyString(string(code))
	v := value(e.m.QjsEvalBytecode(at, uint32(len(code))))
	e.m.WasmFree(at)
	if e.isException(v) {
		return fmt.Errorf("evaluate the prelude: %w", e.takeException())
	}
	e.h.runtime = v
	if err := e.runJobs(); err != nil {
		return fmt.Errorf("evaluate the prelude: %w", err)
	}
	left := e.property(global, hostFunction)
	if e.m.QjsIsUndefined(uint32(left)) == 0 {
		return fmt.Errorf("the prelude left %s where programs can reach it", hostFunction)
	}
	e.free(left)
	e.free(global)
	for _, x := range []struct {
		name     string
		to       *value
		optional bool
	}{
		{"deliver", &e.h.deliver, false}, {"give", &e.h.give, true}, {"idle", &e.h.idle, false},
		{"unhandled", &e.h.unhandled, true},
	} {
		p := e.property(v, x.name)
		switch {
		case e.m.QjsIsFunction(uint32(p)) != 0:
			*x.to = p
		case !x.optional:
			return fmt.Errorf("the prelude's value has no method %s", x.name)
		default:
			e.free(p)
		}
	}
	return nil
}

// cstring reads a short string that ends with a zero byte.
func (e *jsEngine) cstring(p uint32) string {
	b := e.m.Memory()[p:]
	for i, c := range b[:min(len(b), 64)] {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}
