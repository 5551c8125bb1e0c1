package config

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Limits on a configuration file, far above what people write.
const (
	configBytes = 1 << 20
	configDepth = 32     // nested maps and lists
	configNodes = 50_000 // after aliases are expanded
)

// A node is one value of a configuration file, YAML or JSON, with its position.
type node struct {
	line, col int // 1-based
	kind      nodeKind
	text      string // of a scalar, as written, without quotes
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

// named are the top-level keys whose entries have names.
var named = []string{"mcpServers", "tools"}

// partDigests returns digests of a configuration's parts by name: one of each key, or of each entry
// of the keys in named and apiKinds. Variables are not expanded.
func partDigests(root *node) map[string][sha256.Size]byte {
	out := map[string][sha256.Size]byte{}
	for _, f := range root.fields {
		if (slices.Contains(named, f.key.text) || apiKinds[f.key.text] != nil) && f.value.kind == mapNode {
			for _, e := range f.value.fields {
				out[f.key.text+"."+e.key.text] = sha256.Sum256([]byte(e.value.canonicalText()))
			}
			continue
		}
		out[f.key.text] = sha256.Sum256([]byte(f.value.canonicalText()))
	}
	return out
}

// canonicalText returns an unambiguous text of a node. It doesn't depend on syntax, comments and
// the order of a map.
func (n *node) canonicalText() string {
	var b strings.Builder
	switch n.kind {
	case listNode:
		for _, e := range n.list {
			b.WriteString(e.canonicalText())
		}
		return "[" + b.String() + "]"
	case mapNode:
		fields := slices.SortedFunc(slices.Values(n.fields), func(a, b field) int {
			return strings.Compare(a.key.text, b.key.text)
		})
		for _, f := range fields {
			b.WriteString(f.key.canonicalText() + f.value.canonicalText())
		}
		return "{" + b.String() + "}"
	}
	return n.kind.String() + ":" + strings.ReplaceAll(strings.ReplaceAll(n.text, "\\", "\\\\"), ";", "\\;") + ";"
}
