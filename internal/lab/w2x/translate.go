package main

import (
	"fmt"
	"sort"
	"strings"
)

// Opcodes used by name.
const (
	opUnreachable = 0x00
	opNop         = 0x01
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opIndirect    = 0x11
	opDrop        = 0x1a
	opSelect      = 0x1b
	opSelectTyped = 0x1c
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opMemorySize  = 0x3f
	opMemoryGrow  = 0x40
	opI32Const    = 0x41
	opI64Const    = 0x42
	opF32Const    = 0x43
	opF64Const    = 0x44
	opI32Eqz      = 0x45
	opI32Sub      = 0x6b
	opPrefixed    = 0xfc
)

// maxNesting is the maximum nesting of blocks.
const maxNesting = 10_000

// A block is a structured instruction being translated.
type block struct {
	op      byte
	height  int // stack height below its parameters
	in, out []valType
	label   int  // target of branches to it
	used    bool // label is a target of a branch
	at      int  // index of the line that becomes the label of a loop
	other   int  // label of an if's else
	hasElse bool
}

// branchTypes returns the types of the values that a branch to b carries.
func (b *block) branchTypes() []valType {
	if b.op == opLoop {
		return b.in
	}
	return b.out
}

// A function is a function of the module being translated.
type function struct {
	m       *module
	index   uint32
	body    body
	r       *reader
	lines   []string
	stack   []entry
	clean   int // entries below this height are in their slots
	blocks  []block
	slots   map[string]valType
	labels  int
	dead    bool   // the code that follows is unreachable
	skipped []byte // blocks started since then, by opcode
	depth   bool   // it counts the call depth

	usesMemory bool
	framed     bool // it lowers the stack pointer before its first call
	indirect   bool // it calls through the table
	calls      map[uint32]bool
	last       [3]byte // the opcodes before the current one, latest first
	constant   int32   // value of the latest i32.const
}

// A badCode unwinds the translation of a function.
type badCode struct{ err error }

func (f *function) failAt(format string, a ...any) {
	f.r.setError(format, a...)
	panic(badCode{f.r.err})
}

func (f *function) emitLine(format string, a ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, a...))
}

// translateFunction translates the function with index len(m.imports)+i. Invalid code is an error.
func translateFunction(m *module, i int, depth bool) (f *function, err error) {
	b := m.funcs[i]
	index := len(m.imports) + i
	f = &function{m: m, index: uint32(index), body: b, depth: depth, slots: map[string]valType{},
		calls: map[uint32]bool{},
		r:     &reader{b: b.code, base: b.at, where: fmt.Sprintf("function %d", index)}}
	defer func() {
		if x := recover(); x != nil {
			bad, ok := x.(badCode)
			if !ok {
				panic(x)
			}
			f, err = nil, bad.err
		}
	}()
	f.blocks = []block{{op: opBlock, out: b.typ.out}}
	f.labels = 1
	for f.r.hasMore() {
		if len(f.blocks) == 0 {
			f.failAt("code after the end")
		}
		op := f.r.readByte()
		if f.dead {
			f.skipUnreachable(op)
		} else {
			f.translateInstruction(op)
		}
		if f.r.err != nil {
			return nil, f.r.err
		}
		f.last = [3]byte{op, f.last[0], f.last[1]}
	}
	if len(f.blocks) != 0 {
		f.r.p = len(f.r.b)
		f.failAt("no end")
	}
	return f, nil
}

// countBytes returns the length of the function's lines, in bytes of Go.
func (f *function) countBytes() (n int) {
	for _, l := range f.lines {
		n += len(l) + 1
	}
	return n
}

// translateInstruction translates one instruction.
func (f *function) translateInstruction(c byte) {
	if o, ok := ops[c]; ok {
		f.translateNumeric(c, o)
		return
	}
	if l, ok := loads[c]; ok {
		p := f.popAddress(l.align, func() {})
		f.pushEvaluated(l.typ, strings.ReplaceAll(l.expr, "P", p))
		return
	}
	if s, ok := stores[c]; ok {
		var v entry
		p := f.popAddress(s.align, func() { v = f.popEntry(s.typ) })
		x := v.expr
		if strings.HasSuffix(s.expr, "(V)") {
			x = v.hideConstant()
		}
		f.emitLine("%s", strings.NewReplacer("P", p, "V", x).Replace(s.expr))
		return
	}
	switch {
	case c <= opIndirect:
		f.translateControl(c)
	case c >= opLocalGet && c <= opGlobalSet:
		f.translateVariable(c)
	case c >= opMemorySize && c <= opF64Const:
		f.translateSimple(c)
	default:
		f.translateOther(c)
	}
}

// translateNumeric translates a numeric instruction. A condition for the next instruction is not
// evaluated yet, so that Go sees a condition.
func (f *function) translateNumeric(c byte, o op) {
	var x, y entry
	if o.n == 2 {
		y = f.popEntry(o.in)
	}
	x = f.popEntry(o.in)
	if c == opI32Eqz && x.cond != "" {
		f.pushCondition("!(" + x.cond + ")")
		return
	}
	xs, ys := x.expr, y.expr
	if o.n == 1 || y.constant {
		xs = x.hideConstant()
	}
	if y.constant && strings.ContainsAny(o.expr, "/%") { // division by zero must happen at run time
		ys = y.hideConstant()
	}
	expr := strings.NewReplacer("X", xs, "Y", ys).Replace(o.expr)
	if o.cond {
		f.pushCondition(expr)
		return
	}
	f.pushEvaluated(o.out, expr)
}

// pushCondition pushes 1 or 0 according to a Go condition.
func (f *function) pushCondition(cond string) {
	if f.r.hasMore() {
		switch f.r.b[f.r.p] {
		case opBrIf, opIf, opI32Eqz, opSelect, opSelectTyped:
			f.pushLazy(entry{typ: i32, expr: "b2i(" + cond + ")", local: -1, cond: cond})
			return
		}
	}
	f.pushEvaluated(i32, "b2i("+cond+")")
}

// popAddress reads the immediates of a memory instruction, lets value pop the entries above the
// address, pops the address and returns a Go pointer.
func (f *function) popAddress(align uint32, value func()) string {
	if !f.m.memory {
		f.failAt("there is no memory")
	}
	if a := f.r.u32(); a > align {
		f.failAt("alignment larger than natural")
	}
	off := f.r.u32()
	value()
	a := f.popEntry(i32)
	f.usesMemory = true
	if off == 0 {
		return "unsafe.Add(b, " + a.expr + ")"
	}
	return fmt.Sprintf("unsafe.Add(b, uint64(%s)+%d)", a.expr, off)
}

// translateSimple translates constants and the size of memory.
func (f *function) translateSimple(c byte) {
	switch c {
	case opMemorySize, opMemoryGrow:
		if f.r.readByte(); !f.m.memory {
			f.failAt("there is no memory")
		}
		if c == opMemorySize {
			f.pushEvaluated(i32, "uint32(len(m.memory) >> 16)")
			return
		}
		x := f.popEntry(i32)
		f.pushEvaluated(i32, "m.grow("+x.expr+")")
	case opI32Const:
		f.constant = int32(f.r.readSigned(32))
		if f.constant >= 0 {
			f.pushLazy(entry{typ: i32, expr: fmt.Sprintf("uint32(%d)", f.constant), local: -1, constant: true})
		} else { // Go refuses to convert such a constant to int32
			f.pushLazy(entry{typ: i32, expr: fmt.Sprintf("k32(%d)", uint32(f.constant)), local: -1})
		}
	case opI64Const:
		if v := f.r.readSigned(64); v >= 0 {
			f.pushLazy(entry{typ: i64, expr: fmt.Sprintf("uint64(%d)", v), local: -1, constant: true})
		} else {
			f.pushLazy(entry{typ: i64, expr: fmt.Sprintf("k64(%d)", uint64(v)), local: -1})
		}
	case opF32Const:
		f.pushLazy(entry{typ: f32, expr: fmt.Sprintf("math.Float32frombits(%#x)", f.r.readLittleEndian(4)), local: -1})
	case opF64Const:
		f.pushLazy(entry{typ: f64, expr: fmt.Sprintf("math.Float64frombits(%#x)", f.r.readLittleEndian(8)), local: -1})
	}
}

// translateVariable translates access to locals and globals.
func (f *function) translateVariable(c byte) {
	i := int(f.r.u32())
	if c >= opGlobalGet {
		f.translateGlobal(c, i)
		return
	}
	if i >= len(f.body.locals) {
		f.failAt("no local %d", i)
	}
	t, name := f.body.locals[i], fmt.Sprintf("v%d", i)
	if c != opLocalGet {
		x := f.popEntry(t)
		f.evaluateReaders(i)
		if x.expr != name {
			f.emitLine("%s = %s", name, x.expr)
		}
	}
	if c != opLocalSet {
		f.pushLazy(entry{typ: t, expr: name, local: i})
	}
}

func (f *function) translateGlobal(c byte, i int) {
	if i >= len(f.m.globals) {
		f.failAt("no global %d", i)
	}
	g := f.m.globals[i]
	if c == opGlobalGet {
		f.pushEvaluated(g.typ, fmt.Sprintf("m.g%d", i))
		return
	}
	if !g.mutable {
		f.failAt("global %d is constant", i)
	}
	f.emitLine("m.g%d = %s", i, f.popEntry(g.typ).expr)
	before := f.last
	if before[0] == opLocalTee {
		before = [3]byte{before[1], before[2]}
	}
	if i == f.m.sp && len(f.blocks) == 1 && len(f.calls) == 0 && !f.indirect &&
		before[0] == opI32Sub && before[1] == opI32Const && f.constant > 0 {
		f.framed = true
	}
}

// translateOther translates the remaining instructions.
func (f *function) translateOther(c byte) {
	switch c {
	case opDrop:
		f.popAny()
	case opSelect, opSelectTyped:
		f.translateSelect(c)
	case opPrefixed:
		f.translatePrefix()
	default:
		f.failAt("unsupported instruction %#x", c)
	}
}

// translateSelect translates select: one of two values, by a condition.
func (f *function) translateSelect(c byte) {
	if c == opSelectTyped {
		if f.r.u32() != 1 {
			f.failAt("select of other than one value")
		}
		t := f.r.valType()
		f.topEntries([]valType{t, t, i32})
	}
	cond, y, x := f.popEntry(i32), f.popAny(), f.popAny()
	if x.typ != y.typ {
		f.failAt("select of %s and %s", x.typ, y.typ)
	}
	n := f.slotName(x.typ, len(f.stack)) // only x can be there: the others were above
	switch {
	case x.expr == n:
		f.emitLine("if %s {", cond.falseCondition())
		f.emitLine("%s = %s", n, y.expr)
		f.emitLine("}")
	default:
		f.emitLine("if %s {", cond.trueCondition())
		f.emitLine("%s = %s", n, x.expr)
		f.emitLine("} else {")
		f.emitLine("%s = %s", n, y.expr)
		f.emitLine("}")
	}
	f.pushLazy(entry{typ: x.typ, expr: n, local: -1})
}

// translatePrefix translates the instructions that begin with 0xfc.
func (f *function) translatePrefix() {
	switch sub := f.r.u32(); {
	case sub < 8:
		o := saturating[sub]
		x := f.popEntry(o.in)
		f.pushEvaluated(o.out, strings.ReplaceAll(o.expr, "X", x.expr))
	case sub == 10 || sub == 11:
		if f.r.readByte(); sub == 10 {
			f.r.readByte()
		}
		if !f.m.memory {
			f.failAt("there is no memory")
		}
		n, v, d := f.popEntry(i32), f.popEntry(i32), f.popEntry(i32)
		f.emitLine("m.%s(%s, %s, %s)", map[uint32]string{10: "copy", 11: "fill"}[sub], d.expr, v.expr, n.expr)
	default:
		f.failAt("unsupported instruction 0xfc %d", sub)
	}
}

// formatText returns the function as Go source.
func (f *function) formatText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "//go:norace\n//go:nocheckptr\nfunc fn%d(m *Module", f.index)
	for i, t := range f.body.typ.in {
		fmt.Fprintf(&b, ", v%d %s", i, t.goType())
	}
	fmt.Fprintf(&b, ")%s {\n", f.body.typ.formatResults())
	for i := len(f.body.typ.in); i < len(f.body.locals); i++ {
		fmt.Fprintf(&b, "var v%d %s\n_ = v%d\n", i, f.body.locals[i].goType(), i)
	}
	names := make([]string, 0, len(f.slots))
	for s := range f.slots {
		names = append(names, s)
	}
	sort.Strings(names)
	for _, s := range names {
		fmt.Fprintf(&b, "var %s %s\n_ = %s\n", s, f.slots[s].goType(), s)
	}
	if f.usesMemory {
		b.WriteString("b := m.base\n")
	}
	if f.depth {
		b.WriteString("if m.depth++; m.depth > maxDepth {\npanic(ErrDepth)\n}\n")
	}
	for _, l := range f.lines {
		if l != "" {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	b.WriteString("}\n\n")
	return b.String()
}
