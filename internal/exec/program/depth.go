package program

import "github.com/biplane-dev/biplane/internal/base/lazily"

// A tally holds the counts that tooDeep bounds. Those of a level are subtracted when the level
// ends.
type tally struct {
	n      int // tokens since the last certain end of an expression
	twice  int // places that are parsed twice
	arrows int // arrow functions
}

func (t *tally) add(o tally, sign int) {
	t.n += sign * o.n
	t.twice += sign * o.twice
	t.arrows += sign * o.arrows
}

// A level is an open bracket and its counts since the last end of an expression.
type level struct {
	tally
	commas   int  // commas that may be sequence operators
	chosen   int  // progress in `? ... ) :`: 1 after ?, 2 after ) :
	declares bool // after const, let or var
	list     bool // commas separate elements or arguments
	brace    bool
	names    bool // names are declared here: parameters, or a pattern
}

// A depth walks over the tokens of a text and counts.
type depth struct {
	t      *tokens
	stack  []level
	base   level
	tally  // of all open levels
	effort int
	seen   map[string]bool // names at places where names are declared
	again  int             // number of names that were declared before
}

func (d *depth) top() *level {
	if len(d.stack) == 0 {
		return &d.base
	}
	return &d.stack[len(d.stack)-1]
}

// step counts token i.
func (d *depth) step(i int) {
	tok := &d.t.list[i]
	if tok.kind == shut || tok.kind == between {
		if n := len(d.stack); n > 0 {
			d.add(d.stack[n-1].tally, -1)
			d.stack = d.stack[:n-1]
		}
		if tok.kind == shut {
			return
		}
	}
	l := d.top()
	if d.ends(i) {
		d.add(l.tally, -1)
		*l = level{list: l.list, brace: l.brace, names: l.names}
	}
	one := tally{n: 1}
	switch {
	case tok.kind == between: // the parts of a template are a list
		one.n = 0
	case d.t.is(i, ",") && !l.list:
		l.commas++
	case d.t.is(i, "?"):
		l.chosen = max(l.chosen, 1)
	case d.t.is(i, ":") && l.chosen > 0 && d.t.is(i-1, ")"):
		l.chosen = 2
	case d.t.is(i, "infer"):
		one.twice = 1
	case d.t.is(i, "=>"):
		one.arrows = 1
		if l.chosen == 2 {
			one.twice = 1
		}
	}
	l.add(one, 1)
	d.add(one, 1)
	if d.declaredAgain(i, l) {
		d.again++
	}
	if tok.kind == open || tok.kind == between {
		d.stack = append(d.stack, d.levelAt(i))
	}
}

// levelAt returns the level that token i opens.
func (d *depth) levelAt(i int) level {
	t := d.t
	c := t.s[t.list[i].start]
	called := i > 0 && t.list[i-1].operand && !t.is(i-1, "let")
	l := level{list: c == '(' && called || c == '[' && !called, brace: c == '{'}
	if t.list[i].kind == between || c == '`' {
		return l
	}
	next := t.after(i) // after the matching bracket
	switch {
	case c == '(':
		l.names = (t.is(next, "{") || t.is(next, "=>") || t.is(next, ":")) && !headerWords.Has(t.text(i-1)) &&
			!t.is(i-1, "catch")
	case declarators.Has(t.text(i - 1)), t.is(next, "="), t.is(next, "of"), t.is(next, "in"):
		l.names = true
	case t.is(next, ","), t.is(next, ":"), next < len(t.list) && t.list[next].kind == shut:
		l.names = d.top().names || d.top().declares
	}
	return l
}

// declarators are the words before a declared name.
var declarators = lazily.Words(`const let var class function enum import export as namespace *`)

// sloppyWords are words that strict code can't use everywhere. The compiler may scan the whole text
// for each use.
var sloppyWords = lazily.Words(`
	with delete implements package private protected public static eval arguments __proto__`)

// declaredAgain reports whether token i is a name at a place of declaration that was at such a
// place before. It also reports other tokens for which the compiler may scan the whole text.
func (d *depth) declaredAgain(i int, l *level) bool {
	t := d.t
	tok, s := &t.list[i], t.text(i)
	switch {
	case tok.kind == number:
		return len(s) > 1 && s[0] == '0' && isDigit(s[1])
	case tok.kind == str:
		return octal(s)
	case tok.kind != word:
		return false
	case sloppyWords.Has(s):
		return true
	case s == "let":
		l.declares = true
		return i+1 < len(t.list) && t.list[i+1].kind == punct
	case s == "interface":
		return i+1 >= len(t.list) || t.list[i+1].kind != word
	case s == "const", s == "var":
		l.declares = true
		return false
	}
	first := i > 0 && (t.list[i-1].kind == open || t.is(i-1, ",") || t.is(i-1, ":") || t.is(i-1, "..."))
	if s[0] != '#' && !(i > 0 && declarators.Has(t.text(i-1))) &&
		!(first && (l.names || l.declares) && !t.is(i+1, ":")) {
		return false
	}
	before := d.seen[s]
	d.seen[s] = true
	return before
}

// octal reports whether a string contains an escape that is invalid in strict code.
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

// ends reports whether an expression or a statement certainly ended before token i.
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
	case prev.kind == shut && t.is(i-1, "}") && tok.kind == word && !infixWords.Has(t.text(i)):
		return true // a block and the next statement, or a member and the next
	}
	starts := tok.kind == word && !infixWords.Has(t.text(i)) || tok.kind == str || tok.kind == number
	return tok.nl && prev.operand && starts // the line ends the statement
}

// infixWords continue an expression.
var infixWords = lazily.Words(`instanceof in of as satisfies extends is from`)
