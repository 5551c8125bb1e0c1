package wasm

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox/wasm/qjs"
)

const (
	// bootMemory bounds the memory in which the image is made, in bytes.
	bootMemory = 64 << 20
	// freeHeap is how much free heap the image holds, in bytes, so that usual programs never grow their memory.
	freeHeap = 2 << 20
	// bootTime is what the clock shows while the image is made, in milliseconds since the epoch, so that the image is
	// the same every time: 2026-01-01.
	bootTime = 1767225600000
)

// An image is the memory of a guest that has booted and evaluated the prelude: what every sandbox begins with.
type image struct {
	file    *imageFile
	size    int // bytes
	h       handles
	version string // of the engine
}

// newImage boots the engine and evaluates the prelude.
func newImage(prelude string) (img *image, err error) {
	r, err := newRegion()
	if err != nil {
		return nil, err
	}
	defer r.free()
	defer func() {
		if err != nil {
			err = fmt.Errorf("boot the embedded engine: %w", err)
		}
	}()
	const size = qjs.MemoryPages * wasmPage
	r.setMax(bootMemory)
	if !r.grow(size) {
		return nil, errMemory
	}
	g := newGuest(r, handles{}, booter{until: time.Now().Add(10 * time.Second)})
	g.random = rand.NewChaCha8([32]byte{})
	img = &image{}
	if err := g.enter(func() error { return g.boot(prelude, img) }); err != nil {
		return nil, err
	}
	img.size = len(g.m.Memory())
	img.file, err = newImageFile(g.m.Memory())
	return img, err
}

// boot starts the engine, evaluates the prelude and leaves its handles in img.
func (g *guest) boot(prelude string, img *image) error {
	m := g.m
	m.Init()
	m.Initialize()
	if m.QjsInit() != 0 {
		return errMemory
	}
	img.version = g.cstring(m.QjsGetQuickjsVersion())
	m.QjsSetMaxStackSize(maxStack)
	m.QjsSetInterruptHandler(1)
	m.QjsSetPromiseRejectionHandler(1)
	m.QjsSetModuleLoader(1)
	g.h.scratch = m.WasmMalloc(scratchSize)
	g.h.undefined = value(m.QjsGetUndefined())
	if g.h.scratch == 0 || g.h.undefined == 0 {
		return errMemory
	}
	if err := g.prelude(prelude); err != nil {
		return err
	}
	if p := m.WasmMalloc(freeHeap); p != 0 {
		m.WasmFree(p)
	}
	m.QjsRunGc()
	img.h = g.h
	return nil
}

// prelude evaluates the prelude with the host function as a global, and takes the methods of its completion value.
func (g *guest) prelude(source string) error {
	global, name := value(g.m.QjsGetGlobal()), g.put(hostFunction)
	f := g.m.QjsNewHostFunction(name, uint32(len(hostFunction)), 1)
	g.m.QjsSetPropString(uint32(global), name, f)
	g.m.QjsFreeValue(f)
	g.m.WasmFree(name)
	v, err := g.eval(source, "biplane:guest")
	if err != nil {
		return fmt.Errorf("evaluate the prelude: %w", err)
	}
	g.h.runtime = v
	if err := g.jobs(); err != nil {
		return fmt.Errorf("evaluate the prelude: %w", err)
	}
	left := g.property(global, hostFunction)
	if g.m.QjsIsUndefined(uint32(left)) == 0 {
		return fmt.Errorf("the prelude left %s where programs can reach it", hostFunction)
	}
	g.free(left)
	g.free(global)
	for _, x := range []struct {
		name     string
		to       *value
		optional bool
	}{
		{"deliver", &g.h.deliver, false}, {"idle", &g.h.idle, false},
		{"hangup", &g.h.hangup, true}, {"unhandled", &g.h.unhandled, true},
	} {
		p := g.property(v, x.name)
		switch {
		case g.m.QjsIsFunction(uint32(p)) != 0:
			*x.to = p
		case !x.optional:
			return fmt.Errorf("the prelude's value has no method %s", x.name)
		default:
			g.free(p)
		}
	}
	return nil
}

// cstring reads a short text that ends with a zero byte.
func (g *guest) cstring(p uint32) string {
	b := g.m.Memory()[p:]
	for i, c := range b[:min(len(b), 64)] {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// close gives the image's memory back; guests that map it keep their own view.
func (i *image) close() { i.file.close() }

// A booter is the outside of the guest of which the image is made.
type booter struct{ until time.Time }

func (b booter) interrupted() bool       { return time.Now().After(b.until) }
func (booter) write(int, func() string)  {}
func (booter) ask(string) (string, bool) { return "", false }
