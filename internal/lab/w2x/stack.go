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

// truth returns a Go condition that is true if e isn't zero.
func (e entry) truth() string {
	if e.cond != "" {
		return e.cond
	}
	return e.expr + " != 0"
}

// untruth returns a Go condition that is true if e is zero.
func (e entry) untruth() string {
	if e.cond != "" {
		return "!(" + e.cond + ")"
	}
	return e.expr + " == 0"
}

// opaque returns e as an expression that is not constant in Go. Go would refuse to compile a
// constant's overflow or division by zero.
func (e entry) opaque() string {
	switch {
	case !e.constant:
		return e.expr
	case e.typ == i64:
		return "k64(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint64("), ")") + ")"
	}
	return "k32(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint32("), ")") + ")"
}

// slot returns the variable for a value of type t at height h of the stack.
func (f *function) slot(t valType, h int) string {
	n := fmt.Sprintf("%s%d", t.slot(), h)
	f.slots[n] = t
	return n
}

// later pushes an expression that is evaluated at its use.
func (f *function) later(e entry) { f.stack = append(f.stack, e) }

// now pushes an expression and evaluates it.
func (f *function) now(t valType, expr string) {
	n := f.slot(t, len(f.stack))
	f.emit("%s = %s", n, expr)
	f.stack = append(f.stack, entry{typ: t, expr: n, local: -1})
}

// floor returns the stack height below which the current block may not reach.
func (f *function) floor() int { return f.blocks[len(f.blocks)-1].height }

// pop removes and returns the top entry, which must be of type t.
func (f *function) pop(t valType) entry {
	e := f.popAny()
	if e.typ != t {
		f.fail("%s on the stack where %s is expected", e.typ, t)
	}
	return e
}

func (f *function) popAny() entry {
	if len(f.stack) <= f.floor() {
		f.fail("the stack is empty")
	}
	e := f.stack[len(f.stack)-1]
	f.cut(len(f.stack) - 1)
	return e
}

// cut drops the entries from height h on.
func (f *function) cut(h int) {
	f.stack = f.stack[:h]
	f.clean = min(f.clean, h)
}

// top checks that the top entries have the types ts and returns them without removing them.
func (f *function) top(ts []valType) []entry {
	base := len(f.stack) - len(ts)
	if base < f.floor() {
		f.fail("%d values on the stack where %d are expected", len(f.stack)-f.floor(), len(ts))
	}
	for i, t := range ts {
		if e := f.stack[base+i]; e.typ != t {
			f.fail("%s on the stack where %s is expected", e.typ, t)
		}
	}
	return f.stack[base:]
}

// settle evaluates the top entries, of types ts, into the slots from height h on. Entries move down
// or stay, so going upwards never overwrites a slot that is still needed.
func (f *function) settle(ts []valType, h int) {
	for i, e := range f.top(ts) {
		if s := f.slot(e.typ, h+i); e.expr != s {
			f.emit("%s = %s", s, e.expr)
		}
	}
}

// flush evaluates the whole stack before control flow branches or joins.
func (f *function) flush() {
	for ; f.clean < len(f.stack); f.clean++ {
		f.evaluate(f.clean)
	}
}

// kill evaluates the entries that read a local that is about to change.
func (f *function) kill(local int) {
	for i := f.clean; i < len(f.stack); i++ {
		if f.stack[i].local == local {
			f.evaluate(i)
		}
	}
}

func (f *function) evaluate(i int) {
	e := &f.stack[i]
	if s := f.slot(e.typ, i); e.expr != s {
		f.emit("%s = %s", s, e.expr)
		*e = entry{typ: e.typ, expr: s, local: -1}
	}
}
