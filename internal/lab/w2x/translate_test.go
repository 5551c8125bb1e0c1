package main

import (
	"errors"
	"strings"
	"testing"
)

// TestControl tests what random modules rarely cover: traps of indirect calls, imported functions
// in the table, unbounded recursion, blocks with parameters, unreachable code.
func TestControl(t *testing.T) {
	b := &builder{pages: 1, imports: []imported{{"env", "mix", funcType{[]valType{i32, i64}, []valType{i64}}}}}
	b.globals = []global{{i32, true, 65536}}
	b.typ(b.imports[0].typ)
	one := funcType{[]valType{i32}, []valType{i32}}
	fn := func(name string, ft funcType, emit func(c *code)) uint32 {
		var c code
		emit(&c)
		return b.fn(name, ft, []valType{i32, i32}, c)
	}
	inc := fn("inc", one, func(c *code) { c.u(opLocalGet, 0); c.i32(1); c.op(0x6a) })
	other := fn("other", funcType{nil, []valType{f64}}, func(c *code) { c.f64(0x3ff0000000000000) })
	b.table = []uint32{inc, other, 0}
	fn("indirect", one, func(c *code) {
		c.i32(41)
		c.u(opLocalGet, 0)
		c.u(opIndirect, uint32(b.typ(one)))
		c.op(0)
	})
	fn("indirect_host", funcType{[]valType{i32}, []valType{i64}}, func(c *code) {
		c.i32(3)
		c.i64(5)
		c.u(opLocalGet, 0)
		c.u(opIndirect, uint32(b.typ(b.imports[0].typ)))
		c.op(0)
	})
	self := uint32(len(b.imports) + len(b.funcs))
	fn("deep", one, func(c *code) { c.u(opLocalGet, 0); c.i32(1); c.op(0x6a); c.u(opCall, self) })
	framed := self + 1
	fn("deep_framed", one, func(c *code) {
		c.u(opGlobalGet, 0)
		c.i32(64)
		c.op(opI32Sub)
		c.u(opLocalTee, 1)
		c.u(opGlobalSet, 0)
		c.u(opLocalGet, 1)
		c.u(opLocalGet, 0)
		c.memory(0x36, 0) // a store below address zero traps
		c.u(opLocalGet, 0)
		c.u(opCall, framed)
	})
	fn("swap", funcType{[]valType{i32, i32}, []valType{i32, i32}}, func(c *code) {
		c.u(opLocalGet, 0)
		c.u(opLocalGet, 1)
		c.block(opLoop, b.typ(funcType{[]valType{i32, i32}, []valType{i32, i32}}))
		c.u(opLocalSet, 2)
		c.u(opLocalSet, 3)
		c.u(opLocalGet, 2)
		c.i32(1)
		c.op(0x6a)
		c.u(opLocalGet, 3)
		c.u(opLocalGet, 2)
		c.i32(10)
		c.op(0x49) // less than
		c.u(opBrIf, 0)
		c.op(opEnd)
	})
	fn("dead", one, func(c *code) {
		c.void(opBlock)
		c.u(opBr, 0)
		c.void(opIf)
		c.op(opElse, opEnd, 0x6a, opDrop, opEnd)
		c.u(opLocalGet, 0)
		c.op(opReturn, opUnreachable)
	})
	x := &trial{modules: []*builder{b}}
	for _, i := range []uint64{0, 1, 2, 3, 4, 5, 100, 0xffffffff} {
		x.calls = append(x.calls, call{Name: "indirect", Args: []uint64{i}},
			call{Name: "indirect_host", Args: []uint64{i}}, call{Name: "dead", Args: []uint64{i}})
	}
	x.calls = append(x.calls, call{Name: "deep", Args: []uint64{0}}, call{Name: "swap", Args: []uint64{3, 4}},
		call{Name: "swap", Args: []uint64{30, 4}})
	x.run(t)

	// wazero exhausts its own stack here. The translation must trap at the end of the guest's
	// stack.
	y := &trial{modules: []*builder{b}, calls: []call{{Name: "deep_framed", Args: []uint64{7}}}}
	if got := y.translated(t); got[0].Trap != "out of bounds memory access" {
		t.Errorf("deep_framed: %+v", got[0])
	}
}

// TestInvalid checks that the error for an invalid module describes the problem and its position.
func TestInvalid(t *testing.T) {
	valid := &builder{pages: 1}
	one := funcType{[]valType{i32}, []valType{i32}}
	body := func(emit func(c *code)) []byte {
		b := &builder{pages: 1, globals: []global{{i32, true, 0}}}
		var c code
		emit(&c)
		b.fn("f", one, nil, c)
		return b.bytes()
	}
	for _, c := range []struct {
		name   string
		module []byte
		want   string
	}{
		{"empty", nil, "header at offset 0: unexpected end"},
		{"text", []byte("(module)"), "not a WebAssembly module"},
		{"cut", valid.bytes()[:12], "items in 2 bytes"},
		{"huge count", []byte("\x00asm\x01\x00\x00\x00\x01\x05\xff\xff\xff\xff\x0f"), "items in 0 bytes"},
		{"long number", []byte("\x00asm\x01\x00\x00\x00\x01\x80\x80\x80\x80\x80\x00"), "more than 32 bits"},
		{"sections", []byte("\x00asm\x01\x00\x00\x00\x03\x01\x00\x01\x01\x00"), "out of order"},
		{"too much", []byte("\x00asm\x01\x00\x00\x00\x01\x02\x00\x00"), "too many"},
		{"vector", []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x01\x7b\x00"), "unsupported value type"},
		{"empty stack", body(func(c *code) { c.op(0x6a) }), "stack is empty"},
		{"types", body(func(c *code) { c.i64(1) }), "i64 on the stack where i32 is expected"},
		{"left over", body(func(c *code) { c.i32(1); c.i32(2) }), "2 values are left"},
		{"below the block", body(func(c *code) {
			c.i32(1)
			c.void(opBlock)
			c.op(opDrop, opEnd)
			c.i32(1)
		}), "stack is empty"},
		{"no local", body(func(c *code) { c.u(opLocalGet, 9) }), "no local 9"},
		{"no global", body(func(c *code) { c.u(opGlobalGet, 9) }), "no global 9"},
		{"no function", body(func(c *code) { c.u(opCall, 9) }), "no function 9"},
		{"no label", body(func(c *code) { c.u(opBr, 9) }), "no block 9"},
		{"no table", body(func(c *code) { c.i32(0); c.i32(0); c.u(opIndirect, 0); c.op(0) }), "no such table"},
		{"if", body(func(c *code) { c.i32(1); c.typed(opIf, i32); c.i32(1); c.op(opEnd) }), "if without else"},
		{"else", body(func(c *code) { c.op(opElse) }), "else without if"},
		{"ends", body(func(c *code) { c.i32(1); c.op(opEnd) }), "after the end"},
		{"open", body(func(c *code) { c.i32(1); c.void(opBlock) }), "no end"},
		{"alignment", body(func(c *code) { c.i32(1); c.op(0x28, 3, 0) }), "alignment"},
		{"select", body(func(c *code) { c.i32(1); c.i64(1); c.i32(1); c.op(opSelect, opDrop); c.i32(0) }), "select of"},
		{"reference", body(func(c *code) { c.op(0xd0, 0x70) }), "unsupported instruction 0xd0"},
		{"vector op", body(func(c *code) { c.op(0xfd, 0x0c) }), "unsupported instruction 0xfd"},
		{"memory.init", body(func(c *code) { c.prefixed(8, 0, 0) }), "unsupported instruction 0xfc 8"},
	} {
		_, err := Translate(c.module, Options{Package: "p", Keep: []string{"*"}})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzTranslate checks that Translate never panics, and that its output is valid Go.
func FuzzTranslate(f *testing.F) {
	f.Add(randomModule.Example(0).bytes())
	f.Add((&builder{pages: 1}).bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		_, err := Translate(b, Options{Package: "p", Keep: []string{"*"}})
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("err = %T, err = %v, want err == nil || errors.As(err, &e)", err, err)
		}
	})
}
