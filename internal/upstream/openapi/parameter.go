package openapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A parameter is a parameter of an operation.
type parameter struct {
	name     string // on the wire
	argument string // name of the argument
	in       string
	style    string
	explode  bool
	reserved bool // allowReserved
	required bool
	asJSON   bool // content: application/json instead of a style
	numeric  bool // its type is a number
}

// newParameter reads a parameter whose references are followed.
func newParameter(n *node) (*parameter, error) {
	plain := newMap()
	for _, f := range n.fields {
		switch f.name {
		case "name", "in", "style", "explode", "allowReserved", "required":
			plain.addField(f.name, f.value)
		}
	}
	var k openapi3.Parameter
	if err := decodeNode(plain, &k); err != nil {
		return nil, err
	}
	p := &parameter{name: k.Name, argument: k.Name, in: k.In, reserved: k.AllowReserved,
		required: k.Required || k.In == "path"}
	if p.name == "" {
		return nil, errors.New("a parameter has no name")
	}
	if p.in == "header" && strings.ContainsFunc(p.name, func(r rune) bool { return !isTokenRune(r) }) {
		return nil, fmt.Errorf("the name of the header %q is invalid", web.ClipText(p.name))
	}
	if content := n.getField("content"); content != nil && len(content.fields) > 0 {
		if p.asJSON = isJSONType(content.fields[0].name); !p.asJSON {
			return nil, fmt.Errorf("the parameter %q has the content type %s, which is not supported",
				web.ClipText(p.name), web.ClipText(content.fields[0].name))
		}
	}
	m, err := k.SerializationMethod()
	if err != nil {
		return nil, err
	}
	p.style, p.explode = m.Style, m.Explode
	styles := map[string]string{"path": "simple label matrix", "query": "form spaceDelimited pipeDelimited deepObject",
		"header": "simple", "cookie": "form"}
	known, ok := styles[p.in]
	if !ok {
		return nil, fmt.Errorf("the parameter %q is in %q, not in path, query, header or cookie", web.ClipText(p.name),
			web.ClipText(p.in))
	}
	for style := range strings.SplitSeq(known, " ") {
		if style == p.style {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the parameter %q in %s has the unknown style %q", web.ClipText(p.name), p.in,
		web.ClipText(p.style))
}

func isTokenRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// A pair is a name and a value on the wire, escaped if they are part of a URL.
type pair struct{ name, value string }

// An escaper escapes a text for its place on the wire.
type escaper func(string) string

// scalarText returns the text of a scalar. Nested values, which no style has a form for, are JSON.
func scalarText(v *node) string {
	switch v.kind {
	case stringKind, numberKind, boolKind:
		return v.text
	case nullKind:
		return ""
	}
	return string(v.appendJSON(nil))
}

// joinList returns the elements of a list, escaped and joined.
func joinList(v *node, esc escaper, sep string) string {
	parts := make([]string, len(v.list))
	for i, e := range v.list {
		parts[i] = esc(scalarText(e))
	}
	return strings.Join(parts, sep)
}

// joinFields returns the fields of a map, escaped and joined.
func joinFields(v *node, esc escaper, equals, sep string) string {
	parts := make([]string, len(v.fields))
	for i, f := range v.fields {
		parts[i] = esc(f.name) + equals + esc(scalarText(f.value))
	}
	return strings.Join(parts, sep)
}

// formatSimple formats a value in the style simple.
func (p *parameter) formatSimple(v *node, esc escaper) string {
	switch {
	case p.asJSON:
		return esc(string(v.appendJSON(nil)))
	case v.kind == listKind:
		return joinList(v, esc, ",")
	case v.kind == mapKind && p.explode:
		return joinFields(v, esc, "=", ",")
	case v.kind == mapKind:
		return joinFields(v, esc, ",", ",")
	}
	return esc(scalarText(v))
}

// formatPath formats a value as part of a path.
func (p *parameter) formatPath(v *node) (string, error) {
	esc := func(s string) string { return escapeText(s, false) }
	switch {
	case p.style == "simple" || p.asJSON:
		out := p.formatSimple(v, esc)
		if out == "" || out == "." || out == ".." {
			return "", fmt.Errorf("the argument %q is %q, which would change the path: use another value", p.argument,
				out)
		}
		return out, nil
	case p.style == "label":
		sep, equals := ",", ","
		if p.explode {
			sep, equals = ".", "="
		}
		switch v.kind {
		case listKind:
			return "." + joinList(v, esc, sep), nil
		case mapKind:
			return "." + joinFields(v, esc, equals, sep), nil
		}
		if s := esc(scalarText(v)); s != "" && s != "." {
			return "." + s, nil
		}
		return "", fmt.Errorf("the argument %q would change the path: use another value", p.argument)
	}
	name := ";" + esc(p.name)
	switch {
	case v.kind == listKind && p.explode:
		return name + "=" + joinList(v, esc, name+"="), nil
	case v.kind == listKind:
		return name + "=" + joinList(v, esc, ","), nil
	case v.kind == mapKind && p.explode:
		return ";" + joinFields(v, esc, "=", ";"), nil
	case v.kind == mapKind:
		return name + "=" + joinFields(v, esc, ",", ","), nil
	}
	return name + "=" + esc(scalarText(v)), nil
}

// formatQuery formats a value for the query, or for a cookie.
func (p *parameter) formatQuery(v *node, esc escaper) []pair {
	name := esc(p.name)
	sep := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[p.style]
	if sep == "" {
		sep = ","
	}
	switch {
	case p.asJSON:
		return []pair{{name, esc(string(v.appendJSON(nil)))}}
	case p.style == "deepObject":
		return appendDeep(nil, name, v, esc)
	case v.kind == listKind && p.explode:
		var out []pair
		for _, e := range v.list {
			out = append(out, pair{name, esc(scalarText(e))})
		}
		return out
	case v.kind == listKind:
		return []pair{{name, joinList(v, esc, sep)}}
	case v.kind == mapKind && p.explode && p.style == "form":
		var out []pair
		for _, f := range v.fields {
			out = append(out, pair{esc(f.name), esc(scalarText(f.value))})
		}
		return out
	case v.kind == mapKind:
		return []pair{{name, joinFields(v, esc, sep, sep)}}
	}
	return []pair{{name, esc(scalarText(v))}}
}

// appendDeep formats a value in the style deepObject: name[field]=value. The style is defined for
// maps of scalars; deeper ones and lists are written as servers commonly read them.
func appendDeep(out []pair, name string, v *node, esc escaper) []pair {
	switch v.kind {
	case mapKind:
		for _, f := range v.fields {
			out = appendDeep(out, name+esc("[")+esc(f.name)+esc("]"), f.value, esc)
		}
		return out
	case listKind:
		for i, e := range v.list {
			out = appendDeep(out, name+esc("[")+strconv.Itoa(i)+esc("]"), e, esc)
		}
		return out
	}
	return append(out, pair{name, esc(scalarText(v))})
}

// escapeText percent-encodes all but unreserved characters (RFC 3986, section 2.3) and, if reserved
// is set, reserved ones that may stand in a query.
func escapeText(s string, reserved bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0,
			reserved && strings.IndexByte(":/?@!$'()*,;", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
