package wasm

import (
	"strconv"
	"unsafe"
)

// The host parses long JSON texts for the guest, which is about ten times as fast as the engine. It
// declines whatever is invalid or unusual, without an effect: the engine then parses the text
// itself, and so makes all errors. What a program sees is the same either way.

const (
	maxJSONUnits   = 16 << 20 // of a text that the host parses or writes
	maxJSONDepth   = 256
	maxJSONShapes  = 256     // different sequences of keys that few objects share
	minShapeUsers  = 4       // objects for each shape beyond the first maxJSONShapes
	maxFastDigits  = 9       // digits of numbers that surely fit an int32
	maxJSONKeys    = 1 << 16 // nodes of sequences of keys
	maxJSONValues  = 1 << 22 // of unfinished objects and arrays
	maxNumberUnits = 400     // of a number, which keeps its conversion cheap
)

// A unit is a part of a JavaScript string: a byte of Latin-1, or of UTF-16.
type unit interface{ byte | uint16 }

// parseJSON returns a handle of the parsed text, undefined if the host declines, or 0 if an
// exception is pending. If memory is exhausted, it frees the guest's garbage and tries once more.
func (e *jsEngine) parseJSON(text value) uint32 {
	out := e.parseText(text)
	if out == 0 {
		e.collectGarbage()
		out = e.parseText(text)
	}
	return out
}

// collectGarbage discards the pending error that memory is exhausted, and frees what only garbage
// refers to. The engine collects it only when its memory has grown by half.
func (e *jsEngine) collectGarbage() {
	e.dropException()
	e.m.QjsRunGc()
}

func (e *jsEngine) dropException() { e.free(value(e.m.QjsGetException())) }

// parseText parses a text like parseJSON, once.
func (e *jsEngine) parseText(text value) uint32 {
	h := e.openHeap()
	v, ok := h.wholeText(h.value(text))
	if !ok {
		return e.undefinedValue()
	}
	defer h.freeValues([]uint64{v})
	units, wide, ok := h.readUnits(uint32(v))
	if !ok || len(units) > maxJSONUnits {
		return e.undefinedValue()
	}
	threshold := e.m.QjsGetGcThreshold()
	e.m.QjsSetGcThreshold(^uint32(0)) // nothing that is made here is garbage
	defer e.m.QjsSetGcThreshold(threshold)
	if wide {
		return parseUnits(h, utf16Units(units))
	}
	return parseUnits(h, units)
}

func (e *jsEngine) undefinedValue() uint32 { return e.m.QjsDupValue(uint32(e.h.undefined)) }

// utf16Units returns the units of a wide string, which the engine has aligned.
func utf16Units(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

func parseUnits[T unit](h heap, text []T) uint32 {
	p := &jsonParser[T]{heap: h, text: text, root: &keyNode[T]{}}
	defer p.freeShapes()
	v, ok := p.parseDocument()
	if !ok {
		p.freeValues(p.values)
		if p.exhausted {
			return 0
		}
		return h.e.undefinedValue()
	}
	return h.newResult(v)
}

// A jsonParser parses one text. The values of unfinished objects and arrays are on a stack.
type jsonParser[T unit] struct {
	heap
	text      []T
	at        int
	values    []uint64
	root      *keyNode[T]
	templates []uint64 // an object of each shape
	objects   int      // number of finished objects
	keys      int      // number of nodes
	depth     int
	exhausted bool // memory is exhausted, and the engine has thrown an error
}

// A keyNode is a sequence of an object's keys, as written. Objects with the same sequence have the
// same shape.
type keyNode[T unit] struct {
	parent *keyNode[T]
	key    []T
	last   *keyNode[T] // the child that was used last
	next   map[string]*keyNode[T]
	shape  uint32
}

func (p *jsonParser[T]) freeShapes() { p.freeValues(p.templates) }

func (p *jsonParser[T]) parseDocument() (uint64, bool) {
	if !p.parseValue() || p.skipSpace() >= 0 {
		return 0, false
	}
	return p.values[0], true
}

// skipSpace returns the next unit that isn't white space, or -1.
func (p *jsonParser[T]) skipSpace() int {
	for p.at < len(p.text) {
		c := p.text[p.at]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return int(c)
		}
		p.at++
	}
	return -1
}

// parseValue pushes the next value. It reports false if the host declines or memory is exhausted.
func (p *jsonParser[T]) parseValue() bool {
	if len(p.values) >= maxJSONValues {
		return false
	}
	switch c := p.skipSpace(); c {
	case '{':
		return p.parseNested(p.parseObject)
	case '[':
		return p.parseNested(p.parseArray)
	case '"':
		return p.parseString()
	case 't':
		return p.parseWord("true", withTag(tagBool, 1))
	case 'f':
		return p.parseWord("false", withTag(tagBool, 0))
	case 'n':
		return p.parseWord("null", withTag(tagNull, 0))
	default:
		return p.parseNumber()
	}
}

func (p *jsonParser[T]) parseNested(parse func() bool) bool {
	if p.depth == maxJSONDepth {
		return false
	}
	p.depth++
	p.at++
	ok := parse()
	p.depth--
	return ok
}

func (p *jsonParser[T]) parseWord(word string, v uint64) bool {
	if len(p.text)-p.at < len(word) {
		return false
	}
	for i := range len(word) {
		if p.text[p.at+i] != T(word[i]) {
			return false
		}
	}
	p.at += len(word)
	p.values = append(p.values, v)
	return true
}

// replaceValues replaces the values from index first on by v, which owns them.
func (p *jsonParser[T]) replaceValues(first int, v uint64, ok bool) bool {
	if !ok {
		p.exhausted = true
		return false
	}
	p.values = append(p.values[:first], v)
	return true
}

func (p *jsonParser[T]) parseArray() bool {
	first := len(p.values)
	if p.skipSpace() == ']' {
		p.at++
	} else if !p.parseItems() {
		return false
	}
	v, ok := p.newArray(p.values[first:])
	return p.replaceValues(first, v, ok)
}

func (p *jsonParser[T]) parseItems() bool {
	for {
		if !p.parseValue() {
			return false
		}
		c := p.skipSpace()
		p.at++
		if c == ']' {
			return true
		}
		if c != ',' {
			return false
		}
	}
}

func (p *jsonParser[T]) parseObject() bool {
	first, node := len(p.values), p.root
	if p.skipSpace() == '}' {
		p.at++
	} else {
		var ok bool
		if node, ok = p.parseFields(); !ok {
			return false
		}
	}
	shape, ok := p.shapeOf(node, len(p.values)-first)
	if !ok {
		return false
	}
	v, ok := p.newObject(shape, p.values[first:])
	return p.replaceValues(first, v, ok)
}

// parseFields pushes the values of an object, and returns its keys.
func (p *jsonParser[T]) parseFields() (*keyNode[T], bool) {
	node := p.root
	for {
		if p.skipSpace() != '"' {
			return nil, false
		}
		p.at++
		if node = p.parseKey(node); node == nil || p.skipSpace() != ':' {
			return nil, false
		}
		p.at++
		if !p.parseValue() {
			return nil, false
		}
		c := p.skipSpace()
		p.at++
		if c == '}' {
			return node, true
		}
		if c != ',' {
			return nil, false
		}
	}
}

// parseKey parses the rest of a key that follows others, and its closing quote. It returns nil if
// there is no such quote, or if there are too many keys.
func (p *jsonParser[T]) parseKey(node *keyNode[T]) *keyNode[T] {
	rest := p.text[p.at:]
	if next := node.last; next != nil && hasKey(rest, next.key) {
		p.at += len(next.key) + 1
		return next
	}
	n := 0
	for ; n < len(rest) && rest[n] != '"'; n++ {
		if rest[n] == '\\' {
			n++
		}
	}
	if n >= len(rest) {
		return nil
	}
	key := rest[:n]
	p.at += n + 1
	return p.addKey(node, key)
}

// addKey returns the node of a key that follows others, or nil if there are too many nodes.
func (p *jsonParser[T]) addKey(node *keyNode[T], key []T) *keyNode[T] {
	next := node.next[string(bytesOf(key))]
	if next == nil {
		if p.keys++; p.keys > maxJSONKeys {
			return nil
		}
		next = &keyNode[T]{parent: node, key: key}
		if node.last != nil { // most nodes have one child, and need no map
			if node.next == nil {
				node.next = map[string]*keyNode[T]{string(bytesOf(node.last.key)): node.last}
			}
			node.next[string(bytesOf(key))] = next
		}
	}
	node.last = next
	return next
}

// hasKey reports whether text begins with the key and a quote.
func hasKey[T unit](text, key []T) bool {
	if len(text) <= len(key) || text[len(key)] != '"' {
		return false
	}
	return string(bytesOf(text[:len(key)])) == string(bytesOf(key))
}

// bytesOf returns the memory of units.
func bytesOf[T unit](units []T) []byte {
	var u T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(units))), len(units)*int(unsafe.Sizeof(u)))
}

// shapeOf returns the shape of objects with n keys that end with the node. It reports false if a
// key occurs twice, or if most objects have keys of their own.
func (p *jsonParser[T]) shapeOf(node *keyNode[T], n int) (uint32, bool) {
	p.objects++
	if node.shape != 0 {
		return node.shape, true
	}
	if len(p.templates) >= maxJSONShapes && p.objects < minShapeUsers*len(p.templates) {
		return 0, false
	}
	template := p.e.m.QjsNewObject()
	if template == 0 {
		panic(abort{errMemory})
	}
	v := p.value(value(template))
	if tagOf(v) != tagObject {
		p.exhausted = true
		p.e.m.QjsFreeValue(template)
		return 0, false
	}
	p.templates = append(p.templates, v)
	ok := p.defineKeys(template, node)
	p.e.m.WasmFree(template) // the value stays in templates
	if !ok {
		return 0, false
	}
	shape := p.u32(uint32(v) + objectShape)
	if int(p.u32(shape+shapeCount)) != n {
		return 0, false
	}
	node.shape = shape
	return shape, true
}

// defineKeys defines the keys that end with the node, in their order.
func (p *jsonParser[T]) defineKeys(object uint32, node *keyNode[T]) bool {
	var nodes []*keyNode[T]
	for ; node.parent != nil; node = node.parent {
		nodes = append(nodes, node)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		key, ok := p.newString(nodes[i].key)
		if !ok {
			return false
		}
		handle := p.newHandle(key)
		if handle == 0 {
			panic(abort{errMemory})
		}
		const plain = 7 // configurable, writable, enumerable
		defined := p.e.m.QjsDefinePropValue(object, handle, uint32(p.e.h.undefined), plain)
		p.e.m.QjsFreeValue(handle)
		if int32(defined) < 0 {
			p.exhausted = true
			return false
		}
	}
	return true
}

func (p *jsonParser[T]) parseString() bool {
	rest := p.text[p.at+1:]
	n := 0
	for n < len(rest) && rest[n] != '"' {
		if rest[n] == '\\' {
			n++
		}
		n++
	}
	if n >= len(rest) {
		return false
	}
	v, ok := p.newString(rest[:n])
	if !ok {
		return false
	}
	p.at += n + 2
	p.values = append(p.values, v)
	return true
}

// newString returns the string that is written as s, between its quotes.
func (p *jsonParser[T]) newString(s []T) (uint64, bool) {
	var all T
	for _, c := range s {
		if c < ' ' || c == '\\' {
			return p.newFromEscapes(s)
		}
		all |= c
	}
	v, ok := storeText(p.heap, s, uint16(all) > 0xFF)
	p.exhausted = p.exhausted || !ok
	return v, ok
}

// storeText creates a string of the units, as bytes unless it is wide.
func storeText[T unit](h heap, s []T, wide bool) (uint64, bool) {
	v, at, ok := h.newText(len(s), wide)
	if !ok {
		return 0, false
	}
	m := h.e.m.Memory()[at:]
	if b := bytesOf(s); wide || len(b) == len(s) {
		copy(m[:len(b)], b)
		return v, true
	}
	m = m[:len(s)]
	for i, c := range s {
		m[i] = byte(c)
	}
	return v, true
}

// newFromEscapes returns the string that is written as s, with escapes.
func (p *jsonParser[T]) newFromEscapes(s []T) (uint64, bool) {
	out := make([]uint16, 0, len(s))
	var all uint16
	for i := 0; i < len(s); i++ {
		c := uint16(s[i])
		switch {
		case c < ' ':
			return 0, false
		case c == '\\':
			var n int
			if c, n = unescape(s[i:]); n == 0 {
				return 0, false
			}
			i += n - 1
		}
		all |= c
		out = append(out, c)
	}
	v, ok := storeText(p.heap, out, all > 0xFF)
	p.exhausted = p.exhausted || !ok
	return v, ok
}

// unescape returns the unit that an escape at the beginning of s stands for, and the escape's
// length, which is 0 if it is invalid.
func unescape[T unit](s []T) (c uint16, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return uint16(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if len(s) < 6 {
			return 0, 0
		}
		for _, d := range s[2:6] {
			x, ok := hexDigit(d)
			if !ok {
				return 0, 0
			}
			c = c<<4 | x
		}
		return c, 6
	}
	return 0, 0
}

func hexDigit[T unit](c T) (uint16, bool) {
	switch {
	case c >= '0' && c <= '9':
		return uint16(c) - '0', true
	case c >= 'a' && c <= 'f':
		return uint16(c) - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return uint16(c) - 'A' + 10, true
	}
	return 0, false
}

// parseNumber pushes a number (RFC 8259, section 6).
func (p *jsonParser[T]) parseNumber() bool {
	s := p.text[p.at:]
	n := 0
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		n = 1
	}
	first, whole := n, 0
	for n < len(s) && n-first < maxFastDigits && isDigit(s[n]) {
		whole = 10*whole + int(s[n]-'0')
		n++
	}
	if n == first || s[first] == '0' && n > first+1 {
		return false
	}
	if n == len(s) || !isDigit(s[n]) && s[n] != '.' && s[n] != 'e' && s[n] != 'E' {
		if negative && whole == 0 {
			return p.pushFloat(s[:n])
		}
		if negative {
			whole = -whole
		}
		p.at += n
		p.values = append(p.values, withTag(tagInt, uint32(int32(whole))))
		return true
	}
	n += countDigits(s[n:])
	if n < len(s) && s[n] == '.' {
		digits := countDigits(s[n+1:])
		if digits == 0 {
			return false
		}
		n += 1 + digits
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		n++
		if n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		digits := countDigits(s[n:])
		if digits == 0 {
			return false
		}
		n += digits
	}
	return p.pushFloat(s[:n])
}

func isDigit[T unit](c T) bool { return c >= '0' && c <= '9' }

func countDigits[T unit](s []T) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// pushFloat pushes the number that is written as s.
func (p *jsonParser[T]) pushFloat(s []T) bool {
	if len(s) > maxNumberUnits {
		return false
	}
	var buf [maxNumberUnits]byte
	for i, c := range s {
		buf[i] = byte(c)
	}
	f, _ := strconv.ParseFloat(unsafe.String(&buf[0], len(s)), 64) // infinite if out of range, as in JavaScript
	p.at += len(s)
	p.values = append(p.values, numberValue(f))
	return true
}
