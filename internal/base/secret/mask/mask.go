// Package mask removes secret values from texts and JSON. It finds them in plain form, escaped for
// JSON or URLs, in base64 at any alignment, in hexadecimal, and broken into lines. A Masker holds
// the values. IsSecret and related functions report which values of a configuration are secret.
//
// A text without a secret costs one pass that skips most of its bytes, and is returned unchanged.
package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Limits of the values that a Masker holds.
const (
	MinValue  = 6    // minimum length of a value in bytes; shorter ones occur in unrelated texts
	minLine   = 16   // minimum length of a line of a multi-line value, such as a private key
	maxFixed  = 4096 // number of fixed values
	maxRecent = 512  // number of recent values, such as access tokens; the oldest are dropped
)

// A Shape is the form of secrets with a known prefix: Prefix, followed by letters, digits and _,
// with a total of Length bytes.
type Shape struct {
	Prefix string
	Length int
}

// A Masker masks secret values. The nil Masker has none. It is safe for concurrent use.
type Masker struct {
	shapes []Shape

	mu     sync.Mutex
	fixed  []string
	recent []string
	held   map[string][]string
	known  map[string]bool

	table atomic.Pointer[table] // nil: no values
}

// New returns a Masker without values, which masks texts that have one of the shapes.
func New(shapes ...Shape) *Masker {
	return &Masker{shapes: shapes, held: map[string][]string{}, known: map[string]bool{}}
}

// Add adds values. Those shorter than MinValue bytes are ignored.
func (m *Masker) Add(values ...string) {
	if m != nil {
		m.addValues(&m.fixed, maxFixed, values)
	}
}

// AddRecent adds values that will be superseded by others, such as access tokens.
func (m *Masker) AddRecent(values ...string) {
	if m != nil {
		m.addValues(&m.recent, maxRecent, values)
	}
}

// Hold sets the current values of a holder, such as the tokens of an upstream. They are masked
// until the holder has others, however many recent values follow.
func (m *Masker) Hold(holder string, values ...string) {
	if m == nil {
		return
	}
	var all []string
	for _, v := range values {
		all = append(all, maskedParts(v)...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(m.held[holder], all) {
		return
	}
	m.held[holder] = all
	m.makeTable()
}

// makeTable rebuilds the table of all values. The caller holds mu.
func (m *Masker) makeTable() {
	all := slices.Concat(m.fixed, m.recent)
	for _, values := range m.held {
		all = append(all, values...)
	}
	m.table.Store(newTable(all))
}

func (m *Masker) addValues(to *[]string, most int, values []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, v := range values {
		for _, part := range maskedParts(v) {
			if m.known[part] {
				continue
			}
			m.known[part], changed = true, true
			if *to = append(*to, part); len(*to) > most {
				delete(m.known, (*to)[0])
				*to = slices.Delete(*to, 0, 1)
			}
		}
	}
	if changed {
		m.makeTable()
	}
}

// maskedParts returns the texts that are masked for a value: the value itself, the credential after
// Bearer or Basic, a password in a URL, and the lines of a private key.
func maskedParts(v string) (out []string) {
	add := func(s string, least int) {
		if s = strings.TrimSpace(s); len(s) >= least {
			out = append(out, s)
		}
	}
	add(v, MinValue)
	if scheme, rest, ok := strings.Cut(v, " "); ok && isScheme(scheme) {
		add(rest, MinValue)
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil &&
			strings.EqualFold(scheme, "basic") {
			_, password, _ := strings.Cut(string(raw), ":")
			add(password, MinValue)
		}
	}
	if u, err := url.Parse(v); err == nil && u.User != nil {
		password, _ := u.User.Password()
		add(password, MinValue)
	}
	if strings.Contains(strings.TrimSpace(v), "\n") {
		for line := range strings.Lines(v) {
			if !strings.HasPrefix(line, "-----") {
				add(line, minLine)
			}
		}
	}
	return out
}

func isScheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "digest", "negotiate"}, strings.ToLower(s))
}

// Longest returns the maximum number of bytes that a value can occupy in a text.
func (m *Masker) Longest() int {
	if m == nil {
		return 0
	}
	longest := 0
	if t := m.table.Load(); t != nil {
		longest = t.reach
	}
	for _, s := range m.shapes {
		longest = max(longest, s.Length)
	}
	return longest
}

// Text returns s with the secrets in it replaced.
func (m *Masker) Text(s string) string {
	if m == nil || len(s) < MinValue {
		return s
	}
	found := m.findSecrets([]byte(s))
	if len(found) == 0 {
		return s
	}
	return string(replaceSpans([]byte(s), found))
}

// MaskJSON returns data, which may be JSON or any text, with the secrets in it replaced. JSON stays
// valid, and only its strings change, except that a number whose digits contain a secret becomes a
// string. If there is no secret, it returns data itself.
func (m *Masker) MaskJSON(data []byte) []byte {
	if m == nil || len(data) < MinValue {
		return data
	}
	found := m.findSecrets(data)
	if len(found) == 0 {
		return data
	}
	if json.Valid(data) {
		if found = fitJSON(data, found); len(found) == 0 {
			return data
		}
	}
	return replaceSpans(data, found)
}

// A span is a part of a text to be replaced.
type span struct {
	from, to int
	with     string
}

// findSecrets returns the secrets in data, in order and without overlaps.
func (m *Masker) findSecrets(data []byte) []span {
	var found []span
	if t := m.table.Load(); t != nil {
		found = t.findForms(data)
	}
	for _, s := range m.shapes {
		found = s.findShape(data, found)
	}
	return mergeSpans(found)
}

func mergeSpans(found []span) []span {
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	out := found[:1]
	for _, f := range found[1:] {
		last := &out[len(out)-1]
		if f.from >= last.to {
			out = append(out, f)
			continue
		}
		if f.to > last.to {
			last.to, last.with = f.to, Redacted
		}
	}
	return out
}

func (s Shape) findShape(data []byte, found []span) []span {
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(s.Prefix))
		if i < 0 {
			return found
		}
		from := at + i
		to := from + s.Length
		at = from + len(s.Prefix)
		if to > len(data) || to < len(data) && isWord(data[to]) ||
			slices.ContainsFunc(data[from:to], func(c byte) bool { return !isWord(c) }) {
			continue
		}
		found, at = append(found, span{from, to, Redacted}), to
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func replaceSpans(data []byte, found []span) []byte {
	out := make([]byte, 0, len(data))
	at := 0
	for _, f := range found {
		out = append(append(out, data[at:f.from]...), f.with...)
		at = f.to
	}
	return append(out, data[at:]...)
}

// fitJSON returns the spans adjusted so that replacing them leaves valid JSON: the parts of them in
// strings, on whole characters. A number that overlaps a span is replaced by a string. A span may
// cover several tokens, if the value is itself JSON, or if values overlap.
func fitJSON(data []byte, found []span) (out []span) {
	for i := 0; i < len(data) && len(found) > 0; {
		switch c := data[i]; {
		case c == '"':
			i, out = inString(data, i+1, found, out)
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(data) && strings.IndexByte("+-.eE0123456789", data[end]) >= 0 {
				end++
			}
			if found[0].from < end {
				out = append(out, span{i, end, `"` + Redacted + `"`})
			}
			i = end
		default:
			i++
		}
		for len(found) > 0 && found[0].to <= i {
			found = found[1:]
		}
	}
	return out
}

// inString appends the parts of spans in the string whose text begins at i, and returns the end of
// the string.
func inString(data []byte, i int, found, out []span) (end int, _ []span) {
	open := false // the last span of out may grow
	for data[i] != '"' {
		n := 1
		if data[i] == '\\' {
			if n = 2; data[i+1] == 'u' {
				n = 6
			}
		}
		for len(found) > 0 && found[0].to <= i {
			found, open = found[1:], false
		}
		switch {
		case len(found) == 0 || found[0].from >= i+n:
		case open:
			out[len(out)-1].to = i + n
		default:
			out, open = append(out, span{i, i + n, found[0].with}), true
			if found[0].from < i { // only a part of the span is here
				out[len(out)-1].with = Redacted
			}
		}
		i += n
	}
	if open && found[0].to > i {
		out[len(out)-1].with = Redacted
	}
	return i + 1, out
}
