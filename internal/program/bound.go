package program

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

const (
	maxSource = 256 << 10 // bytes of a program
	maxNest   = 1000      // see tooDeep
	maxEffort = 4e8       // sum over all tokens of the square of their depth
	maxAgain  = 1e9       // names that may be declared again, times the bytes of the program
	maxComma  = 200       // commas of one expression outside calls and literals
	maxTwice  = 8         // nested places that the compiler reads twice
	maxArrow  = 64        // nested arrow functions
	maxImport = 200       // import statements
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
// the depth of a token is the number of tokens since the last sure end of an expression, summed over all open
// brackets. Lists of arguments and elements, however long, end at each comma; sequences (a, b, c) do not, and have a
// bound of their own. The other bounds keep the compiler's time within seconds: it takes up to cubic time for scopes
// in scopes, reads `a ? (b) : c => d` and `infer A extends B` twice (so what is nested in n of these 2^n times), and
// looks through the whole text for each name that is declared again.
func tooDeep(t *tokens) *problem {
	d := depth{t: t, seen: make(map[string]bool, 64)}
	for i := range t.list {
		d.step(i)
		d.effort += d.sum * d.sum
		switch {
		case d.sum > maxNest, d.twice > maxTwice, d.arrows > maxArrow, d.top().commas > maxComma, d.effort > maxEffort:
			return &problem{at: t.list[i].start, kind: "limit", message: "the program nests too deep here, or has too long an expression: " +
				"split it up into statements, or read data through a tool or a file"}
		case d.again*len(t.s) > maxAgain:
			return &problem{at: t.list[i].start, kind: "limit", message: "the program is too large for how often it repeats its names: " +
				"make it smaller, or read data through a tool or a file"}
		}
	}
	return nil
}

// A level is an open bracket, and what was seen in it since the last end of an expression.
type level struct {
	n      int // tokens
	commas int // that may be sequence operators
	twice  int // places that are read twice
	arrows int
	chosen int  // how far `? ... ) :` has come: 1 at ?, 2 at ) :
	list   bool // commas here part elements or arguments
	brace  bool
}

type depth struct {
	t      *tokens
	stack  []level
	base   level
	sum    int // of n
	twice  int // of twice
	arrows int // of arrows
	effort int
	seen   map[string]bool // names that stand where names are declared
	again  int             // how many of them stood there before
}

func (d *depth) top() *level {
	if len(d.stack) == 0 {
		return &d.base
	}
	return &d.stack[len(d.stack)-1]
}

func (d *depth) step(i int) {
	t := d.t
	tok := &t.list[i]
	if tok.kind == shut || tok.kind == between {
		if n := len(d.stack); n > 0 {
			d.sum -= d.stack[n-1].n
			d.twice -= d.stack[n-1].twice
			d.arrows -= d.stack[n-1].arrows
			d.stack = d.stack[:n-1]
		}
		if tok.kind == shut {
			return
		}
	}
	if d.ends(i) {
		l := d.top()
		d.sum -= l.n
		d.twice -= l.twice
		d.arrows -= l.arrows
		*l = level{list: l.list, brace: l.brace}
	}
	l := d.top()
	l.n++
	d.sum++
	switch {
	case d.t.is(i, ",") && !l.list:
		l.commas++
	case d.t.is(i, "?"):
		l.chosen = max(l.chosen, 1)
	case d.t.is(i, ":") && l.chosen > 0 && d.t.is(i-1, ")"):
		l.chosen = 2
	case d.t.is(i, "infer"):
		l.twice++
		d.twice++
	case d.t.is(i, "=>"):
		l.arrows++
		d.arrows++
		if l.chosen == 2 {
			l.twice++
			d.twice++
		}
	}
	switch {
	case tok.kind == word:
		d.name(i)
	case tok.kind == number && len(t.text(i)) > 1 && t.s[tok.start] == '0' && isDigit(t.s[tok.start+1]), tok.kind == str && octal(t.text(i)):
		d.again++
	}
	if tok.kind == open || tok.kind == between {
		c := d.t.s[tok.start]
		called := i > 0 && d.t.list[i-1].operand && !(d.t.list[i-1].kind == word && d.t.is(i-1, "let"))
		d.stack = append(d.stack, level{list: c == '(' && called || c == '[' && !called, brace: c == '{'})
	}
}

// octal says whether a string holds an escape that strict code may not.
func octal(s string) bool {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '\\' {
			if i++; isDigit(s[i]) {
				return true
			}
		}
	}
	return false
}

// sloppyWords are what strict code may not use, or not everywhere: each use may cost a look at the whole text.
var sloppyWords = map[string]bool{"with": true, "delete": true, "implements": true, "package": true, "private": true,
	"protected": true, "public": true, "static": true, "eval": true, "arguments": true, "__proto__": true}

// name counts the word at token i if it stands where a name may be declared, and stood at such a place before.
func (d *depth) name(i int) {
	s := d.t.text(i)
	reserved := s == "let" && i+1 < len(d.t.list) && d.t.list[i+1].kind == punct || s == "interface" && !(i+1 < len(d.t.list) && d.t.list[i+1].kind == word)
	if sloppyWords[s] || reserved {
		d.again++
		return
	}
	if s[0] != '#' {
		switch {
		case i == 0, d.t.is(i+1, ":"), s == "true", s == "false", s == "null", s == "undefined":
			return
		case d.t.list[i-1].kind == open, d.t.is(i-1, ","), d.t.is(i-1, ":"), d.t.is(i-1, "..."), declarators[d.t.text(i-1)]:
		default:
			return
		}
	}
	if d.seen[s] {
		d.again++
	}
	d.seen[s] = true
}

var declarators = map[string]bool{"const": true, "let": true, "var": true, "class": true, "function": true, "enum": true,
	"import": true, "as": true, "namespace": true, "*": true}

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
