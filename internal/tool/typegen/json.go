package typegen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A kind is a kind of JSON value.
type kind byte

const (
	jNull kind = iota
	jBool
	jNumber
	jString
	jArray
	jObject
)

// A node is a JSON value that keeps the order of object members. So generated types list parameters
// in the order in which the author of the tool wrote them.
type node struct {
	kind kind
	b    bool
	s    string   // value of a string, or a number as written
	keys []string // names of an object, each once; the last duplicate wins
	vals []*node  // values of an object or array
}

// Bounds on the input. A schema beyond them is not an error: it becomes unknown, with a note.
const (
	maxSchemaBytes = 1 << 20
	maxJSONDepth   = 128
	maxJSONNodes   = 100_000
)

var errTooBig = errors.New("too large")

// parseJSON parses a single JSON value within the bounds.
func parseJSON(raw []byte) (*node, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("%w: %d bytes, %d are read", errTooBig, len(raw), maxSchemaBytes)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	r := &jsonReader{dec: d}
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return n, nil
}

type jsonReader struct {
	dec   *json.Decoder
	nodes int
}

func (r *jsonReader) value(depth int) (*node, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	return r.from(t, depth)
}

func (r *jsonReader) from(t json.Token, depth int) (*node, error) {
	if r.nodes++; r.nodes > maxJSONNodes || depth > maxJSONDepth {
		return nil, errTooBig
	}
	switch t := t.(type) {
	case nil:
		return &node{}, nil
	case bool:
		return &node{kind: jBool, b: t}, nil
	case json.Number:
		return &node{kind: jNumber, s: t.String()}, nil
	case string:
		return &node{kind: jString, s: t}, nil
	case json.Delim:
		if t == '[' {
			return r.array(depth)
		}
		return r.object(depth)
	}
	return nil, fmt.Errorf("unexpected %v", t)
}

func (r *jsonReader) array(depth int) (*node, error) {
	n := &node{kind: jArray}
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.vals = append(n.vals, v)
	}
	_, err := r.dec.Token()
	return n, err
}

func (r *jsonReader) object(depth int) (*node, error) {
	n := &node{kind: jObject}
	at := map[string]int{}
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if i, dup := at[key]; dup {
			n.vals[i] = v
			continue
		}
		at[key] = len(n.keys)
		n.keys = append(n.keys, key)
		n.vals = append(n.vals, v)
	}
	_, err := r.dec.Token()
	return n, err
}

// get returns a member of an object, or nil if it is missing or n is not an object.
func (n *node) get(key string) *node {
	if n == nil || n.kind != jObject {
		return nil
	}
	for i, k := range n.keys {
		if k == key {
			return n.vals[i]
		}
	}
	return nil
}

// set adds or replaces a member of an object.
func (n *node) set(key string, v *node) {
	for i, k := range n.keys {
		if k == key {
			n.vals[i] = v
			return
		}
	}
	n.keys = append(n.keys, key)
	n.vals = append(n.vals, v)
}

// str returns a member that is a string, or "".
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == jString {
		return v.s
	}
	return ""
}

// list returns the elements of a member that is an array.
func (n *node) list(key string) []*node {
	if v := n.get(key); v != nil && v.kind == jArray {
		return v.vals
	}
	return nil
}

// object returns a member that is an object, or nil.
func (n *node) object(key string) *node {
	if v := n.get(key); v != nil && v.kind == jObject {
		return v
	}
	return nil
}

// isTrue reports whether a member is true.
func (n *node) isTrue(key string) bool {
	v := n.get(key)
	return v != nil && v.kind == jBool && v.b
}

// strings returns the strings in a member that is an array.
func (n *node) strings(key string) []string {
	var out []string
	for _, v := range n.list(key) {
		if v.kind == jString {
			out = append(out, v.s)
		}
	}
	return out
}

// appendJSON appends n as compact JSON.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case jBool:
		if n.b {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case jNumber:
		return append(b, n.s...)
	case jString:
		return appendJSONString(b, n.s)
	case jArray:
		b = append(b, '[')
		for i, v := range n.vals {
			if i > 0 {
				b = append(b, ',')
			}
			b = v.appendJSON(b)
		}
		return append(b, ']')
	case jObject:
		b = append(b, '{')
		for i, v := range n.vals {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSONString(b, n.keys[i]), ':')
			b = v.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendJSONString(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
