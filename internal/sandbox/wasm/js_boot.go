package wasm

import (
	"fmt"

	"github.com/biplane-dev/biplane/third_party/quickjs-wasi/qjs"
)

// freeHeap is how much free heap the image holds, in bytes, so that usual programs never grow their memory.
const freeHeap = 2 << 20

// slots is a script whose value takes the room that booting left free in the engine's blocks of small objects, which is
// everywhere: what a program allocates is to lie together. A typical program then writes to a fifth fewer pages.
const slots = `(() => {
	const a = [];
	for (let k = 0; k < 150; k++) {
		for (let n = 1; n < 17; n++) a.push(String.fromCharCode(97 + k % 26).repeat(n * 16 - 8));
		a.push({}, { a: 1 }, [], () => k);
	}
	return a;
})()`

// bootJS starts the engine, evaluates the prelude and gives the handles.
func bootJS(g *guest, prelude string) (words []uint32, version string, err error) {
	if !g.region.grow(qjs.MemoryPages * wasmPage) {
		return nil, "", errMemory
	}
	e := newJS(g)
	g.engine = e
	m := e.m
	m.Init()
	e.h.scratch = m.WasmMalloc(scratchSize)
	m.Initialize()
	if m.QjsInit() != 0 {
		return nil, "", errMemory
	}
	m.QjsSetMaxStackSize(maxStack)
	m.QjsSetInterruptHandler(1)
	m.QjsSetPromiseRejectionHandler(1)
	m.QjsSetModuleLoader(1)
	e.h.undefined = value(m.QjsGetUndefined())
	if e.h.scratch == 0 || e.h.undefined == 0 {
		return nil, "", errMemory
	}
	if err := e.prelude(prelude); err != nil {
		return nil, "", err
	}
	if p := m.WasmMalloc(freeHeap); p != 0 {
		m.WasmFree(p)
	}
	m.QjsRunGc()
	if _, err := e.eval(slots, "biplane:guest"); err != nil { // its value is never freed
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

// prelude evaluates the prelude with the host function as a global, and takes the methods of its completion value.
func (e *jsEngine) prelude(source string) error {
	global, name := value(e.m.QjsGetGlobal()), e.put(hostFunction)
	f := e.m.QjsNewHostFunction(name, uint32(len(hostFunction)), 1)
	e.m.QjsSetPropString(uint32(global), name, f)
	e.m.QjsFreeValue(f)
	e.m.WasmFree(name)
	v, err := e.eval(source, "biplane:guest")
	if err != nil {
		return fmt.Errorf("evaluate the prelude: %w", err)
	}
	e.h.runtime = v
	if err := e.jobs(); err != nil {
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
		{"deliver", &e.h.deliver, false}, {"idle", &e.h.idle, false}, {"unhandled", &e.h.unhandled, true},
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

// cstring reads a short text that ends with a zero byte.
func (e *jsEngine) cstring(p uint32) string {
	b := e.m.Memory()[p:]
	for i, c := range b[:min(len(b), 64)] {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}
