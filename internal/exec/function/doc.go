package function

import (
	"strings"
)

// A docComment is a TypeScript or JavaScript documentation comment (JSDoc, TSDoc).
type docComment struct {
	description string
	params      map[string]docParam
	readOnly    bool
	destructive bool
	idempotent  bool
}

// A docParam is a @param of a comment.
type docParam struct {
	kind     string // its type as written; empty: none
	text     string
	optional bool
}

// maxDoc is the maximum size of a description in bytes.
const maxDoc = 8 << 10

// readDoc reads a comment with its delimiters.
func readDoc(comment string) docComment {
	d := docComment{params: map[string]docParam{}}
	comment = strings.TrimSuffix(strings.TrimPrefix(comment, "/**"), "*/")
	var tag string
	var body []string
	end := func() {
		d.addTag(tag, strings.TrimSpace(strings.Join(body, "\n")))
		tag, body = "", nil
	}
	for line := range strings.SplitSeq(comment, "\n") {
		line = strings.TrimSpace(line)
		line = strings.TrimPrefix(strings.TrimPrefix(line, "*"), " ")
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "@") {
			end()
			tag, line = name, rest
		}
		body = append(body, strings.TrimRight(line, " \t"))
	}
	end()
	if len(d.description) > maxDoc {
		d.description = strings.ToValidUTF8(d.description[:maxDoc], "")
	}
	return d
}

// addTag adds a tag with its text, or the text before the first tag.
func (d *docComment) addTag(tag, body string) {
	switch strings.ToLower(tag) {
	case "":
		d.description = body
	case "@description":
		d.description = strings.TrimSpace(d.description + "\n" + body)
	case "@readonly":
		d.readOnly = true
	case "@destructive":
		d.destructive = true
	case "@idempotent":
		d.idempotent = true
	case "@param", "@arg", "@argument":
		p := docParam{}
		if strings.HasPrefix(body, "{") {
			n := braceEnd(body)
			p.kind, body = strings.TrimSpace(body[1:max(n-1, 1)]), strings.TrimSpace(body[n:])
		}
		name, text, _ := strings.Cut(body, " ")
		if inner, ok := strings.CutPrefix(name, "["); ok { // [limit=10]
			inner, _, _ = strings.Cut(strings.TrimSuffix(inner, "]"), "=")
			name, p.optional = inner, true
		}
		if strings.HasSuffix(p.kind, "=") {
			p.kind, p.optional = strings.TrimSuffix(p.kind, "="), true
		}
		p.text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "-"))
		if name = strings.TrimSuffix(name, ":"); name != "" && len(d.params) < maxParams*4 {
			d.params[name] = p
		}
	}
}

// braceEnd returns the length of the text in braces at the start of s.
func braceEnd(s string) int {
	depth := 0
	for i, c := range s {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}
