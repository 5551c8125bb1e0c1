package wasm

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// A machine is an engine that evaluates scripts: the translated one, or the same module in wazero.
type machine interface {
	call(fn string, args ...uint32) uint32
	memory() []byte
}

// evaluate runs a script and returns its value or exception as a string. It makes the same calls on
// every machine.
func evaluate(m machine, scratch uint32, script string) string {
	put := func(s string) uint32 {
		p := m.call("wasm_malloc", uint32(len(s)+1))
		copy(m.memory()[p:], s+"\x00")
		return p
	}
	code, name := put(script), put("test.js")
	v := m.call("qjs_eval", code, uint32(len(script)), name, 0)
	m.call("wasm_free", code)
	m.call("wasm_free", name)
	prefix := ""
	if m.call("qjs_is_exception", v) != 0 {
		m.call("qjs_free_value", v)
		v, prefix = m.call("qjs_get_exception"), "threw "
	}
	for m.call("qjs_is_job_pending") != 0 {
		m.call("qjs_execute_pending_job")
	}
	p := m.call("qjs_get_string_len", v, scratch)
	if p == 0 {
		return prefix + "nothing"
	}
	n := binary.LittleEndian.Uint32(m.memory()[scratch:])
	s := string(m.memory()[p:][:n])
	m.call("qjs_free_cstring", p)
	m.call("qjs_free_value", v)
	return prefix + s
}

// bootMachine starts a machine's engine and returns the address of 64 bytes of scratch memory.
func bootMachine(m machine) uint32 {
	m.call("_initialize")
	m.call("qjs_init")
	m.call("qjs_set_max_stack_size", maxStack)
	return m.call("wasm_malloc", 64)
}

// An ownMachine is the translated engine.
type ownMachine struct{ *jsEngine }

func (o ownMachine) memory() []byte { return o.m.Memory() }

func (o ownMachine) call(fn string, a ...uint32) uint32 {
	m := o.m
	switch fn {
	case "_initialize":
		m.Initialize()
	case "qjs_init":
		return m.QjsInit()
	case "qjs_set_max_stack_size":
		m.QjsSetMaxStackSize(a[0])
	case "wasm_malloc":
		return m.WasmMalloc(a[0])
	case "wasm_free":
		m.WasmFree(a[0])
	case "qjs_eval":
		return m.QjsEval(a[0], a[1], a[2], a[3])
	case "qjs_is_exception":
		return m.QjsIsException(a[0])
	case "qjs_free_value":
		m.QjsFreeValue(a[0])
	case "qjs_get_exception":
		return m.QjsGetException()
	case "qjs_is_job_pending":
		return m.QjsIsJobPending()
	case "qjs_execute_pending_job":
		return m.QjsExecutePendingJob()
	case "qjs_get_string_len":
		return m.QjsGetStringLen(a[0], a[1])
	case "qjs_free_cstring":
		m.QjsFreeCstring(a[0])
	default:
		panic(fn)
	}
	return 0
}

func newOwnMachine(t testing.TB) ownMachine {
	t.Helper()
	r, err := newRegion()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(r.free)
	r.setMax(bootMemory)
	if !r.grow(18 * wasmPage) {
		t.Fatal("no memory")
	}
	e := newJS(&guest{region: r, host: silentHost{}, clock: bootTime})
	e.m.Init()
	return ownMachine{e}
}

// A wazeroMachine is the module in wazero's compiler.
type wazeroMachine struct {
	t   testing.TB
	mod api.Module
	fns map[string]api.Function
}

func (w *wazeroMachine) memory() []byte {
	b, _ := w.mod.Memory().Read(0, w.mod.Memory().Size())
	return b
}

func (w *wazeroMachine) call(fn string, a ...uint32) uint32 {
	f := w.fns[fn]
	if f == nil {
		f = w.mod.ExportedFunction(fn)
		w.fns[fn] = f
	}
	var stack [6]uint64
	for i, x := range a {
		stack[i] = uint64(x)
	}
	if err := f.CallWithStack(context.Background(), stack[:]); err != nil {
		w.t.Fatalf("wazero: %s: %v", fn, err)
	}
	return uint32(stack[0])
}

// A wazeroEngine creates wazeroMachines.
type wazeroEngine struct {
	rt   wazero.Runtime
	code wazero.CompiledModule
}

func newWazeroEngine(t testing.TB) *wazeroEngine {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	t.Cleanup(func() { _ = rt.Close(ctx) })
	env := rt.NewHostModuleBuilder("env")
	ret := func(v uint32) func(context.Context, api.Module, []uint64) {
		return func(_ context.Context, _ api.Module, s []uint64) { s[0] = uint64(v) }
	}
	export := func(b wazero.HostModuleBuilder, name string, in int, wide int, out int,
		f func(context.Context, api.Module, []uint64)) wazero.HostModuleBuilder {
		params := make([]api.ValueType, in)
		for i := range params {
			params[i] = api.ValueTypeI32
		}
		if wide >= 0 {
			params[wide] = api.ValueTypeI64
		}
		return b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(f), params,
			[]api.ValueType{api.ValueTypeI32}[:out]).Export(name)
	}
	env = export(env, "host_get_timezone_offset", 2, -1, 1, ret(0))
	env = export(env, "host_interrupt", 0, -1, 1, ret(0))
	env = export(env, "host_promise_rejection", 3, -1, 0, func(context.Context, api.Module, []uint64) {})
	env = export(env, "host_module_normalize", 2, -1, 1, ret(0))
	env = export(env, "host_module_load", 2, -1, 1, ret(0))
	env = export(env, "host_call", 5, -1, 1, ret(0))
	if _, err := env.Instantiate(ctx); err != nil {
		t.Fatalf("Instantiate: %v", err)
	}
	wasi := rt.NewHostModuleBuilder("wasi_snapshot_preview1")
	wasi = export(wasi, "clock_time_get", 3, 1, 1, func(_ context.Context, m api.Module, s []uint64) {
		m.Memory().WriteUint64Le(uint32(s[2]), uint64(bootTime*int64(time.Millisecond)))
		s[0] = 0
	})
	wasi = export(wasi, "fd_close", 1, -1, 1, ret(wasiNoSys))
	wasi = export(wasi, "fd_fdstat_get", 2, -1, 1, ret(wasiBadFile))
	wasi = export(wasi, "fd_seek", 4, 1, 1, ret(wasiNoSys))
	wasi = export(wasi, "fd_write", 4, -1, 1, ret(wasiBadFile))
	wasi = export(wasi, "random_get", 2, -1, 1, ret(wasiNoSys))
	if _, err := wasi.Instantiate(ctx); err != nil {
		t.Fatalf("Instantiate: %v", err)
	}
	b, err := os.ReadFile("../../../../third_party/quickjs-wasi/quickjs.wasm")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	code, err := rt.CompileModule(ctx, b)
	if err != nil {
		t.Fatalf("CompileModule: %v", err)
	}
	return &wazeroEngine{rt, code}
}

func (e *wazeroEngine) machine(t testing.TB) *wazeroMachine {
	t.Helper()
	mod, err := e.rt.InstantiateModule(context.Background(), e.code,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("InstantiateModule: %v", err)
	}
	return &wazeroMachine{t, mod, map[string]api.Function{}}
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// TestOracle evaluates programs with the translated engine and with wazero. The values must be the
// same, and after each program the memory, byte for byte.
func TestOracle(t *testing.T) {
	src, err := os.ReadFile("testdata/programs.js")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	own, other := machine(newOwnMachine(t)), machine(newWazeroEngine(t).machine(t))
	s1, s2 := bootMachine(own), bootMachine(other)
	if s1 != s2 || hash(own.memory()) != hash(other.memory()) {
		t.Fatal("the engines differ after boot")
	}
	programs := strings.Split(string(src), "\n//---\n")
	for _, p := range programs {
		a, b := evaluate(own, s1, p), evaluate(other, s2, p)
		if a != b {
			t.Errorf("%s\ngives %.200s, want %.200s", p, a, b)
		}
		if hash(own.memory()) != hash(other.memory()) {
			t.Fatalf("%s\nleaves another memory than under wazero", p)
		}
	}
	t.Logf("%d programs, %d KiB of memory", len(programs), len(own.memory())>>10)
}
