package main

// An op is a numeric instruction: its operand and result types, and a Go expression of its operands
// X and Y. With cond the expression is a Go condition, and the result is 1 or 0.
//
// Products are converted explicitly, which prevents Go from fusing them with a later addition.
// Operations that must preserve every bit of a NaN (abs, neg, copysign, reinterpret) work on the
// bits.
type op struct {
	in   valType
	n    int // operands
	out  valType
	expr string
	cond bool
}

func compare(t valType, expr string) op { return op{t, 2, i32, expr, true} }
func binary(t valType, expr string) op  { return op{t, 2, t, expr, false} }
func unary(t valType, expr string) op   { return op{t, 1, t, expr, false} }
func convert(from, to valType, expr string) op {
	return op{from, 1, to, expr, false}
}

// ops maps the one-byte numeric instructions (core specification 5.4.7).
var ops = map[byte]op{
	0x45: {i32, 1, i32, "X == 0", true},
	0x46: compare(i32, "X == Y"), 0x47: compare(i32, "X != Y"),
	0x48: compare(i32, "int32(X) < int32(Y)"), 0x49: compare(i32, "X < Y"),
	0x4a: compare(i32, "int32(X) > int32(Y)"), 0x4b: compare(i32, "X > Y"),
	0x4c: compare(i32, "int32(X) <= int32(Y)"), 0x4d: compare(i32, "X <= Y"),
	0x4e: compare(i32, "int32(X) >= int32(Y)"), 0x4f: compare(i32, "X >= Y"),
	0x50: {i64, 1, i32, "X == 0", true},
	0x51: compare(i64, "X == Y"), 0x52: compare(i64, "X != Y"),
	0x53: compare(i64, "int64(X) < int64(Y)"), 0x54: compare(i64, "X < Y"),
	0x55: compare(i64, "int64(X) > int64(Y)"), 0x56: compare(i64, "X > Y"),
	0x57: compare(i64, "int64(X) <= int64(Y)"), 0x58: compare(i64, "X <= Y"),
	0x59: compare(i64, "int64(X) >= int64(Y)"), 0x5a: compare(i64, "X >= Y"),
	0x5b: compare(f32, "X == Y"), 0x5c: compare(f32, "X != Y"), 0x5d: compare(f32, "X < Y"),
	0x5e: compare(f32, "X > Y"), 0x5f: compare(f32, "X <= Y"), 0x60: compare(f32, "X >= Y"),
	0x61: compare(f64, "X == Y"), 0x62: compare(f64, "X != Y"), 0x63: compare(f64, "X < Y"),
	0x64: compare(f64, "X > Y"), 0x65: compare(f64, "X <= Y"), 0x66: compare(f64, "X >= Y"),

	0x67: unary(i32, "uint32(bits.LeadingZeros32(X))"), 0x68: unary(i32, "uint32(bits.TrailingZeros32(X))"),
	0x69: unary(i32, "uint32(bits.OnesCount32(X))"),
	0x6a: binary(i32, "X + Y"), 0x6b: binary(i32, "X - Y"), 0x6c: binary(i32, "X * Y"),
	0x6d: binary(i32, "div32s(X, Y)"), 0x6e: binary(i32, "X / Y"),
	0x6f: binary(i32, "uint32(int32(X) % int32(Y))"), 0x70: binary(i32, "X % Y"),
	0x71: binary(i32, "X & Y"), 0x72: binary(i32, "X | Y"), 0x73: binary(i32, "X ^ Y"),
	0x74: binary(i32, "X << (Y & 31)"), 0x75: binary(i32, "uint32(int32(X) >> (Y & 31))"),
	0x76: binary(i32, "X >> (Y & 31)"),
	0x77: binary(i32, "bits.RotateLeft32(X, int(Y&31))"), 0x78: binary(i32, "bits.RotateLeft32(X, -int(Y&31))"),
	0x79: unary(i64, "uint64(bits.LeadingZeros64(X))"), 0x7a: unary(i64, "uint64(bits.TrailingZeros64(X))"),
	0x7b: unary(i64, "uint64(bits.OnesCount64(X))"),
	0x7c: binary(i64, "X + Y"), 0x7d: binary(i64, "X - Y"), 0x7e: binary(i64, "X * Y"),
	0x7f: binary(i64, "div64s(X, Y)"), 0x80: binary(i64, "X / Y"),
	0x81: binary(i64, "uint64(int64(X) % int64(Y))"), 0x82: binary(i64, "X % Y"),
	0x83: binary(i64, "X & Y"), 0x84: binary(i64, "X | Y"), 0x85: binary(i64, "X ^ Y"),
	0x86: binary(i64, "X << (Y & 63)"), 0x87: binary(i64, "uint64(int64(X) >> (Y & 63))"),
	0x88: binary(i64, "X >> (Y & 63)"),
	0x89: binary(i64, "bits.RotateLeft64(X, int(Y&63))"), 0x8a: binary(i64, "bits.RotateLeft64(X, -int(Y&63))"),

	0x8b: unary(f32, "math.Float32frombits(math.Float32bits(X) &^ (1 << 31))"),
	0x8c: unary(f32, "math.Float32frombits(math.Float32bits(X) ^ (1 << 31))"),
	0x8d: unary(f32, "float32(math.Ceil(float64(X)))"), 0x8e: unary(f32, "float32(math.Floor(float64(X)))"),
	0x8f: unary(f32, "float32(math.Trunc(float64(X)))"), 0x90: unary(f32, "float32(math.RoundToEven(float64(X)))"),
	0x91: unary(f32, "float32(math.Sqrt(float64(X)))"),
	0x92: binary(f32, "X + Y"), 0x93: binary(f32, "X - Y"), 0x94: binary(f32, "float32(X * Y)"),
	0x95: binary(f32, "X / Y"), 0x96: binary(f32, "min(X, Y)"), 0x97: binary(f32, "max(X, Y)"),
	0x98: binary(f32, "copysign32(X, Y)"),
	0x99: unary(f64, "math.Float64frombits(math.Float64bits(X) &^ (1 << 63))"),
	0x9a: unary(f64, "math.Float64frombits(math.Float64bits(X) ^ (1 << 63))"),
	0x9b: unary(f64, "math.Ceil(X)"), 0x9c: unary(f64, "math.Floor(X)"), 0x9d: unary(f64, "math.Trunc(X)"),
	0x9e: unary(f64, "math.RoundToEven(X)"), 0x9f: unary(f64, "math.Sqrt(X)"),
	0xa0: binary(f64, "X + Y"), 0xa1: binary(f64, "X - Y"), 0xa2: binary(f64, "float64(X * Y)"),
	0xa3: binary(f64, "X / Y"), 0xa4: binary(f64, "min(X, Y)"), 0xa5: binary(f64, "max(X, Y)"),
	0xa6: binary(f64, "math.Copysign(X, Y)"),

	0xa7: convert(i64, i32, "uint32(X)"),
	0xa8: convert(f32, i32, "trunc32s(float64(X))"), 0xa9: convert(f32, i32, "trunc32u(float64(X))"),
	0xaa: convert(f64, i32, "trunc32s(X)"), 0xab: convert(f64, i32, "trunc32u(X)"),
	0xac: convert(i32, i64, "uint64(int64(int32(X)))"), 0xad: convert(i32, i64, "uint64(X)"),
	0xae: convert(f32, i64, "trunc64s(float64(X))"), 0xaf: convert(f32, i64, "trunc64u(float64(X))"),
	0xb0: convert(f64, i64, "trunc64s(X)"), 0xb1: convert(f64, i64, "trunc64u(X)"),
	0xb2: convert(i32, f32, "float32(int32(X))"), 0xb3: convert(i32, f32, "float32(X)"),
	0xb4: convert(i64, f32, "float32(int64(X))"), 0xb5: convert(i64, f32, "float32(X)"),
	0xb6: convert(f64, f32, "float32(X)"),
	0xb7: convert(i32, f64, "float64(int32(X))"), 0xb8: convert(i32, f64, "float64(X)"),
	0xb9: convert(i64, f64, "float64(int64(X))"), 0xba: convert(i64, f64, "float64(X)"),
	0xbb: convert(f32, f64, "float64(X)"),
	0xbc: convert(f32, i32, "math.Float32bits(X)"), 0xbd: convert(f64, i64, "math.Float64bits(X)"),
	0xbe: convert(i32, f32, "math.Float32frombits(X)"), 0xbf: convert(i64, f64, "math.Float64frombits(X)"),
	0xc0: unary(i32, "uint32(int8(X))"), 0xc1: unary(i32, "uint32(int16(X))"),
	0xc2: unary(i64, "uint64(int8(X))"), 0xc3: unary(i64, "uint64(int16(X))"), 0xc4: unary(i64, "uint64(int32(X))"),
}

// saturating lists the instructions 0xfc 0 to 0xfc 7.
var saturating = [8]op{
	convert(f32, i32, "sat32s(float64(X))"), convert(f32, i32, "sat32u(float64(X))"),
	convert(f64, i32, "sat32s(X)"), convert(f64, i32, "sat32u(X)"),
	convert(f32, i64, "sat64s(float64(X))"), convert(f32, i64, "sat64u(float64(X))"),
	convert(f64, i64, "sat64s(X)"), convert(f64, i64, "sat64u(X)"),
}

// A load reads a value of type typ at P; align is the largest alignment that it may claim, as a
// power of two.
type load struct {
	typ   valType
	align uint32
	expr  string
}

var loads = map[byte]load{
	0x28: {i32, 2, "*(*uint32)(P)"}, 0x29: {i64, 3, "*(*uint64)(P)"},
	0x2a: {f32, 2, "*(*float32)(P)"}, 0x2b: {f64, 3, "*(*float64)(P)"},
	0x2c: {i32, 0, "uint32(*(*int8)(P))"}, 0x2d: {i32, 0, "uint32(*(*uint8)(P))"},
	0x2e: {i32, 1, "uint32(*(*int16)(P))"}, 0x2f: {i32, 1, "uint32(*(*uint16)(P))"},
	0x30: {i64, 0, "uint64(*(*int8)(P))"}, 0x31: {i64, 0, "uint64(*(*uint8)(P))"},
	0x32: {i64, 1, "uint64(*(*int16)(P))"}, 0x33: {i64, 1, "uint64(*(*uint16)(P))"},
	0x34: {i64, 2, "uint64(*(*int32)(P))"}, 0x35: {i64, 2, "uint64(*(*uint32)(P))"},
}

// stores write a value V of type typ at P.
var stores = map[byte]load{
	0x36: {i32, 2, "*(*uint32)(P) = V"}, 0x37: {i64, 3, "*(*uint64)(P) = V"},
	0x38: {f32, 2, "*(*float32)(P) = V"}, 0x39: {f64, 3, "*(*float64)(P) = V"},
	0x3a: {i32, 0, "*(*uint8)(P) = uint8(V)"}, 0x3b: {i32, 1, "*(*uint16)(P) = uint16(V)"},
	0x3c: {i64, 0, "*(*uint8)(P) = uint8(V)"}, 0x3d: {i64, 1, "*(*uint16)(P) = uint16(V)"},
	0x3e: {i64, 2, "*(*uint32)(P) = uint32(V)"},
}
