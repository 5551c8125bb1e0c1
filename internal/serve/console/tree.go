package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a tree on a page.
const (
	maxNodes = 2000
	maxDepth = 32
	maxLeaf  = 8 << 10 // bytes of one text
)

// A node is a value of a JSON text, for a page. Its texts are printable.
type node struct {
	Key   string // of a member or an element; empty at the top
	Text  string // of a leaf
	Class string // of its colour
	Count string // how many children it has
	Nodes []*node
	Open  bool // shown at first
}

// IsLeaf reports whether the node has no children.
func (n *node) IsLeaf() bool { return n.Nodes == nil && n.Count == "" }

// A tree is a JSON text as nodes.
type tree struct {
	Root    *node
	Cut     bool   // parts were left out
	Text    string // the text, if it is not JSON
	decoder *json.Decoder
	left    int
}

// newTree returns the tree of a JSON text; nil if the text is empty. Order, repeated members and
// numbers are kept as they are.
func newTree(text json.RawMessage) *tree {
	if len(text) == 0 {
		return nil
	}
	t := &tree{decoder: json.NewDecoder(bytes.NewReader(text)), left: maxNodes}
	t.decoder.UseNumber()
	root, err := t.readValue("", 0)
	switch {
	case err == nil:
		t.Root = root
	case errors.Is(err, errCut):
		t.Root, t.Cut = root, true
	default:
		t.Text, t.Cut = truncateText(tool.Visible(text), maxShown)
	}
	return t
}

var errCut = errors.New("the tree is too large")

// readValue reads a value and all that it contains.
func (t *tree) readValue(key string, depth int) (*node, error) {
	token, err := t.decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &node{Key: tool.VisibleLine(key), Open: depth < 2}
	d, ok := token.(json.Delim)
	if !ok {
		n.Text, n.Class = leafText(token)
		return n, nil
	}
	n.Nodes = []*node{}
	count := 0
	for t.decoder.More() {
		if t.left--; t.left < 0 || depth == maxDepth {
			n.Count = fmt.Sprintf("%d and more", count)
			return n, errCut
		}
		key := fmt.Sprint(count)
		if d == '{' {
			k, err := t.decoder.Token()
			if err != nil {
				return n, err
			}
			key = fmt.Sprint(k)
		}
		child, err := t.readValue(key, depth+1)
		if child != nil {
			n.Nodes, count = append(n.Nodes, child), count+1
		}
		if err != nil {
			n.Count = fmt.Sprintf("%d and more", count)
			return n, err
		}
	}
	if _, err := t.decoder.Token(); err != nil && !errors.Is(err, io.EOF) { // the closing bracket
		return n, err
	}
	if n.Count = fmt.Sprintf("[%d]", count); d == '{' {
		n.Count = fmt.Sprintf("{%d}", count)
	}
	return n, nil
}

// leafText returns the printable text of a leaf, and its class.
func leafText(token json.Token) (text, class string) {
	switch v := token.(type) {
	case string:
		text, cut := truncateText(tool.Visible([]byte(v)), maxLeaf)
		if cut {
			text += "…"
		}
		return `"` + text + `"`, "s"
	case json.Number:
		text, _ := truncateText(v.String(), maxLeaf)
		return text, "n"
	case nil:
		return "null", "k"
	}
	return fmt.Sprint(token), "k"
}
