package main

import (
	"fmt"
	"strings"
)

// translateControl translates control instructions.
func (f *function) translateControl(c byte) {
	switch c {
	case opUnreachable:
		f.emitLine("panic(ErrUnreachable)")
		f.dead = true
	case opNop:
	case opBlock, opLoop, opIf:
		f.beginBlock(c)
	case opElse:
		f.translateElse()
	case opEnd:
		f.endBlock()
	case opBr:
		f.emitBranch(f.readTarget())
		f.dead = true
	case opBrIf:
		f.branchIf()
	case opBrTable:
		f.branchTable()
	case opReturn:
		f.emitReturn()
		f.dead = true
	case opCall:
		g := f.r.u32()
		if int64(g) >= int64(f.m.countFunctions()) {
			f.failAt("no function %d", g)
		}
		f.emitCall(f.m.typeOf(g), f.m.calleeExpr(g))
		f.calls[g] = true
	case opIndirect:
		f.callIndirect()
	default:
		f.failAt("unsupported instruction %#x", c)
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
			f.failAt("unsupported block type %#x", byte(t))
		}
		return nil, []valType{t}
	case v >= int64(len(f.m.types)):
		f.failAt("no type %d", v)
		return nil, nil
	default:
		return f.m.types[v].in, f.m.types[v].out
	}
}

func (f *function) beginBlock(c byte) {
	if len(f.blocks) >= maxNesting {
		f.failAt("blocks nest deeper than %d", maxNesting)
	}
	in, out := f.blockType()
	var cond entry
	if c == opIf {
		cond = f.popEntry(i32) // it reads no slot that flush writes: those are below
	}
	f.topEntries(in)
	f.flushStack()
	b := block{op: c, height: len(f.stack) - len(in), in: in, out: out, label: f.labels, at: len(f.lines)}
	f.labels++
	switch c {
	case opLoop:
		f.emitLine("") // becomes the label if a branch targets it
	case opIf:
		b.other = f.labels
		f.labels++
		f.emitLine("if %s {", cond.falseCondition())
		f.emitLine("goto L%d", b.other)
		f.emitLine("}")
	}
	f.blocks = append(f.blocks, b)
}

func (f *function) translateElse() {
	b := &f.blocks[len(f.blocks)-1]
	if b.op != opIf || b.hasElse {
		f.failAt("else without if")
	}
	if !f.dead {
		f.moveResults(b)
		f.emitLine("goto L%d", b.label)
		b.used = true
	}
	f.emitLine("L%d:", b.other)
	b.hasElse = true
	f.dead = false
	f.resetStack(b, b.in)
}

func (f *function) endBlock() {
	b := &f.blocks[len(f.blocks)-1]
	if len(f.blocks) == 1 {
		if !f.dead {
			f.moveResults(b)
			f.emitReturn()
		}
		if len(f.lines) == 0 || !isTerminating(f.lines[len(f.lines)-1]) {
			f.emitLine("panic(ErrUnreachable)") // unreachable: Go requires a terminating statement
		}
		f.blocks = nil
		return
	}
	if !f.dead {
		f.moveResults(b)
	}
	switch {
	case b.op == opLoop:
		if b.used {
			f.lines[b.at] = fmt.Sprintf("L%d:", b.label)
		}
	case b.op == opIf && !b.hasElse:
		if string(valTypes(b.in)) != string(valTypes(b.out)) {
			f.failAt("an if without else changes the stack")
		}
		f.emitLine("L%d:", b.other)
		f.dead = false
	}
	if b.op != opLoop && b.used {
		f.emitLine("L%d:", b.label)
		f.dead = false
	}
	f.cutStack(b.height)
	if !f.dead {
		f.resetStack(b, b.out)
	}
	f.blocks = f.blocks[:len(f.blocks)-1]
}

// moveResults moves the results of b to their slots. The block must have pushed nothing else.
func (f *function) moveResults(b *block) {
	if n := len(f.stack) - b.height; n != len(b.out) {
		f.failAt("%d values are left where %d are expected", n, len(b.out))
	}
	if len(f.blocks) > 1 {
		f.settleEntries(b.out, b.height)
	} else {
		f.topEntries(b.out)
	}
}

// resetStack resets the stack to the start or end of the block, with values of types ts in their
// slots.
func (f *function) resetStack(b *block, ts []valType) {
	f.cutStack(b.height)
	for _, t := range ts {
		f.stack = append(f.stack, entry{typ: t, expr: f.slotName(t, len(f.stack)), local: -1})
	}
}

// readTarget reads a label and returns the index of its block.
func (f *function) readTarget() int { return f.blockAt(f.r.u32()) }

func (f *function) blockAt(label uint32) int {
	if int64(label) >= int64(len(f.blocks)) {
		f.failAt("no block %d", label)
	}
	return len(f.blocks) - 1 - int(label)
}

func (f *function) emitBranch(target int) {
	if target == 0 {
		f.emitReturn()
		return
	}
	b := &f.blocks[target]
	f.settleEntries(b.branchTypes(), b.height)
	b.used = true
	f.emitLine("goto L%d", b.label)
}

func (f *function) branchIf() {
	target := f.readTarget()
	cond := f.popEntry(i32)
	f.emitLine("if %s {", cond.trueCondition())
	f.emitBranch(target)
	f.emitLine("}")
}

func (f *function) branchTable() {
	n := f.r.readCount()
	targets := make([]int, n+1)
	for i := range targets {
		targets[i] = f.readTarget()
	}
	x := f.popEntry(i32)
	arity := len(f.blocks[targets[n]].branchTypes())
	cases := map[int][]string{}
	var order []int
	for i, t := range targets {
		if len(f.blocks[t].branchTypes()) != arity {
			f.failAt("branches of one table with different values")
		}
		if i == n || t == targets[n] {
			continue
		}
		if cases[t] == nil {
			order = append(order, t)
		}
		cases[t] = append(cases[t], fmt.Sprint(i))
	}
	f.emitLine("switch %s {", x.expr)
	for _, t := range order {
		f.emitLine("case %s:", strings.Join(cases[t], ", "))
		f.emitBranch(t)
	}
	f.emitLine("default:")
	f.emitBranch(targets[n])
	f.emitLine("}")
	f.dead = true
}

func (f *function) emitReturn() {
	if f.depth {
		f.emitLine("m.depth--")
	}
	var s []string
	for _, e := range f.topEntries(f.body.typ.out) {
		s = append(s, e.expr)
	}
	f.emitLine("%s", strings.TrimSpace("return "+strings.Join(s, ", ")))
}

// calleeExpr returns a Go expression for function g.
func (m *module) calleeExpr(g uint32) string {
	if int(g) < len(m.imports) {
		return "m.Imports." + goName(m.imports[g].module+"_"+m.imports[g].name)
	}
	return fmt.Sprintf("fn%d", g)
}

func (f *function) callIndirect() {
	i := f.r.u32()
	if int64(i) >= int64(len(f.m.types)) {
		f.failAt("no type %d", i)
	}
	if f.r.u32() != 0 || f.m.table == 0 {
		f.failAt("no such table")
	}
	x := f.popEntry(i32)
	t := f.m.types[i]
	f.emitCall(t, fmt.Sprintf("m.table[%s].(%s)", x.hideConstant(), t.golang()))
	f.indirect = true
}

// emitCall calls a function of type t.
func (f *function) emitCall(t funcType, callee string) {
	args := []string{"m"}
	for _, e := range f.topEntries(t.in) {
		args = append(args, e.expr)
	}
	f.cutStack(len(f.stack) - len(t.in))
	call := callee + "(" + strings.Join(args, ", ") + ")"
	var results []string
	for i, o := range t.out {
		results = append(results, f.slotName(o, len(f.stack)+i))
	}
	if len(results) > 0 {
		call = strings.Join(results, ", ") + " = " + call
	}
	f.emitLine("%s", call)
	for i, o := range t.out {
		f.stack = append(f.stack, entry{typ: o, expr: results[i], local: -1})
	}
}

// skipUnreachable reads one unreachable instruction, and translates it only if it ends the
// unreachable code.
func (f *function) skipUnreachable(c byte) {
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
		for n := r.readCount() + 1; n > 0 && r.err == nil; n-- {
			r.u32()
		}
	case c == opIndirect:
		r.u32()
		r.u32()
	case c >= 0x28 && c <= 0x3e:
		r.u32()
		r.u32()
	case c == opMemorySize, c == opMemoryGrow:
		r.readByte()
	case c == opI32Const:
		r.readSigned(32)
	case c == opI64Const:
		r.readSigned(64)
	case c == opF32Const:
		r.readLittleEndian(4)
	case c == opF64Const:
		r.readLittleEndian(8)
	case c == opSelectTyped:
		for n := r.readCount(); n > 0 && r.err == nil; n-- {
			r.valType()
		}
	case c == opPrefixed:
		if sub := r.u32(); sub == 10 {
			r.readBytes(2)
		} else if sub == 11 {
			r.readByte()
		} else if sub > 11 {
			f.failAt("unsupported instruction 0xfc %d", sub)
		}
	case c == opUnreachable, c == opNop, c == opReturn, c == opDrop, c == opSelect:
	default:
		if _, ok := ops[c]; !ok {
			f.failAt("unsupported instruction %#x", c)
		}
	}
}

// skipEnd ends a block, or a branch of it, in unreachable code.
func (f *function) skipEnd(c byte) {
	n := len(f.skipped)
	switch {
	case n == 0 && c == opElse:
		f.translateElse()
	case n == 0:
		f.endBlock()
	case c == opEnd:
		f.skipped = f.skipped[:n-1]
	case f.skipped[n-1] != opIf:
		f.failAt("else without if")
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

// isTerminating reports whether line is a terminating statement of Go.
func isTerminating(line string) bool {
	return strings.HasPrefix(line, "goto ") || strings.HasPrefix(line, "return") || strings.HasPrefix(line, "panic(")
}
