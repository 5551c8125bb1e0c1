package config

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Bounds on a configuration file. They are far above what a person writes.
const (
	configBytes = 1 << 20
	configDepth = 32     // nested maps and lists
	configNodes = 50_000 // after aliases are followed
)

// A node is one value of a configuration file, of YAML and of JSON alike, and where it stands.
type node struct {
	line, col int // 1-based
	kind      nodeKind
	text      string // of a scalar, as it was written but for quotes
	list      []*node
	fields    []field
}

type nodeKind int

const (
	nullNode   nodeKind = iota
	stringNode          // quoted, or neither a number nor a boolean
	numberNode
	boolNode
	listNode
	mapNode
)

var kindNames = [...]string{"nothing", "text", "a number", "true or false", "a list", "a map"}

func (k nodeKind) String() string { return kindNames[k] }

// A field is a key of a map, with its value.
type field struct {
	key   *node
	value *node
}

// named are the upper keys of a configuration whose entries have names of their own.
var named = []string{"mcpServers", "openapi", "folders", "tools"}

// digests gives what a configuration's parts are, by their names: each key, and each entry of those
// that have some. Variables are not expanded.
func digests(root *node) map[string][sha256.Size]byte {
	out := map[string][sha256.Size]byte{}
	for _, f := range root.fields {
		if slices.Contains(named, f.key.text) && f.value.kind == mapNode {
			for _, e := range f.value.fields {
				out[f.key.text+"."+e.key.text] = sha256.Sum256([]byte(e.value.canonical()))
			}
			continue
		}
		out[f.key.text] = sha256.Sum256([]byte(f.value.canonical()))
	}
	return out
}

// canonical writes a node as text that no other one has: form, order of a map and comments make no
// difference.
func (n *node) canonical() string {
	var b strings.Builder
	switch n.kind {
	case listNode:
		for _, e := range n.list {
			b.WriteString(e.canonical())
		}
		return "[" + b.String() + "]"
	case mapNode:
		fields := slices.SortedFunc(slices.Values(n.fields), func(a, b field) int { return strings.Compare(a.key.text, b.key.text) })
		for _, f := range fields {
			b.WriteString(f.key.canonical() + f.value.canonical())
		}
		return "{" + b.String() + "}"
	}
	return n.kind.String() + ":" + strings.ReplaceAll(strings.ReplaceAll(n.text, "\\", "\\\\"), ";", "\\;") + ";"
}
