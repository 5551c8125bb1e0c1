package wasm

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/biplane-dev/biplane/third_party/cldr"
	"github.com/biplane-dev/biplane/third_party/quickjs-wasi/qjs"
)

// hostFunction is the name of the global function through which the prelude reaches the host.
const hostFunction = "__host"

// Error numbers of WASI preview 1.
const (
	wasiOK      = 0
	wasiBadFile = 8
	wasiNoSys   = 52
)

// imports implements all functions that the engine imports: the guest's entire interface. Addresses
// and lengths come from the guest; an invalid one panics (in a slice operation or by a fault),
// which ends the guest.
type imports struct{ e *jsEngine }

// The names of the functions that the host function lends to the prelude. Their lengths differ.
const (
	lentCall      = "c"         // writes the line of a call, and marks its promise as handled
	lentParse     = "pa"        // parses a long JSON text
	lentStringify = "str"       // writes a plain value as JSON
	lentSort      = "sort"      // sorts a plain array
	lentMatch     = "match"     // finds all matches of a regular expression in a text
	lentSplit     = "splitting" // splits a text at them
	lentReplace   = "replace"   // replaces them by another text
)

// EnvHostCall implements the host function and the functions that it lends. It distinguishes them
// by the lengths of their names: programs have access to none of them.
func (i imports) EnvHostCall(m *qjs.Module, _, length, this, argc, argv uint32) uint32 {
	e := i.e
	arg := func(n uint32) value {
		if n >= argc {
			return e.h.undefined
		}
		return value(binary.LittleEndian.Uint32(m.Memory()[argv+4*n:]))
	}
	switch length {
	case uint32(len(lentCall)):
		if argc != 2 {
			return e.throw("a call has a promise and a line")
		}
		m.QjsPromiseMarkAsHandled(uint32(arg(0)))
		return e.writeLine(arg(1))
	case uint32(len(lentParse)):
		return e.parseJSON(arg(0))
	case uint32(len(lentStringify)):
		return e.stringifyJSON(arg(0), arg(1))
	case uint32(len(lentSort)):
		return e.sortArray(arg(0), arg(1))
	case uint32(len(lentMatch)):
		return e.matchText(arg(0), arg(1))
	case uint32(len(lentSplit)):
		return e.splitText(arg(0), arg(1))
	case uint32(len(lentReplace)):
		return e.replaceText(arg(0), arg(1), arg(2))
	case uint32(len(hostFunction)): // no lent function has a name of its length
	}
	switch name, n := e.command(arg(0)); string(name[:n]) {
	case "write":
		return e.writeLine(arg(1))
	case "ask":
		return e.ask(arg(1))
	case "clock":
		ms := m.QjsGetFloat64(uint32(arg(1)))
		if !(math.Abs(ms) < maxClock) {
			return e.throw("clock: no time")
		}
		e.g.setClock(int64(ms))
	case "now":
		return m.QjsNewNumber(float64(e.g.now()))
	case "data":
		if head, rest, ok := cldr.Line(e.key(arg(1))); ok {
			return uint32(e.newString(head + "\n" + rest))
		}
	case "eval":
		return i.eval(arg(1), arg(2))
	case "lend":
		lent := e.key(arg(1))
		name := e.copyString(lent)
		f := m.QjsNewHostFunction(name, uint32(len(lent)), 2)
		m.WasmFree(name)
		return f
	default:
		return e.throw("no such host function")
	}
	return m.QjsDupValue(uint32(e.h.undefined))
}

// writeLine writes a line to the host.
func (e *jsEngine) writeLine(line value) uint32 {
	p, text := e.textOf(line)
	if p == 0 {
		return 0 // the conversion threw, or memory is exhausted
	}
	e.g.host.write(text)
	e.m.QjsFreeCstring(p)
	return e.m.QjsDupValue(uint32(e.h.undefined))
}

// maxCommand is longer than any command of the host function, in bytes.
const maxCommand = 8

// command returns the relevant prefix of the host function's first argument. It doesn't allocate.
func (e *jsEngine) command(v value) (name [maxCommand]byte, n int) {
	if p, text := e.textOf(v); p != 0 {
		n = copy(name[:], text)
		e.m.QjsFreeCstring(p)
	}
	return name, n
}

// maxKey is longer than any key of the locale data, in bytes.
const maxKey = 64

// key returns the text of v, or "" when it is too long for a key.
func (e *jsEngine) key(v value) (key string) {
	if p, text := e.textOf(v); p != 0 {
		if len(text) < maxKey {
			key = string(text)
		}
		e.m.QjsFreeCstring(p)
	}
	return key
}

// maxClock is the maximum of a guest's clock, in milliseconds: the limit of JavaScript's Date
// (ECMA-262, section 21.4.1.1).
const maxClock = 8.64e15

// ask asks the host.
func (e *jsEngine) ask(question value) uint32 {
	p, text := e.textOf(question)
	if p == 0 {
		return 0 // the conversion threw, or memory is exhausted
	}
	answer, ok := e.g.host.ask(text)
	e.m.QjsFreeCstring(p)
	if !ok {
		return e.m.QjsDupValue(uint32(e.h.undefined))
	}
	return uint32(e.newString(answer))
}

// eval runs a script with the given file name, for stack traces.
func (i imports) eval(code, name value) uint32 {
	e := i.e
	file := e.copyString(e.describe(name))
	v := uint32(0)
	p, text := e.textOf(code)
	if p != 0 {
		v = e.m.QjsEval(p, uint32(len(text)), file, 0)
		e.m.QjsFreeCstring(p)
	}
	e.m.WasmFree(file)
	if v != 0 && e.m.QjsIsException(v) != 0 {
		e.m.QjsFreeValue(v)
		return 0 // the exception is still pending
	}
	return v
}

// throw sets a pending exception in the guest and returns the result that signals it.
func (e *jsEngine) throw(message string) uint32 {
	x := e.m.QjsNewError()
	if x == 0 {
		panic(abort{errMemory})
	}
	n := e.copyString("message")
	s := e.newString(message)
	e.m.QjsSetPropString(x, n, uint32(s))
	e.free(s)
	e.m.WasmFree(n)
	e.m.QjsThrow(x)
	e.m.QjsFreeValue(x)
	return 0
}

// EnvHostInterrupt reports whether the guest must stop. It is called every few thousand steps.
func (i imports) EnvHostInterrupt(*qjs.Module) uint32 {
	if i.e.g.host.interrupted() {
		return 1
	}
	return 0
}

// EnvHostPromiseRejection is called when a promise is rejected without a handler, and when it gets
// one later. The host frees the handles.
func (i imports) EnvHostPromiseRejection(m *qjs.Module, promise, reason, handled uint32) {
	e := i.e
	if handled == 0 && e.h.unhandled != 0 && len(e.rejected) < maxRejected {
		e.rejected = append(e.rejected, rejection{value(promise), value(reason)})
		return
	}
	if handled != 0 {
		at := m.QjsGetValuePtr(promise)
		for k, r := range e.rejected {
			if m.QjsGetValuePtr(uint32(r.promise)) == at {
				e.free(r.promise)
				e.free(r.reason)
				e.rejected = append(e.rejected[:k], e.rejected[k+1:]...)
				break
			}
		}
	}
	m.QjsFreeValue(promise)
	m.QjsFreeValue(reason)
}

// EnvHostGetTimezoneOffset returns 0: the guest's time zone is UTC.
func (imports) EnvHostGetTimezoneOffset(*qjs.Module, uint32, uint32) uint32 { return 0 }

// EnvHostModuleNormalize fails, as EnvHostModuleLoad does: there are no modules except the ones
// that the host has bundled into the program.
func (imports) EnvHostModuleNormalize(*qjs.Module, uint32, uint32) uint32 { return 0 }

// EnvHostModuleLoad always fails.
func (imports) EnvHostModuleLoad(*qjs.Module, uint32, uint32) uint32 { return 0 }

// WasiSnapshotPreview1ClockTimeGet returns the clock that Date reads, in nanoseconds with the
// resolution set by the host.
func (i imports) WasiSnapshotPreview1ClockTimeGet(m *qjs.Module, clock uint32, precision uint64, result uint32) uint32 {
	binary.LittleEndian.PutUint64(m.Memory()[result:], uint64(i.e.g.now()*int64(time.Millisecond)))
	return wasiOK
}

// WasiSnapshotPreview1RandomGet fills guest memory with deterministic random bytes while the image
// is created. Afterwards it fails: programs get randomness from the prelude, which has a seed from
// the host.
func (i imports) WasiSnapshotPreview1RandomGet(m *qjs.Module, at, n uint32) uint32 {
	if i.e.g.random == nil {
		return wasiNoSys
	}
	_, _ = i.e.g.random.Read(m.Memory()[at:][:n]) // never fails
	return wasiOK
}

// The guest has no files.

// WasiSnapshotPreview1FdClose always fails.
func (imports) WasiSnapshotPreview1FdClose(*qjs.Module, uint32) uint32 { return wasiNoSys }

// WasiSnapshotPreview1FdFdstatGet always fails.
func (imports) WasiSnapshotPreview1FdFdstatGet(*qjs.Module, uint32, uint32) uint32 {
	return wasiBadFile
}

// WasiSnapshotPreview1FdSeek always fails.
func (imports) WasiSnapshotPreview1FdSeek(*qjs.Module, uint32, uint64, uint32, uint32) uint32 {
	return wasiNoSys
}

// WasiSnapshotPreview1FdWrite always fails.
func (imports) WasiSnapshotPreview1FdWrite(*qjs.Module, uint32, uint32, uint32, uint32) uint32 {
	return wasiBadFile
}
