package program

import (
	"fmt"
	"strings"
)

// callText calls its argument if that is a function and not a class, and returns its value. A
// function with a parameter receives the tools, as such functions expect: async ({ github }) => {
// ... }.
const callText = `((f) => typeof f !== "function" || f.toString().startsWith("class") ? f : f.length > 0 ? ` +
	`f(globalThis.tools) : f())`

const valueName = "__value"

// A valuer determines the value of a program and adds code for it: a `return` before the last
// expressions, or after all statements. The order of precedence is: a `return` that is reached; the
// default export, called; main() or run(), called; the last expression. Functions that the program
// calls itself are not called again.
type valuer struct {
	reader
	body  []stmt
	def   string // name of the default export
	edits []edit
	tail  string // code after the last statement
	note  string // why there is no value
	saved bool   // the value is saved in a variable until the end
	none  bool   // the last expression is undefined
	kept  bool   // later programs use the declarations, so the program need not have a value
}

// value sets edits and tail.
func (v *valuer) value() {
	if v.def != "" && v.callable(v.def) {
		v.tail = "return await " + callText + "(" + v.def + ");\n"
		return
	}
	for _, name := range [...]string{"main", "run"} {
		if f, ok := v.findDeclaration(name); ok && f.isFunction && !v.used(name, f.stmt) {
			v.tail = "return await " + callText + "(" + name + ");\n"
			return
		}
	}
	if v.none {
		return
	}
	if last := v.lastYield(); last >= 0 {
		v.yield(v.body[last], v.laterRuns(last))
		if v.saved {
			v.tail = "return await " + valueName + ";\n"
		}
		return
	}
	if v.kept {
		v.note = ""
		return
	}
	if v.lonely(); v.tail == "" && !v.says() {
		v.declares()
	}
}

// says reports whether the program calls the runtime's function text, whose argument is its value.
func (v *valuer) says() bool {
	if _, own := v.findDeclaration("text"); own {
		return false
	}
	for i := range v.list {
		if v.list[i].kind == word && v.text(i) == "text" && v.is(i+1, "(") && !v.is(i-1, ".") && !v.is(i-1, "?.") {
			return true
		}
	}
	return false
}

// declares makes the variables declared by the last statement the value: one as it is, several as
// an object.
func (v *valuer) declares() {
	for i := len(v.body) - 1; i >= 0; i-- {
		s := v.body[i]
		if s.form == function || s.form == class || s.form == empty {
			continue
		}
		if s.form != other || !v.is(s.lo, "const") && !v.is(s.lo, "let") && !v.is(s.lo, "var") {
			return
		}
		k := &keeper{reader: v.reader}
		d := k.declarators(s.lo+1, s.hi, false)
		if _, first := v.declaration(s); len(d.names) == 0 || len(d.bare) > 0 || first.isFunction {
			return
		}
		value := d.names[0]
		if len(d.names) > 1 || v.list[s.lo+1].kind != word {
			value = "{ " + strings.Join(d.names, ", ") + " }"
		}
		v.tail = "return await (" + value + ");\n"
		v.note = fmt.Sprintf("the last statement is a declaration, so the value of %s is returned. End with `return "+
			"%[1]s` to make this explicit", plainName(value))
		return
	}
}

// callable reports whether the default export must still be called.
func (v *valuer) callable(name string) bool {
	f, ok := v.findDeclaration(name)
	return !ok || !v.used(name, f.stmt)
}

// A declaration is a top-level declaration of a name.
type declaration struct {
	stmt       stmt
	isFunction bool
	params     bool // the function has parameters
}

// findDeclaration finds the statement of the body that declares name as a function, a class or a
// single variable.
func (v *valuer) findDeclaration(name string) (declaration, bool) {
	for _, s := range v.body {
		if n, d := v.declaration(s); n == name {
			return d, true
		}
	}
	return declaration{}, false
}

func (v *valuer) declaration(s stmt) (string, declaration) {
	d := declaration{stmt: s}
	k := s.lo
	switch {
	case s.form == function:
		d.isFunction = true
		if v.is(k, "async") {
			k++
		}
		if k++; v.is(k, "*") {
			k++
		}
		d.params = v.is(k+1, "(") && !v.is(k+2, ")")
		return v.text(k), d
	case s.form == class:
		return v.text(k + 1), d
	case v.is(k, "const"), v.is(k, "let"), v.is(k, "var"):
		if v.is(k+2, "=") {
			d.isFunction, d.params = v.isFunction(k+3, s.hi)
		}
		return v.text(k + 1), d
	}
	return "", d
}

// isFunction reports whether the expression [lo, hi) is a function or an arrow function, and
// whether it has parameters.
func (v *valuer) isFunction(lo, hi int) (ok, params bool) {
	if v.is(hi-1, ";") {
		hi--
	}
	for lo < hi && v.is(lo, "(") && v.after(lo) == hi {
		lo, hi = lo+1, hi-1
	}
	if v.is(lo, "async") && lo+1 < hi && (v.list[lo+1].kind == word || v.is(lo+1, "(") && v.is(v.after(lo+1), "=>")) {
		lo++
	}
	switch {
	case lo >= hi:
		return false, false
	case v.is(lo, "function"):
		k := lo + 1
		for k < hi && !v.is(k, "(") {
			k++
		}
		return k < hi && v.functionEnd(lo) >= hi, !v.is(k+1, ")")
	case v.is(lo, "("):
		return v.is(v.after(lo), "=>") && !v.comma(lo, hi), !v.is(lo+1, ")")
	}
	return v.list[lo].kind == word && v.is(lo+1, "=>") && !v.comma(lo, hi), true
}

// comma reports whether there is a ',' in [lo, hi) outside brackets.
func (v *valuer) comma(lo, hi int) bool {
	for i := lo; i < hi; i++ {
		if v.list[i].kind == open {
			i = v.after(i) - 1
		} else if v.is(i, ",") {
			return true
		}
	}
	return false
}

// used reports whether the program mentions a name outside the statement that declares it. In that
// case the program calls it itself, or passes it to a caller.
func (v *valuer) used(name string, decl stmt) bool {
	for i := v.body[0].lo; i < v.body[len(v.body)-1].hi; i++ {
		if i >= decl.lo && i < decl.hi || v.list[i].kind != word || v.text(i) != name {
			continue
		}
		if !v.is(i-1, ".") && !v.is(i-1, "?.") && !(v.is(i+1, ":") && (v.is(i-1, "{") || v.is(i-1, ","))) {
			return true
		}
	}
	return false
}

// lastYield returns the index of the statement with the last expressions, or -1. Only declarations
// of functions and classes may follow it.
func (v *valuer) lastYield() int {
	for i := len(v.body) - 1; i >= 0; i-- {
		switch s := v.body[i]; s.form {
		case function, class, empty:
		case other:
			v.note = v.noteOn(s)
			return -1
		default:
			return i
		}
	}
	return -1
}

// noteOn explains why a program that ends in s has no value.
func (v *valuer) noteOn(s stmt) string {
	if name, _ := v.declaration(s); name != "" && v.list[s.lo+1].kind == word {
		name = plainName(name)
		return fmt.Sprintf("the last statement declares %s, but nothing returns it: end the program with `return %s`",
			name, name)
	}
	return ""
}

// laterRuns reports whether statements after the body's i-th must still run.
func (v *valuer) laterRuns(i int) bool {
	for _, s := range v.body[i+1:] {
		if s.form != function && s.form != empty {
			return true
		}
	}
	return false
}

// yield makes the last expressions of s the program's value: by returning it, or by saving it if
// more statements must run.
func (v *valuer) yield(s stmt, save bool) {
	switch s.form {
	case expression:
		v.yieldExpression(s, save)
	case braces, try:
		for _, p := range s.parts {
			v.yieldLast(v.statements(p[0], p[1]), save)
		}
	case branch, labeled:
		for _, p := range s.parts {
			v.yieldLast(v.statements(p[0], p[1]), save)
		}
	case choice:
		v.yieldCases(s, save)
	}
}

// yieldLast yields the last statement that can have a value.
func (v *valuer) yieldLast(list []stmt, save bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if f := list[i].form; f == function || f == empty {
			continue
		}
		v.yield(list[i], save)
		return
	}
}

// yieldCases yields the last expression of each case of a switch.
func (v *valuer) yieldCases(s stmt, save bool) {
	lo, hi := s.parts[0][0], s.parts[0][1]
	for lo < hi {
		for lo < hi && !v.is(lo, ":") { // case E:, default:
			if lo = max(v.skip(lo), lo+1); lo < hi && v.is(lo, "?") {
				return // a conditional has its own ':'
			}
		}
		var list []stmt
		for lo++; lo < hi && !v.is(lo, "case") && !v.is(lo, "default"); {
			st := v.statement(lo, hi)
			list, lo = append(list, st), st.hi
		}
		if n := len(list); n == 1 && list[0].form == braces {
			list = v.statements(list[0].parts[0][0], list[0].parts[0][1])
		}
		if n := len(list); n > 0 && v.is(list[n-1].lo, "break") && v.is(list[n-1].lo+1, ";") {
			v.yieldLast(list[:n-1], save)
		} else if lo >= hi {
			v.yieldLast(list, save)
		}
	}
}

func (v *valuer) yieldExpression(s stmt, save bool) {
	lo, hi := s.lo, s.hi
	if v.is(hi-1, ";") {
		hi--
	}
	if hi <= lo {
		return
	}
	start, end := v.list[lo].start, v.list[hi-1].end
	before, after := "return await (", ")"
	if save {
		before, v.saved = valueName+" = (", true
	}
	if v.is(lo, "void") && v.isCall(lo+1, hi) { // void main()
		v.edits = append(v.edits, edit{start, v.list[lo].end, before}, edit{end, end, after})
		return
	}
	if v.isCalled(lo, hi) {
		before, after = before+callText+"(", "))"
	}
	v.edits = append(v.edits, edit{start, start, before}, edit{end, end, after})
}

// isCall reports whether [lo, hi) is a chain of names and calls.
func (v *valuer) isCall(lo, hi int) bool {
	for i := lo; i < hi; {
		switch {
		case v.is(i, "("):
			i = v.after(i)
		case v.list[i].kind == word && !operatorWords.Has(v.text(i)), v.is(i, "."), v.is(i, "?."):
			i++
		default:
			return false
		}
	}
	return v.is(hi-1, ")")
}

// isCalled reports whether a last expression is a function meant to be called: it is defined there,
// it is named there and declared in the program, or it is assigned to module.exports.
func (v *valuer) isCalled(lo, hi int) bool {
	if ok, _ := v.isFunction(lo, hi); ok {
		return true
	}
	if v.is(lo, "module") && v.is(lo+1, ".") && v.is(lo+2, "exports") && v.is(lo+3, "=") ||
		v.is(lo, "exports") && v.is(lo+1, ".") && v.is(lo+3, "=") {
		return true
	}
	if hi == lo+1 && v.list[lo].kind == word {
		d, ok := v.findDeclaration(v.text(lo))
		return ok && d.isFunction
	}
	return false
}

// lonely calls the function at the end of a program of declarations, if it is not called elsewhere
// and has no parameters.
func (v *valuer) lonely() {
	if len(v.body) == 0 {
		return
	}
	for _, s := range v.body {
		if s.form != function && s.form != class && s.form != empty && !v.is(s.lo, "const") && !v.is(s.lo, "let") &&
			!v.is(s.lo, "var") {
			return
		}
	}
	name, d := v.declaration(v.body[len(v.body)-1])
	switch {
	case name == "" || !d.isFunction || v.used(name, d.stmt):
	case d.params:
		v.note = fmt.Sprintf("the program declares the function %s, but nothing calls it: end the program with a call",
			name)
	default:
		v.tail, v.note = "return await "+name+"();\n", ""
	}
}
