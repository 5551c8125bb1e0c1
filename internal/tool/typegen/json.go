package typegen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/biplane-dev/biplane/internal/base/lazily"
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
	jUnread // a part that is read when it is first looked up
)

// A node is a JSON value that keeps the order of object members. So generated types list parameters
// in the order in which the author of the tool wrote them.
type node struct {
	kind kind
	b    bool
	s    string         // value of a string, or a number as written
	keys []string       // names of an object, each once; the last duplicate wins
	vals []*node        // values of an object or array
	at   map[string]int // positions of the names of a large object
	rest *unread        // the text of a part that is unread
}

// An unread is the text of a value, and the reader that read what is around it.
type unread struct {
	reader *jsonReader
	text   []byte
}

// largeObject is the number of names from which an object has an index of them.
const largeObject = 16

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
	r := &jsonReader{raw: raw, dec: newDecoder(raw)}
	n, err := r.readValue(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return n, nil
}

// A jsonReader reads JSON values. The decoder of encoding/json is several times slower.
type jsonReader struct {
	raw   []byte
	dec   *jsontext.Decoder
	nodes int
}

func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
}

// shelves are the members of a schema that hold parts for references (JSON Schema 2020-12, section
// 8.2.4; draft-07, section 9). Tools of one API often have hundreds of them, and use few.
var shelves = lazily.Words(`$defs definitions`)

// partDepth is the depth of the values in a shelf.
const partDepth = 2

// readShelf reads an object whose values stay unread.
func (r *jsonReader) readShelf(depth int) (*node, error) {
	if r.dec.PeekKind() != '{' {
		return r.readValue(depth)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, err
	}
	n := &node{kind: jObject}
	for r.dec.PeekKind() != '}' {
		key, err := r.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := key.String()
		text, err := r.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(r.dec.InputOffset())
		n.set(name, &node{kind: jUnread, rest: &unread{r, r.raw[end-len(text) : end]}})
	}
	_, err := r.dec.ReadToken()
	return n, err
}

// load reads n if it is unread. A part that is beyond the bounds becomes null, which no schema is.
func (n *node) load() *node {
	if n.kind != jUnread {
		return n
	}
	r, text := n.rest.reader, n.rest.text
	r.dec = newDecoder(text)
	v, err := r.readValue(partDepth)
	if err != nil {
		v = &node{}
	}
	*n = *v
	return n
}

func (r *jsonReader) readValue(depth int) (*node, error) {
	t, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if r.nodes++; r.nodes > maxJSONNodes || depth > maxJSONDepth {
		return nil, errTooBig
	}
	switch t.Kind() {
	case 'n':
		return &node{}, nil
	case 't', 'f':
		return &node{kind: jBool, b: t.Bool()}, nil
	case '0':
		return &node{kind: jNumber, s: t.String()}, nil
	case '"':
		return &node{kind: jString, s: t.String()}, nil
	case '[':
		return r.readArray(depth)
	}
	return r.readObject(depth)
}

func (r *jsonReader) readArray(depth int) (*node, error) {
	n := &node{kind: jArray}
	for r.dec.PeekKind() != ']' {
		v, err := r.readValue(depth + 1)
		if err != nil {
			return nil, err
		}
		n.vals = append(n.vals, v)
	}
	_, err := r.dec.ReadToken()
	return n, err
}

func (r *jsonReader) readObject(depth int) (*node, error) {
	n := &node{kind: jObject}
	for r.dec.PeekKind() != '}' {
		t, err := r.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := t.String()
		read := r.readValue
		if depth == 0 && shelves.Has(key) {
			read = r.readShelf
		}
		v, err := read(depth + 1)
		if err != nil {
			return nil, err
		}
		n.set(key, v)
	}
	_, err := r.dec.ReadToken()
	return n, err
}

// find returns the position of a member of an object, or -1.
func (n *node) find(key string) int {
	if n.at == nil {
		return slices.Index(n.keys, key)
	}
	if i, ok := n.at[key]; ok {
		return i
	}
	return -1
}

// get returns a member of an object, or nil if it is missing or n is not an object.
func (n *node) get(key string) *node {
	if n == nil || n.kind != jObject {
		return nil
	}
	if i := n.find(key); i >= 0 {
		return n.vals[i].load()
	}
	return nil
}

// set adds or replaces a member of an object.
func (n *node) set(key string, v *node) {
	if i := n.find(key); i >= 0 {
		n.vals[i] = v
		return
	}
	n.keys = append(n.keys, key)
	n.vals = append(n.vals, v)
	switch {
	case n.at != nil:
		n.at[key] = len(n.keys) - 1
	case len(n.keys) == largeObject:
		n.at = make(map[string]int, 2*largeObject)
		for i, k := range n.keys {
			n.at[k] = i
		}
	}
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

// appendJSON appends n as JSON, without spaces except in unread parts.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case jUnread:
		return append(b, n.rest.text...)
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
