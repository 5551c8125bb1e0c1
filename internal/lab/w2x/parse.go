package main

import "fmt"

// Limits of the translation, far beyond the output of compilers, so that a broken module can't
// exhaust the machine's memory.
const (
	maxModule = 256 << 20 // bytes
	maxParams = 1000      // of a type; also the maximum of results
	maxLocals = 50_000    // of a function
	maxTable  = 10_000_000
	maxPages  = 65536
	// The generated Go may have at most outputBase bytes plus outputFactor bytes for each byte of
	// the module. Real modules need a factor of five.
	outputBase, outputFactor = 1 << 20, 32
	// perLocal is the cost of declaring a parameter or local, in bytes.
	perLocal = 20
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
	"element", "code", "data", "data count"}

// parseModule reads a module (core specification 5.5) and checks all its indices.
func parseModule(b []byte) (*module, error) {
	r := &reader{b: b, where: "header"}
	if len(b) > maxModule {
		r.setError("more than %d bytes", maxModule)
	}
	if string(r.readBytes(8)) != "\x00asm\x01\x00\x00\x00" {
		r.p = 0
		r.setError("not a WebAssembly module of version 1")
	}
	p := &parser{m: &module{elems: map[uint32]uint32{}, start: -1, sp: -1, left: outputBase + outputFactor*len(b)}}
	for last := 0; r.hasMore(); {
		id := int(r.readByte())
		if id >= len(sectionNames) {
			r.setError("unknown section %d", id)
			break
		}
		n := r.readCount()
		q := r.subReader(n, sectionNames[id]+" section")
		if id == 0 {
			continue
		}
		if order := sectionOrder(id); order <= last {
			q.setError("out of order")
		} else {
			last = order
		}
		p.parseSection(id, q)
		r.finishSub(q)
	}
	if r.err == nil && len(p.types) != len(p.m.funcs) {
		r.setError("%d functions but %d bodies", len(p.types), len(p.m.funcs))
	}
	if r.err != nil {
		return nil, r.err
	}
	return p.m, p.checkModule()
}

// sectionOrder returns the position of a section: the data count precedes the code.
func sectionOrder(id int) int {
	switch {
	case id == 12:
		return 10
	case id >= 10:
		return id + 1
	}
	return id
}

// A parser reads the sections of a module.
type parser struct {
	m     *module
	types []funcType // types of the functions that the module defines
}

func (p *parser) parseSection(id int, r *reader) {
	switch id {
	case 1:
		p.parseList(r, p.parseType)
	case 2:
		p.parseList(r, p.parseImports)
	case 3:
		p.parseList(r, func(r *reader) { p.types = append(p.types, p.typeIndex(r)) })
	case 4:
		p.parseList(r, p.parseTable)
	case 5:
		p.parseList(r, p.parseMemory)
	case 6:
		p.parseList(r, p.parseGlobal)
	case 7:
		p.parseList(r, p.parseExport)
	case 8:
		p.m.start = int(p.funcIndex(r))
	case 9:
		p.parseList(r, p.parseElement)
	case 10:
		p.parseList(r, p.parseCode)
	case 11:
		p.parseList(r, p.parseData)
	case 12:
		r.u32()
	}
}

func (p *parser) parseList(r *reader, item func(*reader)) {
	for n := r.readCount(); n > 0 && r.err == nil; n-- {
		item(r)
	}
}

func (p *parser) parseType(r *reader) {
	if r.readByte() != 0x60 {
		r.setError("function type expected")
	}
	list := func() (ts []valType) {
		n := r.readCount()
		if n > maxParams {
			r.setError("%d parameters or results", n)
		}
		for ; n > 0 && r.err == nil; n-- {
			ts = append(ts, r.valType())
		}
		return ts
	}
	p.m.types = append(p.m.types, funcType{list(), list()})
}

func (p *parser) typeIndex(r *reader) funcType {
	i := r.u32()
	if int64(i) >= int64(len(p.m.types)) {
		r.setError("no type %d", i)
		return funcType{}
	}
	return p.m.types[i]
}

func (p *parser) funcIndex(r *reader) uint32 {
	f := r.u32()
	if int64(f) >= int64(len(p.m.imports)+len(p.types)) {
		r.setError("no function %d", f)
		return 0
	}
	return f
}

func (p *parser) parseImports(r *reader) {
	x := imported{module: r.readName(), name: r.readName()}
	if kind := r.readByte(); kind != 0 && r.err == nil {
		r.setError("import of %s.%s: only functions can be imported", x.module, x.name)
		return
	}
	x.typ = p.typeIndex(r)
	p.m.imports = append(p.m.imports, x)
}

// parseLimits reads limits of at most bound.
func (p *parser) parseLimits(r *reader, bound uint32) (lo, hi uint32) {
	flag := r.readByte()
	lo, hi = r.u32(), bound
	switch flag {
	case 0:
	case 1:
		hi = r.u32()
	default:
		r.setError("unsupported limits %#x", flag)
	}
	if lo > hi || hi > bound {
		r.setError("limits of %d to %d", lo, hi)
	}
	return lo, min(hi, bound)
}

func (p *parser) parseTable(r *reader) {
	if p.m.table > 0 {
		r.setError("more than one table")
	}
	if t := r.readByte(); t != 0x70 {
		r.setError("unsupported type %#x of table elements", t)
	}
	flag := r.readByte()
	n := r.u32()
	if flag == 1 {
		r.u32()
	} else if flag != 0 {
		r.setError("unsupported limits %#x", flag)
	}
	if n > maxTable {
		r.setError("table of %d elements", n)
	}
	p.m.table = n
}

func (p *parser) parseMemory(r *reader) {
	if p.m.memory {
		r.setError("more than one memory")
	}
	p.m.memory = true
	p.m.memMin, p.m.memMax = p.parseLimits(r, maxPages)
}

func (p *parser) parseGlobal(r *reader) {
	g := global{typ: r.valType()}
	switch r.readByte() {
	case 0:
	case 1:
		g.mutable = true
	default:
		r.setError("neither constant nor variable")
	}
	g.value = p.parseConstant(r, g.typ)
	p.m.globals = append(p.m.globals, g)
}

// parseConstant reads a constant expression of type t.
func (p *parser) parseConstant(r *reader, t valType) (v uint64) {
	var got valType
	switch op := r.readByte(); op {
	case 0x41:
		got, v = i32, uint64(uint32(r.readSigned(32)))
	case 0x42:
		got, v = i64, uint64(r.readSigned(64))
	case 0x43:
		got, v = f32, r.readLittleEndian(4)
	case 0x44:
		got, v = f64, r.readLittleEndian(8)
	case 0x23:
		i := r.u32()
		if int64(i) >= int64(len(p.m.globals)) || p.m.globals[i].mutable {
			r.setError("no constant global %d", i)
			return 0
		}
		got, v = p.m.globals[i].typ, p.m.globals[i].value
	default:
		r.setError("unsupported instruction %#x in a constant", op)
		return 0
	}
	if got != t || r.readByte() != 0x0b {
		r.setError("%s constant expected", t)
	}
	return v
}

func (p *parser) parseExport(r *reader) {
	name, kind := r.readName(), r.readByte()
	if kind == 0 {
		p.m.exports = append(p.m.exports, export{name, p.funcIndex(r)})
		return
	}
	i := r.u32()
	if kind > 3 {
		r.setError("unknown kind %d of export %q", kind, name)
	}
	if kind == 3 && int64(i) >= int64(len(p.m.globals)) {
		r.setError("no global %d", i)
	}
	if kind == 3 && name == "__stack_pointer" {
		p.m.sp = int(i)
	}
}

func (p *parser) parseElement(r *reader) {
	if kind := r.u32(); kind != 0 {
		r.setError("unsupported kind %d of element segment", kind)
		return
	}
	at := uint32(p.parseConstant(r, i32))
	n := r.readCount()
	if int64(at)+int64(n) > int64(p.m.table) {
		r.setError("elements %d to %d of a table of %d", at, int64(at)+int64(n), p.m.table)
	}
	for ; n > 0 && r.err == nil; n-- {
		p.m.elems[at] = p.funcIndex(r)
		at++
	}
}

func (p *parser) parseCode(r *reader) {
	i := len(p.m.funcs)
	if i >= len(p.types) {
		r.setError("more bodies than functions")
		return
	}
	n := r.readCount()
	q := r.subReader(n, fmt.Sprintf("function %d", len(p.m.imports)+i))
	f := body{typ: p.types[i]}
	f.locals = append(f.locals, f.typ.in...)
	for k := q.readCount(); k > 0 && q.err == nil; k-- {
		n, t := q.u32(), q.valType()
		if int64(n)+int64(len(f.locals)) > maxLocals {
			q.setError("more than %d locals", maxLocals)
			break
		}
		for ; n > 0; n-- {
			f.locals = append(f.locals, t)
		}
	}
	if p.m.left -= perLocal * len(f.locals); p.m.left < 0 {
		q.setError("too many locals and parameters for so small a module")
	}
	f.at = q.base + q.p
	f.code = q.readBytes(len(q.b) - q.p)
	r.finishSub(q)
	p.m.funcs = append(p.m.funcs, f)
}

func (p *parser) parseData(r *reader) {
	kind := r.u32()
	if kind != 0 {
		r.setError("unsupported kind %d of data segment", kind)
		return
	}
	at := uint32(p.parseConstant(r, i32))
	d := r.readBytes(r.readCount())
	if int64(at)+int64(len(d)) > int64(p.m.memMin)<<16 {
		r.setError("data beyond the memory of %d pages", p.m.memMin)
	}
	p.m.segments = append(p.m.segments, segment{at, d})
}

// checkModule performs the checks that need the whole module.
func (p *parser) checkModule() error {
	m := p.m
	if m.start >= 0 {
		if t := m.typeOf(uint32(m.start)); len(t.in)+len(t.out) > 0 {
			return &Error{"start section", 0, "the start function has parameters or results"}
		}
	}
	if m.sp < 0 && len(m.globals) > 0 && m.globals[0].mutable {
		m.sp = 0 // the linkers' choice
	}
	if m.sp >= 0 && m.globals[m.sp].typ != i32 {
		m.sp = -1
	}
	seen := map[string]bool{}
	for _, e := range m.exports {
		if seen[e.name] {
			return &Error{"export section", 0, fmt.Sprintf("two exports %q", e.name)}
		}
		seen[e.name] = true
	}
	return nil
}
