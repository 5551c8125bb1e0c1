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

func (s *Sheet) startPlace() place { return place{paths: s.paths} }

// belowField returns the place of a field.
func (p place) belowField(name string) place {
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
	by    replacer
}

// A replacer replaces the scalars and the field names of a JSON text.
type replacer interface {
	// replaceValue returns the replacement of a scalar, or nil.
	replaceValue(raw string, at place) draft
	// replaceName returns the replacement of a field name, or nil.
	replaceName(name string) draft
}

// A sheetReplacer hides personal data in a JSON text.
type sheetReplacer struct {
	*Sheet
	nested int
}

func (r sheetReplacer) replaceValue(raw string, at place) draft {
	return r.draftScalar(raw, at, r.nested)
}

func (r sheetReplacer) replaceName(name string) draft {
	d := r.draftText(name, noCue)
	if d.isPlain() {
		return nil
	}
	return d
}

// draftJSON returns the draft of a JSON value. ok is false if t is not valid JSON, or nested too
// deeply.
func (s *Sheet) draftJSON(t string, at place, nested int) (draft, bool) {
	if !json.Valid([]byte(t)) {
		return nil, false
	}
	w := &walk{t: t, by: sheetReplacer{s, nested}}
	if !w.walkValue(at) {
		return nil, false
	}
	return append(w.out, part{text: t[w.from:]}), true
}

func (w *walk) skipSpace() {
	for w.at < len(w.t) && strings.IndexByte(" \t\r\n", w.t[w.at]) >= 0 {
		w.at++
	}
}

// replaceText replaces the text from start to the current position.
func (w *walk) replaceText(start int, d draft) {
	if d == nil {
		return
	}
	w.out = append(append(w.out, part{text: w.t[w.from:start]}), d...)
	w.from = w.at
}

// walkValue walks a value. It returns false if the value is nested too deeply. The text must be
// valid JSON.
func (w *walk) walkValue(at place) bool {
	w.skipSpace()
	switch w.t[w.at] {
	case '{':
		return w.walkMembers(at, '}')
	case '[':
		return w.walkMembers(at, ']')
	}
	start := w.at
	w.skipScalar()
	w.replaceText(start, w.by.replaceValue(w.t[start:w.at], at))
	return true
}

// skipScalar skips a scalar.
func (w *walk) skipScalar() {
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

// walkMembers walks an object or a list.
func (w *walk) walkMembers(at place, end byte) bool {
	if w.depth++; w.depth > maxDepth {
		return false
	}
	for w.at++; ; {
		w.skipSpace()
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
			w.skipScalar()
			name := decodeString(w.t[start:w.at])
			if d := w.by.replaceName(name); d != nil {
				w.replaceText(start, quoteDraft(d))
			}
			w.skipSpace()
			w.at++ // the colon
			next = at.belowField(name)
		}
		if !w.walkValue(next) {
			return false
		}
	}
}

// decodeString decodes a JSON string.
func decodeString(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(raw[1:len(raw)-1], "\ufffd")
	}
	var t string
	_ = json.Unmarshal([]byte(raw), &t) // part of valid JSON
	return t
}

// quoteDraft converts the draft of a text to the draft of a JSON string.
func quoteDraft(d draft) draft {
	out := draft{{text: `"`}}
	for _, p := range d {
		if p.find == 0 {
			p.text = escapeText(p.text)
		}
		out = append(out, p)
	}
	return append(out, part{text: `"`})
}

// escapeText returns a text as it appears in a JSON string.
func escapeText(t string) string {
	raw, err := tool.Marshal(t)
	if err != nil {
		return "" // strings can always be marshaled
	}
	return string(raw[1 : len(raw)-1])
}

// draftScalar returns the draft of a string, number or boolean, or nil if it is unchanged.
func (s *Sheet) draftScalar(raw string, at place, nested int) draft {
	switch {
	case raw == "null" || raw == `""`:
		return nil
	case raw[0] != '"':
		return s.draftLiteral(raw, at)
	}
	t := decodeString(raw)
	if at.named {
		return quoteDraft(draft{s.addFound(s.kindOf(t, at.about), t, false)})
	}
	at.paths = append(slices.Clone(at.paths), s.paths...) // a document in a string has its own fields
	d := s.textOrJSON(t, at.about, at, nested)
	if d.isPlain() && !strings.Contains(t, ellipsis) {
		return nil
	}
	return quoteDraft(d)
}

// draftLiteral returns the draft of a number or boolean, or nil. Only integers are examined.
func (s *Sheet) draftLiteral(raw string, at place) draft {
	if at.named {
		return quoteDraft(draft{s.addFound(s.kindOf(raw, at.about), raw, true)})
	}
	if !isDigits(raw) {
		return nil
	}
	m := s.findMatches(raw, at.about)
	if len(m) != 1 || m[0].End-m[0].Start != len(raw) {
		return nil
	}
	return quoteDraft(draft{s.addFound(m[0].Kind, raw, true)})
}

// kindOf returns the kind that the value of a named field is recognized as, otherwise Field.
func (s *Sheet) kindOf(t string, about cue) Kind {
	if m := findPersonal(t, about); len(m) == 1 && m[0].End-m[0].Start == len(t) && !s.g.off[m[0].Kind] {
		return m[0].Kind
	}
	return Field
}
