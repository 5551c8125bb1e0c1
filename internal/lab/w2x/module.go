package main

import (
	"fmt"
	"strings"
)

// A valType is a value type, in its binary form (core specification 5.3.1).
type valType byte

const (
	i32 valType = 0x7f
	i64 valType = 0x7e
	f32 valType = 0x7d
	f64 valType = 0x7c
)

// goType returns the Go type for values of t.
func (t valType) goType() string {
	switch t {
	case i32:
		return "uint32"
	case i64:
		return "uint64"
	case f32:
		return "float32"
	}
	return "float64"
}

// slotPrefix returns the first letter of variables for values of t.
func (t valType) slotPrefix() string {
	switch t {
	case i32:
		return "i"
	case i64:
		return "l"
	case f32:
		return "f"
	}
	return "d"
}

// String returns the name of t in the text format.
func (t valType) String() string {
	switch t {
	case i32:
		return "i32"
	case i64:
		return "i64"
	case f32:
		return "f32"
	case f64:
		return "f64"
	}
	return fmt.Sprintf("type %#x", byte(t))
}

// A funcType is the type of a function.
type funcType struct{ in, out []valType }

// golang returns the Go type of functions of type t.
func (t funcType) golang() string {
	var b strings.Builder
	b.WriteString("func(*Module")
	for _, p := range t.in {
		b.WriteString(", " + p.goType())
	}
	b.WriteString(")" + t.formatResults())
	return b.String()
}

// formatResults returns the list of t's results as in a Go function type, with a leading space.
func (t funcType) formatResults() string {
	if len(t.out) == 0 {
		return ""
	}
	s := make([]string, len(t.out))
	for i, o := range t.out {
		s[i] = o.goType()
	}
	if len(s) == 1 {
		return " " + s[0]
	}
	return " (" + strings.Join(s, ", ") + ")"
}

// An imported is a function that the module imports.
type imported struct {
	module, name string
	typ          funcType
}

// A global is a global variable defined by the module; value is its initial value, as bits.
type global struct {
	typ     valType
	mutable bool
	value   uint64
}

// An export names a function of the module.
type export struct {
	name string
	fn   uint32
}

// A segment is initial data of the memory.
type segment struct {
	at   uint32
	data []byte
}

// A body is the code of a function.
type body struct {
	typ    funcType
	locals []valType // parameters first
	code   []byte
	at     int // offset of code in the module
}

// A module is a parsed WebAssembly module. Its indices have been checked, its code has not.
type module struct {
	types    []funcType
	imports  []imported
	funcs    []body // defined functions; their indices follow the imports'
	globals  []global
	table    uint32            // length
	elems    map[uint32]uint32 // contents of the table
	memory   bool
	memMin   uint32 // in pages
	memMax   uint32
	exports  []export
	segments []segment
	start    int // index of the start function, or -1
	sp       int // index of the global that is the stack pointer, or -1
	left     int // bytes of Go that may still be generated
}

// typeOf returns the type of function f, which may be imported.
func (m *module) typeOf(f uint32) funcType {
	if int(f) < len(m.imports) {
		return m.imports[f].typ
	}
	return m.funcs[int(f)-len(m.imports)].typ
}

// countFunctions returns the number of functions, including imported ones.
func (m *module) countFunctions() int { return len(m.imports) + len(m.funcs) }
