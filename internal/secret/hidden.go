package secret

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
)

// Redacted is what stands in the place of a secret.
const Redacted = "[redacted]"

// What Hidden looks for: values of so many bytes, as many at most. A shorter one would be found in what has nothing to do with it.
const (
	MinHidden = 8
	maxHidden = 1000
)

// A Hidden knows values that are secret, and takes them out of texts: as they are, and as JSON and URLs write them. The nil Hidden knows none.
type Hidden struct {
	forms   [][]byte
	replace *strings.Replacer
	longest int
	wide    bool // some have characters beyond ASCII
}

// NewHidden makes a Hidden of values. Those shorter than MinHidden bytes are left out; nil where none is left.
func NewHidden(values []string) *Hidden {
	h := &Hidden{}
	seen := map[string]bool{}
	for _, v := range values[:min(len(values), maxHidden)] {
		if len(v) < MinHidden {
			continue
		}
		once := quoted(v)
		for _, f := range []string{v, once, quoted(once), url.QueryEscape(v), url.PathEscape(v)} {
			if !seen[f] {
				seen[f] = true
				h.forms = append(h.forms, []byte(f))
			}
			h.longest = max(h.longest, len(f))
			h.wide = h.wide || strings.ContainsFunc(f, func(r rune) bool { return r >= 0x80 })
		}
	}
	if len(h.forms) == 0 {
		return nil
	}
	slices.SortFunc(h.forms, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) }) // of two that begin alike the longer one
	var pairs []string
	for _, f := range h.forms {
		pairs = append(pairs, string(f), Redacted)
	}
	h.replace = strings.NewReplacer(pairs...)
	return h
}

// quoted is s within a string of JSON.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can be encoded
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// Longest is how long a value can be in a text, in bytes.
func (h *Hidden) Longest() int {
	if h == nil {
		return 0
	}
	return h.longest
}

// Hide gives data without the values, which may be JSON or any text: JSON stays JSON. Where there is none of them it gives data itself.
func (h *Hidden) Hide(data []byte) []byte {
	if h == nil || !h.maybe(data) {
		return data
	}
	if json.Valid(data) {
		var out bytes.Buffer
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if found, err := h.copy(d, &out); err == nil {
			if !found {
				return data
			}
			return out.Bytes()
		}
	}
	return []byte(h.replace.Replace(string(data)))
}

// maybe reports whether a value may be in data: one is, or there are escapes that may stand for any of its characters.
func (h *Hidden) maybe(data []byte) bool {
	for _, f := range h.forms {
		if bytes.Contains(data, f) {
			return true
		}
	}
	return bytes.Contains(data, []byte(`\u00`)) || bytes.Contains(data, []byte(`\/`)) || h.wide && bytes.Contains(data, []byte(`\u`))
}

// A level is an array or an object that copy is in.
type level struct {
	object bool
	n      int // names and values so far
}

// copy writes the values of d without what is hidden, and reports whether there was any.
func (h *Hidden) copy(d *json.Decoder, out *bytes.Buffer) (found bool, err error) {
	var in []level
	for {
		t, err := d.Token()
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		if c, ok := t.(json.Delim); ok && (c == '}' || c == ']') {
			in = in[:len(in)-1]
			out.WriteByte(byte(c))
			continue
		}
		if len(in) > 0 {
			l := &in[len(in)-1]
			switch {
			case l.object && l.n%2 == 1:
				out.WriteByte(':')
			case l.n > 0:
				out.WriteByte(',')
			}
			l.n++
		}
		if c, ok := t.(json.Delim); ok {
			in = append(in, level{object: c == '{'})
			out.WriteByte(byte(c))
			continue
		}
		if h.token(t, out) {
			found = true
		}
	}
}

// token writes a token that is no delimiter without what is hidden, and reports whether there was any.
func (h *Hidden) token(t json.Token, out *bytes.Buffer) bool {
	switch t := t.(type) {
	case string:
		clean := h.replace.Replace(t)
		out.WriteString(`"` + quoted(clean) + `"`)
		return clean != t
	case json.Number:
		if clean := h.replace.Replace(string(t)); clean != string(t) {
			out.WriteString(`"` + Redacted + `"`)
			return true
		}
		out.WriteString(string(t))
	case bool:
		if t {
			out.WriteString("true")
		} else {
			out.WriteString("false")
		}
	default:
		out.WriteString("null")
	}
	return false
}
