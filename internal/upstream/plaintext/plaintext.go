// Package plaintext removes invisible parts from text: terminal escape sequences, controls that
// reorder text, and characters without a glyph. They can hide instructions to a model from a person
// who reads the same text.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsHidden reports whether r moves, reorders or hides text instead of being displayed. Line feeds,
// tabs, joiners and the two variation selectors of emoji are not hidden.
func IsHidden(r rune) bool {
	switch {
	case r >= ' ' && r <= '~': // most text
		return false
	case r == '\n', r == '\t', isJoiner(r), unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	case r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// isJoiner reports whether r only shapes the adjacent characters. Scripts and emoji need such
// characters, so only their position decides whether they are removed.
func isJoiner(r rune) bool { return r == 0x200c || r == 0x200d || r == 0xfe0e || r == 0xfe0f }

// mayJoin reports whether a joiner may follow a character. In ASCII, only the characters
// of keycaps (1️⃣) may have one.
func mayJoin(before, joiner rune) bool {
	switch {
	case before >= '0' && before <= '9', before == '#', before == '*':
		return joiner >= 0xfe0e
	case isJoiner(before):
		return before >= 0xfe0e && joiner == 0x200d
	}
	return before > unicode.MaxASCII
}

// CleanText returns s without escape sequences, hidden characters, and joiners that have no effect.
// It converts line endings to line feeds.
func CleanText(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return IsHidden(r) || isJoiner(r) }) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	last := rune(0)
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += EscapeLen(s[i:])
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case r == '\r', r == 0x2028, r == 0x2029:
			r = '\n'
		case IsHidden(r), isJoiner(r) && !mayJoin(last, r):
			continue
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// IsClean reports whether Clean changes nothing in s.
func IsClean(s string) bool { return CleanText(s) == s }

// EscapeLen returns the length of the terminal escape sequence at the start of s (ECMA-48: CSI, and
// OSC and similar ones).
func EscapeLen(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']', 'P', 'X', '^', '_':
		bell, end := strings.IndexByte(s, '\a'), strings.Index(s[2:], "\x1b\\")
		switch {
		case end >= 0 && (bell < 0 || 2+end < bell):
			return 2 + end + 2
		case bell >= 0:
			return bell + 1
		}
		return len(s)
	}
	return 2
}
