package review

import "strings"

// A taint tells where a value may come from. The zero taint is the program itself.
type taint uint8

const (
	fromResult   taint = 1 << iota // a tool, the network or a file
	fromListing                    // a list of files
	fromArgument                   // an argument of the program or of a function that others call
)

// A ruleSet is a set of rules for whose purposes a value was made harmless.
type ruleSet uint8

const (
	safeSQL ruleSet = 1 << iota
	safeShell
	safePath
	safeAll = safeSQL | safeShell | safePath
)

// gap stands for an unknown part in the text of a value.
const gap = "\x00"

// maxText is the maximum length of a known text.
const maxText = 2000

// A value describes what is known about a value of the program. It is immutable.
type value struct {
	taint  taint
	safe   ruleSet
	built  bool // unknown parts were put into a text
	path   bool // it is a path object
	known  bool // it is exactly text
	open   bool // it may have other fields
	at     int  // where the tainted part is
	text   string
	items  []*value
	elem   *value // of a list with unknown items
	names  []string
	fields []*value
	fn     *node
}

var clean = &value{}

// joinValues returns a value that is one of two.
func joinValues(a, b *value) *value { return joinDeep(a, b, 0) }

func joinDeep(a, b *value, depth int) *value {
	switch {
	case a == b || b == nil || b == clean:
		if a == nil {
			return clean
		}
		return a
	case a == nil || a == clean:
		return b
	}
	lead := a // the more dangerous one
	if b.taint != 0 && (a.taint == 0 || b.built && !a.built) {
		lead = b
	}
	if lead.taint == 0 && a.text == "" && b.text != "" {
		lead = b
	}
	out := *lead
	out.known = a.known && b.known && a.text == b.text
	out.taint = a.taint | b.taint
	if a.taint != 0 && b.taint != 0 {
		out.safe = a.safe & b.safe
	}
	out.built = a.built || b.built
	out.path = a.path || b.path
	if out.fn == nil {
		out.fn = a.fn
		if out.fn == nil {
			out.fn = b.fn
		}
	}
	if depth > 3 {
		return &out
	}
	if a.elem != nil || b.elem != nil || a.items != nil || b.items != nil {
		out.items, out.elem = nil, joinDeep(a.joinElements(), b.joinElements(), depth+1)
	}
	out.names, out.fields = a.names, a.fields
	out.open = a.open || b.open
	for i, name := range b.names {
		out.names, out.fields = withField(out.names, out.fields, name, b.fields[i], depth+1)
	}
	return &out
}

// maxFields is the maximum number of known fields of an object.
const maxFields = 64

// withField returns copies of names and fields in which a field may also have value v.
func withField(names []string, fields []*value, name string, v *value, depth int) ([]string, []*value) {
	for i, n := range names {
		if n == name {
			fields = append([]*value(nil), fields...)
			fields[i] = joinDeep(fields[i], v, depth)
			return names, fields
		}
	}
	if len(names) >= maxFields {
		return names, fields
	}
	return append(names[:len(names):len(names)], name), append(fields[:len(fields):len(fields)], v)
}

// deriveValue returns the value of something that is taken from v: unknown, but as tainted.
func (v *value) deriveValue() *value {
	if v.taint == 0 {
		return clean
	}
	return &value{taint: v.taint, safe: v.safe, at: v.at}
}

// joinElements returns the value of an element of v.
func (v *value) joinElements() *value {
	switch {
	case v.elem != nil:
		return v.elem
	case len(v.items) > 0:
		out := v.items[0]
		for _, x := range v.items[1:] {
			out = joinDeep(out, x, 1)
		}
		return out
	case len(v.fields) > 0:
		out := v.fields[0]
		for _, x := range v.fields[1:] {
			out = joinDeep(out, x, 1)
		}
		return out
	case v.items != nil:
		return clean
	}
	return v.deriveValue()
}

// memberValue returns the value of a member of v.
func (v *value) memberValue(name string) *value {
	for i, n := range v.names {
		if n == name {
			return v.fields[i]
		}
	}
	if len(v.names) > 0 && !v.open {
		return clean
	}
	return v.deriveValue()
}

// hasField reports whether v has a known field.
func (v *value) hasField(name string) bool {
	for _, n := range v.names {
		if n == name {
			return true
		}
	}
	return false
}

// listOf returns a list of elements like v.
func listOf(v *value) *value {
	return &value{taint: v.taint, safe: v.safe, at: v.at, elem: v}
}

// knownText returns a constant.
func knownText(s string) *value {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return &value{known: true, text: s}
}

// textOf returns the text of v with gaps for its unknown parts.
func (v *value) textOf() string {
	if v.known || v.built || v.text != "" {
		return v.text
	}
	return gap
}

// isEmpty reports whether v is the empty text or another constant that isn't put together.
func (v *value) isEmpty() bool { return v.known && v.text == "" }

// concatTexts returns the text that parts make. at has the places of the parts.
func concatTexts(parts []*value, at []int) *value {
	out := &value{known: true, safe: safeAll}
	var b strings.Builder
	rest := 0
	for i, p := range parts {
		if p.isEmpty() {
			continue
		}
		rest++
		out.known = out.known && p.known
		if p.taint != 0 {
			if out.taint == 0 || p.safe == 0 && out.safe != 0 {
				if out.at = at[i]; p.built {
					out.at = p.at
				}
			}
			out.taint |= p.taint
			out.safe &= p.safe
			out.built = out.built || p.built
		}
		out.path = out.path || p.path
		if b.Len() < maxText {
			b.WriteString(p.textOf())
		}
	}
	if out.text = b.String(); len(out.text) > maxText {
		out.text = out.text[:maxText]
	}
	if out.taint != 0 && rest > 1 {
		out.built = true
	}
	if out.taint == 0 {
		out.safe = 0
	}
	return out
}

// isList reports whether v is known to be a list.
func (v *value) isList() bool { return v.items != nil || v.elem != nil }
