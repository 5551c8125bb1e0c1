package main

import (
	"fmt"
	"strings"
)

// control translates control instructions.
func (f *function) control(c byte) {
	switch c {
	case opUnreachable:
		f.emit("panic(ErrUnreachable)")
		f.dead = true
	case opNop:
	case opBlock, opLoop, opIf:
		f.begin(c)
	case opElse:
		f.otherwise()
	case opEnd:
		f.end()
	case opBr:
		f.branch(f.target())
		f.dead = true
	case opBrIf:
		f.branchIf()
	case opBrTable:
		f.branchTable()
	case opReturn:
		f.ret()
		f.dead = true
	case opCall:
		g := f.r.u32()
		if int64(g) >= int64(f.m.nfuncs()) {
			f.fail("no function %d", g)
		}
		f.call(f.m.typeOf(g), f.m.callee(g))
		f.calls[g] = true
	case opIndirect:
		f.callIndirect()
	default:
		f.fail("unsupported instruction %#x", c)
	}
}

// blockType reads the type of a block.
func (f *function) blockType() (in, out []valType) {
	switch v := f.r.readSigned(33); {
	case v == -64:
		return nil, nil
	case v < 0:
		t := valType(v & 0x7f)
		if t < f64 || t > i32 {
			f.fail("unsupported block type %#x", byte(t))
		}
		return nil, []valType{t}
	case v >= int64(len(f.m.types)):
		f.fail("no type %d", v)
		return nil, nil
	default:
		return f.m.types[v].in, f.m.types[v].out
	}
}

func (f *function) begin(c byte) {
	if len(f.blocks) >= maxNesting {
		f.fail("blocks nest deeper than %d", maxNesting)
	}
	in, out := f.blockType()
	var cond entry
	if c == opIf {
		cond = f.pop(i32) // it reads no slot that flush writes: those are below
	}
	f.top(in)
	f.flush()
	b := block{op: c, height: len(f.stack) - len(in), in: in, out: out, label: f.labels, at: len(f.lines)}
	f.labels++
	switch c {
	case opLoop:
		f.emit("") // becomes the label if a branch targets it
	case opIf:
		b.other = f.labels
		f.labels++
		f.emit("if %s {", cond.untruth())
		f.emit("goto L%d", b.other)
		f.emit("}")
	}
	f.blocks = append(f.blocks, b)
}

func (f *function) otherwise() {
	b := &f.blocks[len(f.blocks)-1]
	if b.op != opIf || b.hasElse {
		f.fail("else without if")
	}
	if !f.dead {
		f.leave(b)
		f.emit("goto L%d", b.label)
		b.used = true
	}
	f.emit("L%d:", b.other)
	b.hasElse = true
	f.dead = false
	f.resume(b, b.in)
}

func (f *function) end() {
	b := &f.blocks[len(f.blocks)-1]
	if len(f.blocks) == 1 {
		if !f.dead {
			f.leave(b)
			f.ret()
		}
		if len(f.lines) == 0 || !terminates(f.lines[len(f.lines)-1]) {
			f.emit("panic(ErrUnreachable)") // unreachable: Go requires a terminating statement
		}
		f.blocks = nil
		return
	}
	if !f.dead {
		f.leave(b)
	}
	switch {
	case b.op == opLoop:
		if b.used {
			f.lines[b.at] = fmt.Sprintf("L%d:", b.label)
		}
	case b.op == opIf && !b.hasElse:
		if string(valTypes(b.in)) != string(valTypes(b.out)) {
			f.fail("an if without else changes the stack")
		}
		f.emit("L%d:", b.other)
		f.dead = false
	}
	if b.op != opLoop && b.used {
		f.emit("L%d:", b.label)
		f.dead = false
	}
	f.cut(b.height)
	if !f.dead {
		f.resume(b, b.out)
	}
	f.blocks = f.blocks[:len(f.blocks)-1]
}

// leave moves the results of b to their slots. The block must have pushed nothing else.
func (f *function) leave(b *block) {
	if n := len(f.stack) - b.height; n != len(b.out) {
		f.fail("%d values are left where %d are expected", n, len(b.out))
	}
	if len(f.blocks) > 1 {
		f.settle(b.out, b.height)
	} else {
		f.top(b.out)
	}
}

// resume resets the stack to the start or end of the block, with values of types ts in their slots.
func (f *function) resume(b *block, ts []valType) {
	f.cut(b.height)
	for _, t := range ts {
		f.stack = append(f.stack, entry{typ: t, expr: f.slot(t, len(f.stack)), local: -1})
	}
}

// target reads a label and returns the index of its block.
func (f *function) target() int { return f.block(f.r.u32()) }

func (f *function) block(label uint32) int {
	if int64(label) >= int64(len(f.blocks)) {
		f.fail("no block %d", label)
	}
	return len(f.blocks) - 1 - int(label)
}

func (f *function) branch(target int) {
	if target == 0 {
		f.ret()
		return
	}
	b := &f.blocks[target]
	f.settle(b.branchTypes(), b.height)
	b.used = true
	f.emit("goto L%d", b.label)
}

func (f *function) branchIf() {
	target := f.target()
	cond := f.pop(i32)
	f.emit("if %s {", cond.truth())
	f.branch(target)
	f.emit("}")
}

func (f *function) branchTable() {
	n := f.r.count()
	targets := make([]int, n+1)
	for i := range targets {
		targets[i] = f.target()
	}
	x := f.pop(i32)
	arity := len(f.blocks[targets[n]].branchTypes())
	cases := map[int][]string{}
	var order []int
	for i, t := range targets {
		if len(f.blocks[t].branchTypes()) != arity {
			f.fail("branches of one table with different values")
		}
		if i == n || t == targets[n] {
			continue
		}
		if cases[t] == nil {
			order = append(order, t)
		}
		cases[t] = append(cases[t], fmt.Sprint(i))
	}
	f.emit("switch %s {", x.expr)
	for _, t := range order {
		f.emit("case %s:", strings.Join(cases[t], ", "))
		f.branch(t)
	}
	f.emit("default:")
	f.branch(targets[n])
	f.emit("}")
	f.dead = true
}

func (f *function) ret() {
	if f.depth {
		f.emit("m.depth--")
	}
	var s []string
	for _, e := range f.top(f.body.typ.out) {
		s = append(s, e.expr)
	}
	f.emit("%s", strings.TrimSpace("return "+strings.Join(s, ", ")))
}

// callee returns a Go expression for function g.
func (m *module) callee(g uint32) string {
	if int(g) < len(m.imports) {
		return "m.Imports." + goName(m.imports[g].module+"_"+m.imports[g].name)
	}
	return fmt.Sprintf("fn%d", g)
}

func (f *function) callIndirect() {
	i := f.r.u32()
	if int64(i) >= int64(len(f.m.types)) {
		f.fail("no type %d", i)
	}
	if f.r.u32() != 0 || f.m.table == 0 {
		f.fail("no such table")
	}
	x := f.pop(i32)
	t := f.m.types[i]
	f.call(t, fmt.Sprintf("m.table[%s].(%s)", x.opaque(), t.golang()))
	f.indirect = true
}

// call calls a function of type t.
func (f *function) call(t funcType, callee string) {
	args := []string{"m"}
	for _, e := range f.top(t.in) {
		args = append(args, e.expr)
	}
	f.cut(len(f.stack) - len(t.in))
	call := callee + "(" + strings.Join(args, ", ") + ")"
	var results []string
	for i, o := range t.out {
		results = append(results, f.slot(o, len(f.stack)+i))
	}
	if len(results) > 0 {
		call = strings.Join(results, ", ") + " = " + call
	}
	f.emit("%s", call)
	for i, o := range t.out {
		f.stack = append(f.stack, entry{typ: o, expr: results[i], local: -1})
	}
}

// skip reads one unreachable instruction, and translates it only if it ends the unreachable code.
func (f *function) skip(c byte) {
	r := f.r
	switch {
	case c == opBlock || c == opLoop || c == opIf:
		f.blockType()
		f.skipped = append(f.skipped, c)
	case c == opElse || c == opEnd:
		f.skipEnd(c)
	case c == opBr, c == opBrIf, c == opCall, c >= opLocalGet && c <= opGlobalSet:
		r.u32()
	case c == opBrTable:
		for n := r.count() + 1; n > 0 && r.err == nil; n-- {
			r.u32()
		}
	case c == opIndirect:
		r.u32()
		r.u32()
	case c >= 0x28 && c <= 0x3e:
		r.u32()
		r.u32()
	case c == opMemorySize, c == opMemoryGrow:
		r.byte()
	case c == opI32Const:
		r.readSigned(32)
	case c == opI64Const:
		r.readSigned(64)
	case c == opF32Const:
		r.little(4)
	case c == opF64Const:
		r.little(8)
	case c == opSelectTyped:
		for n := r.count(); n > 0 && r.err == nil; n-- {
			r.valType()
		}
	case c == opPrefixed:
		if sub := r.u32(); sub == 10 {
			r.bytes(2)
		} else if sub == 11 {
			r.byte()
		} else if sub > 11 {
			f.fail("unsupported instruction 0xfc %d", sub)
		}
	case c == opUnreachable, c == opNop, c == opReturn, c == opDrop, c == opSelect:
	default:
		if _, ok := ops[c]; !ok {
			f.fail("unsupported instruction %#x", c)
		}
	}
}

// skipEnd ends a block, or a branch of it, in unreachable code.
func (f *function) skipEnd(c byte) {
	n := len(f.skipped)
	switch {
	case n == 0 && c == opElse:
		f.otherwise()
	case n == 0:
		f.end()
	case c == opEnd:
		f.skipped = f.skipped[:n-1]
	case f.skipped[n-1] != opIf:
		f.fail("else without if")
	default:
		f.skipped[n-1] = opElse
	}
}

func valTypes(ts []valType) []byte {
	b := make([]byte, len(ts))
	for i, t := range ts {
		b[i] = byte(t)
	}
	return b
}

// terminates reports whether line is a terminating statement of Go.
func terminates(line string) bool {
	return strings.HasPrefix(line, "goto ") || strings.HasPrefix(line, "return") || strings.HasPrefix(line, "panic(")
}
