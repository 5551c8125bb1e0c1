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
	maxAgain  = 2e8       // number of redeclared names, times the bytes of the program
	maxComma  = 200       // commas of one expression outside calls and literals
	maxTwice  = 8         // nesting of syntax that the compiler parses twice
	maxArrow  = 64        // nesting of arrow functions
	maxImport = 200       // import statements
)

// checkSize returns an error if a source is too large or not UTF-8.
func checkSize(source string) *Error {
	if len(source) > maxSource {
		return &Error{Kind: "limit",
			Message: fmt.Sprintf("the program is too large: %d bytes, and at most %d are allowed; "+
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

// tooDeep returns where a program nests too deep to be parsed. Parsers and the walks over their
// trees recurse, and exhausting a goroutine's stack ends the whole process. So this is checked
// before anything is parsed.
//
// A parser recurses at a bracket, or at a token inside an expression: "!!!!x", "a.b.c.d",
// "a=>b=>c". So the depth of a token is the number of tokens since the last certain end of an
// expression, summed over all open brackets. Lists of arguments and elements end at each comma,
// however long they are. Sequences (a, b, c) do not, and have their own bound.
//
// The other bounds keep the compiler's time within seconds. It needs up to cubic time for nested
// scopes. It parses `a ? (b) : c => d` and `infer A extends B` twice, which costs 2^n times as much
// for n nested ones. It scans the whole text for each name that is declared again.
func tooDeep(t *tokens) *problem {
	d := depth{t: t, seen: make(map[string]bool, 64)}
	for i := range t.list {
		d.step(i)
		d.effort += d.n * d.n
		switch {
		case d.n > maxNest, d.twice > maxTwice, d.arrows > maxArrow, d.top().commas > maxComma, d.effort > maxEffort:
			return &problem{at: t.list[i].start, kind: "limit",
				message: "the program nests too deep here, or has too long an expression: " +
					"split it up into statements, or read data through a tool or a file"}
		case d.again*len(t.s) > maxAgain:
			return &problem{at: t.list[i].start, kind: "limit",
				message: "the program is too large for how often it repeats its names: " +
					"make it smaller, or read data through a tool or a file"}
		}
	}
	return nil
}
