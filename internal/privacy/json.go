package privacy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxNested = 3    // levels of JSON in strings of JSON
	maxDepth  = 2000 // of objects and lists in each other
)

// A place is where a value is: what paths of fields say of what is below it, and whether they name it.
type place struct {
	paths tool.Paths
	named bool // it is personal, with all that is in it
	about cue  // what the name of its field says
}

func (s *Sheet) start() place { return place{paths: s.paths} }

// below gives the place of a field.
func (p place) below(name string) place {
	if p.named {
		return p
	}
	next := place{about: fieldCue(name, p.about)}
	next.paths, next.named = p.paths.Below(name)
	return next
}

// fieldCue gives what the name of a field says of its value; what it doesn't say, that of what it is in does, but for that it is
// something else.
func fieldCue(name string, outer cue) cue {
	if c := cueIn(name); c != noCue {
		return c
	}
	if outer == other {
		return noCue
	}
	return outer
}

// A walk goes through a text of JSON from front to back, and copies what nothing is found in byte for byte.
type walk struct {
	t     string
	at    int
	from  int // what was copied up to here
	out   draft
	depth int
	value func(raw string, at place) draft // what takes the place of a scalar; nil: it stays
	key   func(name string) draft          // and of the name of a field
}

// json gives the draft of a value of JSON; false where it is none.
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

// put replaces what is from start to where the walk is.
func (w *walk) put(start int, d draft) {
	if d == nil {
		return
	}
	w.out = append(append(w.out, part{text: w.t[w.from:start]}), d...)
	w.from = w.at
}

// any goes through a value; false where it is too deep. The text is valid JSON.
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

// skip goes over a scalar.
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

// members goes through an object or a list.
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

// unquoted is the text of a string of JSON.
func unquoted(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(raw[1:len(raw)-1], "\ufffd")
	}
	var t string
	_ = json.Unmarshal([]byte(raw), &t) // it is a part of valid JSON
	return t
}

// quoted makes the draft of a text that of a string of JSON.
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

// escaped is a text as it stands in a string of JSON.
func escaped(t string) string {
	raw, err := tool.Marshal(t)
	if err != nil {
		return "" // strings always marshal
	}
	return string(raw[1 : len(raw)-1])
}

// scalar gives the draft of a string, number or boolean; nil: it stays as it is.
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
	at.paths = append(slices.Clone(at.paths), s.paths...) // a document in a string has fields of its own
	d := s.textOrJSON(t, at.about, at, nested)
	if d.plain() && !strings.Contains(t, ellipsis) {
		return nil
	}
	return quoted(d)
}

// literal gives the draft of a number or boolean. Only whole numbers are looked at.
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

// kindOf gives what the value of a field that is named is recognised as; Field where it isn't.
func (s *Sheet) kindOf(t string, about cue) Kind {
	if m := find(t, about); len(m) == 1 && m[0].End-m[0].Start == len(t) && !s.g.off[m[0].Kind] {
		return m[0].Kind
	}
	return Field
}
