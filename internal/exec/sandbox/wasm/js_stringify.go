package wasm

import (
	"math"
	"strconv"
)

const (
	maxShapePlans = 4096    // at a time
	maxPlanUnits  = 8 << 20 // of all keys in these plans, with planFieldUnits for each
	// planFieldUnits is about the size of a key without its units.
	planFieldUnits = 32
)

// stringifyJSON returns a handle of the JSON text of a plain value, undefined if the host declines,
// or 0 if an exception is pending. Nested values are indented by gap, which has at most 10 units,
// and may be empty. The caller has checked that no prototype has a method toJSON.
func (e *jsEngine) stringifyJSON(v, gap value) uint32 {
	h := e.openHeap()
	g := h.value(gap)
	if tagOf(g) != tagString {
		return e.undefinedValue()
	}
	indent, wide, ok := h.readUnits(uint32(g))
	if !ok {
		return e.undefinedValue()
	}
	if !wide {
		w := newJSONWriter(h, indent)
		if w.writeValue(h.value(v)) {
			return w.finishText(false)
		}
		if !w.wide {
			return e.undefinedValue()
		}
	}
	w := newJSONWriter(h, unitsOf(indent, wide))
	if w.writeValue(h.value(v)) {
		return w.finishText(true)
	}
	return e.undefinedValue()
}

// A jsonWriter writes one JSON text in units of one width. Its write methods report false if it
// declines.
type jsonWriter[T unit] struct {
	heap
	out         []T
	gap         []T
	objectProto uint32
	atoms       uint32
	plans       map[uint32]*shapePlan[T]
	planned     int // units of the plans
	lastShape   uint32
	lastPlan    *shapePlan[T]
	depth       int
	wide        bool // declined since the text has wider units
}

// A shapePlan says which fields of objects with a shape are written, and how their keys are.
type shapePlan[T unit] struct{ fields []planField[T] }

type planField[T unit] struct {
	slot uint32 // offset of the value in the object's slots
	key  []T    // with quotes and colon
}

func newJSONWriter[T unit](h heap, gap []T) *jsonWriter[T] {
	return &jsonWriter[T]{
		heap: h, gap: gap, plans: map[uint32]*shapePlan[T]{},
		objectProto: h.prototypeOf(classObject),
		atoms:       h.u32(h.u32(h.context+contextRuntime) + runtimeAtoms),
	}
}

func (w *jsonWriter[T]) finishText(wide bool) uint32 {
	v, ok := storeText(w.heap, w.out, wide)
	if !ok {
		w.e.collectGarbage()
		v, ok = storeText(w.heap, w.out, wide)
	}
	if !ok {
		return 0
	}
	return w.newResult(v)
}

// isSkipped reports whether JSON leaves v out: undefined, or a symbol.
func isSkipped(v uint64) bool { return tagOf(v) == tagUndefined || tagOf(v) == tagSymbol }

func (w *jsonWriter[T]) writeValue(v uint64) bool {
	if len(w.out) > maxJSONUnits {
		return false
	}
	switch tag := tagOf(v); {
	case tag == tagString:
		return w.writeString(uint32(v))
	case tag == tagInt:
		w.writeInt(int32(uint32(v)))
		return true
	case tag == tagObject:
		return w.writeObjectOrArray(uint32(v))
	case tag == tagBool && uint32(v) != 0:
		w.writeASCII("true")
		return true
	case tag == tagBool:
		w.writeASCII("false")
		return true
	case tag == tagNull:
		w.writeASCII("null")
		return true
	case isFloat(v):
		w.writeFloat(floatOf(v))
		return true
	}
	return false
}

func (w *jsonWriter[T]) writeASCII(s string) {
	for i := range len(s) {
		w.out = append(w.out, T(s[i]))
	}
}

func (w *jsonWriter[T]) writeInt(n int32) {
	var buf [16]byte
	for _, c := range strconv.AppendInt(buf[:0], int64(n), 10) {
		w.out = append(w.out, T(c))
	}
}

// writeFloat writes a number as JavaScript does (ECMA-262, section 6.1.6.1.20).
func (w *jsonWriter[T]) writeFloat(f float64) {
	if f != f || math.IsInf(f, 0) {
		w.writeASCII("null")
		return
	}
	if f == 0 {
		w.writeASCII("0") // also -0
		return
	}
	var buf [32]byte
	b := buf[:0]
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		b = strconv.AppendFloat(b, f, 'f', -1, 64)
	} else {
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-07
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
	}
	for _, c := range b {
		w.out = append(w.out, T(c))
	}
}

func (w *jsonWriter[T]) writeString(s uint32) bool {
	b, wide, ok := w.readUnits(s)
	if !ok || len(b) > maxJSONUnits/4 { // escapes may be long
		return false
	}
	if wide {
		return writeUnits(w, utf16Units(b))
	}
	return writeUnits(w, b)
}

// writeUnits writes a string. It declines if a unit is too wide.
func writeUnits[T, S unit](w *jsonWriter[T], s []S) bool {
	w.out = append(w.out, '"')
	for i, c := range s {
		switch {
		case c == '"' || c == '\\':
			w.out = append(w.out, '\\', T(c))
		case c < ' ':
			w.writeControl(byte(c))
		case uint16(c) > 0xFF && w.isNarrow():
			w.wide = true
			return false
		case isLoneSurrogate(s, i):
			w.writeEscape(uint16(c))
		default:
			w.out = append(w.out, T(c))
		}
	}
	w.out = append(w.out, '"')
	return true
}

// isNarrow reports whether the units are bytes.
func (w *jsonWriter[T]) isNarrow() bool { return ^T(0) == T(0xFF) }

// isLoneSurrogate reports whether s[i] is half of a surrogate pair without the other.
func isLoneSurrogate[S unit](s []S, i int) bool {
	switch c := uint16(s[i]); {
	case c&0xF800 != 0xD800:
		return false
	case c < 0xDC00:
		return i+1 == len(s) || uint16(s[i+1])&0xFC00 != 0xDC00
	default:
		return i == 0 || uint16(s[i-1])&0xFC00 != 0xD800
	}
}

func (w *jsonWriter[T]) writeControl(c byte) {
	switch c {
	case '\b':
		w.writeASCII(`\b`)
	case '\f':
		w.writeASCII(`\f`)
	case '\n':
		w.writeASCII(`\n`)
	case '\r':
		w.writeASCII(`\r`)
	case '\t':
		w.writeASCII(`\t`)
	default:
		w.writeEscape(uint16(c))
	}
}

func (w *jsonWriter[T]) writeEscape(c uint16) {
	const digits = "0123456789abcdef"
	w.writeASCII(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		w.out = append(w.out, T(digits[c>>shift&15]))
	}
}

// writeObjectOrArray declines everything but plain objects and arrays without holes.
func (w *jsonWriter[T]) writeObjectOrArray(o uint32) bool {
	if w.depth == maxJSONDepth {
		return false // maybe a cycle
	}
	w.depth++
	ok := false
	switch w.u16(o + objectClass) {
	case classObject:
		ok = w.writeObject(o)
	case classArray:
		ok = w.writeArray(o)
	}
	w.depth--
	return ok
}

// writeLine begins a line if the text is indented.
func (w *jsonWriter[T]) writeLine(depth int) {
	if len(w.gap) == 0 {
		return
	}
	w.out = append(w.out, '\n')
	for range depth {
		w.out = append(w.out, w.gap...)
	}
}

func (w *jsonWriter[T]) writeArray(a uint32) bool {
	items, n, ok := w.plainItems(a)
	if !ok {
		return false
	}
	w.out = append(w.out, '[')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.writeLine(w.depth)
		v := w.u64(items + i*valueSize)
		if isSkipped(v) {
			v = withTag(tagNull, 0)
		}
		if !w.writeValue(v) {
			return false
		}
	}
	if n > 0 {
		w.writeLine(w.depth - 1)
	}
	w.out = append(w.out, ']')
	return true
}

func (w *jsonWriter[T]) writeObject(o uint32) bool {
	shape := w.u32(o + objectShape)
	if shape != w.lastShape {
		plan := w.plans[shape]
		if plan == nil {
			if plan = w.planShape(shape); plan == nil {
				return false
			}
		}
		w.lastShape, w.lastPlan = shape, plan
	}
	slots := w.u32(o + objectSlots)
	w.out = append(w.out, '{')
	empty := true
	for _, f := range w.lastPlan.fields {
		v := w.u64(slots + f.slot)
		if isSkipped(v) {
			continue
		}
		if !empty {
			w.out = append(w.out, ',')
		}
		empty = false
		w.writeLine(w.depth)
		w.out = append(w.out, f.key...)
		if len(w.gap) > 0 {
			w.out = append(w.out, ' ')
		}
		if !w.writeValue(v) {
			return false
		}
	}
	if !empty {
		w.writeLine(w.depth - 1)
	}
	w.out = append(w.out, '}')
	return true
}

// planShape returns the plan for a shape. It returns nil if the shape has accessors, a method
// toJSON, an unusual prototype, or keys that don't keep the order in which they were added, or if
// the keys are too long: many shapes can share a key, and many objects leave it out.
func (w *jsonWriter[T]) planShape(shape uint32) *shapePlan[T] {
	if proto := w.u32(shape + shapeProto); proto != w.objectProto && proto != 0 {
		return nil
	}
	plan := &shapePlan[T]{}
	at, count := w.fieldsOf(shape)
	if count > maxJSONKeys {
		return nil
	}
	outer := w.out
	defer func() { w.out = outer }()
	for i := range count {
		field := at + i*fieldSize
		atom, flags := w.u32(field+fieldAtom), w.u32(field)
		if atom == 0 { // deleted
			continue
		}
		if atom&atomInt != 0 || flags>>fieldKindShift != 0 {
			return nil
		}
		s := w.u32(w.atoms + atom*4)
		if w.u32(s+stringKind)>>stringAtomShift != atomString {
			continue // a symbol
		}
		if !w.isOrdinaryKey(s) {
			return nil
		}
		if flags&fieldEnumerable == 0 {
			continue
		}
		w.out = nil
		if !w.writeString(s) {
			return nil
		}
		if w.planned += len(w.out) + planFieldUnits; w.planned > maxPlanUnits {
			return nil
		}
		plan.fields = append(plan.fields, planField[T]{slot: i * valueSize, key: append(w.out, ':')})
	}
	if len(w.plans) == maxShapePlans {
		clear(w.plans)
		w.planned = 0
	}
	w.plans[shape] = plan
	return plan
}

// isOrdinaryKey reports whether the key isn't toJSON, and can't be an array index, which comes
// before all other keys.
func (w *jsonWriter[T]) isOrdinaryKey(s uint32) bool {
	b, wide, ok := w.readUnits(s)
	return ok && (wide || len(b) == 0 || !isDigit(b[0]) && string(b) != "toJSON")
}
