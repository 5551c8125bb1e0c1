package main

// This file contains an assembler of WebAssembly modules for the tests.

// A code is the body of a function under construction.
type code []byte

func (c *code) op(b ...byte)                 { *c = append(*c, b...) }
func (c *code) u(op byte, v uint32)          { *c = appendUnsigned(append(*c, op), uint64(v)) }
func (c *code) i32(v int32)                  { *c = appendSigned(append(*c, opI32Const), int64(v)) }
func (c *code) i64(v int64)                  { *c = appendSigned(append(*c, opI64Const), v) }
func (c *code) f32(bits uint32)              { *c = appendLittle(append(*c, opF32Const), uint64(bits), 4) }
func (c *code) f64(bits uint64)              { *c = appendLittle(append(*c, opF64Const), bits, 8) }
func (c *code) memory(op byte, off uint32)   { *c = appendUnsigned(append(*c, op, 0), uint64(off)) }
func (c *code) block(op byte, typ int)       { *c = appendSigned(append(*c, op), int64(typ)) }
func (c *code) void(op byte)                 { *c = append(*c, op, 0x40) }
func (c *code) typed(op byte, t valType)     { *c = append(*c, op, byte(t)) }
func (c *code) prefixed(sub byte, b ...byte) { *c = append(append(*c, opPrefixed, sub), b...) }

// constant pushes a value of type t with the given bits.
func (c *code) constant(t valType, bits uint64) {
	switch t {
	case i32:
		c.i32(int32(bits))
	case i64:
		c.i64(int64(bits))
	case f32:
		c.f32(uint32(bits))
	default:
		c.f64(bits)
	}
}

func appendUnsigned(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v) & 0x7f
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendLittle(b []byte, v uint64, n int) []byte {
	for range n {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

func appendBytes(b, s []byte) []byte { return append(appendUnsigned(b, uint64(len(s))), s...) }

// A builder builds a module.
type builder struct {
	types   []funcType
	imports []imported
	funcs   []built
	globals []global
	table   []uint32 // functions, starting at element 1; followed by an empty element
	pages   uint32   // initial pages of memory; the maximum is twice as many
	data    []segment
}

// A built is a function of a builder. It is exported unless its name is empty.
type built struct {
	name   string
	typ    funcType
	locals []valType
	code   code
}

// typ returns the index of a type, and adds the type if necessary.
func (b *builder) typ(t funcType) int {
	for i, x := range b.types {
		if x.golang() == t.golang() {
			return i
		}
	}
	b.types = append(b.types, t)
	return len(b.types) - 1
}

// fn adds a function and returns its index. The code c lacks the final end instruction.
func (b *builder) fn(name string, t funcType, locals []valType, c code) uint32 {
	b.typ(t)
	b.funcs = append(b.funcs, built{name, t, locals, c})
	return uint32(len(b.imports) + len(b.funcs) - 1)
}

// bytes returns the encoded module.
func (b *builder) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, n int, items []byte) {
		if n > 0 {
			out = appendBytes(append(out, id), append(appendUnsigned(nil, uint64(n)), items...))
		}
	}
	var types, imports, funcs, globals, exports, codes, data []byte
	for _, t := range b.types {
		types = appendBytes(appendBytes(append(types, 0x60), valTypes(t.in)), valTypes(t.out))
	}
	for _, x := range b.imports {
		imports = append(appendBytes(appendBytes(imports, []byte(x.module)), []byte(x.name)), 0)
		imports = appendUnsigned(imports, uint64(b.typ(x.typ)))
	}
	exported := 0
	for i, f := range b.funcs {
		funcs = appendUnsigned(funcs, uint64(b.typ(f.typ)))
		if f.name != "" {
			exported++
			exports = appendUnsigned(append(appendBytes(exports, []byte(f.name)), 0), uint64(len(b.imports)+i))
		}
		locals := appendUnsigned(nil, uint64(len(f.locals)))
		for _, t := range f.locals {
			locals = append(locals, 1, byte(t))
		}
		codes = appendBytes(codes, append(append(locals, f.code...), opEnd))
	}
	for _, g := range b.globals {
		var c code
		c.constant(g.typ, g.value)
		globals = append(append(append(globals, byte(g.typ), 1), c...), opEnd)
	}
	for _, s := range b.data {
		var c code
		c.i32(int32(s.at))
		data = appendBytes(append(append(append(data, 0), c...), opEnd), s.data)
	}
	section(1, len(b.types), types)
	section(2, len(b.imports), imports)
	section(3, len(b.funcs), funcs)
	if n := len(b.table); n > 0 {
		section(4, 1, appendUnsigned([]byte{0x70, 0}, uint64(n+2)))
	}
	if b.pages > 0 {
		exported++
		exports = append(appendBytes(exports, []byte("memory")), 2, 0)
		section(5, 1, appendUnsigned(appendUnsigned([]byte{1}, uint64(b.pages)), uint64(2*b.pages)))
	}
	section(6, len(b.globals), globals)
	section(7, exported, exports)
	if n := len(b.table); n > 0 {
		elems := appendUnsigned([]byte{0, opI32Const, 1, opEnd}, uint64(n))
		for _, f := range b.table {
			elems = appendUnsigned(elems, uint64(f))
		}
		section(9, 1, elems)
	}
	section(10, len(b.funcs), codes)
	section(11, len(b.data), data)
	return out
}
