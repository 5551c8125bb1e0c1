package tokens

import (
	"unicode"
	"unicode/utf8"
)

// A class is a set of properties of a character.
type class uint8

const (
	upper   class = 1 << iota // Lu, Lt, Lm, Lo or M: may be in the first part of a word
	lower                     // Ll, Lm, Lo or M: may be in its second part
	letter                    // L
	number                    // N
	space                     // white space
	newline                   // \r or \n
)

// asciiClass returns the class of an ASCII character.
func asciiClass(c byte) class {
	switch {
	case 'a' <= c && c <= 'z':
		return lower | letter
	case 'A' <= c && c <= 'Z':
		return upper | letter
	case '0' <= c && c <= '9':
		return number
	case c == '\n' || c == '\r':
		return space | newline
	case c == ' ' || '\t' <= c && c <= '\f':
		return space
	}
	return 0
}

// findClass returns the class of a character beyond ASCII.
func findClass(r rune) class {
	switch {
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper | letter
	case unicode.Is(unicode.Ll, r):
		return lower | letter
	case unicode.Is(unicode.L, r):
		return upper | lower | letter
	case unicode.Is(unicode.M, r):
		return upper | lower
	case unicode.Is(unicode.N, r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return 0
}

// firstClass returns the class and the size of the first character of s, or 0, 0 if s is empty.
func firstClass(s string) (class, int) {
	if s == "" {
		return 0, 0
	}
	if s[0] < utf8.RuneSelf {
		return asciiClass(s[0]), 1
	}
	r, size := utf8.DecodeRuneInString(s)
	return findClass(r), size
}

// spanSize returns the size of the longest prefix of s whose characters are all in one of the
// classes.
func spanSize(s string, in class) int {
	n := 0
	for {
		c, size := firstClass(s[n:])
		if c&in == 0 {
			return n
		}
		n += size
	}
}

// wordSize returns the size of the first word of s, which isn't empty. A word is what the
// expression of o200k_base matches at the start of s. With U for upper and W for lower it is:
//
//	[^\r\n\p{L}\p{N}]?U*W+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?U+W*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func wordSize(s string) int {
	if n := letterWord(s); n > 0 {
		return n + contractionSize(s[n:])
	}
	first, size := firstClass(s)
	if first&number != 0 {
		n := size
		for range 2 {
			c, size := firstClass(s[n:])
			if c&number == 0 {
				break
			}
			n += size
		}
		return n
	}
	if n := markWord(s); n > 0 {
		return n
	}
	return blankWord(s)
}

// letterWord returns the size of the first word of s if it consists of letters, without a
// contraction at its end; otherwise 0.
func letterWord(s string) int {
	prefix := 0
	if c, size := firstClass(s); c&(newline|letter|number) == 0 {
		prefix = size
	}
	if prefix > 0 {
		if n := mixedSize(s[prefix:]); n > 0 {
			return prefix + n
		}
	}
	if n := mixedSize(s); n > 0 {
		return n
	}
	if n := spanSize(s[prefix:], upper); n > 0 || prefix == 0 {
		return prefix + n
	}
	return spanSize(s, upper)
}

// mixedSize returns the size of what U*W+ matches at the start of s, or 0.
func mixedSize(s string) int {
	first := 0
	for first < len(s) && 'A' <= s[first] && s[first] <= 'Z' {
		first++
	}
	second := first
	for second < len(s) && 'a' <= s[second] && s[second] <= 'z' {
		second++
	}
	if second == len(s) || s[second] < utf8.RuneSelf { // only ASCII
		if second > first {
			return second
		}
		return 0
	}
	n, last := 0, 0 // the end of U*, and of the last character in it that is also in W
	for {
		c, size := firstClass(s[n:])
		if c&upper == 0 {
			break
		}
		n += size
		if c&lower != 0 {
			last = n
		}
	}
	if more := spanSize(s[n:], lower); more > 0 {
		return n + more
	}
	return last
}

// markWord returns the size of the first word of s if it consists of punctuation, otherwise 0.
func markWord(s string) int {
	blank := 0
	if s[0] == ' ' {
		blank = 1
	}
	n := blank
	for n < len(s) {
		c, size := firstClass(s[n:])
		if c&(space|letter|number) != 0 {
			break
		}
		n += size
	}
	if n == blank {
		return 0
	}
	for n < len(s) && (s[n] == '\r' || s[n] == '\n' || s[n] == '/') {
		n++
	}
	return n
}

// blankWord returns the size of the first word of s, which begins with white space.
func blankWord(s string) int {
	end, last, line := 0, 0, 0 // the end of the white space, the start of its last one, the end of its last newline
	for {
		c, size := firstClass(s[end:])
		if c&space == 0 {
			break
		}
		last = end
		end += size
		if c&newline != 0 {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end < len(s) && last > 0:
		return last // the last one belongs to the next word
	}
	return end
}

// contractionSize returns the length of the contraction that s begins with, such as 'll.
func contractionSize(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch string([]byte{s[1] | 0x20, s[2] | 0x20}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}
