package main

import (
	"fmt"
	"strings"
)

// An entry is a value on the operand stack: a Go expression without effects, not evaluated yet where that is safe. It
// lives in its slot (a variable named after its type and height), or is a constant or a local that is read late, or a
// condition that the next instruction wants as a condition.
type entry struct {
	typ      valType
	expr     string
	local    int    // the local it reads, or -1
	constant bool   // expr is a Go constant
	cond     string // not empty: the value is 1 where this is true, else 0
}

// truth is a Go condition that holds where e isn't zero.
func (e entry) truth() string {
	if e.cond != "" {
		return e.cond
	}
	return e.expr + " != 0"
}

// untruth is a Go condition that holds where e is zero.
func (e entry) untruth() string {
	if e.cond != "" {
		return "!(" + e.cond + ")"
	}
	return e.expr + " == 0"
}

// opaque is e as an expression that Go doesn't take for a constant, whose overflow or division by zero it would refuse
// to compile.
func (e entry) opaque() string {
	switch {
	case !e.constant:
		return e.expr
	case e.typ == i64:
		return "k64(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint64("), ")") + ")"
	}
	return "k32(" + strings.TrimSuffix(strings.TrimPrefix(e.expr, "uint32("), ")") + ")"
}

// slot is the variable for a value of type t at height h of the stack.
func (f *function) slot(t valType, h int) string {
	n := fmt.Sprintf("%s%d", t.slot(), h)
	f.slots[n] = t
	return n
}

// later pushes an expression that is evaluated where it is used.
func (f *function) later(e entry) { f.stack = append(f.stack, e) }

// now pushes an expression and evaluates it.
func (f *function) now(t valType, expr string) {
	n := f.slot(t, len(f.stack))
	f.emit("%s = %s", n, expr)
	f.stack = append(f.stack, entry{typ: t, expr: n, local: -1})
}

// floor is the height of the stack below which the current block may not reach.
func (f *function) floor() int { return f.blocks[len(f.blocks)-1].height }

// pop takes the top entry, which must be of type t.
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

// cut drops what is on the stack from height h on.
func (f *function) cut(h int) {
	f.stack = f.stack[:h]
	f.clean = min(f.clean, h)
}

// top checks that the top of the stack has the types ts and gives those entries, which stay.
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

// settle evaluates the top entries, of types ts, into the slots from height h on. They move down or stay, so that
// going upwards never overwrites a slot that is still to be read.
func (f *function) settle(ts []valType, h int) {
	for i, e := range f.top(ts) {
		if s := f.slot(e.typ, h+i); e.expr != s {
			f.emit("%s = %s", s, e.expr)
		}
	}
}

// flush evaluates all that is on the stack, before control flow parts or meets.
func (f *function) flush() {
	for ; f.clean < len(f.stack); f.clean++ {
		f.evaluate(f.clean)
	}
}

// kill evaluates the entries that read a local which is about to change.
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
