package program

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

const (
	maxSource = 1 << 20 // bytes of a program
	maxNest   = 1000    // see tooDeep
	maxComma  = 200     // commas of one expression outside calls and literals
)

// checkSize says what is wrong with a source before it is looked at.
func checkSize(source string) *Error {
	if len(source) > maxSource {
		return &Error{Kind: "limit", Message: fmt.Sprintf("the program is too large: %d bytes, and at most %d are allowed; "+
			"read data through a tool or a file instead of writing it into the program", len(source), maxSource)}
	}
	if !utf8.ValidString(source) {
		return &Error{Kind: "syntax", Message: "the program is not valid UTF-8 text"}
	}
	return nil
}

func quote(s string) string {
	if len(s) > 80 {
		s = s[:runeOffset(s, 60)] + "…"
	}
	return strconv.Quote(s)
}

// tooDeep says where a program nests too deep to be parsed. Parsers and the walks over their trees recurse, and
// exhausting a goroutine's stack ends the whole process, so this is seen to before anything parses.
//
// What can make a parser recurse is a bracket, or a token inside an expression: "!!!!x", "a.b.c.d", "a=>b=>c". So
// the bound is on the tokens since the last sure end of an expression, summed over all open brackets. Lists of
// arguments and elements, however long, end at each comma; sequences (a, b, c) do not, and have a bound of their own,
// as the compiler takes quadratic time for them.
func tooDeep(t *tokens) *problem {
	d := depth{t: t}
	for i := range t.list {
		if d.step(i); d.sum > maxNest || d.top().commas > maxComma {
			return &problem{at: t.list[i].start, kind: "limit", message: "the program nests too deep here, or has too long an expression: " +
				"split it up into statements, or read data through a tool or a file"}
		}
	}
	return nil
}

// A level is an open bracket, and what was seen in it since the last end of an expression.
type level struct {
	n      int  // tokens
	commas int  // that may be sequence operators
	list   bool // commas here part elements or arguments
	brace  bool
}

type depth struct {
	t     *tokens
	stack []level
	base  level
	sum   int
}

func (d *depth) top() *level {
	if len(d.stack) == 0 {
		return &d.base
	}
	return &d.stack[len(d.stack)-1]
}

func (d *depth) step(i int) {
	tok := &d.t.list[i]
	if tok.kind == shut || tok.kind == between {
		if n := len(d.stack); n > 0 {
			d.sum -= d.stack[n-1].n
			d.stack = d.stack[:n-1]
		}
		if tok.kind == shut {
			return
		}
	}
	if d.ends(i) {
		l := d.top()
		d.sum -= l.n
		l.n, l.commas = 0, 0
	}
	l := d.top()
	l.n++
	d.sum++
	if d.t.is(i, ",") && !l.list {
		l.commas++
	}
	if tok.kind == open || tok.kind == between {
		c := d.t.s[tok.start]
		called := i > 0 && d.t.list[i-1].operand && !(d.t.list[i-1].kind == word && d.t.is(i-1, "let"))
		d.stack = append(d.stack, level{list: c == '(' && called || c == '[' && !called, brace: c == '{'})
	}
}

// ends says whether an expression or a statement surely ended before token i.
func (d *depth) ends(i int) bool {
	if i == 0 {
		return false
	}
	t, l := d.t, d.top()
	tok, prev := &t.list[i], &t.list[i-1]
	if tok.kind == word && (t.is(i, "else") || t.is(i, "catch") || t.is(i, "finally") || t.is(i, "while")) {
		return false
	}
	switch {
	case prev.kind == punct && t.is(i-1, ";"):
		return true
	case prev.kind == punct && t.is(i-1, ","):
		return l.list
	case l.brace && t.is(i, ":") && i > 1 && (t.is(i-2, ",") || t.is(i-2, "{")):
		return true // a key
	case prev.kind == shut && t.is(i-1, "}") && tok.kind == word && !infixWords[t.text(i)]:
		return true // a block and the next statement, or a member and the next
	}
	starts := tok.kind == word && !infixWords[t.text(i)] || tok.kind == str || tok.kind == number
	return tok.nl && prev.operand && starts // the line ends the statement
}

// infixWords go on an expression.
var infixWords = map[string]bool{"instanceof": true, "in": true, "of": true, "as": true, "satisfies": true, "extends": true, "is": true, "from": true}
