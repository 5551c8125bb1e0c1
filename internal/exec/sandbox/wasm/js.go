package wasm

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	prelude "github.com/biplane-dev/biplane/internal/exec/sandbox/wasm/guest"
	"github.com/biplane-dev/biplane/third_party/cldr"
	"github.com/biplane-dev/biplane/third_party/quickjs-wasi/qjs"
)

// jsImage is the packed golden image, created by bootEngine from the engine and the prelude
// (TestGolden writes it).
//
//go:embed js.image
var jsImage []byte

// javaScript returns the language whose engine is QuickJS-NG.
func javaScript() language {
	return language{
		name: "js", title: "QuickJS-NG 0.17.0", polls: true, module: qjs.Sum, plain: true,
		first: `{"at":1767225600001,"run":{"code":"(async () => { return 1 + 1; })","name":"program.ts",` +
			`"seed":"00000000000000000000000000000000000000000000000000000000000000ff",` +
			`"namespaces":{"github":["list_issues"]}}}`,
		golden: jsImage, starter: jsStarter{},
	}
}

// A jsStarter creates JavaScript engines.
type jsStarter struct{}

// bootSource returns the prelude. It ends with the checksum of the locale data that the
// prelude uses, so that an engine with other data is another build.
func (jsStarter) bootSource() string { return prelude.Source + "// " + cldr.Sum() + "\n" }

func (jsStarter) attachEngine(g *guest, words []uint32) engine {
	e := newJS(g)
	e.h = handlesOf(words)
	return e
}

// A value is a handle of a JavaScript value: the address of a cell in the guest's memory that holds
// it. Zero means no value.
type value uint32

// handles holds the values that the host uses. They are created with the image and have the same
// addresses in every guest.
type handles struct {
	scratch   uint32 // address of scratchSize bytes for arguments and results
	undefined value
	runtime   value // the prelude's completion value
	deliver   value // its methods; zero if absent
	give      value
	idle      value
	unhandled value
}

// words returns the handles as stored in an image.
func (h handles) words() []uint32 {
	return []uint32{h.scratch, uint32(h.undefined), uint32(h.runtime), uint32(h.deliver), uint32(h.give),
		uint32(h.idle), uint32(h.unhandled)}
}

func handlesOf(w []uint32) (h handles) {
	if len(w) == len(h.words()) { // otherwise the image is not of this engine, and any handle faults
		h = handles{w[0], value(w[1]), value(w[2]), value(w[3]), value(w[4]), value(w[5]), value(w[6])}
	}
	return h
}

const scratchSize = 64

// A jsEngine is QuickJS-NG over the memory of one guest. Between entries all of the guest's state
// is in its memory.
type jsEngine struct {
	g        *guest
	m        *qjs.Module
	h        handles
	rejected []rejection
}

// A rejection is a promise that was rejected without a handler.
type rejection struct {
	promise, reason value
}

// maxRejected is the maximum number of rejections kept for the prelude.
const maxRejected = 16

func newJS(g *guest) *jsEngine {
	e := &jsEngine{g: g}
	e.m = qjs.New(imports{e})
	e.m.Grow = g.region.grow
	e.m.SetMemory(g.region.memory())
	return e
}

func (e *jsEngine) limit(memory, stack int64) {
	e.m.QjsSetMemoryLimit(uint32(memory - headroom))
	e.m.QjsSetMaxStackSize(uint32(stack))
}

// deliver passes a line to the prelude. Of the answer to a call it passes only the value, which the
// guest parses: it refuses a text that isn't a single JSON value, and then gets the whole line.
func (e *jsEngine) deliver(line string) error {
	if at, id, text, ok := splitAnswer(line); ok && e.h.give != 0 && !longDigits(text) {
		e.g.setClock(at)
		n, v := value(e.m.QjsNewNumber(float64(id))), e.newString(text)
		given, err := e.call(e.h.give, n, v)
		e.free(v)
		e.free(n)
		if given || err != nil {
			return err
		}
	}
	v, long := e.newString(line), value(e.m.QjsGetFalse())
	if longDigits(line) {
		e.free(long)
		long = value(e.m.QjsGetTrue())
	}
	defer e.free(v)
	defer e.free(long)
	_, err := e.call(e.h.deliver, v, long)
	return err
}

// splitAnswer splits a line that looks like HostMessage{At, Answer{ID, Value}} as encoded by Go. It
// finds the bounds of text, and doesn't validate it.
func splitAnswer(line string) (at, id int64, text string, ok bool) {
	if line, ok = strings.CutPrefix(line, `{"at":`); !ok {
		return
	}
	if at, line, ok = cutNumber(line); !ok {
		return
	}
	if line, ok = strings.CutPrefix(line, `,"answer":{"id":`); !ok {
		return
	}
	if id, line, ok = cutNumber(line); !ok {
		return
	}
	if line, ok = strings.CutPrefix(line, `,"value":`); !ok {
		return
	}
	text, ok = strings.CutSuffix(line, "}}")
	return
}

// cutNumber cuts an unsigned number from the front of s. It must have fewer than manyDigits digits.
func cutNumber(s string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(s) && i < manyDigits && s[i]-'0' < 10 {
		n = 10*n + int64(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0 && i < manyDigits && (s[0] != '0' || i == 1)
}

// manyDigits is the number of digits from which on JavaScript's numbers may not hold an integer.
const manyDigits = 16

// longDigits reports whether s holds manyDigits consecutive digits. It mostly looks at one byte in
// manyDigits.
func longDigits(s string) bool {
	digit := func(i int) bool { return s[i]-'0' < 10 }
	for i := manyDigits - 1; i < len(s); i += manyDigits {
		if !digit(i) {
			continue
		}
		from, to := i, i+1
		for from > 0 && digit(from-1) {
			from--
		}
		for to < len(s) && to-from < manyDigits && digit(to) {
			to++
		}
		if to-from >= manyDigits {
			return true
		}
	}
	return false
}

// work runs the queued jobs, then the prelude's idle and the jobs that it adds.
func (e *jsEngine) work() error {
	if err := e.runJobs(); err != nil {
		return err
	}
	if _, err := e.call(e.h.idle); err != nil {
		return err
	}
	return e.runJobs()
}

func (e *jsEngine) trap(x any) error {
	trap, ok := e.m.AsTrap(x)
	switch {
	case !ok:
		return nil
	case trap == qjs.ErrDepth || trap == qjs.ErrMemory && e.m.StackPointer() > qjs.InitialStackPointer:
		return errStack // the stack pointer wrapped around below address 0
	}
	return fmt.Errorf("the guest trapped: %w", trap)
}

func (e *jsEngine) state() ([]byte, error) {
	if e.m.StackPointer() != qjs.InitialStackPointer || len(e.rejected) > 0 {
		return nil, errors.New("the guest is not at rest")
	}
	return nil, nil
}

func (e *jsEngine) resume(state []byte) error {
	if len(state) > 0 {
		return errors.New("it contains more engine state than exists")
	}
	return nil
}

func (e *jsEngine) runTrial(endless bool) error {
	code := "6 * 7"
	if endless {
		code = "for (;;);"
	}
	v, err := e.eval(code, "probe")
	if err == nil && e.describe(v) != "42" {
		err = errors.New("it can't multiply")
	}
	return err
}

// copyString copies s and a zero byte into the guest's heap; the caller frees it.
func (e *jsEngine) copyString(s string) uint32 {
	p := e.m.WasmMalloc(uint32(len(s) + 1))
	if p == 0 {
		panic(abort{errMemory})
	}
	b := e.m.Memory()[p:][:len(s)+1]
	copy(b, s)
	b[len(s)] = 0
	return p
}

// newString creates a JavaScript string.
func (e *jsEngine) newString(s string) value {
	p := e.copyString(s)
	v := e.m.QjsNewString(p, uint32(len(s)))
	e.m.WasmFree(p)
	if e.isException(value(v)) {
		panic(abort{errMemory})
	}
	return value(v)
}

// textOf converts v to a string, and returns its address and its bytes in the guest's memory. They
// are valid until the guest is entered again; the caller then frees p by QjsFreeCstring. p is 0 if
// the conversion failed.
func (e *jsEngine) textOf(v value) (p uint32, text []byte) {
	if p = e.m.QjsGetStringLen(uint32(v), e.h.scratch); p == 0 {
		return 0, nil
	}
	n := binary.LittleEndian.Uint32(e.m.Memory()[e.h.scratch:])
	return p, e.m.Memory()[p:][:n]
}

// maxText is the maximum number of bytes that the host copies of an exception.
const maxText = 16 << 10

// describe returns v converted to a string, or a placeholder if it is longer than maxText.
func (e *jsEngine) describe(v value) string {
	p, text := e.textOf(v)
	if p == 0 {
		return ""
	}
	out := string(text[:min(len(text), maxText)])
	e.m.QjsFreeCstring(p)
	if len(text) > maxText {
		return fmt.Sprintf("(a text of %d bytes)", len(text))
	}
	return out
}

// property returns a property of v, which the caller frees.
func (e *jsEngine) property(v value, name string) value {
	p := e.copyString(name)
	x := e.m.QjsGetPropString(uint32(v), p)
	e.m.WasmFree(p)
	return value(x)
}

func (e *jsEngine) free(v value) {
	if v != 0 {
		e.m.QjsFreeValue(uint32(v))
	}
}

// isException reports whether v signals a pending exception, as zero does.
func (e *jsEngine) isException(v value) bool { return v == 0 || e.m.QjsIsException(uint32(v)) != 0 }

// takeException removes and returns the pending exception.
func (e *jsEngine) takeException() error {
	x := value(e.m.QjsGetException())
	if x == 0 {
		return errMemory
	}
	defer e.free(x)
	if e.g.host.interrupted() { // run no more of the guest's code
		return &exception{"interrupted"}
	}
	text := e.describe(x)
	if e.m.QjsIsError(uint32(x)) != 0 {
		s := e.property(x, "stack")
		if !e.isException(s) {
			text += "\n" + e.describe(s)
		}
		e.free(s)
	}
	return &exception{text}
}

// eval runs a script and returns its completion value, which the caller frees.
func (e *jsEngine) eval(code, name string) (value, error) {
	p, n := e.copyString(code), e.copyString(name)
	v := value(e.m.QjsEval(p, uint32(len(code)), n, 0))
	e.m.WasmFree(p)
	e.m.WasmFree(n)
	if e.isException(v) {
		e.free(v)
		return 0, e.takeException()
	}
	return v, nil
}

// call calls a method of the prelude's runtime, and reports whether it returned true. It does
// nothing if f is zero.
func (e *jsEngine) call(f value, args ...value) (isTrue bool, err error) {
	if f == 0 {
		return false, nil
	}
	argv := e.h.scratch + 16
	for i, a := range args {
		binary.LittleEndian.PutUint32(e.m.Memory()[argv+uint32(4*i):], uint32(a))
	}
	v := value(e.m.QjsCall(uint32(f), uint32(e.h.runtime), uint32(len(args)), argv))
	if e.isException(v) {
		e.free(v)
		return false, e.takeException()
	}
	isTrue = e.m.QjsGetBool(uint32(v)) != 0
	e.free(v)
	return isTrue, nil
}

// runJobs runs jobs until none is queued, and then reports unhandled rejections to the prelude.
func (e *jsEngine) runJobs() error {
	for {
		for e.m.QjsIsJobPending() != 0 {
			if int32(e.m.QjsExecutePendingJob()) < 0 {
				if err := e.takeException(); e.g.host.interrupted() {
					return err
				}
			}
			if e.g.host.interrupted() {
				return &exception{"interrupted"}
			}
		}
		if len(e.rejected) == 0 {
			return nil
		}
		all := e.rejected
		e.rejected = nil
		for _, r := range all {
			_, err := e.call(e.h.unhandled, r.reason)
			e.free(r.reason)
			e.free(r.promise)
			if err != nil {
				return err
			}
		}
	}
}
