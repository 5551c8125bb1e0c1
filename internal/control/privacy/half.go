package privacy

import (
	"strings"
	"unicode/utf8"
)

const (
	maxHalfUser   = 64  // characters of an address before its @
	maxHalfDomain = 254 // characters after it
	minHalfNumber = 4   // bytes of a number
	maxHalfNumber = 25
)

// withoutHalves removes what may be the first half of a value before an ellipsis, anywhere in a
// text: part of an address with its @, and digits that may be the start of a longer number. It
// makes one pass.
func withoutHalves(t string) string {
	if !strings.Contains(t, ellipsis) {
		return t
	}
	var out strings.Builder
	kept := 0 // t up to here is in out, or removed
	// user is the index at which the address begins, or -1. far is the number of characters since
	// its @.
	user, far := -1, 0
	for i, c := range t {
		switch {
		case strings.ContainsRune(" \t\n\r\f\"'<>,;", c):
			user = -1
		case c == '@':
			user, far = halfUser(t[:i]), 0
		case c == '…' && strings.HasPrefix(t[i:], ellipsis):
			begin := halfNumber(t[:i], kept)
			if user >= 0 && far <= maxHalfDomain {
				begin = min(begin, user)
			}
			if begin < i {
				if begin >= kept {
					out.WriteString(t[kept:begin])
				}
				kept = i
			}
			far++
		default:
			far++
		}
	}
	out.WriteString(t[kept:])
	return out.String()
}

// halfUser returns the start of the user part of an address at the end of t, or -1.
func halfUser(t string) int {
	i := len(t)
	for n := 0; n < maxHalfUser && i > 0; n++ {
		c, size := utf8.DecodeLastRuneInString(t[:i])
		if strings.ContainsRune(" \t\n\r\f\"'<>,;:@", c) {
			break
		}
		i -= size
	}
	if i == len(t) {
		return -1
	}
	return i
}

// halfNumber returns the start, at or after from, of a number that may continue after the end of t.
// It returns len(t) if there is none.
func halfNumber(t string, from int) int {
	begin := len(t)
	for i := len(t) - 1; i >= from && len(t)-i <= maxHalfNumber &&
		strings.IndexByte("0123456789 ()./-", t[i]) >= 0; i-- {
		if isDigit(t[i]) && len(t)-i >= minHalfNumber {
			begin = i
		}
	}
	if begin == len(t) {
		return begin
	}
	for _, c := range []byte{'(', '+'} {
		if begin > from && t[begin-1] == c {
			begin--
		}
	}
	return begin
}
