package main

import (
	"fmt"
	"strings"
)

// An entry is a value on the operand stack: a Go expression without side effects, whose evaluation
// is delayed if that is safe. It is in its slot (a variable named after its type and height), or is
// a constant, a local that is read late, or a condition for the next instruction.
type entry struct {
	typ      valType
	expr     string
	local    int    // the local it reads, or -1
	constant bool   // expr is a Go constant
	cond     string // if not empty, the value is 1 if this is true, otherwise 0
}

// trueCondition returns a Go condition that is true if e isn't zero.
func (e entry) trueCondition() string {
	if e.cond != "" {
		return e.cond
	}
	return e.expr + " != 0"
}

// falseCondition returns a Go condition that is true if e is zero.
func (e entry) falseCondition() string {
	if e.cond != "" {
		return "!(" + e.cond + ")"
	}
	return e.expr + " == 0"
}

// hideConstant returns e as an expression that is not constant in Go. Go would refuse to compile a
// constant's overflow or division by zero.
func (e entry) hideConstant() string {
	switch {
	case !e.constant:
		return e.expr
	case e.typ == i64:
		return "k64(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint64("), ")") + ")"
	}
	return "k32(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint32("), ")") + ")"
}

// slotName returns the variable for a value of type t at height h of the stack.
func (f *function) slotName(t valType, h int) string {
	n := fmt.Sprintf("%s%d", t.slotPrefix(), h)
	f.slots[n] = t
	return n
}

// pushLazy pushes an expression that is evaluated at its use.
func (f *function) pushLazy(e entry) { f.stack = append(f.stack, e) }

// pushEvaluated pushes an expression and evaluates it.
func (f *function) pushEvaluated(t valType, expr string) {
	n := f.slotName(t, len(f.stack))
	f.emitLine("%s = %s", n, expr)
	f.stack = append(f.stack, entry{typ: t, expr: n, local: -1})
}

// stackFloor returns the stack height below which the current block may not reach.
func (f *function) stackFloor() int { return f.blocks[len(f.blocks)-1].height }

// popEntry removes and returns the top entry, which must be of type t.
func (f *function) popEntry(t valType) entry {
	e := f.popAny()
	if e.typ != t {
		f.failAt("%s on the stack where %s is expected", e.typ, t)
	}
	return e
}

func (f *function) popAny() entry {
	if len(f.stack) <= f.stackFloor() {
		f.failAt("the stack is empty")
	}
	e := f.stack[len(f.stack)-1]
	f.cutStack(len(f.stack) - 1)
	return e
}

// cutStack drops the entries from height h on.
func (f *function) cutStack(h int) {
	f.stack = f.stack[:h]
	f.clean = min(f.clean, h)
}

// topEntries checks that the top entries have the types ts and returns them without removing them.
func (f *function) topEntries(ts []valType) []entry {
	base := len(f.stack) - len(ts)
	if base < f.stackFloor() {
		f.failAt("%d values on the stack where %d are expected", len(f.stack)-f.stackFloor(), len(ts))
	}
	for i, t := range ts {
		if e := f.stack[base+i]; e.typ != t {
			f.failAt("%s on the stack where %s is expected", e.typ, t)
		}
	}
	return f.stack[base:]
}

// settleEntries evaluates the top entries, of types ts, into the slots from height h on. Entries
// move down or stay, so going upwards never overwrites a slot that is still needed.
func (f *function) settleEntries(ts []valType, h int) {
	for i, e := range f.topEntries(ts) {
		if s := f.slotName(e.typ, h+i); e.expr != s {
			f.emitLine("%s = %s", s, e.expr)
		}
	}
}

// flushStack evaluates the whole stack before control flow branches or joins.
func (f *function) flushStack() {
	for ; f.clean < len(f.stack); f.clean++ {
		f.evaluateEntry(f.clean)
	}
}

// evaluateReaders evaluates the entries that read a local that is about to change.
func (f *function) evaluateReaders(local int) {
	for i := f.clean; i < len(f.stack); i++ {
		if f.stack[i].local == local {
			f.evaluateEntry(i)
		}
	}
}

func (f *function) evaluateEntry(i int) {
	e := &f.stack[i]
	if s := f.slotName(e.typ, i); e.expr != s {
		f.emitLine("%s = %s", s, e.expr)
		*e = entry{typ: e.typ, expr: s, local: -1}
	}
}
