package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// CallDigest returns the digest of a call: the SHA-256 of the tool's path, a zero byte and the
// canonical arguments, in hexadecimal.
func CallDigest(path string, args json.RawMessage) string {
	h := sha256.New()
	_, _ = io.WriteString(h, path) // never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(canonical(args))
	return hex.EncodeToString(h.Sum(nil))
}

// CanonicalJSON returns JSON in the canonical form of RFC 8785 (JCS). Numbers that a double can't
// hold exactly become strings of U+0000 and their text. No JSON is {}; invalid JSON stays as it is.
func CanonicalJSON(raw json.RawMessage) json.RawMessage { return canonical(raw) }

// canonical returns args in the canonical form of RFC 8785 (JCS), so that equal arguments have
// equal bytes. JCS numbers are doubles. A number that a double can't hold exactly becomes a string
// of U+0000 and its text. So two issue numbers that differ only in the last digit stay different.
// Absent arguments are {}.
func canonical(args json.RawMessage) []byte {
	if len(bytes.TrimSpace(args)) == 0 {
		return []byte("{}")
	}
	if out, ok := canonicalizePlain(args); ok {
		return out
	}
	return canonicalizeAny(args)
}

// canonicalizeAny is canonical for arguments that are not plain.
func canonicalizeAny(args json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return args // not JSON: leave it unchanged
	}
	if _, err := d.Token(); err != io.EOF {
		return args
	}
	out, err := canonicalizer{exact: true}.append(nil, v)
	if err != nil {
		return args
	}
	return out
}

// fits reports whether a double certainly holds the number written as s: one of at most 15 digits,
// or an integer of at most 2^53 in magnitude.
func fits(s string) bool {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return -1<<53 <= n && n <= 1<<53
	}
	f, err := strconv.ParseFloat(s, 64)
	digits := strings.TrimLeft(strings.ReplaceAll(strings.TrimLeft(s, "-"), ".", ""), "0")
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		digits = digits[:i]
	}
	return err == nil && len(digits) <= 15 && (f != 0 || digits == "")
}

// maxPlainDepth is the nesting depth up to which plain JSON is examined.
const maxPlainDepth = 16

// canonicalizePlain returns the canonical form of plain JSON: without spaces, with strings of
// printable ASCII without escapes, and integers of at most 15 digits. Then only the members of
// objects have to be ordered. ok is false if b is not plain. The arguments of most calls are, and
// this is ten times faster than decoding them.
func canonicalizePlain(b []byte) (out []byte, ok bool) {
	out, rest, ok := appendPlain(make([]byte, 0, len(b)), b, maxPlainDepth)
	return out, ok && len(rest) == 0
}

// appendPlain appends the canonical form of the first value in b to out, and returns what follows
// it in b.
func appendPlain(out, b []byte, depth int) (_, rest []byte, ok bool) {
	if len(b) == 0 || depth == 0 {
		return nil, nil, false
	}
	switch c := b[0]; {
	case c == '{':
		return appendPlainObject(out, b[1:], depth-1)
	case c == '[':
		return appendPlainArray(out, b[1:], depth-1)
	}
	n := scalarLen(b)
	return append(out, b[:n]...), b[n:], n > 0
}

// A plainMember is a member of an object: its name, and where its canonical form is.
type plainMember struct {
	name       []byte
	start, end int
}

func appendPlainObject(out, b []byte, depth int) (_, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '}' {
		return append(out, "{}"...), b[1:], true
	}
	from := len(out)
	var room [8]plainMember
	members := room[:0]
	for {
		n := stringLen(b)
		if n == 0 || n >= len(b) || b[n] != ':' {
			return nil, nil, false
		}
		m := plainMember{name: b[1 : n-1], start: len(out)}
		out = append(out, b[:n+1]...)
		if out, b, ok = appendPlain(out, b[n+1:], depth); !ok || len(b) == 0 || b[0] != ',' && b[0] != '}' {
			return nil, nil, false
		}
		m.end = len(out)
		members = append(members, m)
		if b[0] == '}' {
			break
		}
		b = b[1:]
	}
	byName := func(x, y plainMember) int { return bytes.Compare(x.name, y.name) }
	written := string(out[from:])
	slices.SortFunc(members, byName)
	out = append(out[:from], '{')
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(m.name, members[i-1].name) {
				return nil, nil, false
			}
			out = append(out, ',')
		}
		out = append(out, written[m.start-from:m.end-from]...)
	}
	return append(out, '}'), b[1:], true
}

func appendPlainArray(out, b []byte, depth int) (_, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == ']' {
		return append(out, "[]"...), b[1:], true
	}
	for separator := byte('['); ; separator = ',' {
		out = append(out, separator)
		if out, b, ok = appendPlain(out, b, depth); !ok || len(b) == 0 {
			return nil, nil, false
		}
		switch b[0] {
		case ']':
			return append(out, ']'), b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, nil, false
		}
	}
}

// scalarLen returns the length of the plain string, integer or word at the beginning of b; 0 if
// there is none.
func scalarLen(b []byte) int {
	switch c := b[0]; {
	case c == '"':
		return stringLen(b)
	case c == '-' || c >= '0' && c <= '9':
		return integerLen(b)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(b, []byte(word)) {
			return len(word)
		}
	}
	return 0
}

// stringLen returns the length of the plain string at the beginning of b, with its quotes.
func stringLen(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c > '~' || c == '\\':
			return 0
		}
	}
	return 0
}

// integerLen returns the length of the plain integer at the beginning of b. It doesn't look at what
// follows: a fraction or an exponent is no delimiter, so the value is not plain.
func integerLen(b []byte) int {
	sign := 0
	if b[0] == '-' {
		sign = 1
	}
	digits := 0
	for sign+digits < len(b) && b[sign+digits] >= '0' && b[sign+digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 15 || b[sign] == '0' && sign+digits > 1 { // -0 becomes 0
		return 0
	}
	return sign + digits
}
