package wasm

import (
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// The host sorts plain arrays whose comparison only subtracts two numbers, such as
// (a, b) => a.price - b.price. The engine calls the comparison about n log n times; the host reads
// each number once. It declines whatever is unusual, without an effect: the engine then sorts the
// array itself. What a program sees is the same either way: the comparison has no effects, and both
// sorts are stable.

const (
	minSorted     = 64 // elements from which the checks pay
	maxSorted     = 1 << 22
	maxSortShapes = 64      // of the objects in an array
	maxSortFields = 1 << 16 // of a shape
)

// A sortKey says which numbers are compared: the elements themselves, or their fields of a name, or
// their items at an index.
type sortKey struct {
	descending bool
	field      string // empty: none
	index      int    // -1: none
}

// parseSortKey parses + or -, and then nothing, the name of a field, or an index in brackets.
func parseSortKey(s string) (k sortKey, ok bool) {
	if s == "" {
		return k, false
	}
	k = sortKey{descending: s[0] == '-', field: s[1:], index: -1}
	if digits, found := strings.CutPrefix(k.field, "["); found {
		n, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 16)
		k.field, k.index = "", int(n)
		return k, err == nil
	}
	return k, true
}

// A sortItem is an element of an array, with a key whose unsigned order is that of its number.
type sortItem struct{ order, value uint64 }

const sortItemSize = uint32(unsafe.Sizeof(sortItem{}))

// sortArray sorts the array v by a key, in the form that parseSortKey reads. It returns a handle of
// the array, or of undefined if it declines. Without a key it only checks the array.
//
// The memory that it needs is in the guest: it counts towards the guest's limit, and is revoked
// when the guest is stopped.
func (e *jsEngine) sortArray(v, key value) uint32 {
	h := e.openHeap()
	array := h.value(v)
	if !h.isArray(array) {
		return e.undefinedValue()
	}
	at, n, ok := h.plainItems(uint32(array))
	if !ok || n < minSorted || n > maxSorted {
		return e.undefinedValue()
	}
	if tagOf(h.value(key)) == tagUndefined {
		return e.m.QjsDupValue(uint32(v))
	}
	k, ok := parseSortKey(e.key(key))
	if !ok {
		return e.undefinedValue()
	}
	scratch := e.m.WasmMalloc(2 * n * sortItemSize)
	if scratch == 0 {
		return e.undefinedValue()
	}
	defer e.m.WasmFree(scratch)
	r := sortReader{heap: h, key: k, slots: map[uint32]uint32{}}
	items, spare := h.sortItems(scratch, n), h.sortItems(scratch+n*sortItemSize, n)
	for i := range items {
		if items[i], ok = r.readItem(h.u64(at + uint32(i)*valueSize)); !ok {
			return e.undefinedValue()
		}
	}
	if items, ok = sortStably(items, spare, e.g.host.interrupted); !ok {
		return e.undefinedValue() // the engine notices the stop when it sorts
	}
	for i := range items {
		h.set64(at+uint32(i)*valueSize, items[i].value)
	}
	return e.m.QjsDupValue(uint32(v))
}

// sortItems returns n items in the guest's memory.
func (h heap) sortItems(at, n uint32) []sortItem {
	b := h.e.m.Memory()[at : at+n*sortItemSize]
	return unsafe.Slice((*sortItem)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// A sortReader reads the numbers of an array's elements.
type sortReader struct {
	heap
	key       sortKey
	atom      uint32            // of the field; 0: unknown yet
	slots     map[uint32]uint32 // offset of the field in the objects of a shape
	lastShape uint32
	lastSlot  uint32
}

// readItem returns the item of an element. It reports false if what is compared isn't a number.
func (r *sortReader) readItem(v uint64) (_ sortItem, ok bool) {
	number := v
	switch {
	case r.key.index >= 0:
		number, ok = r.readIndex(v)
	case r.key.field != "":
		number, ok = r.readField(v)
	default:
		ok = true
	}
	if !ok {
		return sortItem{}, false
	}
	order, ok := orderOf(number)
	if r.key.descending {
		order = ^order
	}
	return sortItem{order, v}, ok
}

// orderOf returns a key whose unsigned order is that of the number v. It is the same for 0 and -0.
// orderOf reports false if v is NaN, or no number.
func orderOf(v uint64) (order uint64, ok bool) {
	const sign = 1 << 63
	var f float64
	switch {
	case tagOf(v) == tagInt:
		f = float64(int32(uint32(v)))
	case isFloat(v):
		f = floatOf(v)
	default:
		return 0, false
	}
	if f != f {
		return 0, false
	}
	if f == 0 {
		return sign, true
	}
	order = math.Float64bits(f)
	if order&sign != 0 {
		return ^order, true
	}
	return order | sign, true
}

// readIndex returns the item of an array without holes.
func (r *sortReader) readIndex(v uint64) (uint64, bool) {
	a := uint32(v)
	if !r.isArray(v) || !r.isFastArray(a) || uint32(r.key.index) >= r.u32(a+arrayLength) {
		return 0, false
	}
	return r.u64(r.u32(a+arrayItems) + uint32(r.key.index)*valueSize), true
}

// readField returns the value of the field of an ordinary object.
func (r *sortReader) readField(v uint64) (uint64, bool) {
	o := uint32(v)
	if tagOf(v) != tagObject || r.u16(o+objectClass) != classObject {
		return 0, false
	}
	if shape := r.u32(o + objectShape); shape != r.lastShape {
		slot, ok := r.slots[shape]
		if !ok {
			if slot, ok = r.findSlot(shape); !ok || len(r.slots) == maxSortShapes {
				return 0, false
			}
			r.slots[shape] = slot
		}
		r.lastShape, r.lastSlot = shape, slot
	}
	return r.u64(r.u32(o+objectSlots) + r.lastSlot), true
}

// findSlot returns the offset of the field in the slots of objects with the shape. It reports false
// if they have none, or an accessor.
func (r *sortReader) findSlot(shape uint32) (uint32, bool) {
	at, count := r.fieldsOf(shape)
	if count > maxSortFields {
		return 0, false
	}
	for i := range count {
		field := at + i*fieldSize
		atom := r.u32(field + fieldAtom)
		if atom == 0 || atom != r.atom && (r.atom != 0 || !r.isField(atom)) {
			continue
		}
		r.atom = atom
		return i * valueSize, r.u32(field)>>fieldKindShift == 0
	}
	return 0, false
}

// isField reports whether the atom is the name of the field.
func (r *sortReader) isField(atom uint32) bool {
	if atom&atomInt != 0 {
		return false
	}
	s := r.u32(r.u32(r.u32(r.context+contextRuntime)+runtimeAtoms) + atom*4)
	if r.u32(s+stringKind)>>stringAtomShift != atomString {
		return false // a symbol
	}
	b, wide, ok := r.readUnits(s)
	return ok && !wide && string(b) == r.key.field
}

// sortStably sorts items by their bytes, the least significant first (a radix sort). It returns
// them in items or in spare, which must be as long. It calls stop before each byte, and reports
// false if stop returns true.
func sortStably(items, spare []sortItem, stop func() bool) ([]sortItem, bool) {
	var counts [8][256]uint32
	for _, it := range items {
		for b := range counts {
			counts[b][byte(it.order>>(8*b))]++
		}
	}
	for b := range counts {
		if stop() {
			return nil, false
		}
		next := &counts[b]
		if next[byte(items[0].order>>(8*b))] == uint32(len(items)) {
			continue // the same byte in all
		}
		sum := uint32(0)
		for i, n := range next {
			next[i] = sum
			sum += n
		}
		for _, it := range items {
			to := &next[byte(it.order>>(8*b))]
			spare[*to] = it
			*to++
		}
		items, spare = spare, items
	}
	return items, true
}
