package typegen

import (
	"encoding/json"
	"fmt"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxMarked is how many leaves of a simulated value are marked at most: each is a look at the schema.
const maxMarked = 64

// Simulated gives a value that validates against a JSON Schema, as Example does, and that can be told from a real one where the
// schema leaves room: its texts and whole numbers are replaced by such as occur nowhere else, made of tag (from 0). The same schema and tag
// give the same value.
func Simulated(schema json.RawMessage, tag int) (json.RawMessage, error) {
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

// mark is a text or a whole number that occurs nowhere else.
func mark(k kind, tag, leaf int) string {
	if k == jNumber {
		return fmt.Sprintf("9700%05d%03d", tag, leaf)
	}
	return fmt.Sprintf("simulated-%d-%d", tag+1, leaf+1)
}

// collect gathers the texts and numbers in a value.
func collect(n *node, out *[]*node) {
	if n.kind == jString || n.kind == jNumber {
		*out = append(*out, n)
	}
	for _, v := range n.vals {
		collect(v, out)
	}
}
