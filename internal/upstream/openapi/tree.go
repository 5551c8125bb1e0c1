package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "github.com/oasdiff/yaml3"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a document and the files that it refers to.
const (
	maxDocument = 64 << 20  // bytes of all files
	maxDepth    = 200       // nested maps and lists
	maxNodes    = 2_000_000 // values of one file, after aliases are expanded
	maxFiles    = 200
	maxMarks    = 1_000_000 // characters of a YAML file that may begin a value
)

type kind byte

const (
	nullKind kind = iota
	boolKind
	numberKind
	stringKind
	listKind
	mapKind
)

// A node is a JSON value. Numbers and the order of maps are kept as written.
type node struct {
	kind   kind
	text   string // of a string: its value; of a number or boolean: its literal
	list   []*node
	fields []field
}

// A field is a member of a map.
type field struct {
	name  string
	value *node
}

// getField returns the value of a field, or nil.
func (n *node) getField(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].value
		}
	}
	return nil
}

// getText returns the string in a field, or "".
func (n *node) getText(name string) string {
	if v := n.getField(name); v != nil && v.kind == stringKind {
		return v.text
	}
	return ""
}

func (n *node) isTrue() bool { return n != nil && n.kind == boolKind && n.text == "true" }

func newText(s string) *node { return &node{kind: stringKind, text: s} }

func newMap(fields ...field) *node { return &node{kind: mapKind, fields: fields} }

func (n *node) addField(name string, v *node) { n.fields = append(n.fields, field{name, v}) }

// appendJSON appends the JSON text of a node.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case stringKind:
		return appendString(b, n.text)
	case numberKind, boolKind:
		return append(b, n.text...)
	case listKind:
		b = append(b, '[')
		for i, e := range n.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.appendJSON(b)
		}
		return append(b, ']')
	case mapKind:
		b = append(b, '{')
		for i, f := range n.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.name), ':')
			b = f.value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendString(b []byte, s string) []byte {
	text, err := tool.Marshal(s)
	if err != nil {
		panic(err) // can't happen: strings always marshal
	}
	return append(b, text...)
}

// decodeNode decodes a node into a Go value.
func decodeNode(n *node, to any) error { return json.Unmarshal(n.appendJSON(nil), to) }

// A parser counts what a text expands to.
type parser struct {
	nodes int
	// aliases are the YAML nodes being expanded, since an alias may name a value around it
	aliases map[*yaml.Node]bool
}

func (p *parser) countNode(depth int) error {
	switch p.nodes++; {
	case depth > maxDepth:
		return fmt.Errorf("maps and lists are nested more than %d levels deep", maxDepth)
	case p.nodes > maxNodes:
		return fmt.Errorf("it has more than %d values (aliases are expanded)", maxNodes)
	}
	return nil
}

// parseText parses JSON, which begins with a brace, or YAML.
func parseText(text []byte) (*node, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	head := bytes.TrimSpace(text)
	if len(head) == 0 {
		return nil, errors.New("it is empty")
	}
	var n *node
	var err error
	if head[0] == '{' {
		n, err = parseJSON(text)
	} else {
		n, err = parseYAML(text)
	}
	if err == nil && n.kind != mapKind {
		err = errors.New("it is not a map")
	}
	return n, err
}

// parseJSON parses one JSON value.
func parseJSON(text []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := new(parser).readJSON(d, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is text after the JSON value")
	}
	return n, nil
}

func (p *parser) readJSON(d *json.Decoder, depth int) (*node, error) {
	if err := p.countNode(depth); err != nil {
		return nil, err
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return newText(t), nil
	case json.Number:
		return &node{kind: numberKind, text: t.String()}, nil
	case bool:
		return &node{kind: boolKind, text: strconv.FormatBool(t)}, nil
	case json.Delim:
		n := &node{kind: listKind}
		if t == '{' {
			n.kind = mapKind
		}
		for d.More() {
			name := ""
			if t == '{' {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				name, _ = k.(string)
			}
			v, err := p.readJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				n.addField(name, v)
			} else {
				n.list = append(n.list, v)
			}
		}
		_, err := d.Token()
		return n, err
	}
	return &node{}, nil
}

func parseYAML(text []byte) (*node, error) {
	if !utf8.Valid(text) { // the library would read UTF-16, whose marks are not counted
		return nil, errors.New("it is not UTF-8")
	}
	if countMarks(text) > maxMarks {
		return nil, fmt.Errorf("it has more than %d values, too many for YAML: convert it to JSON", maxMarks)
	}
	var y yaml.Node
	if err := yaml.Unmarshal(text, &y); err != nil {
		return nil, err
	}
	if y.Kind == yaml.DocumentNode && len(y.Content) == 1 {
		return (&parser{aliases: map[*yaml.Node]bool{}}).convertYAML(y.Content[0], 0)
	}
	return nil, errors.New("it is not a YAML document")
}

// countMarks returns how many characters may begin a value. The library needs up to 400 bytes for
// each, before its tree can be counted.
func countMarks(text []byte) (n int) {
	for _, b := range lineBreaks {
		n += bytes.Count(text, b)
	}
	for i, c := range text {
		switch c {
		case '\n', '\r', ',', '[', '{', ':':
			n++
		case '-', '?':
			if i+1 == len(text) || bytes.IndexByte([]byte(" \t\r\n"), text[i+1]) >= 0 {
				n++
			}
		}
	}
	return n
}

// lineBreaks are the characters besides \r and \n that end lines in YAML 1.1, as the library does.
var lineBreaks = [][]byte{[]byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

func (p *parser) convertYAML(y *yaml.Node, depth int) (*node, error) {
	if err := p.countNode(depth); err != nil {
		return nil, err
	}
	switch y.Kind {
	case yaml.AliasNode:
		if y.Alias == nil || p.aliases[y.Alias] {
			return nil, fmt.Errorf("line %d: the alias *%s contains itself", y.Line, y.Value)
		}
		p.aliases[y.Alias] = true
		defer delete(p.aliases, y.Alias)
		return p.convertYAML(y.Alias, depth+1)
	case yaml.SequenceNode:
		n := &node{kind: listKind}
		for _, c := range y.Content {
			v, err := p.convertYAML(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, v)
		}
		return n, nil
	case yaml.MappingNode:
		n := newMap()
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			v, err := p.convertYAML(y.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			if k.Value == "<<" && k.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
				n.mergeFields(v)
				continue
			}
			n.addField(k.Value, v)
		}
		return n, nil
	}
	return convertScalar(y), nil
}

// mergeFields adds the fields of a YAML merge key that n doesn't have yet.
func (n *node) mergeFields(from *node) {
	for _, e := range append([]*node{from}, from.list...) {
		for _, f := range e.fields {
			if n.getField(f.name) == nil {
				n.addField(f.name, f.value)
			}
		}
	}
}

func convertScalar(y *yaml.Node) *node {
	switch y.ShortTag() {
	case "!!null":
		return &node{}
	case "!!bool":
		return &node{kind: boolKind, text: strings.ToLower(y.Value)}
	case "!!int", "!!float":
		if json.Valid([]byte(y.Value)) {
			return &node{kind: numberKind, text: y.Value}
		}
		var f float64
		if y.Decode(&f) == nil {
			if text, err := json.Marshal(f); err == nil {
				return &node{kind: numberKind, text: string(text)}
			}
		}
	}
	return newText(y.Value)
}
