package apidoc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // for the template
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// PagePolicy is the Content-Security-Policy of the page: it loads nothing, and has no scripts.
func PagePolicy() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; frame-ancestors 'none'; base-uri 'none'"
}

// A pageData is the data of the page's template.
type pageData struct {
	Info     info
	Accesses []Access
	Style    template.CSS
	Groups   []pageGroup
	Types    []pageType
	Kinds    []Kind
}

// A pageGroup holds the operations below one path.
type pageGroup struct {
	Name       string
	Operations []pageOperation
}

// A pageOperation is one operation on the page.
type pageOperation struct {
	operation
	Method, Path  string
	Sends, Answer template.HTML
	Status        string
}

// A pageType is a named type on the page.
type pageType struct {
	Name string
	Text template.HTML
}

// A Kind explains one kind of error.
type Kind struct{ Name, Title string }

// WritePage returns a document of WriteDocument as an HTML page for people.
func WritePage(text []byte, kinds []Kind) ([]byte, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	data := pageData{Info: d.Info, Accesses: d.Accesses, Style: template.CSS(pageStyle), Kinds: kinds}
	groups := map[string]*pageGroup{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		name := groupName(path)
		if groups[name] == nil {
			groups[name] = &pageGroup{Name: name}
		}
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			o := d.Paths[path][method]
			groups[name].Operations = append(groups[name].Operations, describeOperation(method, path, &o))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		data.Groups = append(data.Groups, *groups[name])
	}
	for _, name := range slices.Sorted(maps.Keys(d.Parts.Schemas)) {
		data.Types = append(data.Types, pageType{name, schemaText(d.Parts.Schemas[name], 0)})
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// groupName returns the first part of a path below the prefix of the API. What belongs to the
// caller is with the other operations of its kind.
func groupName(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, part := range parts[min(2, len(parts)):] {
		if part != "me" {
			return part
		}
	}
	return path
}

func describeOperation(method, path string, o *operation) pageOperation {
	out := pageOperation{operation: *o, Method: strings.ToUpper(method), Path: path}
	if o.Body != nil {
		out.Sends = contentText(o.Body.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if status != "default" {
			out.Status, out.Answer = status, contentText(o.Responses[status].Content)
		}
	}
	return out
}

// contentText describes the first content of a body.
func contentText(all map[string]content) template.HTML {
	if len(all) == 0 {
		return ""
	}
	kind := slices.Min(slices.Collect(maps.Keys(all)))
	if kind == file {
		return "a file"
	}
	return schemaText(all[kind].Schema, 0)
}

// schemaText writes a schema in TypeScript style, with links to the named types.
func schemaText(s *schema, depth int) template.HTML {
	switch {
	case s == nil:
		return "any"
	case s.Ref != "":
		name := template.HTMLEscapeString(s.Ref[strings.LastIndexByte(s.Ref, '/')+1:])
		return template.HTML(`<a href="#type-` + name + `">` + name + `</a>`)
	case len(s.AnyOf) > 0:
		var parts []string
		for _, one := range s.AnyOf {
			parts = append(parts, string(schemaText(one, depth)))
		}
		return template.HTML(strings.Join(parts, " | "))
	case s.Items != nil:
		return schemaText(s.Items, depth) + "[]"
	case len(s.Properties) > 0:
		return objectText(s, depth)
	case s.Additional != nil:
		return "{ [name]: " + schemaText(s.Additional, depth) + " }"
	}
	if s.Format != "" {
		return template.HTML(template.HTMLEscapeString(s.Type + " (" + s.Format + ")"))
	}
	return template.HTML(template.HTMLEscapeString(cmp.Or(s.Type, "any")))
}

func objectText(s *schema, depth int) template.HTML {
	var b strings.Builder
	indent := strings.Repeat("  ", depth)
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		b.WriteString(indent + "  " + template.HTMLEscapeString(name))
		if !slices.Contains(s.Required, name) {
			b.WriteString("?")
		}
		b.WriteString(": " + string(schemaText(s.Properties[name], depth+1)) + "\n")
	}
	b.WriteString(indent + "}")
	return template.HTML(b.String())
}
