package main

import (
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A generator makes random modules that are valid, terminate and use most features: nested blocks
// with parameters and several results, loops, branches and branch tables, calls and indirect calls
// (some of the wrong type), globals, memory and unreachable code.
type generator struct {
	t      *rapid.T
	b      *builder
	c      code
	typ    funcType
	locals []valType
	blocks []funcType // labels, innermost last; in holds the types of a branch's operands
	budget int
	self   int // number of existing functions; only these are called directly
}

const (
	spGlobal   = 0 // plays the role of a stack pointer
	fuelGlobal = 1 // remaining fuel
	fuel       = 2000
)

var numTypes = []valType{i32, i64, f32, f64}

func (g *generator) n(n int) int { return rapid.IntRange(0, n-1).Draw(g.t, "n") }

func (g *generator) pick(ts []valType) valType { return ts[g.n(len(ts))] }

func (g *generator) types(most int) []valType {
	ts := make([]valType, g.n(most+1))
	for i := range ts {
		ts[i] = g.pick(numTypes)
	}
	return ts
}

// local returns the index of a local of type t, which may be new.
func (g *generator) local(t valType) uint32 {
	var found []int
	for i, l := range g.locals {
		if l == t {
			found = append(found, i)
		}
	}
	if len(found) == 0 || len(found) < 3 && g.n(4) == 0 {
		g.locals = append(g.locals, t)
		return uint32(len(g.locals) - 1)
	}
	return uint32(found[g.n(len(found))])
}

// burn emits code that uses fuel, and traps if none is left.
func (g *generator) burn() {
	g.c.u(opGlobalGet, fuelGlobal)
	g.c.i32(1)
	g.c.op(opI32Sub)
	g.c.u(opGlobalSet, fuelGlobal)
	g.c.u(opGlobalGet, fuelGlobal)
	g.c.i32(0)
	g.c.op(0x48) // less than
	g.c.void(opIf)
	g.c.op(opUnreachable, opEnd)
}

// canonical emits code that replaces a NaN on the stack by a fixed one. Implementations may choose
// the NaN that arithmetic produces.
func (g *generator) canonical(t valType) {
	l := g.local(t)
	g.c.u(opLocalTee, l)
	g.c.constant(t, map[valType]uint64{f32: 0x7fc00000, f64: 0x7ff8000000000000}[t])
	g.c.u(opLocalGet, l)
	g.c.u(opLocalGet, l)
	g.c.op(map[valType]byte{f32: 0x5b, f64: 0x61}[t], opSelect)
	g.c.u(opLocalTee, l)
}

// value emits code that leaves a value of type t.
func (g *generator) value(t valType, depth int) {
	if g.budget--; g.budget < 0 || depth <= 0 {
		g.leaf(t)
		return
	}
	switch g.n(14) {
	case 0, 1:
		g.leaf(t)
	case 2, 3, 4, 5:
		g.arithmetic(t, depth)
	case 6:
		g.load(t, depth)
	case 7:
		g.value(t, depth-1)
		g.value(t, depth-1)
		g.value(i32, depth-1)
		if g.n(2) == 0 {
			g.c.op(opSelect)
		} else {
			g.c.op(opSelectTyped, 1, byte(t))
		}
	case 8:
		g.value(t, depth-1)
		g.c.u(opLocalTee, g.local(t))
	case 9, 10:
		g.structured(funcType{nil, []valType{t}}, depth)
	case 11:
		in := g.types(2)
		for _, p := range in {
			g.value(p, depth-1)
		}
		g.structured(funcType{in, []valType{t}}, depth)
	case 12:
		g.call(t, depth)
	case 13:
		g.statement(depth - 1)
		g.value(t, depth-1)
	}
}

func (g *generator) leaf(t valType) {
	switch g.n(4) {
	case 0:
		e := edges[t]
		g.c.constant(t, e[g.n(len(e))])
	case 1:
		for i, x := range g.b.globals {
			if x.typ == t && i != fuelGlobal && i != spGlobal {
				g.c.u(opGlobalGet, uint32(i))
				return
			}
		}
		fallthrough
	default:
		g.c.u(opLocalGet, g.local(t))
	}
}

// opsByResult lists the numeric instructions by the type of their result.
var opsByResult = func() map[valType][]byte {
	m := map[valType][]byte{}
	for c := range 256 {
		if o, ok := ops[byte(c)]; ok {
			m[o.out] = append(m[o.out], byte(c))
		}
	}
	return m
}()

func (g *generator) arithmetic(t valType, depth int) {
	if g.n(12) == 0 {
		for i, o := range saturating {
			if o.out == t && g.n(3) == 0 {
				g.value(o.in, depth-1)
				g.c.prefixed(byte(i))
				return
			}
		}
	}
	all := opsByResult[t]
	c := all[g.n(len(all))]
	o := ops[c]
	for range o.n {
		g.value(o.in, depth-1)
	}
	g.c.op(c)
	if t == f32 || t == f64 {
		g.canonical(t)
	}
}

// address emits code that leaves an address, usually inside memory.
func (g *generator) address(depth int) {
	g.value(i32, depth-1)
	if g.n(12) > 0 {
		g.c.i32(0xfff)
		g.c.op(0x71)
	}
}

func (g *generator) load(t valType, depth int) {
	for c := byte(0x28); c <= 0x35; c++ {
		if loads[c].typ == t && (g.n(3) == 0 || c >= 0x2a && c <= 0x2b || c == 0x2f || c == 0x35) {
			g.address(depth)
			g.c.memory(c, uint32(g.n(64)))
			// a load whose value is never used may be omitted, along with its trap
			g.c.u(opLocalTee, g.local(t))
			g.keep(t)
			return
		}
	}
}

// keep emits code that uses the value on the stack.
func (g *generator) keep(t valType) {
	for i, x := range g.b.globals {
		if x.typ == t && i > fuelGlobal {
			g.c.u(opGlobalSet, uint32(i))
			g.c.u(opGlobalGet, uint32(i))
			return
		}
	}
}

// structured emits a block whose parameters are on the stack.
func (g *generator) structured(ft funcType, depth int) {
	k := g.n(3)
	index := g.b.typ(ft)
	label := funcType{in: ft.out}
	switch k {
	case 0:
		g.c.block(opBlock, index)
	case 1:
		g.c.block(opLoop, index)
		label.in = ft.in
	case 2:
		g.value(i32, depth-1)
		g.c.block(opIf, index)
	}
	g.blocks = append(g.blocks, label)
	if k == 1 {
		g.burn()
	}
	g.inside(ft, depth)
	if k == 2 {
		g.c.op(opElse)
		g.inside(ft, depth)
	}
	g.blocks = g.blocks[:len(g.blocks)-1]
	g.c.op(opEnd)
}

// inside emits the body of a block.
func (g *generator) inside(ft funcType, depth int) {
	for i := len(ft.in) - 1; i >= 0; i-- {
		g.c.u(opLocalSet, g.local(ft.in[i]))
	}
	for range g.n(3) {
		g.statement(depth - 1)
	}
	if g.n(6) == 0 { // leave the block, and continue with unreachable code
		g.jump(depth)
		if g.n(2) == 0 {
			for _, t := range ft.out {
				g.value(t, 1)
			}
		}
		return
	}
	for _, t := range ft.out {
		g.value(t, depth-1)
	}
}

// jump emits an instruction after which code is unreachable.
func (g *generator) jump(depth int) {
	switch g.n(5) {
	case 0:
		if g.n(4) == 0 {
			g.c.op(opUnreachable)
			return
		}
		fallthrough
	case 1:
		for _, t := range g.typ.out {
			g.value(t, depth-1)
		}
		g.c.op(opReturn)
	case 2, 3:
		l := g.n(len(g.blocks))
		for _, t := range g.label(l).in {
			g.value(t, depth-1)
		}
		g.c.u(opBr, uint32(l))
	case 4:
		g.table(depth)
	}
}

// label returns the l-th label, counted from the innermost.
func (g *generator) label(l int) funcType { return g.blocks[len(g.blocks)-1-l] }

// table emits a br_table to labels with the same operand types.
func (g *generator) table(depth int) {
	l := g.n(len(g.blocks))
	want := fmt.Sprint(g.label(l).in)
	var same []int
	for i := range g.blocks {
		if fmt.Sprint(g.label(i).in) == want {
			same = append(same, i)
		}
	}
	for _, t := range g.label(l).in {
		g.value(t, depth-1)
	}
	g.value(i32, depth-1)
	g.c.i32(7)
	g.c.op(0x71)
	n := g.n(6)
	g.c.u(opBrTable, uint32(n))
	for range n + 1 {
		g.c = appendUnsigned(g.c, uint64(same[g.n(len(same))]))
	}
}

func (g *generator) call(t valType, depth int) {
	g.burn()
	if g.self > 0 && g.n(2) == 0 {
		f := g.n(g.self)
		ft := g.b.funcs[f].typ
		g.arguments(ft, depth)
		g.c.u(opCall, uint32(len(g.b.imports)+f))
		g.results(ft, t, depth)
		return
	}
	if g.n(4) == 0 {
		g.value(i32, depth-1)
		g.value(i64, depth-1)
		g.c.u(opCall, 0)
		g.results(funcType{out: []valType{i64}}, t, depth)
		return
	}
	ft := g.b.funcs[0].typ
	g.arguments(ft, depth)
	g.value(i32, depth-1)
	g.c.i32(3)
	g.c.op(0x71)
	g.c.u(opIndirect, uint32(g.b.typ(ft)))
	g.c = append(g.c, 0)
	g.results(ft, t, depth)
}

func (g *generator) arguments(ft funcType, depth int) {
	for _, t := range ft.in {
		g.value(t, depth-1)
	}
}

// results emits code that turns a call's results into one value of type t.
func (g *generator) results(ft funcType, t valType, depth int) {
	for i := len(ft.out) - 1; i >= 0; i-- {
		g.c.u(opLocalSet, g.local(ft.out[i]))
	}
	g.value(t, depth-1)
}

func (g *generator) statement(depth int) {
	if g.budget--; g.budget < 0 || depth <= 0 {
		return
	}
	switch g.n(9) {
	case 0, 1:
		t := g.pick(numTypes)
		g.value(t, depth)
		g.c.u(opLocalSet, g.local(t))
	case 2:
		i := g.n(len(g.b.globals))
		if i != fuelGlobal {
			g.value(g.b.globals[i].typ, depth)
			g.c.u(opGlobalSet, uint32(i))
		}
	case 3, 4:
		c := byte(0x36 + g.n(9))
		g.address(depth)
		g.value(stores[c].typ, depth-1)
		g.c.memory(c, uint32(g.n(64)))
	case 5:
		l := g.n(len(g.blocks))
		in := g.label(l).in
		for _, t := range in {
			g.value(t, depth-1)
		}
		g.value(i32, depth-1)
		g.c.u(opBrIf, uint32(l))
		for range in {
			g.c.op(opDrop)
		}
	case 6:
		g.structured(funcType{}, depth)
	case 7:
		if g.n(2) == 0 {
			g.address(depth)
			g.address(depth)
			g.value(i32, depth-1)
			g.c.i32(0xff)
			g.c.op(0x71)
			g.c.prefixed(10, 0, 0)
		} else {
			g.address(depth)
			g.value(i32, depth-1)
			g.value(i32, depth-1)
			g.c.i32(0xff)
			g.c.op(0x71)
			g.c.prefixed(11, 0)
		}
	case 8:
		if g.n(3) == 0 {
			g.value(i32, depth-1)
			g.c.op(opMemoryGrow, 0)
		} else {
			g.c.op(opMemorySize, 0)
		}
		g.c.u(opLocalSet, g.local(i32))
	}
}

// function adds a function of type ft.
func (g *generator) function(name string, ft funcType) {
	g.c, g.typ, g.locals, g.budget = nil, ft, append([]valType(nil), ft.in...), 120
	g.blocks = []funcType{{in: ft.out}}
	g.self = len(g.b.funcs)
	if g.n(2) == 0 { // like a compiler's prologue of a function that uses the guest's stack
		g.c.u(opGlobalGet, spGlobal)
		g.c.i32(16)
		g.c.op(opI32Sub)
		g.c.u(opGlobalSet, spGlobal)
	}
	g.burn()
	for range g.n(4) {
		g.statement(5)
	}
	for _, t := range ft.out {
		g.value(t, 5)
	}
	g.b.fn(name, ft, g.locals[len(ft.in):], g.c)
}

// randomModule draws a module. Its functions are named f0, f1, and so on. Its function refuel
// resets the fuel.
var randomModule = rapid.Custom(func(t *rapid.T) *builder {
	b := &builder{pages: 1, data: []segment{{16, []byte("some data that programs find in their memory")}}}
	b.imports = []imported{{"env", "mix", funcType{[]valType{i32, i64}, []valType{i64}}}}
	b.typ(b.imports[0].typ)
	b.globals = []global{{i32, true, 4096}, {i32, true, 0}, {i32, true, 7}, {i64, true, 1 << 40},
		{f32, true, 0x40490fdb}, {f64, true, 0x400921fb54442d18}}
	g := &generator{t: t, b: b}
	g.c.u(opLocalGet, 0)
	var one code
	one.u(opLocalGet, 0)
	b.fn("", funcType{[]valType{i32}, []valType{i32}}, nil, one)
	for i := range 10 {
		g.function(fmt.Sprintf("f%d", i), funcType{g.types(4), g.types(3)})
	}
	b.table = []uint32{1, 2, 0, 3}
	var reset code
	reset.i32(fuel)
	reset.u(opGlobalSet, fuelGlobal)
	b.fn("refuel", funcType{}, nil, reset)
	return b
})

var modules = flag.Int("modules", 24, "how many random modules TestRandom compares")

// TestRandom compares translations of random modules with wazero.
func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	x := &trial{}
	for seed := range *modules {
		b := randomModule.Example(seed)
		x.modules = append(x.modules, b)
		for round := range 12 {
			for _, f := range b.funcs {
				if f.name == "" || f.name == "refuel" {
					continue
				}
				c := call{Module: seed, Name: f.name}
				for i, p := range f.typ.in {
					e := edges[p]
					c.Args = append(c.Args, e[(round*7+i*3+seed)%len(e)])
				}
				x.calls = append(x.calls, call{Module: seed, Name: "refuel"}, c)
			}
		}
	}
	x.run(t)
}
