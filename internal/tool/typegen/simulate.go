package typegen

import (
	"encoding/json"
	"fmt"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxMarked is the maximum number of leaves to mark in a simulated value: each is validated against
// the schema.
const maxMarked = 64

// SimulateValue returns a value that validates against a JSON Schema, like an example, but can be
// told from a real one if the schema allows. Strings and numbers are replaced by unique ones made
// from tag (from 0). The same schema and tag produce the same value.
func SimulateValue(schema json.RawMessage, tag int) (json.RawMessage, error) {
	v, err := exampleValue(schema)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "no value that validates: %w", err)
	}
	root, err := parseJSON(schema)
	if err != nil {
		return nil, err
	}
	check, err := compileSchema(root, true)
	if err != nil {
		return nil, err
	}
	var leaves []*node
	collect(v, &leaves)
	for i, leaf := range leaves[:min(len(leaves), maxMarked)] {
		was := leaf.s
		if leaf.s = mark(leaf.kind, tag, i); check.check(v) != nil {
			leaf.s = was
		}
	}
	return v.appendJSON(nil), nil
}

// mark returns a unique string or integer.
func mark(k kind, tag, leaf int) string {
	if k == jNumber {
		return fmt.Sprintf("9700%05d%03d", tag, leaf)
	}
	return fmt.Sprintf("simulated-%d-%d", tag+1, leaf+1)
}

// collect appends the strings and numbers in a value to out.
func collect(n *node, out *[]*node) {
	if n.kind == jString || n.kind == jNumber {
		*out = append(*out, n)
	}
	for _, v := range n.vals {
		collect(v, out)
	}
}
