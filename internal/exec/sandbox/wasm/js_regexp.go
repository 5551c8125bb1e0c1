package wasm

// The host splits long texts at regular expressions, and finds or replaces all matches in them. The
// engine would make several objects for each match. The matcher is the engine's own. When the host
// declines, the engine does the whole operation, and makes all errors.

const (
	maxMatches     = 1 << 22 // positions in a text, of matches and their groups
	matchesPerPoll = 256
	programGroups  = 2 // offset of the number of groups in a compiled pattern, a byte
	programSlots   = 3 // of the number of other addresses in that array, a byte
)

// A textSearch finds the matches of a regular expression in a text.
type textSearch struct {
	heap
	program  uint32 // address of the compiled pattern
	captures uint32 // address of the array of each group's start and end, which the matcher fills
	groups   uint32 // including the whole match
	text     uint64
	at       uint32 // address of the text
	length   uint32
	wide     bool
	matches  int
}

// openSearch prepares a search. It reports false if the host declines.
func (e *jsEngine) openSearch(rx, text value) (s *textSearch, ok bool) {
	s = &textSearch{heap: e.openHeap()}
	r := uint32(s.value(rx))
	if tagOf(s.value(rx)) != tagObject || s.u16(r+objectClass) != classRegExp {
		return nil, false
	}
	if s.program, _, _, ok = s.unitsAt(s.u32(r + regExpProgram)); !ok {
		return nil, false
	}
	if s.text, ok = s.wholeText(s.value(text)); !ok {
		return nil, false
	}
	if s.at, s.length, s.wide, ok = s.unitsAt(uint32(s.text)); ok && s.length <= maxJSONUnits {
		m := e.m.Memory()
		s.groups = uint32(m[s.program+programGroups])
		s.captures = e.m.WasmMalloc(4 * (2*s.groups + uint32(m[s.program+programSlots])))
	}
	if s.captures == 0 {
		s.closeSearch()
		return nil, false
	}
	return s, true
}

func (s *textSearch) closeSearch() {
	s.e.m.WasmFree(s.captures)
	s.freeValues([]uint64{s.text})
}

// findMatch finds the first match that begins at the position or later. It reports whether there is
// one, and whether the search can go on.
func (s *textSearch) findMatch(from uint32) (found, ok bool) {
	if s.matches++; s.matches%matchesPerPoll == 0 && s.e.g.host.interrupted() {
		return false, false // the engine notices the stop when it searches
	}
	width := uint32(0)
	if s.wide {
		width = 1
	}
	switch s.e.m.LreExec(s.captures, s.program, s.at, from, s.length, width, s.context) {
	case 0:
		return false, true
	case 1:
		return true, true
	}
	return false, false
}

// readSpan returns the position and the end of a group. It reports false if the group isn't part of
// the match, or the guest has corrupted the array.
func (s *textSearch) readSpan(group uint32) (from, to uint32, ok bool) {
	from, to = s.u32(s.captures+8*group), s.u32(s.captures+8*group+4)
	if from == 0 || to == 0 {
		return 0, 0, false
	}
	from, to = from-s.at, to-s.at
	if s.wide {
		from, to = from/2, to/2
	}
	return from, to, from <= to && to <= s.length
}

// cutText returns a part of the text as a string. It reports false if memory is exhausted.
func (s *textSearch) cutText(from, to uint32) (uint64, bool) {
	m := s.e.m.Memory()
	if !s.wide {
		return newString(s.heap, m[s.at+from:s.at+to])
	}
	return newString(s.heap, utf16Units(m[s.at+2*from:s.at+2*to]))
}

// newString creates a string, as bytes if they are enough. It reports false if memory is exhausted.
func newString[T unit](h heap, units []T) (uint64, bool) {
	var all T
	for _, c := range units {
		all |= c
	}
	v, ok := storeText(h, units, uint16(all) > 0xFF)
	if !ok {
		h.e.dropException()
	}
	return v, ok
}

// splitText returns a handle of the parts of the text between the matches, with the groups of each
// match after the part before it (ECMA-262, section 22.2.6.14), or of undefined if it declines.
func (e *jsEngine) splitText(rx, text value) uint32 {
	s, ok := e.openSearch(rx, text)
	if !ok {
		return e.undefinedValue()
	}
	defer s.closeSearch()
	var parts []uint64
	add := func(from, to uint32) bool {
		v, ok := s.cutText(from, to)
		if ok {
			parts = append(parts, v)
		}
		return ok && len(parts) < maxMatches
	}
	from, at := uint32(0), uint32(0)
	for at < s.length {
		found, ok := s.findMatch(at)
		if !ok {
			return s.leaveToEngine(parts)
		}
		if !found {
			break
		}
		start, end, ok := s.readSpan(0)
		if !ok {
			return s.leaveToEngine(parts)
		}
		if start >= s.length {
			break
		}
		if end == from { // nothing between two parts
			at = start + 1
			continue
		}
		ok = add(from, start)
		for g := uint32(1); ok && g < s.groups; g++ {
			if first, last, in := s.readSpan(g); in {
				ok = add(first, last)
			} else {
				parts = append(parts, withTag(tagUndefined, 0))
			}
		}
		if !ok {
			return s.leaveToEngine(parts)
		}
		from, at = end, end
	}
	if !add(from, s.length) {
		return s.leaveToEngine(parts)
	}
	return s.newList(parts)
}

// matchText returns a handle of all matches in the text, of null if there is none, or of undefined
// if it declines.
func (e *jsEngine) matchText(rx, text value) uint32 {
	s, spans, ok := searchAll(e, rx, text)
	if !ok {
		return e.undefinedValue()
	}
	defer s.closeSearch()
	if len(spans) == 0 {
		return e.m.QjsGetNull()
	}
	parts := make([]uint64, 0, len(spans))
	for _, p := range spans {
		v, ok := s.cutText(p.from, p.to)
		if !ok {
			return s.leaveToEngine(parts)
		}
		parts = append(parts, v)
	}
	return s.newList(parts)
}

// searchAll prepares a search, and returns the places of all matches. It reports false if the host
// declines.
func searchAll(e *jsEngine, rx, text value) (s *textSearch, all []span, ok bool) {
	if s, ok = e.openSearch(rx, text); !ok {
		return nil, nil, false
	}
	if all, ok = s.findAll(); !ok {
		s.closeSearch()
		return nil, nil, false
	}
	return s, all, true
}

// findAll returns the places of all matches. It reports false if the host declines.
func (s *textSearch) findAll() (all []span, ok bool) {
	for at := uint32(0); at <= s.length; {
		found, ok := s.findMatch(at)
		if !ok || len(all) == maxMatches/2 {
			return nil, false
		}
		if !found {
			break
		}
		from, to, ok := s.readSpan(0)
		if !ok {
			return nil, false
		}
		all = append(all, span{from, to})
		if at = to; from == to {
			at++
		}
	}
	return all, true
}

// replaceText returns a handle of the text with all matches replaced by another text, or of
// undefined if it declines.
func (e *jsEngine) replaceText(rx, text, by value) uint32 {
	s, spans, ok := searchAll(e, rx, text)
	if !ok {
		return e.undefinedValue()
	}
	defer s.closeSearch()
	if len(spans) == 0 {
		return e.m.QjsDupValue(uint32(text))
	}
	v, ok := s.wholeText(s.value(by))
	if !ok {
		return e.undefinedValue()
	}
	defer s.freeValues([]uint64{v})
	units, wide, ok := s.readUnits(uint32(v))
	old, _, known := s.readUnits(uint32(s.text))
	if !ok || !known {
		return e.undefinedValue()
	}
	var out uint64
	switch {
	case !s.wide && !wide:
		out, ok = replaceSpans(s, old, spans, units)
	default:
		out, ok = replaceSpans(s, unitsOf(old, s.wide), spans, unitsOf(units, wide))
	}
	if !ok {
		return e.undefinedValue()
	}
	return s.newResult(out)
}

// unitsOf returns units of two bytes.
func unitsOf(b []byte, wide bool) []uint16 {
	if wide {
		return utf16Units(b)
	}
	out := make([]uint16, len(b))
	for i, c := range b {
		out[i] = uint16(c)
	}
	return out
}

// replaceSpans creates the text with the spans replaced. It reports false if the host declines.
func replaceSpans[T unit](s *textSearch, old []T, spans []span, by []T) (uint64, bool) {
	size := len(old) + len(spans)*len(by)
	for _, p := range spans {
		size -= int(p.to - p.from)
	}
	if size > maxJSONUnits {
		return 0, false
	}
	out, from := make([]T, 0, size), uint32(0)
	for _, p := range spans {
		out = append(append(out, old[from:p.from]...), by...)
		from = p.to
	}
	out = append(out, old[from:]...)
	return newString(s.heap, out)
}

// leaveToEngine frees the values, and leaves the work to the engine.
func (s *textSearch) leaveToEngine(values []uint64) uint32 {
	s.freeValues(values)
	return s.e.undefinedValue()
}

// newList returns a handle of an array of the values.
func (s *textSearch) newList(values []uint64) uint32 {
	v, ok := s.newArray(values)
	if !ok {
		s.e.dropException()
		return s.leaveToEngine(values)
	}
	return s.newResult(v)
}
