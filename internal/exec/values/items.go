package values

import (
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Items returns an iterator over the elements of a JSON array, as slices of v. Nothing is copied,
// so an array of many small elements needs no more memory than its text. v must be valid JSON. If v
// is not an array, there are no elements.
func Items(v json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		at := space(v, 0)
		if at >= len(v) || v[at] != '[' {
			return
		}
		for at = space(v, at+1); at < len(v) && v[at] != ']'; at = space(v, at+1) {
			end := valueEnd(v, at)
			if !yield(v[at:end:end]) {
				return
			}
			if at = space(v, end); at >= len(v) || v[at] != ',' {
				return
			}
		}
	}
}

// space returns the index of the first byte of v[at:] that is not white space.
func space(v []byte, at int) int {
	for at < len(v) && (v[at] == ' ' || v[at] == '\n' || v[at] == '\t' || v[at] == '\r') {
		at++
	}
	return at
}

// valueEnd returns the end of the JSON value that starts at at.
func valueEnd(v []byte, at int) int {
	depth := 0
	for ; at < len(v); at++ {
		switch v[at] {
		case '"':
			at = stringEnd(v, at)
			if depth == 0 {
				return at + 1
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return at // end of the array around a number
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// stringEnd returns the index of the closing quote of the string that starts at at.
func stringEnd(v []byte, at int) int {
	for at++; at < len(v) && v[at] != '"'; at++ {
		if v[at] == '\\' {
			at++
		}
	}
	return min(at, len(v)-1)
}

// Part returns limit elements of an array starting at offset, or all of the rest if limit is
// negative.
func Part(v json.RawMessage, offset, limit int) json.RawMessage {
	if offset == 0 && limit < 0 {
		return v
	}
	out := json.RawMessage{'['}
	for item := range Items(v) {
		if offset > 0 {
			offset--
			continue
		}
		if limit == 0 {
			break
		}
		limit--
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// Runes returns limit characters of s starting at offset, or all of the rest if limit is negative.
func Runes(s string, offset, limit int) string {
	at := 0
	for ; offset > 0 && at < len(s); offset-- {
		_, n := utf8.DecodeRuneInString(s[at:])
		at += n
	}
	if limit < 0 {
		return s[at:]
	}
	end := at
	for ; limit > 0 && end < len(s); limit-- {
		_, n := utf8.DecodeRuneInString(s[end:])
		end += n
	}
	return s[at:end]
}
