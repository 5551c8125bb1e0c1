package function

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// A parameter is a parameter of a function.
type parameter struct {
	name     string
	schema   schema
	optional bool
	rest     bool
	fields   []string // the names in a destructured object; nil: it has a name of its own
}

// A signature is a function's signature, as read from the text of a file.
type signature struct {
	params []parameter
	doc    docComment
}

// findSignature finds the declaration of a function in the texts of files; nil: it was not found.
func findSignature(files []string, names ...string) (*signature, *typeReader) {
	for _, file := range files {
		for _, name := range names {
			at, arrow := findDeclaration(file, name)
			if at < 0 {
				continue
			}
			r := &typeReader{files: files}
			sig := &signature{doc: docBefore(file, at)}
			open := strings.IndexAny(file[arrow:], "(")
			if open < 0 {
				continue
			}
			sig.params = r.readParameters(file[arrow+open:], sig.doc)
			return sig, r
		}
	}
	return nil, nil
}

// compiledSignature returns the signature of a function by its compiled text, which has no types;
// nil: it has no list of parameters.
func compiledSignature(text string) (*signature, *typeReader) {
	open := strings.IndexByte(text, '(')
	if arrow := strings.Index(text, "=>"); open < 0 || arrow >= 0 && arrow < open {
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text[:max(arrow, 0)]), "async "))
		if name == "" {
			return nil, nil
		}
		return &signature{params: []parameter{{name: name}}}, &typeReader{}
	}
	r := &typeReader{}
	sig := &signature{params: r.readParameters(text[open:], docComment{})}
	r.notes = nil
	return sig, r
}

const (
	declarationHead = `(?m)(?:^|[;}])[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:async[ \t]+)?function[ \t]*\*?[ \t]*`
	assignmentHead  = `(?m)(?:^|[;}])[ \t]*(?:export[ \t]+)?(?:const|let|var)[ \t]+`
	typeParameters  = `[ \t]*(?:<[^()]{0,300}>)?[ \t]*`
)

// findDeclaration returns the offset at which the declaration of a function begins, and an offset
// before its parameters; -1 if there is none.
func findDeclaration(file, name string) (at, params int) {
	patterns := []string{
		declarationHead + regexp.QuoteMeta(name) + typeParameters + `()\(`,
		assignmentHead + regexp.QuoteMeta(name) + `[ \t]*(?::[^=\n]{0,300})?=[ \t]*(?:async\b[ \t]*)?` +
			`(?:function\b[ \t]*\*?[ \t]*[\w$]*)?` + typeParameters + `()\(`,
	}
	if name == "default" {
		patterns = []string{`(?m)(?:^|[;}])[ \t]*export[ \t]+default[ \t]+(?:async\b[ \t]*)?` +
			`(?:function\b[ \t]*\*?[ \t]*[\w$]*)?` + typeParameters + `()\(`}
	}
	for _, p := range patterns {
		if m := regexp.MustCompile(p).FindStringSubmatchIndex(file); m != nil {
			return m[0], m[2]
		}
	}
	return -1, -1
}

// docBefore returns the documentation comment that ends directly before an offset.
func docBefore(file string, at int) docComment {
	before := strings.TrimRight(file[:at], " \t\r\n")
	if start := strings.LastIndex(before, "/**"); start >= 0 && strings.HasSuffix(before, "*/") &&
		strings.Index(before[start:], "*/") == len(before)-start-2 {
		return readDoc(before[start:])
	}
	return docComment{}
}

// readParameters reads the parameters in the parentheses at the start of s.
func (r *typeReader) readParameters(s string, doc docComment) (out []parameter) {
	r.toks, r.at = readTokens(s), 1
	for r.at < len(r.toks) && !r.isSign(")") && len(out) < maxParams {
		p := parameter{rest: r.acceptSign("...")}
		t := r.peekToken()
		r.at++
		switch {
		case t.kind == wordToken && isModifier(t.text) && r.peekToken().kind == wordToken:
			continue
		case t.kind == wordToken:
			p.name = t.text
		case t.kind == signToken && (t.text == "{" || t.text == "["):
			p.fields = r.readPattern(t.text)
		default:
			r.skipTo()
		}
		p.optional = r.acceptSign("?")
		r.readParameterType(&p, t, doc)
		var initial any
		if r.acceptSign("=") {
			p.optional = true
			initial = r.readInitial()
		}
		if initial != nil {
			p.schema = p.schema.withKey("default", initial)
		}
		if p.rest { // of the type T[]
			p.optional = true
		}
		if p.name != "this" && (p.name != "" || p.fields != nil) {
			out = append(out, p)
		}
		if !r.acceptSign(",") {
			break
		}
	}
	return out
}

func isModifier(w string) bool {
	return w == "public" || w == "private" || w == "protected" || w == "readonly"
}

// readParameterType reads the type of a parameter, from the text or from the comment.
func (r *typeReader) readParameterType(p *parameter, t token, doc docComment) {
	d, documented := doc.params[p.name]
	switch {
	case r.acceptSign(":"):
		s, undefined := r.readType()
		p.schema, p.optional = s, p.optional || undefined
	case documented && d.kind != "":
		s, undefined := r.readText(d.kind)
		p.schema, p.optional = s, p.optional || undefined || d.optional
	default:
		p.schema, p.optional = schema{}, p.optional || d.optional
		if p.name != "" && p.name != "this" && !r.isSign("=") {
			r.addNote("the parameter %s has no type: it is any", p.name)
		}
	}
	text := d.text
	if text == "" {
		text = t.doc
	}
	p.schema = p.schema.withKey("description", text)
}

// readPattern skips a destructuring pattern after its bracket, and returns the names of its keys.
func (r *typeReader) readPattern(open string) []string {
	fields := []string{}
	for depth := 1; r.at < len(r.toks) && depth > 0; r.at++ {
		t := r.toks[r.at]
		switch {
		case t.kind == signToken && (t.text == "{" || t.text == "[" || t.text == "("):
			depth++
		case t.kind == signToken && (t.text == "}" || t.text == "]" || t.text == ")"):
			depth--
		case depth == 1 && open == "{" && t.kind == wordToken &&
			(r.toks[r.at-1].text == "{" || r.toks[r.at-1].text == ","):
			fields = append(fields, t.text)
		}
	}
	return fields
}

// readInitial skips an initial value, and returns it if it is a literal.
func (r *typeReader) readInitial() any {
	start := r.at
	r.skipTo()
	if toks := r.toks[start:r.at]; len(toks) == 1 {
		switch t := toks[0]; {
		case t.kind == stringToken && t.text != "":
			return t.text
		case t.kind == numberToken:
			return r.numberConst(t.text).getKey("const")
		case t.text == "true" || t.text == "false":
			return t.text == "true"
		}
	}
	return nil
}

// argumentSchema returns the schema of the arguments object of a function, and how they are passed.
func (s *signature) argumentSchema(how *invocation) schema {
	if len(s.params) == 1 && !s.params[0].rest {
		p := s.params[0]
		if _, ok := p.schema.getKey("properties").(schema); ok || p.fields != nil {
			if !ok {
				p.schema = anyFields(p.fields)
			}
			if p.optional {
				p.schema = withoutKey(p.schema, "required")
			}
			return withoutKey(p.schema, "default")
		}
	}
	var properties schema
	var required []string
	how.Names = []string{}
	for _, p := range s.params {
		name := p.name
		if name == "" { // a destructured parameter beside others
			name = "options"
			if properties.getKey(name) != nil {
				name = "argument" + string(rune('0'+len(how.Names)%10))
			}
		}
		how.Names = append(how.Names, name)
		how.Rest = p.rest
		properties = append(properties, pair{name, p.schema})
		if !p.optional {
			required = append(required, name)
		}
	}
	return objectOf(properties, required, false)
}

// anyFields returns an object with properties of any type.
func anyFields(names []string) schema {
	var properties schema
	for _, n := range names {
		properties = append(properties, pair{n, schema{}})
	}
	return objectOf(properties, nil, nil)
}

// setPassing sets how arguments are passed to a function whose author wrote the schema: by position
// if its parameters are properties of the schema.
func (s *signature) setPassing(written json.RawMessage, how *invocation) {
	var v struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(written, &v) != nil || len(s.params) == 0 {
		return
	}
	var names []string
	for _, p := range s.params {
		if _, ok := v.Properties[p.name]; !ok || slices.Contains(names, p.name) {
			return
		}
		names = append(names, p.name)
		how.Rest = p.rest
	}
	how.Names = names
}
