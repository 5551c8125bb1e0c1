package mask

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A form is an encoding of a value.
type form struct {
	text   []byte
	base64 bool // part of a longer base64 text
}

const (
	tableBits = 15
	block     = 3 // bytes in a block of the search
)

// A table finds forms with the Wu-Manber algorithm. It hashes the last block of a window as long as
// the shortest form, and skips as many bytes as possible without missing a form.
type table struct {
	shortest int
	longest  int // length of the longest value
	reach    int // length of the longest form, including escaped values
	wide     bool
	slash    bool
	shift    [1 << tableBits]uint8
	forms    map[uint32][]form // by the block at the end of the window, the longest first
}

// newTable returns a table of values, or nil if there are none.
func newTable(values []string) *table {
	if len(values) == 0 {
		return nil
	}
	t := &table{shortest: 255, forms: map[uint32][]form{}}
	var all []form
	seen, url64 := map[string]bool{}, strings.NewReplacer("+", "-", "/", "_")
	add := func(s string, in64 bool) {
		if len(s) >= MinValue && !seen[s] {
			seen[s] = true
			all = append(all, form{[]byte(s), in64})
			t.shortest, t.reach = min(t.shortest, len(s)), max(t.reach, len(s))
		}
	}
	for _, v := range values {
		t.longest = max(t.longest, len(v))
		t.wide = t.wide || strings.ContainsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf })
		t.slash = t.slash || strings.Contains(v, "/")
		add(v, false)
		for s, i := v, 0; i < 3; i++ {
			s = quoteJSON(s)
			add(s, false)
		}
		add(url.QueryEscape(v), false)
		add(url.PathEscape(v), false)
		add(hex.EncodeToString([]byte(v)), false)
		add(strings.ToUpper(hex.EncodeToString([]byte(v))), false)
		for before := range 3 {
			s := alignBase64(v, before)
			add(s, true)
			add(url64.Replace(s), true)
		}
	}
	t.reach = max(t.reach, t.escapeWindow())
	slices.SortStableFunc(all, func(a, b form) int { return cmp.Compare(len(b.text), len(a.text)) })
	top := t.shortest - block + 1
	for i := range t.shift {
		t.shift[i] = uint8(top)
	}
	for _, f := range all {
		for end := block; end <= t.shortest; end++ {
			h := hashBytes(f.text[end-block:])
			t.shift[h] = min(t.shift[h], uint8(t.shortest-end))
		}
		h := hashBytes(f.text[t.shortest-block:])
		t.forms[h] = append(t.forms[h], f)
	}
	return t
}

func hashBytes(b []byte) uint32 {
	return (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) * 2654435761 >> (32 - tableBits)
}

// quoteJSON returns s as it is written in a JSON string.
func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// alignBase64 returns the base64 characters that depend only on v, if v is preceded by before bytes
// in a group of three.
func alignBase64(v string, before int) string {
	s := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
	first := (before*8 + 5) / 6
	last := (before + len(v)) * 8 / 6
	return s[first:last]
}

// findForms returns the positions of forms in data.
func (t *table) findForms(data []byte) []span {
	found := t.scanForms(data, nil, nil)
	return t.findEncodedValues(data, found)
}

// scanForms appends the forms in data to found. at maps each byte of data to its position in the
// original text; nil means that data is the original text.
func (t *table) scanForms(data []byte, at []int32, found []span) []span {
	n := len(data)
	for i := t.shortest - 1; i < n; {
		h := (uint32(data[i-2]) | uint32(data[i-1])<<8 | uint32(data[i])<<16) * 2654435761 >> (32 - tableBits)
		if s := t.shift[h&(1<<tableBits-1)]; s > 0 {
			i += int(s)
			continue
		}
		start := i - t.shortest + 1
		for _, f := range t.forms[h] {
			if !bytes.HasPrefix(data[start:], f.text) {
				continue
			}
			s := span{start, start + len(f.text), Redacted}
			if f.base64 {
				s = extendSpan(data, s)
			}
			if at != nil {
				s.from, s.to = int(at[s.from]), int(at[s.to])
			}
			found = append(found, s)
			break
		}
		i++
	}
	return found
}

// extendSpan extends a span in base64 to the characters with the value's first and last bits. The
// replacement has the same length, so that the surrounding text can still be decoded.
func extendSpan(data []byte, s span) span {
	if s.from > 0 && isBase64(data[s.from-1]) {
		s.from--
	}
	if s.to < len(data) && isBase64(data[s.to]) {
		s.to++
	}
	if (s.from == 0 || !isBase64(data[s.from-1])) && (s.to == len(data) || !isBase64(data[s.to]) && data[s.to] != '=') {
		return s // only the value, without surrounding text
	}
	const word = "redacted"
	s.with = strings.Repeat(word, (s.to-s.from)/len(word)+1)[:s.to-s.from]
	return s
}

func isBase64(c byte) bool { return isWord(c) || c == '+' || c == '/' || c == '-' }

// escapeWindow returns how many bytes around an escape may belong to the same value.
func (t *table) escapeWindow() int { return 8*t.longest + 16 }

// findEncodedValues appends the values that contain escapes (\u0041, \/, %41) or are broken into
// lines.
func (t *table) findEncodedValues(data []byte, found []span) []span {
	within := func(trigger func([]byte) int) func(at, end int) int {
		return func(at, end int) int {
			if i := trigger(data[at:end]); i >= 0 {
				return at + i
			}
			return -1
		}
	}
	for _, kind := range []struct {
		next   func(at, end int) int // position of the first escape or line break; -1: none
		decode func(data []byte, from, to int, found []span) []span
	}{
		{within(findPercent), t.findURLEscapes},
		{within(t.findEscape), t.findJSONEscapes},
		{func(at, end int) int { return lineBreak(data, '\n', at, end) }, t.findBroken},
		{func(at, end int) int { return lineBreak(data, '\\', at, end) }, t.findBroken},
	} {
		done := 0
		for at := 0; at < len(data); {
			i := kind.next(at, len(data))
			if i < 0 {
				break
			}
			from, to := max(done, i-t.escapeWindow()), min(len(data), i+t.escapeWindow())
			for to < len(data) { // extend while the next one is near
				next := kind.next(to, min(len(data), to+t.escapeWindow()))
				if next < 0 {
					break
				}
				to = min(len(data), next+t.escapeWindow())
			}
			found = kind.decode(data, from, to, found)
			done, at = to, to
		}
	}
	return found
}

// findPercent returns the position of the first URL escape, or -1.
func findPercent(data []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '%')
		if i < 0 {
			return -1
		}
		if at += i; at+2 < len(data) && isHex(data[at+1]) && isHex(data[at+2]) {
			return at
		}
		at++
	}
}

// findEscape returns the position of the first escape that may encode a character of a value, or
// -1. It doesn't read further, because it is called again for the remaining text.
func (t *table) findEscape(data []byte) int {
	for at := 0; ; at++ {
		i := bytes.IndexByte(data[at:], '\\')
		if i < 0 {
			return -1
		}
		switch at += i; {
		case at+1 < len(data) && data[at+1] == '/' && t.slash:
			return at
		case at+5 < len(data) && data[at+1] == 'u' &&
			(t.wide || data[at+2] == '0' && data[at+3] == '0' && '2' <= data[at+4] && data[at+4] <= '7'):
			return at
		}
	}
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// findURLEscapes appends the values in data[from:to] that contain URL escapes.
func (t *table) findURLEscapes(data []byte, from, to int, found []span) []span {
	text, pos := make([]byte, 0, to-from), make([]int32, 0, to-from+1)
	for i := from; i < to; i++ {
		c, at := data[i], i
		if c == '%' && i+2 < to && isHex(data[i+1]) && isHex(data[i+2]) {
			n, _ := strconv.ParseUint(string(data[i+1:i+3]), 16, 8)
			c, i = byte(n), i+2
		}
		text, pos = append(text, c), append(pos, int32(at))
	}
	return t.scanForms(text, append(pos, int32(to)), found)
}

// maxEscaped is the maximum depth at which nested JSON strings are decoded.
const maxEscaped = 4

// findJSONEscapes appends the values in data[from:to] that contain JSON escapes, including those in
// nested strings.
func (t *table) findJSONEscapes(data []byte, from, to int, found []span) []span {
	for from > 0 && data[from-1] == '\\' { // don't start within an escape
		from--
	}
	text, pos := data[from:to], make([]int32, to-from+1)
	for i := range pos {
		pos[i] = int32(from + i)
	}
	for range maxEscaped { // forms include the other escapes
		text, pos = decodeEscapes(text, pos)
		found = t.scanForms(text, pos, found)
		if t.findEscape(text) < 0 {
			break
		}
	}
	return found
}

// decodeEscapes decodes the JSON escapes in a text once. pos has the original position of each
// byte, and the end position.
func decodeEscapes(text []byte, pos []int32) ([]byte, []int32) {
	out, at := make([]byte, 0, len(text)), make([]int32, 0, len(pos))
	for i := 0; i < len(text); {
		run := bytes.IndexByte(text[i:], '\\')
		if run < 0 || i+run == len(text)-1 {
			run = len(text) - i
		}
		out, at = append(out, text[i:i+run]...), append(at, pos[i:i+run]...)
		if i += run; i == len(text) {
			break
		}
		c, n := decodeEscape(text[i:])
		out = append(out, c...)
		for range c {
			at = append(at, pos[i])
		}
		i += n
	}
	return out, append(at, pos[len(text)])
}

// decodeEscape returns the decoded escape at the beginning of a text, and its encoded length.
func decodeEscape(text []byte) ([]byte, int) {
	switch text[1] {
	case 'n':
		return []byte{'\n'}, 2
	case 't':
		return []byte{'\t'}, 2
	case 'r':
		return []byte{'\r'}, 2
	case 'u':
		r, ok := decodeUnit(text)
		if !ok {
			break
		}
		if low, ok := decodeUnit(text[6:]); ok && utf16.IsSurrogate(r) {
			return utf8.AppendRune(nil, utf16.DecodeRune(r, low)), 12
		}
		return utf8.AppendRune(nil, r), 6
	}
	return text[1:2], 2
}

// decodeUnit returns the UTF-16 code unit of an escape like \u0041.
func decodeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(n), err == nil
}

// minWidth is the minimum length of a line, in bytes, in a text that is broken at a fixed width, as
// base64 is.
const minWidth = 16

// isLineByte reports whether c may be at the beginning or end of a line in a text that is broken at
// a fixed width.
func isLineByte(c byte) bool { return isBase64(c) || c == '.' }

// lineBreak returns the position of the first line break after a full line between at and end, or
// -1. sign is its first character: a line feed, or the backslash of an escape.
func lineBreak(data []byte, sign byte, at, end int) int {
	for at < end {
		i := bytes.IndexByte(data[at:end], sign)
		if i < 0 {
			return -1
		}
		i += at
		// Most escapes are not line breaks.
		if sign == '\\' && (i+1 == end || data[i+1] != 'n' && data[i+1] != 'r' && data[i+1] != '\\') {
			at = i + 2
			continue
		}
		from := i
		if sign == '\n' && i > 0 && data[i-1] == '\r' {
			from--
		}
		width := 0
		for width < minWidth && from-width > 0 && isLineByte(data[from-width-1]) {
			width++
		}
		if width == minWidth && breakLength(data[from:]) > 0 {
			return from
		}
		at = i + 1
	}
	return -1
}

// maxBreak is the maximum length of a line break with the indentation of the next line.
const maxBreak = 64

// breakLength returns the length of the line break at the beginning of a text, including the
// indentation that follows, or 0. The break may be written with JSON escapes, even in nested
// strings.
func breakLength(text []byte) int {
	n, feeds := 0, 0
	for n < len(text) && n < maxBreak {
		c, size := text[n], 1
		for c == '\\' && n+size < len(text) && size <= 1<<maxEscaped {
			c = text[n+size]
			size++
		}
		switch {
		case size == 1 && (c == '\n' || c == '\r'), size > 1 && (c == 'n' || c == 'r'):
			feeds++
		case feeds > 0 && (size == 1 && (c == ' ' || c == '\t') || size > 1 && c == 't'):
		default:
			size = 0
		}
		if size == 0 {
			break
		}
		n += size
	}
	if feeds == 0 || n == len(text) || !isLineByte(text[n]) {
		return 0
	}
	return n
}

// findBroken appends the values in data[from:to] that are broken into lines.
func (t *table) findBroken(data []byte, from, to int, found []span) []span {
	text, pos := make([]byte, 0, to-from), make([]int32, 0, to-from+1)
	for i := from; i < to; {
		if c := data[i]; (c == '\n' || c == '\r' || c == '\\') && len(text) > 0 && isLineByte(text[len(text)-1]) {
			if n := breakLength(data[i:to]); n > 0 {
				i += n
				continue
			}
		}
		text, pos = append(text, data[i]), append(pos, int32(i))
		i++
	}
	return t.scanForms(text, append(pos, int32(to)), found)
}
