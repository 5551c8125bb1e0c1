package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// EncodeCanonical returns the canonical form (JCS, RFC 8785) of a value that encoding/json has
// decoded into an interface; its numbers may be json.Number. It returns an error for a number that
// a double can't hold and for a value of another type.
func EncodeCanonical(v any) ([]byte, error) { return canonicalizer{}.append(nil, v) }

// A canonicalizer writes canonical JSON.
type canonicalizer struct {
	exact bool // write numbers that a double can't hold exactly as strings
}

func (c canonicalizer) append(out []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		return appendString(out, v), nil
	case float64:
		return appendNumber(out, v)
	case json.Number:
		if c.exact && !fits(string(v)) {
			return appendString(out, "\x00"+string(v)), nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil, fmt.Errorf("canonical JSON: %w", err)
		}
		return appendNumber(out, f)
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = c.append(out, e); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case map[string]any: // as encoding/json decodes an object into an interface
		out = append(out, '{')
		for i, name := range slices.SortedFunc(maps.Keys(v), compareUTF16) { // section 3.2.3
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = c.append(append(appendString(out, name), ':'), v[name]); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	return nil, fmt.Errorf("canonical JSON: %T is not a decoded value", v)
}

// compareUTF16 compares strings by their UTF-16 code units.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			return cmp.Compare(orderUTF16(x), orderUTF16(y))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// orderUTF16 returns a number that orders characters as UTF-16 does: surrogates, which encode those
// from U+10000, are less than U+E000.
func orderUTF16(r rune) rune {
	if r >= 0xe000 && r <= 0xffff {
		return r + utf8.MaxRune
	}
	return r
}

// appendNumber appends a number as ECMAScript prints it. encoding/json does the same, except for
// -0.
func appendNumber(out []byte, f float64) ([]byte, error) {
	if f == 0 {
		return append(out, '0'), nil
	}
	text, err := json.Marshal(f)
	return append(out, text...), err
}

// appendString appends a string with the escapes of RFC 8785, section 3.2.2.2. Invalid UTF-8
// becomes U+FFFD.
func appendString(out []byte, s string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			out = append(out, '\\', byte(r))
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			if r < ' ' {
				out = append(out, `\u00`...)
				out = append(out, digits[r>>4], digits[r&15])
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
	}
	return append(out, '"')
}
