package typegen

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A style controls how much detail of a type is written.
type style struct {
	width int  // maximum columns of a type on one line
	doc   int  // maximum runes of a description; 0: none; negative: all of it, on separate lines
	facts bool // include bounds, formats, defaults
	depth int  // levels of objects; 0: all
	arms  int  // maximum literals of a union; 0: all
	props int  // maximum properties of an object, required ones first; 0: all
	dense bool // plain properties share lines, and short comments are on the same line
}

const fullDoc = 2_000 // maximum runes of a description if doc is negative

// unnamed stands for a name that is not assigned yet.
const unnamed = "####################"

// maxText bounds the size of a declaration in bytes. Types beyond it are unknown.
const maxText = 512 << 10

// A writer writes types as TypeScript in a style.
type writer struct {
	style
	written int
	cut     bool  // something was left out
	uses    *uses // nil: they are not collected
}

// inlineText returns t on one line of at most limit bytes, without comments; ok is false if it is
// longer.
func inlineText(t typ, limit int) (string, bool) {
	w := &writer{style: style{width: limit}}
	return w.inline(t, limit, 0)
}

// typ returns t as TypeScript. Its first line starts at column col, and its other lines are
// indented by indent.
func (w *writer) typ(t typ, indent, col, depth int) string {
	if w.written > maxText {
		w.cut = true
		return "unknown /* cut: too large */"
	}
	if s, ok := w.inline(t, max(w.width-col, 20), depth); ok {
		w.written += len(s)
		return s
	}
	switch t := t.(type) {
	case *arrayType:
		return w.wrapLines(t.elem, indent, col, depth) + "[]"
	case *tupleType:
		return w.tuple(t, indent, depth)
	case *objectType:
		return w.writeObject(t, indent, depth)
	case *unionType:
		return w.arms(t.arms, " | ", indent, depth)
	case *interType:
		return w.arms(t.arms, " & ", indent, depth)
	}
	s, _ := w.inline(t, 1<<30, depth)
	return s
}

func (w *writer) wrapLines(t typ, indent, col, depth int) string {
	switch t.(type) {
	case *unionType, *interType:
		return "(" + w.typ(t, indent, col+1, depth) + ")"
	}
	return w.typ(t, indent, col, depth)
}

func pad(n int) string { return strings.Repeat(" ", n) }

func (w *writer) tuple(t *tupleType, indent, depth int) string {
	var b strings.Builder
	b.WriteString("[\n")
	for i, e := range t.elems {
		b.WriteString(pad(indent + 2))
		if i >= t.min {
			b.WriteString("(" + w.typ(e, indent+2, indent+3, depth) + ")?,\n")
		} else {
			b.WriteString(w.typ(e, indent+2, indent+2, depth) + ",\n")
		}
	}
	if t.rest != nil {
		b.WriteString(pad(indent+2) + "...(" + w.typ(t.rest, indent+2, indent+6, depth) + ")[],\n")
	}
	b.WriteString(pad(indent) + "]")
	return b.String()
}

func (w *writer) arms(arms []typ, op string, indent, depth int) string {
	arms, more := w.fewer(arms)
	var b strings.Builder
	if allPrims(arms) {
		line := indent
		for i, a := range arms {
			s := w.typ(a, indent+2, 0, depth)
			if i > 0 {
				if line+len(s) > w.width {
					b.WriteString("\n" + pad(indent+2))
					line = indent + 2
				} else {
					b.WriteString(" ")
				}
				b.WriteString(op[1:])
			}
			b.WriteString(s)
			line += len(s) + 3
		}
		return b.String() + more
	}
	for _, a := range arms {
		b.WriteString("\n" + pad(indent+2) + op[1:] + w.parenthesize(a, op, indent+2, indent+4, depth))
	}
	if more != "" {
		b.WriteString("\n" + pad(indent+2) + strings.TrimSpace(more))
	}
	return b.String()
}

// parenthesize returns an arm, parenthesized if it is a combination itself.
func (w *writer) parenthesize(t typ, op string, indent, col, depth int) string {
	switch t.(type) {
	case *unionType:
		if op == " & " {
			return w.wrapLines(t, indent, col, depth)
		}
	case *interType:
		if op == " | " {
			return w.wrapLines(t, indent, col, depth)
		}
	}
	return w.typ(t, indent, col, depth)
}

func allPrims(ts []typ) bool {
	for _, t := range ts {
		if _, ok := t.(prim); !ok {
			return false
		}
	}
	return true
}

// fewer cuts a union of many literals to the number that the style allows.
func (w *writer) fewer(arms []typ) ([]typ, string) {
	if w.style.arms <= 0 || len(arms) <= w.style.arms+2 || !allPrims(arms) {
		return arms, ""
	}
	w.cut = true
	wide := map[string]bool{}
	for _, a := range arms[w.style.arms:] {
		switch c := a.(prim).text[0]; {
		case c == '"':
			wide["string"] = true
		case c == '-' || '0' <= c && c <= '9':
			wide["number"] = true
		default:
			wide[a.(prim).text] = true
		}
	}
	more := fmt.Sprintf(" /* and %d more */", len(arms)-w.style.arms)
	var rest []string
	for k := range wide {
		rest = append(rest, k)
	}
	slices.Sort(rest)
	return arms[:w.style.arms], more + " | " + strings.Join(rest, " | ")
}

func (w *writer) writeObject(o *objectType, indent, depth int) string {
	if s, ok := w.tooDeep(o, depth); ok {
		return s
	}
	var b strings.Builder
	b.WriteString("{\n")
	props, more := w.chooseProperties(o)
	col := 0 // column in the line that plain properties share; 0: none
	for _, p := range props {
		head := propertyName(p.name) + ": "
		if p.optional {
			head = propertyName(p.name) + "?: "
		}
		text := head + w.typ(p.typ, indent+2, indent+2+len(head), depth+1) + ";"
		doc := w.docLines(p.doc, p.facts, indent+2)
		switch n := len(text) + 1; {
		case w.dense && doc == "" && col > 0 && col+n <= w.width && !strings.Contains(text, "\n"):
			b.WriteString(" " + text)
			col += n
			continue
		case w.dense && doc != "" && len(doc)+n <= w.width && !strings.Contains(text, "\n"):
			doc = strings.TrimSuffix(doc, "\n") + " "
		default:
			doc += pad(indent + 2)
		}
		if b.Len() > 2 {
			b.WriteByte('\n')
		}
		b.WriteString(doc + text)
		col = 0
		if w.dense && !strings.Contains(doc, "*") && !strings.Contains(text, "\n") {
			col = indent + 2 + len(text)
		}
	}
	if len(props) > 0 {
		b.WriteByte('\n')
	}
	if o.index != nil {
		b.WriteString(pad(indent+2) + "[key: string]: ")
		b.WriteString(w.typ(indexType(o), indent+2, indent+17, depth+1) + ";\n")
	}
	if more != "" {
		b.WriteString(pad(indent+2) + more + "\n")
	}
	b.WriteString(pad(indent) + "}")
	return b.String()
}

// tooDeep returns an object beyond the maximum depth as a list of its property names.
func (w *writer) tooDeep(o *objectType, depth int) (string, bool) {
	if w.depth <= 0 || depth < w.depth || len(o.props) == 0 {
		return "", false
	}
	w.cut = true
	return "object /* { " + names(o.props, 12) + " } */", true
}

func names(props []property, most int) string {
	var out []string
	for i, p := range props {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(props)-most))
			break
		}
		out = append(out, oneLine(p.name, 40))
	}
	return strings.Join(out, ", ")
}

// chooseProperties returns the properties that fit the style: the required ones, then the others in
// order.
func (w *writer) chooseProperties(o *objectType) (props []property, more string) {
	if w.props <= 0 || len(o.props) <= w.props {
		return o.props, ""
	}
	room := w.props
	for _, p := range o.props {
		if !p.optional {
			room--
		}
	}
	var left []property
	for _, p := range o.props {
		switch {
		case !p.optional && len(props) < 4*w.props:
			props = append(props, p)
		case p.optional && room > 0:
			room--
			props = append(props, p)
		default:
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return props, ""
	}
	w.cut = true
	return props, "/* also: " + names(left, 40) + " */"
}

// indexType returns a type for the index signature of an object that is compatible with its
// properties.
func indexType(o *objectType) typ {
	arms := []typ{o.index}
	want, _ := inlineText(o.index, 200)
	for _, p := range o.props {
		got, ok := inlineText(p.typ, 200)
		if !ok {
			return tUnknown
		}
		if got != want {
			arms = append(arms, p.typ)
		}
		if p.optional {
			arms = append(arms, prim{text: "undefined"})
		}
	}
	t := union(arms...)
	if _, ok := inlineText(t, 60); !ok && len(o.props) > 0 {
		return tUnknown
	}
	return t
}

// docLines returns the comment of a property, each line indented.
func (w *writer) docLines(doc, facts string, indent int) string {
	lines := w.docText(doc, facts)
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return pad(indent) + "/** " + lines[0] + " */\n"
	}
	var b strings.Builder
	b.WriteString(pad(indent) + "/**\n")
	for _, l := range lines {
		b.WriteString(strings.TrimRight(pad(indent)+" * "+l, " ") + "\n")
	}
	b.WriteString(pad(indent) + " */\n")
	return b.String()
}

// docText returns the lines of a comment.
func (w *writer) docText(doc, facts string) []string {
	if !w.facts {
		facts = ""
	}
	facts = comment(facts)
	if w.doc == 0 {
		doc = ""
	}
	if w.doc >= 0 {
		doc = oneLine(doc, w.doc)
	} else {
		doc = cut(strings.TrimSpace(comment(doc)), fullDoc)
	}
	switch {
	case doc == "" && facts == "":
		return nil
	case doc == "":
		return []string{facts}
	case facts != "":
		doc = strings.TrimRight(doc, ".;, ") + " (" + facts + ")"
	}
	lines := strings.Split(doc, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return lines
}

// inline returns t on one line of at most room bytes.
func (w *writer) inline(t typ, room, depth int) (string, bool) {
	if room <= 0 {
		return "", false
	}
	var b strings.Builder
	ok := w.inlineTo(&b, t, room, depth)
	return b.String(), ok && b.Len() <= room
}

func (w *writer) inlineTo(b *strings.Builder, t typ, room, depth int) bool {
	if b.Len() > room || depth > 64 {
		return false
	}
	switch t := t.(type) {
	case prim:
		b.WriteString(t.text)
		if t.note != "" {
			b.WriteString(" /* " + comment(t.note) + " */")
		}
	case *refType:
		if w.uses != nil {
			w.uses.addUse(t.to, w)
		}
		if t.to.name == "" {
			return write(b, unnamed)
		}
		b.WriteString(t.to.name)
	case *arrayType:
		return w.inlineWrapped(b, t.elem, room, depth) && write(b, "[]")
	case *tupleType:
		return w.inlineTuple(b, t, room, depth)
	case *objectType:
		return w.inlineObject(b, t, room, depth)
	case *unionType:
		arms, more := w.fewer(t.arms)
		return w.inlineArms(b, arms, " | ", room, depth) && write(b, more)
	case *interType:
		return w.inlineArms(b, t.arms, " & ", room, depth)
	}
	return b.Len() <= room
}

func write(b *strings.Builder, s string) bool {
	b.WriteString(s)
	return true
}

func (w *writer) inlineWrapped(b *strings.Builder, t typ, room, depth int) bool {
	switch t := t.(type) {
	case *unionType, *interType:
		return write(b, "(") && w.inlineTo(b, t, room, depth) && write(b, ")")
	case prim:
		if t.note != "" {
			return write(b, "(") && w.inlineTo(b, t, room, depth) && write(b, ")")
		}
	}
	return w.inlineTo(b, t, room, depth)
}

func (w *writer) inlineArms(b *strings.Builder, arms []typ, op string, room, depth int) bool {
	for i, a := range arms {
		if i > 0 {
			b.WriteString(op)
		}
		group := false
		switch a.(type) {
		case *unionType:
			group = op == " & "
		case *interType:
			group = op == " | "
		}
		if group {
			if !w.inlineWrapped(b, a, room, depth) {
				return false
			}
		} else if !w.inlineTo(b, a, room, depth) {
			return false
		}
	}
	return true
}

func (w *writer) inlineTuple(b *strings.Builder, t *tupleType, room, depth int) bool {
	b.WriteByte('[')
	for i, e := range t.elems {
		if i > 0 {
			b.WriteString(", ")
		}
		if i < t.min {
			if !w.inlineTo(b, e, room, depth) {
				return false
			}
		} else if !write(b, "(") || !w.inlineTo(b, e, room, depth) || !write(b, ")?") {
			return false
		}
	}
	if t.rest != nil {
		if len(t.elems) > 0 {
			b.WriteString(", ")
		}
		if !write(b, "...(") || !w.inlineTo(b, t.rest, room, depth) || !write(b, ")[]") {
			return false
		}
	}
	return write(b, "]")
}

func (w *writer) inlineObject(b *strings.Builder, o *objectType, room, depth int) bool {
	if len(o.props) == 0 {
		if o.index == nil {
			return write(b, "Record<string, never>")
		}
		return write(b, "{ [key: string]: ") && w.inlineTo(b, o.index, room, depth+1) && write(b, " }")
	}
	if s, ok := w.tooDeep(o, depth); ok {
		return write(b, s)
	}
	if w.props > 0 && len(o.props) > w.props {
		return false
	}
	b.WriteString("{ ")
	for i, p := range o.props {
		if i > 0 {
			b.WriteString("; ")
		}
		lines := w.docText(p.doc, p.facts)
		if len(lines) > 0 && w.doc < 0 || len(lines) > 1 {
			return false
		}
		if len(lines) == 1 {
			b.WriteString("/** " + lines[0] + " */ ")
		}
		b.WriteString(propertyName(p.name))
		if p.optional {
			b.WriteByte('?')
		}
		b.WriteString(": ")
		if !w.inlineTo(b, p.typ, room, depth+1) {
			return false
		}
	}
	if o.index != nil {
		b.WriteString("; [key: string]: ")
		if !w.inlineTo(b, indexType(o), room, depth+1) {
			return false
		}
	}
	return write(b, " }") && utf8.RuneCountInString(b.String()) <= room
}
