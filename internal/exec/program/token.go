package program

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A kind is the kind of a token. The scanner splits TypeScript and JavaScript into tokens as far as
// brackets and statements matter. It doesn't parse and never fails, so it can scan prose, too.
type kind uint8

const (
	word    kind = iota // identifiers, keywords, #private names
	number              // numeric literals
	str                 // strings, and templates without substitutions
	regex               // regular expression literals
	punct               // operators and punctuation except brackets
	open                // ( [ { and the parts of a template that end in ${
	shut                // ) ] } and the last part of a template
	between             // the part of a template between } and ${: closes and opens
)

// A token is a token of a text.
type token struct {
	start, end int
	match      int32 // index of the matching bracket; -1 for none
	kind       kind
	nl         bool // a line break precedes it
	operand    bool // it ends an operand, so a '/' after it is a division
}

// tokens is a scanned text.
type tokens struct {
	s       string
	list    []token
	stray   int // offset of the first unmatched closing bracket, -1 for none
	unshut  int // offset of the last unclosed bracket or template, -1 for none
	comment int // offset of an unterminated block comment, -1 for none
}

func (t *tokens) text(i int) string {
	if i < 0 || i >= len(t.list) {
		return ""
	}
	return t.s[t.list[i].start:t.list[i].end]
}

// is reports whether token i is the word or punctuation s.
func (t *tokens) is(i int, s string) bool {
	return i >= 0 && i < len(t.list) && t.list[i].kind != str && t.list[i].kind != regex && t.text(i) == s
}

// after returns the index of the token after the bracket that token i opens, or len(list). For the
// first part of a template, that is the token after the whole template.
func (t *tokens) after(i int) int {
	m := t.list[i].match
	for m >= 0 && t.list[m].kind == between {
		m = t.list[m].match
	}
	if m < 0 {
		return len(t.list)
	}
	return int(m) + 1
}

// at returns the index of the token that starts at off, or -1.
func (t *tokens) at(off int) int {
	lo, hi := 0, len(t.list)
	for lo < hi {
		m := (lo + hi) / 2
		if t.list[m].start < off {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(t.list) && t.list[lo].start == off {
		return lo
	}
	return -1
}

// A bracket is an open bracket during scanning.
type bracket struct {
	at     int32
	c      byte // ( [ { or ` for a template's ${
	header bool // the ( of if, while, for, with: its ) doesn't end an operand
	block  bool // the { of a block or body: its } doesn't end an operand
}

type scanner struct {
	tokens
	i     int
	nl    bool
	stack []bracket
}

// scan splits s into tokens.
func scan(s string) *tokens {
	c := &scanner{tokens: tokens{s: s, stray: -1, unshut: -1, comment: -1}}
	c.list = make([]token, 0, len(s)/4+8)
	for c.space(); c.i < len(s); c.space() {
		c.next()
	}
	if c.unshut < 0 && len(c.stack) > 0 {
		c.unshut = c.list[c.stack[len(c.stack)-1].at].start
	}
	return &c.tokens
}

// space skips white space and comments.
func (c *scanner) space() {
	for c.i < len(c.s) {
		switch b := c.s[c.i]; {
		case b == '\n' || b == '\r':
			c.nl = true
			c.i++
		case b == ' ' || b == '\t' || b == '\v' || b == '\f':
			c.i++
		case b == '/' && strings.HasPrefix(c.s[c.i:], "//"), b == '#' && c.i == 0 && strings.HasPrefix(c.s, "#!"):
			c.i += lineEnd(c.s[c.i:])
		case b == '/' && strings.HasPrefix(c.s[c.i:], "/*"):
			n := strings.Index(c.s[c.i+2:], "*/")
			if n < 0 {
				c.comment, c.i = c.i, len(c.s)
				return
			}
			c.nl = c.nl || strings.ContainsAny(c.s[c.i:c.i+2+n], "\n\r\u2028\u2029")
			c.i += n + 4
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(c.s[c.i:])
			if !unicode.IsSpace(r) && r != 0x2028 && r != 0x2029 && r != 0xfeff {
				return
			}
			c.nl = c.nl || r == 0x2028 || r == 0x2029
			c.i += n
		default:
			return
		}
	}
}

func lineEnd(s string) int {
	if i := strings.IndexAny(s, "\n\r\u2028\u2029"); i >= 0 {
		return i
	}
	return len(s)
}

func (c *scanner) emit(k kind, end int, operand bool) {
	c.list = append(c.list, token{start: c.i, end: end, match: -1, kind: k, nl: c.nl, operand: operand})
	c.i, c.nl = end, false
}

// last returns the last token, or nil.
func (c *scanner) last() *token {
	if len(c.list) == 0 {
		return nil
	}
	return &c.list[len(c.list)-1]
}

func (c *scanner) next() {
	b := c.s[c.i]
	switch {
	case b >= '0' && b <= '9' || b == '.' && c.i+1 < len(c.s) && isDigit(c.s[c.i+1]):
		c.emit(number, c.numberEnd(), true)
	case b == '"' || b == '\'':
		c.emit(str, c.stringEnd(b), true)
	case b == '`':
		c.template(open)
	case b == '(' || b == '[' || b == '{':
		c.open(b)
	case b == '}' && len(c.stack) > 0 && c.stack[len(c.stack)-1].c == '`':
		c.template(between)
	case b == ')' || b == ']' || b == '}':
		c.shut(b)
	case b == '/' && !c.afterOperand():
		c.emit(regex, c.regexEnd(), true)
	default:
		if n := wordLen(c.s[c.i:]); n > 0 {
			text := c.s[c.i : c.i+n]
			operand := !operatorWords.Has(text) || c.afterDot() || text == "of" && !c.inFor()
			c.emit(word, c.i+n, operand)
			return
		}
		c.punct()
	}
}

func (c *scanner) afterOperand() bool { l := c.last(); return l != nil && l.operand }

func (c *scanner) afterDot() bool {
	l := c.last()
	return l != nil && l.kind == punct && (c.s[l.start:l.end] == "." || c.s[l.start:l.end] == "?.")
}

// inFor reports whether an `of` at this point separates the parts of a for header. Elsewhere it is
// a name.
func (c *scanner) inFor() bool {
	n := len(c.stack)
	return n > 0 && c.stack[n-1].header && c.afterOperand()
}

// operatorWords are the words after which an expression starts, so that a '/' starts a regular
// expression.
var operatorWords = lazily.Words(`
	return typeof instanceof in of new delete void throw case do else yield await default extends if
	while for with try finally switch const let var export import function class`)

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func (c *scanner) numberEnd() int {
	i := c.i
	for i < len(c.s) {
		b := c.s[i]
		if isDigit(b) || b == '.' || b == '_' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' {
			i++
		} else if (b == '+' || b == '-') && (c.s[i-1] == 'e' || c.s[i-1] == 'E') && byteAt(c.s, c.i+1)|0x20 != 'x' {
			i++
		} else {
			break
		}
	}
	return i
}

// stringEnd returns the end of the string that starts here, at most the end of the line.
func (c *scanner) stringEnd(quote byte) int {
	for i := c.i + 1; i < len(c.s); i++ {
		switch c.s[i] {
		case quote:
			return i + 1
		case '\\':
			if i++; i+1 < len(c.s) && c.s[i] == '\r' && c.s[i+1] == '\n' {
				i++
			}
		case '\n', '\r':
			return i
		}
	}
	return len(c.s)
}

// regexEnd returns the end of the regular expression that starts here, at most the end of the line.
func (c *scanner) regexEnd() int {
	class := false
	for i := c.i + 1; i < len(c.s); i++ {
		switch b := c.s[i]; {
		case b == '\\' && i+1 < len(c.s) && c.s[i+1] != '\n':
			i++
		case b == '[':
			class = true
		case b == ']':
			class = false
		case b == '/' && !class:
			return i + 1 + wordLen(c.s[i+1:])
		case b == '\n' || b == '\r':
			return i
		}
	}
	return len(c.s)
}

// template scans a part of a template: from its ` (k is open) or from the } after a substitution (k
// is between).
func (c *scanner) template(k kind) {
	i := c.i + 1
	for i < len(c.s) && c.s[i] != '`' && !strings.HasPrefix(c.s[i:], "${") {
		if c.s[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(c.s) { // unterminated
		if k == open {
			c.unshut = c.i
		} else {
			c.unshut = c.list[c.stack[len(c.stack)-1].at].start
		}
		c.emit(str, len(c.s), true)
		return
	}
	sub := c.s[i] == '$'
	switch {
	case k == open && !sub:
		c.emit(str, i+1, true)
	case k == open:
		c.stack = append(c.stack, bracket{at: int32(len(c.list)), c: '`'})
		c.emit(open, i+2, false)
	default:
		top := &c.stack[len(c.stack)-1]
		c.list[top.at].match = int32(len(c.list))
		if sub {
			c.emit(between, i+2, false)
			c.list[len(c.list)-1].match = -1
			top.at = int32(len(c.list) - 1)
			return
		}
		at := top.at
		c.stack = c.stack[:len(c.stack)-1]
		c.emit(shut, i+1, true)
		c.last().match = at
	}
}

func (c *scanner) open(b byte) {
	br := bracket{at: int32(len(c.list)), c: b}
	l := c.last()
	switch b {
	case '(':
		br.header = l != nil && l.kind == word && !l.operand && headerWords.Has(c.s[l.start:l.end])
		if n := len(c.list); l != nil && l.kind == word && c.s[l.start:l.end] == "await" && n > 1 {
			br.header = c.tokens.is(n-2, "for")
		}
	case '{':
		br.block = c.opensBlock(l)
	}
	c.stack = append(c.stack, br)
	c.emit(open, c.i+1, false)
}

var headerWords = lazily.Words(`if while for with switch`)

// opensBlock reports whether a { after l opens a block or a body, not an object literal. It is a
// heuristic that works for typical code. It only affects how a '/' directly after the } is read.
func (c *scanner) opensBlock(l *token) bool {
	if l == nil {
		return true
	}
	t := c.s[l.start:l.end]
	switch l.kind {
	case word:
		return l.operand || t == "else" || t == "do" || t == "try" || t == "finally"
	case punct:
		return t == ";" || t == "=>" || t == ">"
	case open, between:
		return t == "{"
	}
	return true
}

func (c *scanner) shut(b byte) {
	want := map[byte]byte{')': '(', ']': '[', '}': '{'}[b]
	if n := len(c.stack); n > 0 && c.stack[n-1].c == want {
		top := c.stack[n-1]
		c.stack = c.stack[:n-1]
		c.list[top.at].match = int32(len(c.list))
		c.emit(shut, c.i+1, !top.header && !top.block)
		c.last().match = top.at
		return
	}
	if c.stray < 0 {
		c.stray = c.i
	}
	c.emit(shut, c.i+1, true)
}

var longPuncts = []string{"...", "===", "!==", "**=", "<<=", "&&=", "||=", "??=", "=>", "==", "!=", "<=",
	"&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", "**"}

// punct scans an operator. Tokens never combine a '>' with what follows it, so that generics are
// split.
func (c *scanner) punct() {
	for _, p := range longPuncts {
		if p[0] == c.s[c.i] && strings.HasPrefix(c.s[c.i:], p) && (p != "?." || !isDigit(byteAt(c.s, c.i+2))) {
			c.emit(punct, c.i+len(p), (p == "++" || p == "--") && c.afterOperand())
			return
		}
	}
	_, n := utf8.DecodeRuneInString(c.s[c.i:])
	// A '!' after an operand on the same line is TypeScript's non-null assertion.
	operand := c.s[c.i] == '!' && c.afterOperand() && !c.nl
	c.emit(punct, c.i+n, operand)
}

func byteAt(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

// wordLen returns the length of the identifier, keyword or private name at the start of s, or 0.
func wordLen(s string) int {
	i := 0
	for i < len(s) {
		b := s[i]
		switch {
		case b == '_' || b == '$' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || i > 0 && isDigit(b) ||
			i == 0 && b == '#':
			i++
		case b == '\\' && byteAt(s, i+1) == 'u':
			i += 2
			if byteAt(s, i) == '{' {
				if n := strings.IndexByte(s[i:min(i+9, len(s))], '}'); n > 0 {
					i += n + 1
				}
			}
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if !unicode.IsLetter(r) && !unicode.In(r, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) &&
				r != 0x200c && r != 0x200d {
				return i
			}
			i += n
		default:
			return i
		}
	}
	return i
}
