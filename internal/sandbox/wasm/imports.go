package wasm

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox/wasm/qjs"
)

// hostFunction is the name of the global function through which the prelude reaches the host.
const hostFunction = "__host"

// Error numbers of WASI preview 1.
const (
	wasiOK      = 0
	wasiBadFile = 8
	wasiNoSys   = 52
)

// imports is all that the engine imports: the whole surface that a guest has. Addresses and lengths come from the
// guest; a wrong one is a panic (of Go's slices, or a fault), which ends the guest.
type imports struct{ g *guest }

// Env_host_call serves the host function.
func (i imports) Env_host_call(m *qjs.Module, name, nameLen, this, argc, argv uint32) uint32 {
	g := i.g
	arg := func(n uint32) value {
		if n >= argc {
			return g.h.undefined
		}
		return value(binary.LittleEndian.Uint32(m.Memory()[argv+4*n:]))
	}
	switch g.describe(arg(0)) {
	case "write":
		if !g.text(arg(1), g.host.write) {
			return 0 // the conversion threw, or memory is out
		}
	case "now":
		return m.Qjs_new_number(float64(g.host.now()))
	case "random":
		n := m.Qjs_get_float64(uint32(arg(1)))
		if !(n >= 0 && n <= 1024) {
			return g.throw("random: ask for 0 to 1024 bytes")
		}
		b := make([]byte, int(n))
		g.host.random(b)
		return uint32(g.newString(hex.EncodeToString(b)))
	case "timer":
		ms := m.Qjs_get_float64(uint32(arg(1)))
		if math.IsNaN(ms) {
			return g.throw("timer: not a number")
		}
		g.host.timer(ms)
	case "eval":
		return i.eval(arg(1), arg(2))
	default:
		return g.throw("no such host function")
	}
	return m.Qjs_dup_value(uint32(g.h.undefined))
}

// eval runs a script under a file name of its own, for stack traces.
func (i imports) eval(code, name value) uint32 {
	g := i.g
	file := g.put(g.describe(name))
	v := uint32(0)
	p := g.m.Qjs_get_string_len(uint32(code), g.h.scratch)
	if p != 0 {
		n := binary.LittleEndian.Uint32(g.m.Memory()[g.h.scratch:])
		v = g.m.Qjs_eval(p, n, file, 0)
		g.m.Qjs_free_cstring(p)
	}
	g.m.Wasm_free(file)
	if v != 0 && g.m.Qjs_is_exception(v) != 0 {
		g.m.Qjs_free_value(v)
		return 0 // the exception is still pending
	}
	return v
}

// throw makes an exception pending in the guest and gives the result that says so.
func (g *guest) throw(message string) uint32 {
	e := g.m.Qjs_new_error()
	if e == 0 {
		panic(abort{errMemory})
	}
	n := g.put("message")
	s := g.newString(message)
	g.m.Qjs_set_prop_string(e, n, uint32(s))
	g.free(s)
	g.m.Wasm_free(n)
	g.m.Qjs_throw(e)
	g.m.Qjs_free_value(e)
	return 0
}

// Env_host_interrupt is asked every few thousand steps of the guest whether it is to stop.
func (i imports) Env_host_interrupt(*qjs.Module) uint32 {
	if i.g.host.interrupted() {
		return 1
	}
	return 0
}

// Env_host_promise_rejection hears of promises that are rejected while nothing handles them, and of those that are
// handled after all. The handles are the host's to free.
func (i imports) Env_host_promise_rejection(m *qjs.Module, promise, reason, handled uint32) {
	g := i.g
	if handled == 0 && g.h.unhandled != 0 && len(g.rejected) < maxRejected {
		g.rejected = append(g.rejected, rejection{value(promise), value(reason)})
		return
	}
	if handled != 0 {
		at := m.Qjs_get_value_ptr(promise)
		for k, r := range g.rejected {
			if m.Qjs_get_value_ptr(uint32(r.promise)) == at {
				g.free(r.promise)
				g.free(r.reason)
				g.rejected = append(g.rejected[:k], g.rejected[k+1:]...)
				break
			}
		}
	}
	m.Qjs_free_value(promise)
	m.Qjs_free_value(reason)
}

// Env_host_get_timezone_offset says that the guest lives in UTC, wherever the host is.
func (imports) Env_host_get_timezone_offset(*qjs.Module, uint32, uint32) uint32 { return 0 }

// Env_host_module_normalize and Env_host_module_load refuse: there are no modules but those that the host has
// bundled into the program.
func (imports) Env_host_module_normalize(*qjs.Module, uint32, uint32) uint32 { return 0 }

// Env_host_module_load refuses.
func (imports) Env_host_module_load(*qjs.Module, uint32, uint32) uint32 { return 0 }

// Wasi_snapshot_preview1_clock_time_get is what Date reads, in nanoseconds but as coarse as the host makes it.
func (i imports) Wasi_snapshot_preview1_clock_time_get(m *qjs.Module, clock uint32, precision uint64, result uint32) uint32 {
	binary.LittleEndian.PutUint64(m.Memory()[result:], uint64(i.g.host.now()*int64(time.Millisecond)))
	return wasiOK
}

// Wasi_snapshot_preview1_random_get fills guest memory with randomness.
func (i imports) Wasi_snapshot_preview1_random_get(m *qjs.Module, at, n uint32) uint32 {
	var b [256]byte
	for n > 0 {
		k := min(n, uint32(len(b)))
		i.g.host.random(b[:k])
		copy(m.Memory()[at:][:k], b[:k])
		at, n = at+k, n-k
	}
	return wasiOK
}

// The guest has no files.

// Wasi_snapshot_preview1_fd_close refuses.
func (imports) Wasi_snapshot_preview1_fd_close(*qjs.Module, uint32) uint32 { return wasiNoSys }

// Wasi_snapshot_preview1_fd_fdstat_get refuses.
func (imports) Wasi_snapshot_preview1_fd_fdstat_get(*qjs.Module, uint32, uint32) uint32 {
	return wasiBadFile
}

// Wasi_snapshot_preview1_fd_seek refuses.
func (imports) Wasi_snapshot_preview1_fd_seek(*qjs.Module, uint32, uint64, uint32, uint32) uint32 {
	return wasiNoSys
}

// Wasi_snapshot_preview1_fd_write refuses.
func (imports) Wasi_snapshot_preview1_fd_write(*qjs.Module, uint32, uint32, uint32, uint32) uint32 {
	return wasiBadFile
}
