package privacy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxNested = 3    // levels of JSON in JSON strings
	maxDepth  = 2000 // of nested objects and lists
)

// A place describes where a value is: the field paths that apply below it, and whether one of them
// names it.
type place struct {
	paths tool.Paths
	named bool // it is personal, with everything in it
	about cue  // the cue of its field name
}

func (s *Sheet) start() place { return place{paths: s.paths} }

// below returns the place of a field.
func (p place) below(name string) place {
	if p.named {
		return p
	}
	next := place{about: fieldCue(name, p.about)}
	next.paths, next.named = p.paths.Below(name)
	return next
}

// fieldCue returns the cue of a field name. If the name has none, it returns that of the enclosing
// field, unless that is other.
func fieldCue(name string, outer cue) cue {
	if c := cueIn(name); c != noCue {
		return c
	}
	if outer == other {
		return noCue
	}
	return outer
}

// A walk goes through a JSON text from start to end, and copies everything unchanged except
// replaced values.
type walk struct {
	t     string
	at    int
	from  int // t is copied up to here
	out   draft
	depth int
	value func(raw string, at place) draft // returns the replacement of a scalar, or nil
	key   func(name string) draft          // returns the replacement of a field name, or nil
}

// json returns the draft of a JSON value. ok is false if t is not valid JSON, or nested too deeply.
func (s *Sheet) json(t string, at place, nested int) (draft, bool) {
	if !json.Valid([]byte(t)) {
		return nil, false
	}
	w := &walk{t: t, value: func(raw string, at place) draft { return s.scalar(raw, at, nested) }}
	w.key = func(name string) draft {
		d := s.text(name, noCue)
		if d.plain() {
			return nil
		}
		return d
	}
	if !w.any(at) {
		return nil, false
	}
	return append(w.out, part{text: t[w.from:]}), true
}

func (w *walk) space() {
	for w.at < len(w.t) && strings.IndexByte(" \t\r\n", w.t[w.at]) >= 0 {
		w.at++
	}
}

// put replaces the text from start to the current position.
func (w *walk) put(start int, d draft) {
	if d == nil {
		return
	}
	w.out = append(append(w.out, part{text: w.t[w.from:start]}), d...)
	w.from = w.at
}

// any walks a value. It returns false if the value is nested too deeply. The text must be valid
// JSON.
func (w *walk) any(at place) bool {
	w.space()
	switch w.t[w.at] {
	case '{':
		return w.members(at, '}')
	case '[':
		return w.members(at, ']')
	}
	start := w.at
	w.skip()
	w.put(start, w.value(w.t[start:w.at], at))
	return true
}

// skip skips a scalar.
func (w *walk) skip() {
	if w.t[w.at] != '"' {
		for w.at < len(w.t) && strings.IndexByte(" \t\r\n,]}", w.t[w.at]) < 0 {
			w.at++
		}
		return
	}
	for w.at++; w.t[w.at] != '"'; w.at++ {
		if w.t[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// members walks an object or a list.
func (w *walk) members(at place, end byte) bool {
	if w.depth++; w.depth > maxDepth {
		return false
	}
	for w.at++; ; {
		w.space()
		switch w.t[w.at] {
		case end:
			w.at++
			w.depth--
			return true
		case ',':
			w.at++
			continue
		}
		next := at
		if end == '}' {
			start := w.at
			w.skip()
			name := unquoted(w.t[start:w.at])
			if d := w.key(name); d != nil {
				w.put(start, quoted(d))
			}
			w.space()
			w.at++ // the colon
			next = at.below(name)
		}
		if !w.any(next) {
			return false
		}
	}
}

// unquoted decodes a JSON string.
func unquoted(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(raw[1:len(raw)-1], "\ufffd")
	}
	var t string
	_ = json.Unmarshal([]byte(raw), &t) // part of valid JSON
	return t
}

// quoted converts the draft of a text to that of a JSON string.
func quoted(d draft) draft {
	out := draft{{text: `"`}}
	for _, p := range d {
		if p.find == 0 {
			p.text = escaped(p.text)
		}
		out = append(out, p)
	}
	return append(out, part{text: `"`})
}

// escaped returns a text as it appears in a JSON string.
func escaped(t string) string {
	raw, err := tool.Marshal(t)
	if err != nil {
		return "" // strings can always be marshaled
	}
	return string(raw[1 : len(raw)-1])
}

// scalar returns the draft of a string, number or boolean, or nil if it is unchanged.
func (s *Sheet) scalar(raw string, at place, nested int) draft {
	switch {
	case raw == "null" || raw == `""`:
		return nil
	case raw[0] != '"':
		return s.literal(raw, at)
	}
	t := unquoted(raw)
	if at.named {
		return quoted(draft{s.found(s.kindOf(t, at.about), t, false)})
	}
	at.paths = append(slices.Clone(at.paths), s.paths...) // a document in a string has its own fields
	d := s.textOrJSON(t, at.about, at, nested)
	if d.plain() && !strings.Contains(t, ellipsis) {
		return nil
	}
	return quoted(d)
}

// literal returns the draft of a number or boolean, or nil. Only integers are examined.
func (s *Sheet) literal(raw string, at place) draft {
	if at.named {
		return quoted(draft{s.found(s.kindOf(raw, at.about), raw, true)})
	}
	if !digits(raw) {
		return nil
	}
	m := s.matches(raw, at.about)
	if len(m) != 1 || m[0].End-m[0].Start != len(raw) {
		return nil
	}
	return quoted(draft{s.found(m[0].Kind, raw, true)})
}

// kindOf returns the kind that the value of a named field is recognized as, otherwise Field.
func (s *Sheet) kindOf(t string, about cue) Kind {
	if m := find(t, about); len(m) == 1 && m[0].End-m[0].Start == len(t) && !s.g.off[m[0].Kind] {
		return m[0].Kind
	}
	return Field
}
