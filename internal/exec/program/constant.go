package program

import (
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// The compiler folds constants like -1, !0, typeof "a" or "a" + "b". It then omits statements that
// are only such a value, and NaN or Infinity. The value of a program that ends in one is that
// constant.

// constantWords are names and operators that are constant, or keep their operand constant.
var constantWords = lazily.Words(`true false null undefined NaN Infinity typeof void`)

// lastConstant returns the index of the first token of a program's last statement, if that is a
// constant that the compiler omits, or -1.
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

// isArithmetic reports whether tokens are numbers separated by the five arithmetic operators, which
// the compiler doesn't fold.
func isArithmetic(t *tokens, lo, hi int) bool {
	for i := lo; i < hi; i++ {
		switch op := t.text(i); {
		case (i-lo)%2 == 0 && t.list[i].kind != number, (i-lo)%2 == 1 &&
			(len(op) != 1 || !strings.Contains("+-*/%", op)):
			return false
		}
	}
	return (hi-lo)%2 == 1
}

// constantStart returns the first token of the last statement before token end, if it consists only
// of constants and operators, or -1.
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
		return constantWords.Has(t.text(i))
	case punct:
		return !strings.ContainsAny(t.text(i), ";.@#") &&
			(!strings.HasSuffix(t.text(i), "=") || isComparison(t.text(i))) &&
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

// beginsStatement reports whether token i can't continue the expression that ends before it, so
// that a statement starts. It is false after the head of an if or a loop, where a nested statement
// starts.
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

// constant returns the input with the constant at token i kept.
func (m *module) constant(t *tokens, i int) *text {
	with := *m
	from := t.list[i].start
	with.edits = append(append([]edit(nil), m.edits...), edit{from, from, ";0,"})
	return with.input(t, false)
}
