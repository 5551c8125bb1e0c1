package wasm

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	prelude "github.com/biplane-dev/biplane/internal/sandbox/wasm/guest"
	"github.com/biplane-dev/biplane/third_party/cldr"
	"github.com/biplane-dev/biplane/third_party/quickjs-wasi/qjs"
)

// jsImage is the packed golden image: what bootJS makes of the engine and the prelude (TestGolden writes it).
//
//go:embed js.image
var jsImage []byte

// javaScript is the language whose engine is QuickJS-NG.
func javaScript() language {
	return language{
		name: "js", title: "QuickJS-NG 0.17.0", polls: true, module: qjs.Sum, source: javaScriptSource, plain: true,
		first:  `{"at":1767225600001,"run":{"code":"(async () => { return 1 + 1; })","name":"program.ts","seed":"00000000000000000000000000000000000000000000000000000000000000ff","namespaces":{"github":["list_issues"]}}}`,
		golden: jsImage,
		attach: func(g *guest, words []uint32) engine {
			e := newJS(g)
			e.h = handlesOf(words)
			return e
		},
		boot:  bootJS,
		trial: tryJS,
	}
}

// javaScriptSource returns the prelude. It ends in the checksum of the data that the prelude asks for, which makes an engine
// with other data another build.
func javaScriptSource() string { return prelude.Source + "// " + cldr.Sum() + "\n" }

// A value is a handle of a JavaScript value: the address of a cell in the guest's memory that holds it. Zero is none.
type value uint32

// handles are the values that the host uses, made once while the image is and at the same addresses in every guest.
type handles struct {
	scratch   uint32 // address of scratchSize bytes for arguments and results
	undefined value
	runtime   value // the prelude's completion value
	deliver   value // its methods; zero where it has none
	give      value
	idle      value
	unhandled value
}

// words are the handles as an image keeps them.
func (h handles) words() []uint32 {
	return []uint32{h.scratch, uint32(h.undefined), uint32(h.runtime), uint32(h.deliver), uint32(h.give), uint32(h.idle), uint32(h.unhandled)}
}

func handlesOf(w []uint32) (h handles) {
	if len(w) == len(h.words()) { // otherwise it is no image of this engine's, and any handle faults
		h = handles{w[0], value(w[1]), value(w[2]), value(w[3]), value(w[4]), value(w[5]), value(w[6])}
	}
	return h
}

const scratchSize = 64

// A jsEngine is QuickJS-NG over the memory of one guest. Between entries nothing of the guest is outside of its memory.
type jsEngine struct {
	g        *guest
	m        *qjs.Module
	h        handles
	rejected []rejection
}

// A rejection is a promise that was rejected while nothing handled it.
type rejection struct {
	promise, reason value
}

// maxRejected bounds how many rejections are kept for the prelude to hear of.
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

func (e *jsEngine) deliver(line string) error {
	if given, err := e.give(line); given || err != nil {
		return err
	}
	v, long := e.newString(line), value(e.m.QjsGetFalse())
	if longDigits(line) {
		e.free(long)
		long = value(e.m.QjsGetTrue())
	}
	defer e.free(v)
	defer e.free(long)
	return e.call(e.h.deliver, v, long)
}

// give delivers a line that is the value of a call, and says whether it was one: only what differs between such lines is parsed
// in the guest. Whether the value is one piece of JSON is for the guest to say, which knows the rest of the line then.
func (e *jsEngine) give(line string) (bool, error) {
	at, id, text, ok := splitAnswer(line)
	if !ok || e.h.give == 0 || longDigits(text) {
		return false, nil
	}
	e.g.setClock(at)
	n, v := value(e.m.QjsNewNumber(float64(id))), e.newString(text)
	defer e.free(n)
	defer e.free(v)
	given := false
	err := e.callFor(e.h.give, func(v value) { given = e.m.QjsGetBool(uint32(v)) != 0 }, n, v)
	return given, err
}

// splitAnswer takes apart a line that looks like HostMessage{At, Answer{ID, Value}} as Go writes it. It says nothing of text but where it begins and
// ends.
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

// cutNumber cuts a number without a sign from the front of s, as long as a guest's number may be at most.
func cutNumber(s string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(s) && i < manyDigits && s[i]-'0' < 10 {
		n = 10*n + int64(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0 && i < manyDigits && (s[0] != '0' || i == 1)
}

// manyDigits is from how many digits on a number may be none that JavaScript's numbers hold.
const manyDigits = 16

// longDigits reports whether s holds manyDigits digits in a row. It looks at one byte of as many, mostly.
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

// work runs the queued jobs, then the prelude's idle and the jobs that it leaves.
func (e *jsEngine) work() error {
	if err := e.jobs(); err != nil {
		return err
	}
	if err := e.call(e.h.idle); err != nil {
		return err
	}
	return e.jobs()
}

func (e *jsEngine) trap(x any) error {
	trap, ok := e.m.AsTrap(x)
	switch {
	case !ok:
		return nil
	case trap == qjs.ErrDepth || trap == qjs.ErrMemory && e.m.StackPointer() > qjs.InitialStackPointer:
		return errStack // a stack that ran below address 0 wrapped around
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
		return errors.New("it holds more of the engine than there is")
	}
	return nil
}

// tryJS is the trial of the language.
func tryJS(x engine, endless bool) error {
	e, code := x.(*jsEngine), "6 * 7"
	if endless {
		code = "for (;;);"
	}
	v, err := e.eval(code, "probe")
	if err == nil && e.describe(v) != "42" {
		err = errors.New("it can't multiply")
	}
	return err
}

// put copies s and a zero byte into the guest's heap; the caller frees it.
func (e *jsEngine) put(s string) uint32 {
	p := e.m.WasmMalloc(uint32(len(s) + 1))
	if p == 0 {
		panic(abort{errMemory})
	}
	b := e.m.Memory()[p:][:len(s)+1]
	copy(b, s)
	b[len(s)] = 0
	return p
}

// newString makes a JavaScript string.
func (e *jsEngine) newString(s string) value {
	p := e.put(s)
	v := e.m.QjsNewString(p, uint32(len(s)))
	e.m.WasmFree(p)
	if e.failed(value(v)) {
		panic(abort{errMemory})
	}
	return value(v)
}

// text calls use with the length of the string that v converts to and a function that copies it. It does nothing when
// the conversion fails.
func (e *jsEngine) text(v value, use func(n int, copy func() string)) bool {
	p := e.m.QjsGetStringLen(uint32(v), e.h.scratch)
	if p == 0 {
		return false
	}
	n := binary.LittleEndian.Uint32(e.m.Memory()[e.h.scratch:])
	use(int(n), func() string { return string(e.m.Memory()[p:][:n]) })
	e.m.QjsFreeCstring(p)
	return true
}

// maxText bounds what the host copies of an exception, in bytes.
const maxText = 16 << 10

// describe gives at most maxText bytes of the string that v converts to.
func (e *jsEngine) describe(v value) (s string) {
	e.text(v, func(n int, text func() string) {
		if n <= maxText {
			s = text()
		} else {
			s = fmt.Sprintf("(a text of %d bytes)", n)
		}
	})
	return s
}

// property gives a property of v, which the caller frees.
func (e *jsEngine) property(v value, name string) value {
	p := e.put(name)
	x := e.m.QjsGetPropString(uint32(v), p)
	e.m.WasmFree(p)
	return value(x)
}

func (e *jsEngine) free(v value) {
	if v != 0 {
		e.m.QjsFreeValue(uint32(v))
	}
}

// failed reports whether v says that an exception is pending, as none does.
func (e *jsEngine) failed(v value) bool { return v == 0 || e.m.QjsIsException(uint32(v)) != 0 }

// caught takes the pending exception.
func (e *jsEngine) caught() error {
	x := value(e.m.QjsGetException())
	if x == 0 {
		return errMemory
	}
	defer e.free(x)
	if e.g.host.interrupted() { // no more code of the guest's
		return &exception{"interrupted"}
	}
	text := e.describe(x)
	if e.m.QjsIsError(uint32(x)) != 0 {
		s := e.property(x, "stack")
		if !e.failed(s) {
			text += "\n" + e.describe(s)
		}
		e.free(s)
	}
	return &exception{text}
}

// eval runs a script and gives its completion value, which the caller frees.
func (e *jsEngine) eval(code, name string) (value, error) {
	p, n := e.put(code), e.put(name)
	v := value(e.m.QjsEval(p, uint32(len(code)), n, 0))
	e.m.WasmFree(p)
	e.m.WasmFree(n)
	if e.failed(v) {
		e.free(v)
		return 0, e.caught()
	}
	return v, nil
}

// call calls a method of the prelude's runtime and drops what it gives. It does nothing where f is no method.
func (e *jsEngine) call(f value, args ...value) error {
	if f == 0 {
		return nil
	}
	return e.callFor(f, nil, args...)
}

// callFor calls a method, and use with what it gives.
func (e *jsEngine) callFor(f value, use func(value), args ...value) error {
	argv := e.h.scratch + 16
	for i, a := range args {
		binary.LittleEndian.PutUint32(e.m.Memory()[argv+uint32(4*i):], uint32(a))
	}
	v := value(e.m.QjsCall(uint32(f), uint32(e.h.runtime), uint32(len(args)), argv))
	if e.failed(v) {
		e.free(v)
		return e.caught()
	}
	if use != nil {
		use(v)
	}
	e.free(v)
	return nil
}

// jobs runs what is queued until nothing is, and then tells the prelude of promises whose rejection nothing handled.
func (e *jsEngine) jobs() error {
	for {
		for e.m.QjsIsJobPending() != 0 {
			if int32(e.m.QjsExecutePendingJob()) < 0 {
				if err := e.caught(); e.g.host.interrupted() {
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
			err := e.call(e.h.unhandled, r.reason)
			e.free(r.reason)
			e.free(r.promise)
			if err != nil {
				return err
			}
		}
	}
}
