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

func compareOp(t valType, expr string) op { return op{t, 2, i32, expr, true} }
func binaryOp(t valType, expr string) op  { return op{t, 2, t, expr, false} }
func unaryOp(t valType, expr string) op   { return op{t, 1, t, expr, false} }
func convertOp(from, to valType, expr string) op {
	return op{from, 1, to, expr, false}
}

// ops maps the one-byte numeric instructions (core specification 5.4.7).
var ops = map[byte]op{
	0x45: {i32, 1, i32, "X == 0", true},
	0x46: compareOp(i32, "X == Y"), 0x47: compareOp(i32, "X != Y"),
	0x48: compareOp(i32, "int32(X) < int32(Y)"), 0x49: compareOp(i32, "X < Y"),
	0x4a: compareOp(i32, "int32(X) > int32(Y)"), 0x4b: compareOp(i32, "X > Y"),
	0x4c: compareOp(i32, "int32(X) <= int32(Y)"), 0x4d: compareOp(i32, "X <= Y"),
	0x4e: compareOp(i32, "int32(X) >= int32(Y)"), 0x4f: compareOp(i32, "X >= Y"),
	0x50: {i64, 1, i32, "X == 0", true},
	0x51: compareOp(i64, "X == Y"), 0x52: compareOp(i64, "X != Y"),
	0x53: compareOp(i64, "int64(X) < int64(Y)"), 0x54: compareOp(i64, "X < Y"),
	0x55: compareOp(i64, "int64(X) > int64(Y)"), 0x56: compareOp(i64, "X > Y"),
	0x57: compareOp(i64, "int64(X) <= int64(Y)"), 0x58: compareOp(i64, "X <= Y"),
	0x59: compareOp(i64, "int64(X) >= int64(Y)"), 0x5a: compareOp(i64, "X >= Y"),
	0x5b: compareOp(f32, "X == Y"), 0x5c: compareOp(f32, "X != Y"), 0x5d: compareOp(f32, "X < Y"),
	0x5e: compareOp(f32, "X > Y"), 0x5f: compareOp(f32, "X <= Y"), 0x60: compareOp(f32, "X >= Y"),
	0x61: compareOp(f64, "X == Y"), 0x62: compareOp(f64, "X != Y"), 0x63: compareOp(f64, "X < Y"),
	0x64: compareOp(f64, "X > Y"), 0x65: compareOp(f64, "X <= Y"), 0x66: compareOp(f64, "X >= Y"),

	0x67: unaryOp(i32, "uint32(bits.LeadingZeros32(X))"), 0x68: unaryOp(i32, "uint32(bits.TrailingZeros32(X))"),
	0x69: unaryOp(i32, "uint32(bits.OnesCount32(X))"),
	0x6a: binaryOp(i32, "X + Y"), 0x6b: binaryOp(i32, "X - Y"), 0x6c: binaryOp(i32, "X * Y"),
	0x6d: binaryOp(i32, "div32s(X, Y)"), 0x6e: binaryOp(i32, "X / Y"),
	0x6f: binaryOp(i32, "uint32(int32(X) % int32(Y))"), 0x70: binaryOp(i32, "X % Y"),
	0x71: binaryOp(i32, "X & Y"), 0x72: binaryOp(i32, "X | Y"), 0x73: binaryOp(i32, "X ^ Y"),
	0x74: binaryOp(i32, "X << (Y & 31)"), 0x75: binaryOp(i32, "uint32(int32(X) >> (Y & 31))"),
	0x76: binaryOp(i32, "X >> (Y & 31)"),
	0x77: binaryOp(i32, "bits.RotateLeft32(X, int(Y&31))"), 0x78: binaryOp(i32, "bits.RotateLeft32(X, -int(Y&31))"),
	0x79: unaryOp(i64, "uint64(bits.LeadingZeros64(X))"), 0x7a: unaryOp(i64, "uint64(bits.TrailingZeros64(X))"),
	0x7b: unaryOp(i64, "uint64(bits.OnesCount64(X))"),
	0x7c: binaryOp(i64, "X + Y"), 0x7d: binaryOp(i64, "X - Y"), 0x7e: binaryOp(i64, "X * Y"),
	0x7f: binaryOp(i64, "div64s(X, Y)"), 0x80: binaryOp(i64, "X / Y"),
	0x81: binaryOp(i64, "uint64(int64(X) % int64(Y))"), 0x82: binaryOp(i64, "X % Y"),
	0x83: binaryOp(i64, "X & Y"), 0x84: binaryOp(i64, "X | Y"), 0x85: binaryOp(i64, "X ^ Y"),
	0x86: binaryOp(i64, "X << (Y & 63)"), 0x87: binaryOp(i64, "uint64(int64(X) >> (Y & 63))"),
	0x88: binaryOp(i64, "X >> (Y & 63)"),
	0x89: binaryOp(i64, "bits.RotateLeft64(X, int(Y&63))"), 0x8a: binaryOp(i64, "bits.RotateLeft64(X, -int(Y&63))"),

	0x8b: unaryOp(f32, "math.Float32frombits(math.Float32bits(X) &^ (1 << 31))"),
	0x8c: unaryOp(f32, "math.Float32frombits(math.Float32bits(X) ^ (1 << 31))"),
	0x8d: unaryOp(f32, "float32(math.Ceil(float64(X)))"), 0x8e: unaryOp(f32, "float32(math.Floor(float64(X)))"),
	0x8f: unaryOp(f32, "float32(math.Trunc(float64(X)))"), 0x90: unaryOp(f32, "float32(math.RoundToEven(float64(X)))"),
	0x91: unaryOp(f32, "float32(math.Sqrt(float64(X)))"),
	0x92: binaryOp(f32, "X + Y"), 0x93: binaryOp(f32, "X - Y"), 0x94: binaryOp(f32, "float32(X * Y)"),
	0x95: binaryOp(f32, "X / Y"), 0x96: binaryOp(f32, "min(X, Y)"), 0x97: binaryOp(f32, "max(X, Y)"),
	0x98: binaryOp(f32, "copysign32(X, Y)"),
	0x99: unaryOp(f64, "math.Float64frombits(math.Float64bits(X) &^ (1 << 63))"),
	0x9a: unaryOp(f64, "math.Float64frombits(math.Float64bits(X) ^ (1 << 63))"),
	0x9b: unaryOp(f64, "math.Ceil(X)"), 0x9c: unaryOp(f64, "math.Floor(X)"), 0x9d: unaryOp(f64, "math.Trunc(X)"),
	0x9e: unaryOp(f64, "math.RoundToEven(X)"), 0x9f: unaryOp(f64, "math.Sqrt(X)"),
	0xa0: binaryOp(f64, "X + Y"), 0xa1: binaryOp(f64, "X - Y"), 0xa2: binaryOp(f64, "float64(X * Y)"),
	0xa3: binaryOp(f64, "X / Y"), 0xa4: binaryOp(f64, "min(X, Y)"), 0xa5: binaryOp(f64, "max(X, Y)"),
	0xa6: binaryOp(f64, "math.Copysign(X, Y)"),

	0xa7: convertOp(i64, i32, "uint32(X)"),
	0xa8: convertOp(f32, i32, "trunc32s(float64(X))"), 0xa9: convertOp(f32, i32, "trunc32u(float64(X))"),
	0xaa: convertOp(f64, i32, "trunc32s(X)"), 0xab: convertOp(f64, i32, "trunc32u(X)"),
	0xac: convertOp(i32, i64, "uint64(int64(int32(X)))"), 0xad: convertOp(i32, i64, "uint64(X)"),
	0xae: convertOp(f32, i64, "trunc64s(float64(X))"), 0xaf: convertOp(f32, i64, "trunc64u(float64(X))"),
	0xb0: convertOp(f64, i64, "trunc64s(X)"), 0xb1: convertOp(f64, i64, "trunc64u(X)"),
	0xb2: convertOp(i32, f32, "float32(int32(X))"), 0xb3: convertOp(i32, f32, "float32(X)"),
	0xb4: convertOp(i64, f32, "float32(int64(X))"), 0xb5: convertOp(i64, f32, "float32(X)"),
	0xb6: convertOp(f64, f32, "float32(X)"),
	0xb7: convertOp(i32, f64, "float64(int32(X))"), 0xb8: convertOp(i32, f64, "float64(X)"),
	0xb9: convertOp(i64, f64, "float64(int64(X))"), 0xba: convertOp(i64, f64, "float64(X)"),
	0xbb: convertOp(f32, f64, "float64(X)"),
	0xbc: convertOp(f32, i32, "math.Float32bits(X)"), 0xbd: convertOp(f64, i64, "math.Float64bits(X)"),
	0xbe: convertOp(i32, f32, "math.Float32frombits(X)"), 0xbf: convertOp(i64, f64, "math.Float64frombits(X)"),
	0xc0: unaryOp(i32, "uint32(int8(X))"), 0xc1: unaryOp(i32, "uint32(int16(X))"),
	0xc2: unaryOp(i64,
		"uint64(int8(X))"), 0xc3: unaryOp(i64, "uint64(int16(X))"), 0xc4: unaryOp(i64, "uint64(int32(X))"),
}

// saturating lists the instructions 0xfc 0 to 0xfc 7.
var saturating = [8]op{
	convertOp(f32, i32, "sat32s(float64(X))"), convertOp(f32, i32, "sat32u(float64(X))"),
	convertOp(f64, i32, "sat32s(X)"), convertOp(f64, i32, "sat32u(X)"),
	convertOp(f32, i64, "sat64s(float64(X))"), convertOp(f32, i64, "sat64u(float64(X))"),
	convertOp(f64, i64, "sat64s(X)"), convertOp(f64, i64, "sat64u(X)"),
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
