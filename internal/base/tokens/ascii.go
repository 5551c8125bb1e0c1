package tokens

import (
	"sync"

	"github.com/tiktoken-go/tokenizer"
)

// Limits on the known words.
const (
	maxWords    = 8192
	maxWordSize = 32 // bytes
)

// words holds the token counts of words. The library spends most of its time on splitting a text by
// an expression with backtracking, and tools repeat the same words.
type words struct {
	mu    sync.Mutex
	known map[string]int
}

// countTokens returns the number of tokens of s, an ASCII text.
func (w *words) countTokens(codec tokenizer.Codec, s string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || len(w.known) >= maxWords {
		w.known = map[string]int{}
	}
	total := 0
	for s != "" {
		word := s[:wordSize(s)]
		s = s[len(word):]
		n, ok := w.known[word]
		if !ok {
			var err error
			if n, err = codec.Count(word); err != nil {
				return 0, err
			}
			if len(word) <= maxWordSize && len(w.known) < maxWords {
				w.known[word] = n
			}
		}
		total += n
	}
	return total, nil
}

// wordSize returns the length of the first word of s, an ASCII text that isn't empty. A word is
// what the expression of o200k_base matches at the start of s, restricted to ASCII:
//
//	[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\nA-Za-z0-9]?[A-Z]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[0-9]{1,3}
//	 ?[^\sA-Za-z0-9]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func wordSize(s string) int {
	prefix := 0
	if !isLetter(s[0]) && !isDigit(s[0]) && !isNewline(s[0]) {
		prefix = 1
	}
	upper := prefix + spanOf(s[prefix:], isUpper)
	if end := upper + spanOf(s[upper:], isLower); end > prefix {
		return end + contractionSize(s[end:])
	}
	if isDigit(s[0]) {
		return min(spanOf(s, isDigit), 3)
	}
	blank := 0
	if s[0] == ' ' {
		blank = 1
	}
	if end := blank + spanOf(s[blank:], isPunctuation); end > blank {
		return end + spanOf(s[end:], func(c byte) bool { return isNewline(c) || c == '/' })
	}
	end := spanOf(s, isSpace)
	for i := end; i > 0; i-- {
		if isNewline(s[i-1]) {
			return i
		}
	}
	if end < len(s) && end > 1 {
		return end - 1 // the last one belongs to the next word
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

// spanOf returns how many bytes at the start of s are in a class.
func spanOf(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

func isUpper(c byte) bool   { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool   { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool  { return isUpper(c) || isLower(c) }
func isDigit(c byte) bool   { return '0' <= c && c <= '9' }
func isNewline(c byte) bool { return c == '\n' || c == '\r' }
func isSpace(c byte) bool   { return c == ' ' || '\t' <= c && c <= '\r' }

func isPunctuation(c byte) bool { return !isSpace(c) && !isLetter(c) && !isDigit(c) }
