package review

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tokenKind is the kind of a Python token.
type tokenKind uint8

const (
	endToken tokenKind = iota
	wordToken
	numberToken
	stringToken // text is the literal, with its prefix and quotes
	markToken   // an operator or a bracket
	lineToken   // the end of a logical line
	indentToken
	dedentToken
)

type token struct {
	kind tokenKind
	at   int
	text string
}

var errSyntax = errors.New("not Python")

// A lexer splits Python into tokens.
type lexer struct {
	code    string
	at      int
	depth   int   // open brackets
	indents []int // columns of the open blocks
	list    []token
}

// scanPython returns the tokens of code. If inline is set, the code is an expression, whose lines
// and indentation don't matter.
func scanPython(code string, inline bool) ([]token, error) {
	l := &lexer{code: code, indents: []int{0}, list: make([]token, 0, len(code)/4+8)}
	if inline {
		l.depth = 1
	}
	for first := !inline; l.at < len(code); {
		if first && l.depth == 0 {
			if blank := l.scanIndent(); blank {
				continue
			}
		}
		first = false
		c := code[l.at]
		switch {
		case c == '\n':
			if l.depth == 0 {
				l.addToken(lineToken, l.at, "")
				first = true
			}
			l.at++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			l.at++
		case c == '#':
			l.at += lineLength(code[l.at:])
		case c == '\\' && strings.HasPrefix(strings.TrimPrefix(code[l.at+1:], "\r"), "\n"):
			l.at += 1 + strings.IndexByte(code[l.at:], '\n')
		default:
			if err := l.scanToken(); err != nil {
				return nil, err
			}
		}
	}
	if !inline {
		l.addToken(lineToken, l.at, "")
		for range l.indents[1:] {
			l.addToken(dedentToken, l.at, "")
		}
	}
	l.addToken(endToken, l.at, "")
	return l.list, nil
}

func (l *lexer) addToken(k tokenKind, at int, text string) {
	l.list = append(l.list, token{k, at, text})
}

// lineLength returns the number of bytes before the end of the first line.
func lineLength(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// scanIndent reads the white space at the start of a line, and reports whether the line is blank.
func (l *lexer) scanIndent() (blank bool) {
	col, at := 0, l.at
	for ; at < len(l.code); at++ {
		switch l.code[at] {
		case ' ':
			col++
			continue
		case '\t':
			col += 8 - col%8
			continue
		}
		break
	}
	if at == len(l.code) || l.code[at] == '#' || l.code[at] == '\n' || l.code[at] == '\r' {
		l.at = min(at+lineLength(l.code[at:])+1, len(l.code))
		return true
	}
	l.at = at
	for top := len(l.indents) - 1; col < l.indents[top]; top-- {
		l.indents = l.indents[:top]
		l.addToken(dedentToken, at, "")
	}
	if col > l.indents[len(l.indents)-1] {
		l.indents = append(l.indents, col)
		l.addToken(indentToken, at, "")
	}
	return false
}

// marks are the operators of more than one character, longest first.
var marks = [...]string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
	"@=", "==", "!=", "<=", ">=", "**", "//", "<<", ">>"}

func (l *lexer) scanToken() error {
	from, c := l.at, l.code[l.at]
	r, _ := utf8.DecodeRuneInString(l.code[from:])
	switch {
	case c == '"' || c == '\'':
		return l.scanString(from)
	case c >= '0' && c <= '9' || c == '.' && from+1 < len(l.code) && l.code[from+1] >= '0' && l.code[from+1] <= '9':
		for l.at < len(l.code) && (isWordByte(l.code[l.at]) || l.code[l.at] == '.') {
			l.at++
		}
		l.addToken(numberToken, from, l.code[from:l.at])
	case c == '_' || unicode.IsLetter(r):
		for l.at < len(l.code) && isWordByte(l.code[l.at]) {
			l.at++
		}
		if l.at < len(l.code) && (l.code[l.at] == '"' || l.code[l.at] == '\'') && l.at-from <= 2 {
			return l.scanString(from)
		}
		l.addToken(wordToken, from, l.code[from:l.at])
	default:
		n := 1
		for _, m := range marks {
			if strings.HasPrefix(l.code[from:], m) {
				n = len(m)
				break
			}
		}
		switch c {
		case '(', '[', '{':
			l.depth++
		case ')', ']', '}':
			l.depth = max(l.depth-1, 0)
		}
		l.at += n
		l.addToken(markToken, from, l.code[from:l.at])
	}
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// scanString reads a string whose prefix starts at from; l.at is at its quote.
func (l *lexer) scanString(from int) error {
	for l.code[l.at] != '"' && l.code[l.at] != '\'' {
		l.at++
	}
	quote := l.code[l.at : l.at+1]
	if strings.HasPrefix(l.code[l.at:], quote+quote+quote) {
		quote += quote + quote
	}
	formatted := strings.ContainsAny(l.code[from:l.at], "fFtT")
	i, depth := l.at+len(quote), 0
	for i < len(l.code) {
		switch c := l.code[i]; {
		case c == '\\':
			i++
		case formatted && c == '{':
			depth++
		case formatted && c == '}':
			depth = max(depth-1, 0)
		case depth > 0 && len(quote) == 3 && (c == '"' || c == '\''): // a string inside braces
			if strings.HasPrefix(l.code[i:], quote) {
				depth = 0
				continue
			}
		case depth > 0 && strings.HasPrefix(l.code[i:], quote) && closesLater(l.code[i+1:], quote):
			i += 1 + strings.Index(l.code[i+1:], quote)
		case strings.HasPrefix(l.code[i:], quote):
			l.at = i + len(quote)
			l.addToken(stringToken, from, l.code[from:l.at])
			return nil
		case c == '\n' && len(quote) == 1:
			return errSyntax
		}
		i++
	}
	return errSyntax
}

// closesLater reports whether a quote inside the braces of an f-string begins a string there, as
// Python 3.12 allows, rather than ends the f-string.
func closesLater(rest, quote string) bool {
	rest = rest[:lineLength(rest)]
	i := strings.Index(rest, quote)
	if i < 0 {
		return false
	}
	brace := strings.IndexByte(rest[i:], '}')
	return brace >= 0 && strings.Contains(rest[i+brace:], quote)
}

// splitString splits a literal into its prefix in lower case, and its content, which begins at
// offset start.
func splitString(lit string) (prefix, content string, start int) {
	i := strings.IndexAny(lit, `"'`)
	prefix, lit = strings.ToLower(lit[:i]), lit[i:]
	n := 1
	if len(lit) >= 6 && lit[0] == lit[1] && lit[1] == lit[2] {
		n = 3
	}
	return prefix, lit[n : len(lit)-n], i + n
}

// unescapePython replaces the common escapes of a string.
func unescapePython(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '\n':
		case 'x':
			if v, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8); err == nil {
				b.WriteRune(rune(v))
				i += 2
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
