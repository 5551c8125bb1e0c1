package function

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tokenKind is a kind of token of TypeScript's types.
type tokenKind int

const (
	endToken tokenKind = iota
	wordToken
	stringToken   // text is its value
	numberToken   // text is as written
	templateToken // text is as written
	signToken     // one of ( ) { } [ ] < > , ; : | & ? = => ... and other single characters
)

// A token is a TypeScript token, with the documentation comment before it.
type token struct {
	kind tokenKind
	text string
	doc  string // text of the /** */ comment directly before it
	line bool   // it is the first of its line
}

// A lexer reads tokens where types and parameters can be: it doesn't know regular expressions.
type lexer struct {
	s  string
	at int
}

// maxTokens is the maximum number of tokens of one signature or type.
const maxTokens = 20_000

// nextToken returns the next token.
func (l *lexer) nextToken() token {
	t := token{}
	for l.at < len(l.s) {
		rest := l.s[l.at:]
		switch c := rest[0]; {
		case c == '\n':
			t.line = true
			l.at++
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.at = len(l.s)
				break
			}
			if comment := rest[:n+4]; strings.HasPrefix(comment, "/**") {
				t.doc = readDoc(comment).description
			}
			l.at += n + 4
		default:
			l.readToken(&t, rest)
			return t
		}
	}
	return t
}

// readToken reads the token at the start of rest.
func (l *lexer) readToken(t *token, rest string) {
	r, size := utf8.DecodeRuneInString(rest)
	n := size
	switch {
	case r == '"' || r == '\'':
		t.kind = stringToken
		t.text, n = unquoteText(rest)
	case r == '`':
		t.kind, n = templateToken, templateEnd(rest)
		t.text = rest[:n]
	case isWordRune(r) && !unicode.IsDigit(r):
		t.kind, n = wordToken, wordEnd(rest)
		t.text = rest[:n]
	case unicode.IsDigit(r):
		t.kind, n = numberToken, wordEnd(rest)
		if strings.HasPrefix(rest[n:], ".") {
			n += 1 + wordEnd(rest[n+1:])
		}
		t.text = strings.ReplaceAll(rest[:n], "_", "")
	case strings.HasPrefix(rest, "..."):
		t.kind, n, t.text = signToken, 3, "..."
	case strings.HasPrefix(rest, "=>"):
		t.kind, n, t.text = signToken, 2, "=>"
	default:
		t.kind, t.text = signToken, rest[:size]
	}
	l.at += n
}

func isWordRune(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func wordEnd(s string) int {
	if n := strings.IndexFunc(s, func(r rune) bool { return !isWordRune(r) }); n >= 0 {
		return n
	}
	return len(s)
}

// unquoteText returns the value of the string literal at the start of s, and its length.
func unquoteText(s string) (value string, n int) {
	var b strings.Builder
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), i + 1
		case c == '\n':
			return b.String(), i
		case c == '\\' && i+1 < len(s):
			i++
			if plain, ok := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r'}[s[i]]; ok {
				b.WriteByte(plain)
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), len(s)
}

// templateEnd returns the length of the template literal at the start of s.
func templateEnd(s string) int {
	depth := 0
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], "${"):
			depth++
			i++
		case s[i] == '}' && depth > 0:
			depth--
		case s[i] == '`' && depth == 0:
			return i + 1
		}
	}
	return len(s)
}

// readTokens returns the tokens of s up to the bracket that closes the one at its start or, if it
// starts with no bracket, up to the end of the statement.
func readTokens(s string) []token {
	l := lexer{s: s}
	var out []token
	depth := 0
	for len(out) < maxTokens {
		t := l.nextToken()
		if t.kind == endToken {
			break
		}
		if t.kind == signToken {
			switch t.text {
			case "(", "[", "{":
				depth++
			case ")", "]", "}":
				depth--
			}
		}
		if depth < 0 || depth == 0 && t.kind == signToken && t.text == ";" {
			break
		}
		out = append(out, t)
		if depth == 0 && len(out) > 1 && isOpening(out[0]) {
			break
		}
	}
	return out
}

func isOpening(t token) bool {
	return t.kind == signToken && (t.text == "(" || t.text == "{" || t.text == "[")
}
