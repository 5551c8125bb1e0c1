package program

import (
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

// In a session, the top-level declarations of a program outlive it. Each name becomes a property of
// the global object, and its declaration becomes an assignment in the same place. So the closures
// of all programs share one variable, and the name can be declared again. Functions are assigned
// first, because they are hoisted. A `var` that is never reached exists and is undefined.
//
// As a result, a name used before its let or const is undefined or has the value of an earlier
// program. Constants can be assigned to.

// protected are names that are never kept. A program's declarations of them are local, so that
// later programs can still reach the tools.
var protected = lazily.Words(
	`tools callTool globalThis undefined NaN Infinity arguments eval __proto__ __import __module`,
	defaultName, valueName)

// A keeper rewrites the top-level declarations of compiled code.
type keeper struct {
	reader
	own    map[string]bool // names in the agent's text; names made up by the compiler are not kept
	names  map[string]bool // kept names
	vars   []string        // the subset of names declared by var: they exist from the start
	locals []string        // names that are not kept but declared together with kept ones
	moved  []stmt          // functions to assign first
	note   string          // about a name that is not kept
	edits  []edit
}

func newKeeper(r reader, code *tokens) *keeper {
	k := &keeper{reader: r, own: map[string]bool{}, names: map[string]bool{}}
	for i := range code.list {
		if code.list[i].kind == word {
			k.own[plainName(code.text(i))] = true
		}
	}
	return k
}

// keepable reports whether a declared name can be kept.
func (k *keeper) keepable(name string) bool {
	name = plainName(name)
	if name == "tools" || name == "callTool" {
		k.note = name + " is kept only for this program: later programs of the session find the tools under this " +
			"name. Use another name"
	}
	return k.own[name] && !protected.Has(name)
}

// recordName records a name.
func (k *keeper) recordName(name string) { k.names[plainName(name)] = true }

// plainName returns a name without escapes. The compiler escapes all letters that are not ASCII.
func plainName(name string) string {
	if !strings.Contains(name, `\u`) {
		return name
	}
	return escaped.Get().ReplaceAllStringFunc(name, func(s string) string {
		n, err := strconv.ParseUint(strings.Trim(s[2:], "{}"), 16, 32)
		if err != nil {
			return s
		}
		return string(rune(n))
	})
}

var escaped = lazily.Regexp(`\\u(?:\{[0-9a-fA-F]{1,6}\}|[0-9a-fA-F]{4})`)

// statements rewrites the top-level statements of a program.
func (k *keeper) statements(body []stmt) {
	directives := true
	for _, s := range body {
		if directives = directives && s.form == expression && k.list[s.lo].kind == str; directives {
			// strict code can't create names by assigning to them
			if t := k.text(s.lo); t == `"use strict"` || t == "'use strict'" {
				// then it isn't a directive
				k.edits = append(k.edits, edit{k.list[s.lo].start, k.list[s.lo].start, ";"})
			}
			continue
		}
		switch {
		case s.form == function:
			k.function(s)
		case s.form == class:
			if name := k.text(s.lo + 1); k.keepable(name) {
				k.recordName(name)
				from, to := k.list[s.lo].start, k.list[s.hi-1].end
				k.edits = append(k.edits, edit{from, from, name + " = "}, edit{to, to, ";"})
			}
		case s.form == other && (k.is(s.lo, "const") || k.is(s.lo, "let") || k.is(s.lo, "var")):
			k.declaration(s.lo, s.hi, false)
		case s.form == try && k.disposes(s):
			k.statements(k.reader.statements(s.parts[0][0], s.parts[0][1]))
		case s.form != expression && s.form != empty:
			k.inner(s.lo, s.hi)
		}
	}
}

// disposes reports whether a statement is the one in which the compiler puts everything declared
// beside a `using`.
func (k *keeper) disposes(s stmt) bool {
	last := s.hi - 1
	if !k.is(last, "}") || k.list[last].match < 0 || !k.is(int(k.list[last].match)-1, "finally") {
		return false
	}
	for i := int(k.list[last].match) + 1; i < last && !k.is(i, ";"); i++ {
		if k.is(i, "__callDispose") {
			return !k.own["__callDispose"]
		}
	}
	return false
}

// nameOf returns the token of a function's name.
func (k *keeper) nameOf(s stmt) int {
	i := s.lo + 1
	if k.is(s.lo, "async") {
		i++
	}
	if k.is(i, "*") {
		i++
	}
	return i
}

// function moves a function to the start. If several have the same name, the last one wins.
func (k *keeper) function(s stmt) {
	name := k.text(k.nameOf(s))
	if !k.keepable(name) {
		return
	}
	k.recordName(name)
	k.moved = append(k.moved, s)
	k.edits = append(k.edits, edit{k.list[s.lo].start, k.list[s.hi-1].end, ""})
}

// functions writes the moved functions as assignments. edits are the edits inside them.
func (k *keeper) functions(b *textBuilder, edits []edit) {
	for _, s := range k.moved {
		n := &k.list[k.nameOf(s)]
		from, to := k.list[s.lo].start, k.list[s.hi-1].end
		b.add(k.s[n.start:n.end]+" = ", from)
		inside := []edit{{n.start, n.end, ""}}
		for _, e := range edits {
			if e.from > n.end && e.to < to {
				inside = append(inside, e)
			}
		}
		b.apply(from, to, inside)
		b.add(";\n", to)
	}
}

// inner handles the var declarations inside a statement, except inside nested functions.
func (k *keeper) inner(lo, hi int) {
	for i := lo; i < hi; i++ {
		switch {
		case k.is(i, "{") && k.opensFunction(i):
			i = k.after(i) - 1
		case k.is(i, "var") && k.list[i].kind == word && !k.is(i-1, ".") && i+1 < hi &&
			(k.list[i+1].kind == word || k.is(i+1, "[") || k.is(i+1, "{")):
			header := k.is(i-1, "(") && (k.is(i-2, "for") || k.is(i-2, "await"))
			k.declaration(i, hi, header)
		}
	}
}

// opensFunction reports whether the { at token i opens the body of a function or a static block.
func (k *keeper) opensFunction(i int) bool {
	if k.is(i-1, "=>") || k.is(i-1, "static") {
		return true
	}
	if !k.is(i-1, ")") || k.list[i-1].match < 1 {
		return false
	}
	at := int(k.list[i-1].match) - 1
	head := k.text(at)
	return k.is(at-1, ".") || !(headerWords.Has(head) || head == "catch" || head == "await" && k.is(at-1, "for"))
}

// declaration rewrites the declaration at token i, which is a statement or in the header of a for.
func (k *keeper) declaration(i, hi int, header bool) {
	d := k.declarators(i+1, hi, header)
	kept := 0
	for _, n := range d.names {
		if k.keepable(n) {
			kept++
		}
	}
	if kept == 0 {
		return
	}
	for _, n := range d.names {
		if !k.keepable(n) {
			k.locals = append(k.locals, n)
			continue
		}
		if k.is(i, "var") && !k.names[plainName(n)] {
			k.vars = append(k.vars, n)
		}
		k.recordName(n)
	}
	word := edit{k.list[i].start, k.list[i+1].start, ""}
	if k.is(i+1, "{") && !header {
		word.put = "("
		end := k.list[d.end-1].end
		k.edits = append(k.edits, edit{end, end, ")"})
	}
	if header && k.is(i+1, "async") && k.is(i+2, "of") { // for (async of ...) is not a valid loop
		word.put = "("
		k.edits = append(k.edits, edit{k.list[i+1].end, k.list[i+1].end, ")"})
	}
	k.edits = append(k.edits, word)
	if !k.is(i, "var") {
		for _, n := range d.bare {
			k.edits = append(k.edits, edit{k.list[n].end, k.list[n].end, " = void 0"})
		}
	}
}

// binds describes the declarators after const, let or var.
type binds struct {
	names []string
	bare  []int // tokens of names without a value
	end   int   // the token after them
}

func (k *keeper) declarators(i, hi int, header bool) (d binds) {
	for i < hi {
		d.names = k.target(d.names, i)
		first := i
		i = k.skip(i)
		if header && (k.is(i, "of") || k.is(i, "in")) {
			break
		}
		if !k.is(i, "=") && k.list[first].kind == word {
			d.bare = append(d.bare, first)
		}
		if i = k.comma(i, hi); !k.is(i, ",") {
			break
		}
		i++
	}
	d.end = min(i, hi)
	return d
}

// comma returns the next ',' or ';' outside brackets, or the end.
func (k *keeper) comma(i, hi int) int {
	for i < hi && !k.is(i, ",") && !k.is(i, ";") {
		if k.list[i].kind == shut {
			return i
		}
		i = k.skip(i)
	}
	return i
}

// target appends the names that the binding target at token i declares.
func (k *keeper) target(names []string, i int) []string {
	switch {
	case k.is(i, "["), k.is(i, "{"):
	case k.list[i].kind == word:
		return append(names, k.text(i))
	default:
		return names
	}
	in := k.inside(i)
	for at := in[0]; at < in[1]; at++ {
		switch {
		case k.is(at, ","): // a hole
			continue
		case k.is(at, "..."):
			names = k.target(names, at+1)
		case k.is(i, "["):
			names = k.target(names, at)
		default:
			key := at
			if at = k.skip(at); k.is(at, ":") {
				names = k.target(names, at+1)
			} else if k.list[key].kind == word {
				names = append(names, k.text(key))
			}
		}
		at = k.comma(at, in[1])
	}
	return names
}

// head writes the start of the body of the program.
func (k *keeper) head(b *textBuilder, code *tokens) {
	for _, n := range k.vars {
		if declaresAnew(code, n) {
			b.add(n+" = void 0;\n", -1)
			continue
		}
		b.add("typeof "+n+" == \"undefined\" && ("+n+" = void 0);\n", -1)
	}
	if len(k.locals) > 0 {
		slices.Sort(k.locals)
		b.add("var "+strings.Join(slices.Compact(k.locals), ", ")+";\n", -1)
	}
}

// declaresAnew reports whether name names an enum or a namespace, which the compiler turns
// into a var.
func declaresAnew(code *tokens, name string) bool {
	for i := range code.list {
		if code.list[i].kind == word && plainName(code.text(i)) == plainName(name) &&
			(code.is(i-1, "enum") || code.is(i-1, "namespace") || code.is(i-1, "module")) {
			return true
		}
	}
	return false
}

// declaredNames returns the names that a program leaves to later ones: those it declares, and those
// it assigns without declaring them.
func (k *keeper) declaredNames() []string {
	assigned, dynamic := assignments(k.tokens)
	for n := range assigned {
		if k.own[plainName(n)] {
			k.recordName(n)
		}
	}
	if dynamic || k.own["globalThis"] || k.own["eval"] || k.own["Function"] {
		k.recordName(check.Anything)
	}
	out := make([]string, 0, len(k.names))
	for n := range k.names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
