package program

// defaultName is the name of the constant for `export default` of an expression.
const defaultName = "__default"

// A module holds the imports and exports of a program. They can't be in a function body, so they
// are removed before the text becomes one.
type module struct {
	imports []span // whole import statements
	edits   []edit // edits that remove the exports
	def     string // name of the default export; "" for none
	bare    bool   // it contains a namespace or a module declaration, which a function body can't
}

// A span is s[from:to].
type span struct{ from, to int }

// readModule finds the import and export statements of t. Both words are reserved. So outside
// brackets they start a statement, except for import(...), import.meta and properties.
func readModule(t *tokens) *module {
	m := &module{}
	if len(t.s) > 1 && t.s[:2] == "#!" {
		m.edits = append(m.edits, edit{0, lineEnd(t.s), ""})
	}
	for i := 0; i < len(t.list); {
		tok := &t.list[i]
		switch {
		case tok.kind == open:
			i = t.after(i)
			continue
		case tok.kind != word || i > 0 && (t.is(i-1, ".") || t.is(i-1, "?.")):
		case t.is(i, "import"):
			i = m.readImport(t, i)
			continue
		case t.is(i, "export"):
			i = m.readExport(t, i)
			continue
		case (t.is(i, "namespace") || t.is(i, "module")) && i+2 < len(t.list) && !t.list[i+1].nl &&
			(t.list[i+1].kind == word || t.list[i+1].kind == str):
			m.bare = true
		}
		i++
	}
	m.edits = append(m.edits, lineBreaks(t)...)
	return m
}

// maxLine is the length in bytes above which a line for the compiler is broken, if possible.
const maxLine = 4000

// lineBreaks breaks very long lines where that changes nothing, because the compiler reads the
// whole line for each message.
func lineBreaks(t *tokens) []edit {
	var edits []edit
	begin := 0
	for i := range t.list {
		tok := &t.list[i]
		if tok.nl {
			begin = tok.start
		}
		if tok.end-begin > maxLine && (t.is(i, ";") || t.is(i, ",") || tok.kind == open) {
			edits = append(edits, edit{tok.end, tok.end, "\n"})
			begin = tok.end
		}
	}
	return edits
}

// readImport handles the import at token i, and returns the next token to read.
func (m *module) readImport(t *tokens, i int) int {
	if t.is(i+1, "(") || t.is(i+1, ".") {
		return i + 1
	}
	if t.is(i+1, "type") && t.is(i+3, "=") {
		if t.is(i+4, "require") && t.is(i+5, "(") { // import type X = require("x")
			end := min(t.after(i+5), len(t.list)) - 1
			m.edits = append(m.edits, edit{t.list[i].start, t.list[end].end, ";"})
			return end + 1
		}
		m.edits = append(m.edits, edit{t.list[i].start, t.list[i].end, ""})
		return i + 2
	}
	if t.is(i+2, "=") { // import x = A.B
		m.edits = append(m.edits, edit{t.list[i].start, t.list[i].end, "const"})
		return i + 2
	}
	end, ok := clause(t, i+1)
	if !ok {
		return i + 1 // the compiler reports the error
	}
	m.imports = append(m.imports, span{t.list[i].start, t.list[end-1].end})
	return end
}

// clause parses the rest of an import, or of an export from another module. It returns the token
// after it.
func clause(t *tokens, i int) (end int, ok bool) {
	for ; i < len(t.list) && t.list[i].kind != str; i++ {
		switch {
		case t.is(i, "{"):
			if i = t.after(i) - 1; i+1 >= len(t.list) {
				return 0, false
			}
		case t.list[i].kind != word && !t.is(i, "*") && !t.is(i, ","), t.is(i, "import"), t.is(i, "export"):
			return 0, false
		}
	}
	if i >= len(t.list) {
		return 0, false
	}
	i++
	if (t.is(i, "with") || t.is(i, "assert") && !t.list[i].nl) && t.is(i+1, "{") {
		i = t.after(i + 1)
	}
	if t.is(i, ";") {
		i++
	}
	return i, true
}

// readExport handles the export at token i, and returns the next token to read.
func (m *module) readExport(t *tokens, i int) int {
	drop := func(n int) int { // removes n tokens
		if i+n < len(t.list) {
			m.edits = append(m.edits, edit{t.list[i].start, t.list[i+n].start, ""})
		}
		return i + n
	}
	braces := i + 1
	if t.is(braces, "type") {
		braces++
	}
	switch {
	case t.is(braces, "{") || t.is(braces, "*"):
		return m.readExportList(t, i, braces)
	case t.is(i+1, "="):
		m.def = defaultName
		m.edits = append(m.edits, edit{t.list[i].start, t.list[i].end, "const " + defaultName})
		return i + 2
	case t.is(i+1, "default"):
		return m.readDefault(t, i, drop)
	}
	return drop(1)
}

// readExportList removes export { a, b as default } and export ... from "x".
func (m *module) readExportList(t *tokens, i, braces int) int {
	end := braces + 1
	if t.is(braces, "{") {
		end = t.after(braces)
		for k := braces + 1; k < end; k++ {
			if t.is(k, "default") && t.is(k-1, "as") {
				m.def = t.text(k - 2)
			}
		}
	}
	if t.is(end, "from") || t.is(braces, "*") {
		if e, ok := clause(t, end); ok {
			end, m.def = e, ""
		}
	} else if t.is(end, ";") {
		end++
	}
	to := len(t.s)
	if end < len(t.list) {
		to = t.list[end-1].end
	}
	m.edits = append(m.edits, edit{t.list[i].start, to, ";"})
	return end
}

// readDefault handles export default. Declarations lose both words, and get a name if they have
// none. An expression becomes a constant.
func (m *module) readDefault(t *tokens, i int, drop func(int) int) int {
	k := i + 2
	if t.is(k, "interface") && t.list[min(k+1, len(t.list)-1)].kind == word {
		return drop(2)
	}
	if t.is(k, "abstract") || t.is(k, "async") && t.is(k+1, "function") {
		k++
	}
	if !t.is(k, "function") && !t.is(k, "class") {
		m.def = defaultName
		m.edits = append(m.edits, edit{t.list[i].start, t.list[i+1].end, "const " + defaultName + " ="})
		return i + 2
	}
	drop(2)
	name := k + 1
	if t.is(name, "*") {
		name++
	}
	if name < len(t.list) && t.list[name].kind == word && !t.is(name, "extends") && !t.is(name, "implements") {
		m.def = t.text(name)
		return name
	}
	m.def = defaultName
	m.edits = append(m.edits, edit{t.list[name-1].end, t.list[name-1].end, " " + defaultName + " "})
	return name
}

const (
	wrapHead = "(async () => {"
	wrapTail = "\n});"
)

// input returns the text for the compiler: the imports, and the rest as the body of an async
// function, which allows both `return` and `await`. If bare is set, the rest is not wrapped.
func (m *module) input(t *tokens, bare bool) *text {
	b := &textBuilder{parent: t.s}
	edits := m.edits
	for _, s := range m.imports {
		b.keep(s.from, s.to)
		b.add(";\n", s.to)
		edits = append(edits, edit{s.from, s.to, ""})
	}
	if !bare {
		b.add(wrapHead+"\n", 0)
	}
	b.apply(0, len(t.s), append([]edit(nil), edits...))
	if !bare {
		b.add(wrapTail, len(t.s))
	}
	return b.text()
}
