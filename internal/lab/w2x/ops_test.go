package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// edges lists the operands, as bits, with which every instruction is tested.
var edges = map[valType][]uint64{
	i32: {0, 1, 2, 5, 31, 32, 33, 0x7f, 0x80, 0xff, 0x8000, 0xffff, 0x10000, 0x7ffffffe, 0x7fffffff, 0x80000000,
		0x80000001, 0xfffffffe, 0xffffffff},
	i64: {0, 1, 2, 63, 64, 65, 0x80, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<53 + 1, 1<<63 - 1, 1 << 63,
		1<<63 + 1, 1<<63 + 1<<10, math.MaxUint64 - 1, math.MaxUint64, 0x7fffff4000000001, 0x8000004000000001,
		0xfffffe8000000001},
	f32: f32edges(0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, 8388609, 16777217,
		2147483520, 2147483648, -2147483648, -2147483904, 4294967040, 4294967296,
		9223371487098961920, 9223372036854775808, -9223372036854775808, 18446742974197923840, 18446744073709551616,
		-0.99999994, math.SmallestNonzeroFloat32, math.MaxFloat32, math.Inf(1), math.Inf(-1)),
	f64: f64edges(0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 4503599627370495.5,
		4503599627370497, 2147483647, 2147483647.5, 2147483648, -2147483648, -2147483648.9, -2147483649, 4294967295,
		4294967295.9, 4294967296,
		9223372036854774784, 9223372036854775808, -9223372036854775808, -9223372036854777856, 18446744073709549568,
		18446744073709551616, -0.9999999999999999, 1.0000000596046448, 1e-310, 3.4028235677973366e38, math.MaxFloat64,
		math.Inf(1), math.Inf(-1)),
}

func f32edges(v ...float64) (out []uint64) {
	for _, x := range v {
		out = append(out, uint64(math.Float32bits(float32(x))))
	}
	return append(out, 0x7fc00000, 0xffc00000, 0x7fa00001, 0xffa12345, 0x7fffffff, 1, 0x807fffff)
}

func f64edges(v ...float64) (out []uint64) {
	for _, x := range v {
		out = append(out, math.Float64bits(x))
	}
	return append(out, 0x7ff8000000000000, 0xfff8000000000000, 0x7ff4000000000001, 0xfff2345678912345,
		0x7fffffffffffffff, 1, 0x800fffffffffffff)
}

// exact lists the instructions that preserve every bit of a NaN.
var exact = []byte{0x8b, 0x8c, 0x98, 0x99, 0x9a, 0xa6, 0xbc, 0xbd, 0xbe, 0xbf}

// TestOps compares every numeric instruction with wazero, on all edges and on constants.
func TestOps(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := &builder{}
	x := &trial{modules: []*builder{b}}
	strict := map[string]bool{}
	add := func(name string, o op, emit func(*code)) {
		in := slices.Repeat([]valType{o.in}, o.n)
		var c code
		for i := range in {
			c.u(opLocalGet, uint32(i))
		}
		emit(&c)
		b.fn(name, funcType{in, []valType{o.out}}, nil, c)
		for _, p := range edges[o.in] {
			if o.n == 1 {
				x.calls = append(x.calls, call{Name: name, Args: []uint64{p}})
				continue
			}
			for _, q := range edges[o.in] {
				x.calls = append(x.calls, call{Name: name, Args: []uint64{p, q}})
			}
		}
		for i, p := range edges[o.in][:5] { // the same with constants, which Go might reject or fold incorrectly
			q := edges[o.in][(i*5+3)%len(edges[o.in])]
			for form := range 1<<o.n - 1 {
				n, in := fmt.Sprintf("%s_%d_%d", name, i, form), []valType{o.in}
				var c code
				for k, v := range []uint64{p, q}[:o.n] {
					if form>>k&1 == 1 {
						c.u(opLocalGet, 0)
					} else {
						c.constant(o.in, v)
					}
				}
				emit(&c)
				b.fn(n, funcType{in, []valType{o.out}}, nil, c)
				x.calls = append(x.calls, call{Name: n, Args: []uint64{q}})
				strict[n] = strict[name]
			}
		}
	}
	for c := range 256 {
		if o, ok := ops[byte(c)]; ok {
			name := fmt.Sprintf("op_%02x", c)
			strict[name] = slices.Contains(exact, byte(c))
			add(name, o, func(k *code) { k.op(byte(c)) })
		}
	}
	for i, o := range saturating {
		add(fmt.Sprintf("sat_%d", i), o, func(k *code) { k.prefixed(byte(i)) })
	}
	x.loose = func(c call, _ int) bool { return !strict[c.Name] }
	x.run(t)
}

// TestMemory tests every load, store, copy, fill and growth at the boundaries of memory.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := &builder{pages: 1, data: []segment{{0,
		[]byte("\x01\x82\x03\xf4\x05\xe6\x07\xc8\x00\x00\xa0\x7f\x01\x00\x00\x00\x00\x00\xf4\x7f")},
		{65520, []byte("0123456789abcdef")}}}
	x := &trial{modules: []*builder{b}}
	addresses := []uint64{0, 1, 7, 8, 12, 4096, 65527, 65528, 65529, 65532, 65534, 65535, 65536, 65537, 131064, 131072,
		0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff}
	for _, off := range []uint32{0, 1, 65535, 65536, 0x7fffffff, 0xffffffff} {
		for c := byte(0x28); c <= 0x3e; c++ {
			name := fmt.Sprintf("m_%02x_%x", c, off)
			var k code
			k.u(opLocalGet, 0)
			if l, ok := loads[c]; ok {
				k.memory(c, off)
				b.fn(name, funcType{[]valType{i32}, []valType{l.typ}}, nil, k)
				for _, a := range addresses {
					x.calls = append(x.calls, call{Name: name, Args: []uint64{a}})
				}
				continue
			}
			s := stores[c]
			k.u(opLocalGet, 1)
			k.memory(c, off)
			b.fn(name, funcType{[]valType{i32, s.typ}, nil}, nil, k)
			for i, a := range addresses {
				x.calls = append(x.calls, call{Name: name, Args: []uint64{a, edges[s.typ][(i*7)%len(edges[s.typ])]}})
			}
		}
	}
	three := funcType{[]valType{i32, i32, i32}, nil}
	var cp, fl, size, grow code
	for i := range uint32(3) {
		cp.u(opLocalGet, i)
		fl.u(opLocalGet, i)
	}
	cp.prefixed(10, 0, 0)
	fl.prefixed(11, 0)
	size.op(opMemorySize, 0)
	grow.u(opLocalGet, 0)
	grow.op(opMemoryGrow, 0)
	b.fn("copy", three, nil, cp)
	b.fn("fill", three, nil, fl)
	b.fn("size", funcType{nil, []valType{i32}}, nil, size)
	b.fn("do_grow", funcType{[]valType{i32}, []valType{i32}}, nil, grow)
	bulk := func() {
		for _, d := range []uint64{0, 1, 10, 65530, 65535, 65536, 65537, 0xffffffff} {
			for _, s := range []uint64{0, 3, 12, 200, 65531, 65536, 0xffffffff} {
				for _, n := range []uint64{0, 1, 5, 100, 0xffff, 0xffffffff} {
					x.calls = append(x.calls, call{Name: "copy", Args: []uint64{d, s, n}},
						call{Name: "fill", Args: []uint64{d, s, n}})
				}
			}
		}
	}
	bulk()
	first := slices.Clone(x.calls)
	for _, n := range []uint64{0, 2, 65536, 0xffffffff, 0x10000001, 1, 0, 1} {
		x.calls = append(x.calls, call{Name: "do_grow", Args: []uint64{n}}, call{Name: "size"})
	}
	x.calls = append(x.calls, first...) // again, now that memory has two pages
	x.run(t)
}
