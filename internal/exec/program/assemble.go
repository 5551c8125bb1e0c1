package program

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// assembly holds the results of assemble other than the code.
type assembly struct {
	specifiers []string
	imports    []imported
	dynamic    bool // it imports modules that are only known at run time
	note       string
	keeper     *keeper  // keeps the declarations and imports for later programs
	session    *steps   // the program for a session, which keeps its declarations
	declared   []string // names that are kept
}

// An imported is a module named in an import statement.
type imported struct {
	specifier string
	names     []binding // names in braces
	def       bool      // its default export is imported
	at        int       // offset in the compiled code
}

// A mode selects how to read a source.
type mode struct {
	loader  api.Loader
	session bool
}

// assemble returns the final code of a source: unchanged if it compiles, otherwise after repairing
// common damage. If no repair helps, it returns the error of the first attempt.
func assemble(source string, how mode) (*steps, *assembly, *Error) {
	code, e := unwrap(source, false)
	if e != nil {
		return nil, nil, e
	}
	if strings.TrimSpace(code.s) == "" {
		if code, e = unwrap(source, true); e != nil {
			return nil, nil, e
		}
	}
	if strings.TrimSpace(code.s) == "" {
		return nil, nil, &Error{Kind: "empty", Message: "the program is empty: send the code to run"}
	}
	s, m, p := attempt(source, code, how)
	if p == nil {
		return s, m, nil
	}
	if p.kind == "" {
		for _, fixed := range repairs(source, code) {
			if s, m, again := attempt(source, fixed, how); again == nil {
				return s, m, nil
			}
		}
		if how.loader == api.LoaderJS {
			if s, m, again := attempt(source, code, mode{api.LoaderTS, how.session}); again == nil {
				return s, m, nil
			}
		}
	}
	return nil, nil, p.error(source, code)
}

// error returns the problem as an Error with positions in the agent's text.
func (p *problem) error(source string, code *text) *Error {
	e := &Error{Kind: p.kind, Message: p.message}
	if e.Kind == "" {
		e.Kind = "syntax"
	}
	if p.at >= 0 {
		at, _ := code.origin(p.at)
		if p.at >= len(code.s) {
			at = lastChar(source, code)
		}
		lines := newLineTable(source, plainLines)
		e.Line, e.Column = lines.position(at)
		if p.also > 0 {
			at, _ := code.origin(p.also)
			line, _ := lines.position(at)
			e.Message += fmt.Sprintf(", on line %d", line)
		}
	}
	return e
}

// lastChar returns the offset after the last non-space character of the program.
func lastChar(source string, code *text) int {
	n := len(strings.TrimRight(code.s, " \t\r\n"))
	if n == 0 {
		return 0
	}
	at, _ := code.origin(n - 1)
	return min(at+1, len(source))
}

// A variant is one way to read a program. in is the text for the compiler. If bare is set, the
// program is not wrapped in a function.
type variant struct {
	in   *text
	bare bool
}

// attempt returns the final code of the first way to read code that compiles. If none does, the
// error is that of the way that got furthest.
func attempt(source string, code *text, how mode) (*steps, *assembly, *problem) {
	t := scan(code.s)
	if p := tooDeep(t); p != nil {
		return nil, nil, p
	}
	mod := readModule(t)
	if n := len(mod.imports); n > maxImport {
		return nil, nil, &problem{at: mod.imports[maxImport].from, kind: "limit",
			message: "too many imports: at most 200 are allowed"}
	}
	var furthest *problem
	for _, w := range ways(t, mod) {
		r := compile(w.in.s, how)
		if len(r.Errors) == 0 {
			s := &steps{source: source, code: code, input: w.in, output: string(r.Code), srcMap: r.Map}
			m, p := s.finish(mod, t, w.bare, how.session)
			return s, m, p
		}
		if p := syntaxProblem(r.Errors, w.in, t); furthest == nil || p.at > furthest.at {
			furthest = &p
		}
	}
	return nil, nil, furthest
}

// ways returns the ways to read a program, the most likely first.
func ways(t *tokens, m *module) []variant {
	if len(t.list) == 0 {
		return []variant{{in: m.input(t, false)}}
	}
	var out []variant
	if e := loneExpression(t); e != nil {
		out = append(out, variant{in: e})
	}
	if at := lastLiteral(t, false); at >= 0 {
		out = append(out, variant{in: m.literal(t, at)})
	}
	if at := lastConstant(t); at >= 0 {
		out = append(out, variant{in: m.constant(t, at)})
	}
	out = append(out, variant{in: m.input(t, false)})
	if m.bare {
		out = append(out, variant{m.input(t, true), true})
	}
	if at := lastLiteral(t, true); at >= 0 {
		out = append(out, variant{in: m.literal(t, at)})
	}
	return out
}

// loneExpression returns a program that is a single object literal or anonymous function as an
// expression, or nil. A statement can't start with either.
func loneExpression(t *tokens) *text {
	k := 0
	if t.is(k, "async") && t.is(k+1, "function") {
		k++
	}
	anonymous := t.is(k, "function") && (t.is(k+1, "(") || t.is(k+1, "*") && t.is(k+2, "("))
	if !t.is(0, "{") && !anonymous {
		return nil
	}
	end := len(t.list)
	for end > 1 && t.is(end-1, ";") {
		end--
	}
	b := &textBuilder{parent: t.s}
	b.add(wrapHead+"\n(", 0)
	b.keep(t.list[0].start, t.list[end-1].end)
	b.add("\n)"+wrapTail, len(t.s))
	return b.text()
}

// lastLiteral returns the index of a { at the end of a program that may open an object literal
// meant as its value, or -1. A statement must certainly end before it; with loose, a line end
// suffices.
func lastLiteral(t *tokens, loose bool) int {
	end := len(t.list) - 1
	for end > 0 && t.is(end, ";") {
		end--
	}
	if end < 1 || !t.is(end, "}") || t.list[end].match < 1 {
		return -1
	}
	at := int(t.list[end].match)
	before := at - 1
	sure := t.is(before, ";") || t.is(before, "}")
	if !sure && !(loose && t.list[at].nl && t.list[before].operand) {
		return -1
	}
	first := t.list[min(at+1, end)]
	key := first.kind == word || first.kind == str || first.kind == number
	if key && (t.is(at+2, ":") || t.is(at+2, ",") || t.is(at+2, "}")) || t.is(at+1, "...") {
		return at
	}
	return -1
}

// literal returns the input with the literal at token i in parentheses.
func (m *module) literal(t *tokens, i int) *text {
	with := *m
	from, to := t.list[i].start, t.list[t.list[i].match].end
	with.edits = append(append([]edit(nil), m.edits...), edit{from, from, ";("}, edit{to, to, ");"})
	return with.input(t, false)
}

// finish builds the final code from the compiled code. With session it also builds the code that
// keeps the declarations.
func (s *steps) finish(mod *module, code *tokens, bare, session bool) (*assembly, *problem) {
	out := scan(s.output)
	r := reader{out}
	top, body, ok := split(r, code, bare)
	if !ok {
		return nil, &problem{at: firstClose(code), message: "unexpected closing bracket: it has no opening bracket"}
	}
	v := &valuer{reader: r, def: mod.def, none: endsInUndefined(code), kept: session}
	if body[0] < body[1] {
		v.body = r.statements(body[0], body[1])
		v.value()
	}
	m := &assembly{note: v.note}
	calls, specifiers := importCalls(r, body)
	v.edits = append(v.edits, calls...) // after edits before an expression that starts with one
	v.edits = append(v.edits, objectSpreads(r, body)...)
	s.final = s.write(v, top, body, nil, nil, m)
	for _, literal := range specifiers {
		if literal == "" {
			m.dynamic = true
			continue
		}
		m.specifier(literal)
	}
	if !session {
		return m, nil
	}
	k := newKeeper(r, code)
	k.statements(v.body)
	kept := &steps{source: s.source, code: s.code, input: s.input, output: s.output, srcMap: s.srcMap}
	kept.final = kept.write(v, top, body, k.edits, func(b *textBuilder, edits []edit) {
		k.head(b, code)
		k.functions(b, edits)
	}, &assembly{keeper: k})
	m.session, m.declared = kept, k.declaredNames()
	if k.note != "" {
		m.note = k.note
	}
	return m, nil
}

// write returns the final code: imports, the output of head, and the body with edits.
func (s *steps) write(v *valuer, top []stmt, body [2]int, edits []edit, head func(*textBuilder, []edit),
	m *assembly) *text {
	b := &textBuilder{parent: s.output}
	b.add(wrapHead+"\n", -1)
	edits = append(edits, v.edits...)
	if head != nil {
		head(b, edits)
	}
	for _, st := range top {
		m.importStatement(b, v.reader, st)
	}
	if v.saved {
		b.add("let "+valueName+";\n", -1)
	}
	b.add(moduleExports(v.reader, top, v.body, m.keeper != nil), -1)
	if body[0] < body[1] {
		b.apply(v.list[body[0]].start, v.list[body[1]-1].end, edits)
	}
	b.add("\n"+v.tail+"})", -1)
	return b.text()
}

// endsInUndefined reports whether a program ends in `undefined` or `void 0`, which the compiler
// omits.
func endsInUndefined(t *tokens) bool {
	n := len(t.list)
	for n > 0 && t.is(n-1, ";") {
		n--
	}
	first := n - 1
	if t.is(n-1, "0") && t.is(n-2, "void") {
		first--
	} else if !t.is(n-1, "undefined") {
		return false
	}
	return first >= 0 && (first == 0 || t.is(first-1, ";") || t.is(first-1, "}") ||
		t.list[first].nl && t.list[first-1].operand)
}

// firstClose returns an offset to report if brackets don't match.
func firstClose(t *tokens) int {
	if t.stray >= 0 {
		return t.stray
	}
	return len(t.s)
}

// split separates the code before the body of the program (imports, compiler helpers) from the
// body. ok is false if the text escaped its wrapper.
func split(r reader, code *tokens, bare bool) (top []stmt, body [2]int, ok bool) {
	n := len(r.list)
	for i := 0; i < n; {
		if r.is(i, ";") {
			i++
			continue
		}
		helper := r.is(i, "var") && strings.HasPrefix(r.text(i+1), "__") && !(bare && says(code, r.text(i+1)))
		if !helper && (!r.is(i, "import") || r.is(i+1, "(") || r.is(i+1, ".")) {
			if bare {
				return top, [2]int{i, n}, true
			}
			brace := i + 5
			ok := r.is(i, "(") && r.is(i+1, "async") && r.is(i+2, "(") && r.is(i+4, "=>") && r.is(brace, "{") &&
				r.after(i) == n-1 && r.after(brace) == n-2 && r.is(n-1, ";")
			return top, [2]int{brace + 1, n - 3}, ok
		}
		st := r.statement(i, n)
		top = append(top, st)
		i = st.hi
	}
	return top, [2]int{n, n}, bare
}

// says reports whether the agent's text contains a word. If it does, the compiler uses other names
// for its own helpers.
func says(code *tokens, name string) bool {
	for i := range code.list {
		if code.is(i, name) {
			return true
		}
	}
	return false
}

// importStatement writes an import as a call, or a compiler helper unchanged.
func (m *assembly) importStatement(b *textBuilder, r reader, st stmt) {
	from, to := r.list[st.lo].start, r.list[st.hi-1].end
	if !r.is(st.lo, "import") {
		b.keep(from, to)
		b.add("\n", -1)
		return
	}
	k := st.lo + 1
	var def, all string
	var named []binding
	for ; k < st.hi && r.list[k].kind != str; k++ {
		switch {
		case r.is(k, "*"):
			all = r.text(k + 2)
			k += 2
		case r.is(k, "{"):
			end := r.after(k) - 1
			named = bindings(r, k+1, end)
			k = end
		case r.list[k].kind == word && !r.is(k, "from"), r.is(k, "from") && r.is(k+1, "from"), r.is(k, "from") &&
			r.is(k+1, ","):
			def = r.text(k)
		}
	}
	spec := r.text(min(k, st.hi-1))
	m.specifier(spec)
	if text, err := unquote(spec); err == nil {
		m.imports = append(m.imports, imported{text, named, def != "", from})
	}
	b.add(m.importText(spec, def, all, named), from)
	b.add("\n", -1)
}

// importText returns an import as constants, or as assignments to kept names in a session.
func (m *assembly) importText(spec, def, all string, named []binding) string {
	var names []string
	if def != "" {
		names = append(names, `"default"`)
	}
	for _, n := range named {
		names = append(names, strconv.Quote(n.name))
	}
	call := "await __import(" + spec + ", [" + strings.Join(names, ", ") + "])"
	if def == "" && all == "" && named == nil {
		return call + ";"
	}
	if all == "" {
		all = "__module" + strconv.Itoa(len(m.specifiers))
	}
	text := m.set(all, call)
	if def != "" {
		text += " " + m.set(def, "\"default\" in "+all+" ? "+all+".default : "+all)
	}
	var kept, own []string
	for _, n := range named {
		if m.keeps(n.local) {
			kept = append(kept, n.pattern())
		} else {
			own = append(own, n.pattern())
		}
	}
	if kept != nil {
		text += " ({ " + strings.Join(kept, ", ") + " } = " + all + ");"
	}
	if own != nil {
		text += " const { " + strings.Join(own, ", ") + " } = " + all + ";"
	}
	return text
}

// keeps reports whether an imported name is kept for later programs, and records it.
func (m *assembly) keeps(name string) bool {
	if m.keeper == nil || !m.keeper.keepable(name) {
		return false
	}
	m.keeper.recordName(name)
	return true
}

func (m *assembly) set(name, value string) string {
	if m.keeps(name) {
		return name + " = " + value + ";"
	}
	return "const " + name + " = " + value + ";"
}

// A binding is an element in the braces of an import: name as local.
type binding struct{ name, local string }

// pattern returns b as part of a destructuring pattern.
func (b binding) pattern() string {
	switch {
	case b.name == b.local:
		return b.name
	case wordLen(b.name) == len(b.name):
		return b.name + ": " + b.local
	}
	return strconv.Quote(b.name) + ": " + b.local
}

// bindings parses the braces of an import.
func bindings(r reader, lo, hi int) (out []binding) {
	for i := lo; i < hi; i++ {
		b := binding{r.text(i), r.text(i)}
		if r.list[i].kind == str {
			b.name, _ = unquote(b.name)
		}
		if r.is(i+1, "as") && i+2 < hi {
			b.local = r.text(i + 2)
			i += 2
		}
		out = append(out, b)
		if r.is(i+1, ",") {
			i++
		}
	}
	return out
}

func (m *assembly) specifier(literal string) {
	if s, err := unquote(literal); err == nil {
		m.specifiers = append(m.specifiers, s)
	}
}

// unquote parses a string literal as the compiler writes it.
func unquote(literal string) (string, error) {
	if len(literal) >= 2 && literal[0] != '"' && !strings.ContainsAny(literal, `"\`) {
		return literal[1 : len(literal)-1], nil
	}
	return strconv.Unquote(literal)
}

// importCalls finds import(...) and import.meta, which a script can't contain. literals are the
// imported modules, with "" for those only known at run time.
func importCalls(r reader, body [2]int) (edits []edit, literals []string) {
	for i := body[0]; i < body[1]; i++ {
		if r.list[i].kind != word || !r.is(i, "import") || r.is(i-1, ".") || r.is(i-1, "?.") {
			continue
		}
		switch {
		case r.is(i+1, "(") && !r.is(r.after(i+1), "{"):
			edits = append(edits, edit{r.list[i].start, r.list[i].end, "__import"})
			literal := ""
			if r.list[i+2].kind == str && (r.is(i+3, ")") || r.is(i+3, ",")) {
				literal = r.text(i + 2)
			}
			literals = append(literals, literal)
		case r.is(i+1, ".") && r.is(i+2, "meta"):
			edits = append(edits, edit{r.list[i].start, r.list[i+2].end, `({ url: "file:///program.ts", main: true })`})
		}
	}
	return edits, literals
}

// moduleExports returns declarations of module and exports for a program that uses CommonJS, unless
// it declares them itself. In a session the values of earlier programs remain.
func moduleExports(r reader, top, body []stmt, session bool) string {
	if !usesModuleExports(r.tokens) {
		return ""
	}
	names := topNames(r, top, body)
	var own []string
	for _, n := range [...][2]string{{"module", "{ exports: {} }"}, {"exports", "module.exports"}} {
		switch {
		case names[n[0]]:
		case n[0] == "exports" && names["module"]:
			own = append(own, "exports = {}")
		case session:
			own = append(own, n[0]+" = globalThis."+n[0]+" ?? "+n[1])
		default:
			own = append(own, n[0]+" = "+n[1])
		}
	}
	if own == nil {
		return ""
	}
	return "const " + strings.Join(own, ", ") + ";\n"
}

// topNames returns the names that a program imports or declares at top level.
func topNames(r reader, top, body []stmt) map[string]bool {
	names := map[string]bool{}
	for _, s := range top {
		for i := s.lo; i < s.hi; i++ {
			names[r.text(i)] = true
		}
	}
	k := keeper{reader: r}
	for _, s := range body {
		switch {
		case s.form == try && k.disposes(s):
			for n := range topNames(r, nil, r.statements(s.parts[0][0], s.parts[0][1])) {
				names[n] = true
			}
		case s.form == function:
			names[r.text(k.nameOf(s))] = true
		case s.form == class:
			names[r.text(s.lo+1)] = true
		case r.is(s.lo, "const"), r.is(s.lo, "let"), r.is(s.lo, "var"):
			for _, n := range k.declarators(s.lo+1, s.hi, false).names {
				names[n] = true
			}
		}
	}
	return names
}

// usesModuleExports reports whether the program uses CommonJS: module.exports or exports.name.
func usesModuleExports(t *tokens) bool {
	for i := range t.list {
		if t.list[i].kind == word && (t.is(i, "module") && t.is(i+2, "exports") || t.is(i, "exports")) &&
			t.is(i+1, ".") && !t.is(i-1, ".") {
			return true
		}
	}
	return false
}

// repairs returns versions of the code with common transport damage undone: HTML entities, line
// breaks written as \n, fences in prose that doesn't scan as code.
func repairs(source string, code *text) []*text {
	var out []*text
	if naive, e := unwrap(source, true); e == nil && naive.s != code.s && strings.TrimSpace(naive.s) != "" {
		out = append(out, naive)
	}
	replace := func(pairs ...string) {
		b := &textBuilder{parent: source}
		for lo := 0; lo < len(code.s); {
			n := 0
			for i := 0; i < len(pairs); i += 2 {
				if strings.HasPrefix(code.s[lo:], pairs[i]) {
					at, _ := code.origin(lo)
					b.add(pairs[i+1], at)
					n = len(pairs[i])
					break
				}
			}
			if n == 0 {
				at, _ := code.origin(lo)
				b.keepByte(code.s[lo], at)
				n = 1
			}
			lo += n
		}
		out = append(out, b.text())
	}
	if strings.Contains(code.s, "&gt;") || strings.Contains(code.s, "&lt;") || strings.Contains(code.s, "&amp;") ||
		strings.Contains(code.s, "&quot;") {
		replace("&gt;", ">", "&lt;", "<", "&quot;", `"`, "&#39;", "'", "&apos;", "'", "&amp;", "&")
	}
	if strings.Contains(code.s, `\n`) && !strings.Contains(strings.TrimSpace(code.s), "\n") {
		replace(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "", `\"`, `"`)
	}
	return out
}
