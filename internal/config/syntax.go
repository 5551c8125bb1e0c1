package config

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/tailscale/hujson"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/yamldoc"
)

// parseFile parses a configuration file. It is JSON with comments if its first character or a file
// name ending in .json or .jsonc indicates that, otherwise YAML. A nil node means an empty file.
func parseFile(name string, b []byte) (*node, *Problem) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if len(b) > configBytes {
		return nil, &Problem{Message: fmt.Sprintf("the file has %d bytes: a configuration has at most %d", len(b),
			configBytes)}
	}
	if !utf8.Valid(b) {
		return nil, &Problem{Message: "the file is not UTF-8 text"}
	}
	if head := bytes.TrimSpace(b); len(head) == 0 {
		return nil, nil
	} else if head[0] == '{' || bytes.HasPrefix(head, []byte("//")) || bytes.HasPrefix(head, []byte("/*")) ||
		strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonc") {
		return parseJSON(b)
	}
	return parseYAML(b)
}

// ---- JSON with comments

type jsonTree struct {
	text  []byte
	lines []int // offsets at which lines begin
	count int
}

var jsonPosition = lazily.Regexp(`^hujson: line (\d+), column (\d+): (.*)$`)

func parseJSON(text []byte) (*node, *Problem) {
	t := &jsonTree{text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	if p := t.checkDepth(); p != nil {
		return nil, p
	}
	v, err := hujson.Parse(text)
	if err != nil {
		if m := jsonPosition.Get().FindStringSubmatch(err.Error()); m != nil {
			line, _ := strconv.Atoi(m[1])
			col, _ := strconv.Atoi(m[2])
			return nil, &Problem{line, col, m[3]}
		}
		return nil, &Problem{Line: 1, Column: 1, Message: strings.TrimPrefix(err.Error(), "hujson: ")}
	}
	n, p := t.convertNode(&v)
	return n, p
}

// checkDepth rejects deep nesting before the parser, which is recursive, runs. It also counts
// brackets in strings and comments; no real configuration has that many.
func (t *jsonTree) checkDepth() *Problem {
	d := 0
	for i, c := range t.text {
		switch c {
		case '[', '{':
			if d++; d > 10*configDepth {
				return t.problemAt(i, "nested too deeply")
			}
		case ']', '}':
			d = max(0, d-1)
		}
	}
	return nil
}

func (t *jsonTree) lineColumn(offset int) (line, col int) {
	lo, hi := 0, len(t.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; t.lines[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, utf8.RuneCount(t.text[t.lines[lo]:offset]) + 1
}

func (t *jsonTree) problemAt(offset int, msg string) *Problem {
	line, col := t.lineColumn(offset)
	return &Problem{line, col, msg}
}

func (t *jsonTree) convertNode(v *hujson.Value) (*node, *Problem) {
	n := &node{}
	n.line, n.col = t.lineColumn(v.StartOffset)
	if t.count++; t.count > configNodes {
		return nil, t.problemAt(v.StartOffset, "too many values for a configuration")
	}
	switch x := v.Value.(type) {
	case *hujson.Object:
		n.kind = mapNode
		for i := range x.Members {
			k, p := t.convertNode(&x.Members[i].Name)
			if p != nil {
				return nil, p
			}
			e, p := t.convertNode(&x.Members[i].Value)
			if p != nil {
				return nil, p
			}
			n.fields = append(n.fields, field{k, e})
		}
	case *hujson.Array:
		n.kind = listNode
		for i := range x.Elements {
			e, p := t.convertNode(&x.Elements[i])
			if p != nil {
				return nil, p
			}
			n.list = append(n.list, e)
		}
	case hujson.Literal:
		n.text = x.String()
		switch x.Kind() {
		case '"':
			n.kind = stringNode
		case 't', 'f':
			n.kind = boolNode
		case '0':
			n.kind = numberNode
		}
	}
	return n, nil
}

// ---- YAML

type yamlTree struct {
	anchors map[string]*node
	count   int
}

func parseYAML(b []byte) (*node, *Problem) {
	body, err := yamldoc.ParseDocument(b)
	if err != nil {
		return nil, &Problem{max(err.Line, 1), max(err.Column, 1), err.Message}
	}
	if body == nil {
		return nil, nil
	}
	t := &yamlTree{anchors: map[string]*node{}}
	return t.convertNode(body, 0)
}

func (t *yamlTree) convertNode(v ast.Node, depth int) (*node, *Problem) {
	n := &node{line: 1, col: 1}
	if tk := v.GetToken(); tk != nil && tk.Position != nil {
		n.line, n.col = tk.Position.Line, tk.Position.Column
	}
	if depth > configDepth {
		return nil, &Problem{n.line, n.col, "nested too deeply"}
	}
	if t.count++; t.count > configNodes {
		return nil, &Problem{n.line, n.col, "too many values for a configuration"}
	}
	switch x := v.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.kind, n.text = stringNode, x.Value
	case *ast.LiteralNode:
		n.kind = stringNode
		if x.Value != nil {
			n.text = x.Value.Value
		}
	case *ast.BoolNode:
		n.kind, n.text = boolNode, strconv.FormatBool(x.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = numberNode, v.GetToken().Value
	case *ast.AnchorNode:
		return t.convertAnchor(x, n, depth)
	case *ast.AliasNode:
		return t.resolveAlias(x, n)
	case *ast.SequenceNode:
		return t.convertSequence(x, n, depth)
	case *ast.MappingNode:
		n.kind = mapNode
		for _, merging := range []bool{false, true} { // the map's own keys override those merged with <<
			for _, e := range x.Values {
				if _, ok := e.Key.(*ast.MergeKeyNode); ok != merging {
					continue
				}
				if p := t.convertEntry(n, e, depth); p != nil {
					return nil, p
				}
			}
		}
		if len(n.fields) > 0 { // the token of a block map is its first ':'
			n.line, n.col = n.fields[0].key.line, n.fields[0].key.col
		}
	case *ast.MappingValueNode:
		n.kind = mapNode
		if p := t.convertEntry(n, x, depth); p != nil {
			return nil, p
		}
	default:
		return nil, &Problem{n.line, n.col, "this is not allowed in a configuration"}
	}
	return n, nil
}

func (t *yamlTree) convertSequence(x *ast.SequenceNode, n *node, depth int) (*node, *Problem) {
	n.kind = listNode
	for _, e := range x.Values {
		c, p := t.convertNode(e, depth+1)
		if p != nil {
			return nil, p
		}
		n.list = append(n.list, c)
	}
	return n, nil
}

func (t *yamlTree) convertAnchor(x *ast.AnchorNode, n *node, depth int) (*node, *Problem) {
	if x.Value == nil || x.Name == nil {
		return nil, &Problem{n.line, n.col, "an anchor needs a name and a value"}
	}
	c, p := t.convertNode(x.Value, depth)
	if p != nil {
		return nil, p
	}
	t.anchors[x.Name.GetToken().Value] = c
	return c, nil
}

// resolveAlias returns the value of an anchor. Its nodes are counted again, since a few aliases of
// aliases can expand to millions.
func (t *yamlTree) resolveAlias(x *ast.AliasNode, n *node) (*node, *Problem) {
	name := ""
	if x.Value != nil {
		name = x.Value.GetToken().Value
	}
	c := t.anchors[name]
	if c == nil {
		return nil, &Problem{n.line, n.col, fmt.Sprintf("unknown anchor %q: define it above", clipText(name))}
	}
	if !t.withinLimit(c) {
		return nil, &Problem{n.line, n.col, "too many values for a configuration"}
	}
	return c, nil
}

func (t *yamlTree) withinLimit(n *node) bool {
	if t.count++; t.count > configNodes {
		return false
	}
	for _, c := range n.list {
		if !t.withinLimit(c) {
			return false
		}
	}
	for _, f := range n.fields {
		if !t.withinLimit(f.value) {
			return false
		}
	}
	return true
}

func (t *yamlTree) convertEntry(n *node, e *ast.MappingValueNode, depth int) *Problem {
	value, p := t.convertNode(e.Value, depth+1)
	if p != nil {
		return p
	}
	if _, ok := e.Key.(*ast.MergeKeyNode); ok {
		return mergeKeys(n, value)
	}
	tk := e.Key.GetToken()
	key := &node{line: tk.Position.Line, col: tk.Position.Column, kind: stringNode, text: tk.Value}
	if _, ok := e.Key.(*ast.MappingKeyNode); ok {
		return &Problem{key.line, key.col, "a key is plain text"}
	}
	n.fields = append(n.fields, field{key, value})
	return nil
}

// mergeKeys adds the keys of "<<: *anchor" that n lacks.
func mergeKeys(n, from *node) *Problem {
	if from.kind != mapNode {
		return &Problem{from.line, from.col, "<< requires a map, not " + from.kind.String()}
	}
	for _, f := range from.fields {
		has := false
		for _, g := range n.fields {
			has = has || g.key.text == f.key.text
		}
		if !has {
			n.fields = append(n.fields, f)
		}
	}
	return nil
}
