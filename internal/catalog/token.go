package catalog

import (
	"strings"
	"unicode"
)

// splitWords gives the words of a name or text in lower case: parted by all that is no letter or digit, and inside
// of camelCase and HTTPServer.
func splitWords(s string) []string {
	var out []string
	start := -1
	var prev rune
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(s[start:end]))
		}
		start = -1
	}
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && !unicode.IsUpper(prev):
			flush(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(prev) && i-1 > start && prev < 0x80:
			flush(i - 1) // HTTPServer: http, server
			start = i - 1
		}
		prev = r
	}
	flush(len(s))
	return out
}
