package program

import (
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// The compiler computes what is constant, like -1, !0, typeof "a" or "a" + "b", and then leaves statements out that
// are nothing but such a value, as NaN and Infinity. A program that ends in one means it as its value.

// constantWords are the names and operators that are constant, or that make a constant of one.
var constantWords = map[string]bool{
	"true": true, "false": true, "null": true, "undefined": true, "NaN": true, "Infinity": true, "typeof": true, "void": true,
}

// lastConstant gives the index of the token at which the last statement of a program begins, if that is a constant
// that the compiler leaves out; else -1.
func lastConstant(t *tokens) int {
	end := len(t.list)
	for end > 0 && t.is(end-1, ";") {
		end--
	}
	at := constantStart(t, end)
	if endsInUndefined(t) || at < 0 || at >= end || end-at == 1 && t.list[at].kind != word || isArithmetic(t, at, end) {
		return -1
	}
	r := compile(t.s[t.list[at].start:t.list[end-1].end], mode{loader: api.LoaderJS})
	if len(r.Errors) > 0 || strings.TrimSpace(string(r.Code)) != "" {
		return -1
	}
	return at
}

// isArithmetic says whether tokens are numbers with the five operators of arithmetic between them, which the compiler doesn't
// compute.
func isArithmetic(t *tokens, lo, hi int) bool {
	for i := lo; i < hi; i++ {
		switch op := t.text(i); {
		case (i-lo)%2 == 0 && t.list[i].kind != number, (i-lo)%2 == 1 && (len(op) != 1 || !strings.Contains("+-*/%", op)):
			return false
		}
	}
	return (hi-lo)%2 == 1
}

// constantStart gives the token at which the last statement before token end begins, if nothing but constants and
// operators stand in it; else -1.
func constantStart(t *tokens, end int) int {
	i := end
	for i > 0 {
		k := i - 1
		if t.is(k, ")") && t.list[k].match >= 0 && allConstant(t, int(t.list[k].match)+1, k) {
			k = int(t.list[k].match)
		} else if !isConstant(t, k) {
			break
		}
		i = k
		if t.list[i].nl && i > 0 && t.list[i-1].operand && beginsStatement(t, i) {
			return i
		}
	}
	if i == 0 || i < end && t.is(i-1, ";") || i < end && t.is(i-1, "}") && beginsStatement(t, i) {
		return i
	}
	return -1
}

func allConstant(t *tokens, lo, hi int) bool {
	for i := lo; i < hi; i++ {
		if !t.is(i, "(") && !t.is(i, ")") && !isConstant(t, i) {
			return false
		}
	}
	return true
}

func isConstant(t *tokens, i int) bool {
	switch t.list[i].kind {
	case number, str:
		return true
	case word:
		return constantWords[t.text(i)]
	case punct:
		return !strings.ContainsAny(t.text(i), ";.@#") && (!strings.HasSuffix(t.text(i), "=") || isComparison(t.text(i))) &&
			t.text(i) != "=>" && t.text(i) != "++" && t.text(i) != "--"
	}
	return false
}

func isComparison(op string) bool {
	switch op {
	case "==", "===", "!=", "!==", "<=", ">=":
		return true
	}
	return false
}

// beginsStatement says whether token i can't go on with the expression that the token before it ends: then a statement
// begins with it. What stands behind the head of an if or a loop is a statement inside another one.
func beginsStatement(t *tokens, i int) bool {
	switch t.list[i].kind {
	case punct:
		if !t.is(i, "!") && !t.is(i, "~") {
			return false
		}
	case number, word:
	case str:
		if t.s[t.list[i].start] == '`' {
			return false
		}
	default:
		return false
	}
	if t.is(i-1, ")") && t.list[i-1].match > 0 {
		switch t.text(int(t.list[i-1].match) - 1) {
		case "if", "while", "for", "with", "await":
			return false
		}
	}
	return true
}

// constant makes the input in which the constant at token i is kept.
func (m *module) constant(t *tokens, i int) *text {
	with := *m
	from := t.list[i].start
	with.edits = append(append([]edit(nil), m.edits...), edit{from, from, ";0,"})
	return with.input(t, false)
}
