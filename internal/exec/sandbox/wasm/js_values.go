package wasm

import (
	"encoding/binary"
	"math"
)

// The layout of values in QuickJS-NG 0.17.0 on a 32-bit machine, where a value is a 64-bit number.
// Its upper half is the tag, and its lower half an integer or an address. Everything else is a
// number, minus numberBias. TestJSON checks this layout.
//
// Only plain values are read and created here: null, booleans, numbers, strings, plain objects and
// arrays. The guest's memory may hold anything, so addresses are checked by indexing its memory.

// Tags of values.
const (
	tagBigInt       = -9 // the first
	tagString       = -7
	tagRope         = -6 // a concatenation, not yet carried out
	tagObject       = -1
	tagInt          = 0
	tagBool         = 1
	tagNull         = 2
	tagUndefined    = 3
	tagShortBigInt  = 7 // the last
	tagSymbol       = -8
	numberBias      = 0x7FF8000A << 32
	tagShift        = 32
	valueSize       = 8 // of a value, in bytes
	refCount        = -4
	contextRuntime  = 8  // offsets in the context
	contextArray    = 28 // the shape of new arrays
	contextProtos   = 48 // prototypes, by class
	runtimeAtoms    = 568
	objectFlags     = 8
	objectClass     = 10
	objectShape     = 12
	objectSlots     = 16
	regExpProgram   = 28 // a string, whose bytes are the compiled pattern
	arraySize       = 24
	arrayItems      = 28
	arrayLength     = 32
	flagsFastArray  = 0x18
	classObject     = 1
	classArray      = 2
	classRegExp     = 19
	shapeMask       = 16 // size of the hash table, minus one
	shapeCount      = 24
	shapeProto      = 36
	shapeTable      = 40 // the hash table, then the fields
	fieldSize       = 8
	fieldAtom       = 4
	fieldEnumerable = 1 << 28
	fieldKindShift  = 30 // 0 means a value, and not an accessor
	stringKind      = 4
	stringKindShift = 28
	stringAtomShift = 30
	stringData      = 24
	stringOffset    = 28
	stringWide      = 1 << 31
	atomString      = 1
	atomInt         = 1 << 31
	stringPlain     = 0
	stringSlice     = 1
	stringIndirect  = 2
)

// tagOf returns a value's tag. For numbers that are not integers it is none of the tags.
func tagOf(v uint64) int32 { return int32(v >> tagShift) }

// isFloat reports whether v is a number that isn't stored as an integer.
func isFloat(v uint64) bool { return tagOf(v) < tagBigInt || tagOf(v) > tagShortBigInt }

func floatOf(v uint64) float64 { return math.Float64frombits(v + numberBias) }

// withTag returns the value with the tag and the lower half.
func withTag(tag int32, low uint32) uint64 { return uint64(uint32(tag))<<tagShift | uint64(low) }

// numberValue returns the value of a number that isn't NaN. Like the engine, it stores small
// integers as such.
func numberValue(f float64) uint64 {
	if i := int32(f); float64(i) == f && (i != 0 || !math.Signbit(f)) {
		return withTag(tagInt, uint32(i))
	}
	return math.Float64bits(f) - numberBias
}

// A heap reads and writes the guest's memory.
type heap struct {
	e       *jsEngine
	context uint32
}

func (e *jsEngine) openHeap() heap { return heap{e, e.m.QjsGetContextPtr()} }

func (h heap) u16(at uint32) uint16 { return binary.LittleEndian.Uint16(h.e.m.Memory()[at:]) }

func (h heap) u32(at uint32) uint32 { return binary.LittleEndian.Uint32(h.e.m.Memory()[at:]) }

func (h heap) u64(at uint32) uint64 { return binary.LittleEndian.Uint64(h.e.m.Memory()[at:]) }

func (h heap) set32(at, v uint32) { binary.LittleEndian.PutUint32(h.e.m.Memory()[at:], v) }

func (h heap) set64(at uint32, v uint64) { binary.LittleEndian.PutUint64(h.e.m.Memory()[at:], v) }

// value returns the value of a handle.
func (h heap) value(v value) uint64 { return h.u64(uint32(v)) }

// newHandle returns a handle of v, which it owns. It returns 0 if memory is exhausted.
func (h heap) newHandle(v uint64) uint32 {
	cell := h.e.m.WasmMalloc(valueSize)
	if cell != 0 {
		h.set64(cell, v)
	}
	return cell
}

// newResult returns a handle of v, which it owns.
func (h heap) newResult(v uint64) uint32 {
	handle := h.newHandle(v)
	if handle == 0 {
		h.freeValues([]uint64{v})
		panic(abort{errMemory})
	}
	return handle
}

// freeValues frees values that the caller owns.
func (h heap) freeValues(values []uint64) {
	for _, v := range values {
		h.e.m.JsFreeValue(h.context, v)
	}
}

// addReference adds a reference to what is at the address.
func (h heap) addReference(at uint32) { h.set32(at+^uint32(3), h.u32(at+^uint32(3))+1) }

// prototypeOf returns the address of the prototype of a class.
func (h heap) prototypeOf(class uint32) uint32 {
	return h.u32(h.u32(h.context+contextProtos) + class*valueSize)
}

// isArray reports whether v is an array, of any kind.
func (h heap) isArray(v uint64) bool {
	return tagOf(v) == tagObject && h.u16(uint32(v)+objectClass) == classArray
}

// isFastArray reports whether an array's elements are one after the other, without holes.
func (h heap) isFastArray(a uint32) bool {
	return h.u16(a+objectFlags)&flagsFastArray == flagsFastArray
}

// plainItems returns the address and number of an array's elements. It reports false if the array
// has holes, or fields of its own.
func (h heap) plainItems(a uint32) (at, n uint32, ok bool) {
	if h.u32(a+objectShape) != h.u32(h.context+contextArray) || !h.isFastArray(a) {
		return 0, 0, false
	}
	at, n = h.u32(a+arrayItems), h.u32(a+arrayLength)
	return at, n, h.u64(h.u32(a+objectSlots)) == withTag(tagInt, n)
}

// fieldsOf returns the address and number of a shape's fields.
func (h heap) fieldsOf(shape uint32) (at, n uint32) {
	return shape + shapeTable + (h.u32(shape+shapeMask)+1)*4, h.u32(shape + shapeCount)
}

// newObject creates an object with the shape and the values of its fields, which it takes over if
// it succeeds.
func (h heap) newObject(shape uint32, values []uint64) (uint64, bool) {
	h.addReference(shape)
	v := h.e.m.JsNewObjectFromShape(h.context, shape, classObject, 0)
	if tagOf(v) != tagObject {
		return 0, false // the engine has freed the shape
	}
	slots := h.u32(uint32(v) + objectSlots)
	for i, x := range values {
		h.set64(slots+uint32(i)*valueSize, x)
	}
	return v, true
}

// newArray creates an array of values, which it takes over if it succeeds.
func (h heap) newArray(values []uint64) (uint64, bool) {
	shape := h.u32(h.context + contextArray)
	h.addReference(shape)
	v := h.e.m.JsNewObjectFromShape(h.context, shape, classArray, 0)
	if tagOf(v) != tagObject {
		return 0, false
	}
	if len(values) == 0 {
		return v, true
	}
	n := uint32(len(values))
	items := h.e.m.JsMalloc(h.context, n*valueSize)
	if items == 0 {
		h.freeValues([]uint64{v})
		return 0, false
	}
	for i, x := range values {
		h.set64(items+uint32(i)*valueSize, x)
	}
	a := uint32(v)
	h.set32(a+arraySize, n)
	h.set32(a+arrayItems, items)
	h.set32(a+arrayLength, n)
	h.set64(h.u32(a+objectSlots), withTag(tagInt, n))
	return v, true
}

// newText creates a string of n units of one byte, or of two if it is wide, and returns where they
// belong.
func (h heap) newText(n int, wide bool) (v uint64, at uint32, ok bool) {
	w := uint32(0)
	if wide {
		w = 1
	}
	s := h.e.m.JsAllocString(h.context, uint32(n), w)
	if s == 0 {
		return 0, 0, false
	}
	at = s + stringData
	if !wide {
		h.e.m.Memory()[at+uint32(n)] = 0
	}
	return withTag(tagString, s), at, true
}

// wholeText returns the string v in one piece: the engine concatenates long strings when they
// are read. The caller frees it. It reports false if v is no string, or memory is exhausted.
func (h heap) wholeText(v uint64) (text uint64, ok bool) {
	switch tagOf(v) {
	case tagString:
		h.addReference(uint32(v))
		return v, true
	case tagRope:
		text = h.e.m.JsToString(h.context, v)
		if tagOf(text) == tagString {
			return text, true
		}
		h.e.dropException()
	}
	return 0, false
}

// unitsAt returns the address and number of the units of the string at the address.
func (h heap) unitsAt(s uint32) (at, n uint32, wide, ok bool) {
	head := h.u32(s)
	at = s + stringData
	switch h.u32(s+stringKind) >> stringKindShift & 3 {
	case stringPlain:
	case stringSlice:
		at = h.u32(s+stringData) + h.u32(s+stringOffset) + stringData
	case stringIndirect:
		at = h.u32(s + stringData)
	default:
		return 0, 0, false, false
	}
	return at, head &^ stringWide, head&stringWide != 0, true
}

// readUnits returns the units of the string at the address, as bytes of the memory.
func (h heap) readUnits(s uint32) (units []byte, wide, ok bool) {
	at, count, wide, ok := h.unitsAt(s)
	n := uint64(count)
	if wide {
		n *= 2
	}
	m := h.e.m.Memory()
	if !ok || uint64(at)+n > uint64(len(m)) {
		return nil, false, false
	}
	return m[at : uint64(at)+n : uint64(at)+n], wide, true
}
