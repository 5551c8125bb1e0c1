package privacy

import (
	"strings"
	"unicode/utf8"
)

const (
	maxHalfUser   = 64  // characters of an address before its @
	maxHalfDomain = 254 // and after it
	minHalfNumber = 4   // bytes of a number
	maxHalfNumber = 25
)

// withoutHalves is a text without what may be the first half of a value before an ellipsis, wherever that stands: a part of an address with its
// @, and digits, which may have been those of a longer number. It is one pass.
func withoutHalves(t string) string {
	if !strings.Contains(t, ellipsis) {
		return t
	}
	var out strings.Builder
	kept := 0          // up to here t is in out, or left out
	user, far := -1, 0 // where the address begins, and how many characters its @ is ago; -1: there is none
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

// halfUser gives where the user of an address begins at the end of a text; -1 where there is none.
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

// halfNumber gives where a number may begin that goes on after the end of a text, no earlier than at from; its length where none does.
func halfNumber(t string, from int) int {
	begin := len(t)
	for i := len(t) - 1; i >= from && len(t)-i <= maxHalfNumber && strings.IndexByte("0123456789 ()./-", t[i]) >= 0; i-- {
		if digit(t[i]) && len(t)-i >= minHalfNumber {
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
