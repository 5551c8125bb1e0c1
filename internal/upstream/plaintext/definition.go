package plaintext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Definition returns the definition of a tool (MCP Tool) without hidden characters. Texts are
// cleaned. Enumeration values, defaults, patterns and an output schema with hidden characters are
// omitted. Names that a call needs can't be changed: if one has hidden characters, Definition
// returns an error that says which. Checking the tool's own name is left to the caller. A
// definition without hidden characters is returned byte for byte.
func Definition(raw json.RawMessage) (json.RawMessage, error) {
	if !mayHaveHidden(raw) {
		return raw, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	top, err := readNode(d)
	if err != nil {
		return nil, fmt.Errorf("the definition can't be read: %w", err)
	}
	c := &cleaner{}
	kept := top.members[:0]
	for _, m := range top.members {
		switch m.key {
		case "name":
		case "inputSchema":
			if err := c.cleanSchema(m.value); err != nil {
				return nil, fmt.Errorf("its inputSchema %w", err)
			}
		case "outputSchema":
			if c.cleanSchema(m.value) != nil {
				c.changed = true
				continue
			}
		default:
			if !c.isPlain(m.key) {
				continue
			}
			c.cleanText(m.value)
		}
		kept = append(kept, m)
	}
	if !c.changed {
		return raw, nil
	}
	top.members = kept
	var out bytes.Buffer
	if err := top.writeJSON(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// maxListed is the maximum number of characters that ListHidden returns.
const maxListed = 8

// ListHidden returns the different hidden characters in the strings of JSON, in their order, the
// first few. It omits what word processors insert: carriage returns, soft hyphens,
// byte order marks and joiners.
func ListHidden(raw json.RawMessage) (out []rune) {
	if !mayHaveHidden(raw) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for len(out) < maxListed {
		t, err := d.Token()
		if err != nil {
			break
		}
		text, _ := t.(string)
		for _, r := range text {
			ordinary := r == '\r' || r == 0xad || r == 0xfeff || !IsHidden(r)
			if !ordinary && len(out) < maxListed && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// mayHaveHidden reports whether JSON may contain hidden characters, literally or as escapes.
func mayHaveHidden(raw []byte) bool {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			if i+1 < len(raw) && strings.IndexByte("ubfr", raw[i+1]) >= 0 {
				return true
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError || IsHidden(r) || isJoiner(r) {
				return true
			}
			i += n
			continue
		case c != '\r' && IsHidden(rune(c)):
			return true
		}
		i++
	}
	return false
}

// A node is a JSON value: an object, an array, a string, or another literal.
type node struct {
	kind    byte // '{', '[', '"', or 0
	members []member
	items   []*node
	text    string // the value of a string, or the literal
}

type member struct {
	key   string
	value *node
}

func readNode(d *json.Decoder) (*node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return &node{kind: '"', text: t}, nil
	case json.Number:
		return &node{text: t.String()}, nil
	case bool:
		return &node{text: fmt.Sprint(t)}, nil
	case json.Delim:
		n := &node{kind: byte(t)}
		for d.More() {
			key := ""
			if t == '{' {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				key, _ = k.(string)
			}
			v, err := readNode(d)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				n.members = append(n.members, member{key, v})
			} else {
				n.items = append(n.items, v)
			}
		}
		_, err := d.Token()
		return n, err
	}
	return &node{text: "null"}, nil
}

func (n *node) writeJSON(w *bytes.Buffer) error {
	quoted := func(s string) error {
		text, err := tool.Marshal(s)
		w.Write(text)
		return err
	}
	switch n.kind {
	case '"':
		return quoted(n.text)
	case '{':
		w.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := quoted(m.key); err != nil {
				return err
			}
			w.WriteByte(':')
			if err := m.value.writeJSON(w); err != nil {
				return err
			}
		}
		w.WriteByte('}')
	case '[':
		w.WriteByte('[')
		for i, v := range n.items {
			if i > 0 {
				w.WriteByte(',')
			}
			if err := v.writeJSON(w); err != nil {
				return err
			}
		}
		w.WriteByte(']')
	default:
		_, err := io.WriteString(w, n.text)
		return err
	}
	return nil
}

// isClean reports whether Clean would change no string in n, including the names of its members.
func (n *node) isClean() bool {
	return (n.kind != '"' || IsClean(n.text)) && !slices.ContainsFunc(n.items, func(v *node) bool {
		return !v.isClean()
	}) &&
		!slices.ContainsFunc(n.members, func(m member) bool { return !IsClean(m.key) || !m.value.isClean() })
}

// A cleaner modifies nodes in place.
type cleaner struct{ changed bool }

// isPlain reports whether a name is clean. If it isn't, its member must be removed.
func (c *cleaner) isPlain(name string) bool {
	ok := IsClean(name)
	c.changed = c.changed || !ok
	return ok
}

// cleanText cleans a value that is only read, not used in calls.
func (c *cleaner) cleanText(n *node) {
	if n.kind == '"' {
		if s := CleanText(n.text); s != n.text {
			n.text, c.changed = s, true
		}
	}
	for _, v := range n.items {
		c.cleanText(v)
	}
	n.members = slices.DeleteFunc(n.members, func(m member) bool {
		if !c.isPlain(m.key) {
			return true
		}
		c.cleanText(m.value)
		return false
	})
}

// cleanSchema cleans a JSON Schema.
func (c *cleaner) cleanSchema(n *node) error {
	switch n.kind {
	case '"':
		c.cleanText(n)
	case '[':
		for _, v := range n.items {
			if err := c.cleanSchema(v); err != nil {
				return err
			}
		}
	case '{':
		kept := n.members[:0]
		for _, m := range n.members {
			keep, err := c.cleanKeyword(m)
			if err != nil {
				return err
			}
			if keep {
				kept = append(kept, m)
			}
			c.changed = c.changed || !keep
		}
		n.members = kept
	}
	return nil
}

// cleanKeyword cleans one member of a schema, and reports whether it is kept.
func (c *cleaner) cleanKeyword(m member) (keep bool, _ error) {
	if !IsClean(m.key) {
		return false, hiddenIn(m.key)
	}
	switch m.key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		for _, p := range m.value.members {
			if !IsClean(p.key) {
				return false, hiddenIn(p.key)
			}
			if err := c.cleanSchema(p.value); err != nil {
				return false, err
			}
		}
	case "enum":
		before := len(m.value.items)
		m.value.items = slices.DeleteFunc(m.value.items, func(v *node) bool { return !v.isClean() })
		c.changed = c.changed || len(m.value.items) < before
		if before > 0 && len(m.value.items) == 0 {
			return false, fmt.Errorf("has an enumeration with only hidden characters")
		}
	case "const", "required", "dependentRequired", "type", "$ref", "$dynamicRef", "$id", "$anchor", "$dynamicAnchor":
		if !m.value.isClean() {
			return false, hiddenIn(m.key)
		}
	case "default", "pattern", "format":
		return m.value.isClean(), nil
	case "examples", "example", "title", "description", "$comment":
		c.cleanText(m.value)
	default:
		return true, c.cleanSchema(m.value)
	}
	return true, nil
}

func hiddenIn(name string) error {
	for _, r := range name {
		if IsHidden(r) || isJoiner(r) {
			return fmt.Errorf("has the hidden character %U in the name %q", r, strings.TrimSpace(CleanText(name)))
		}
	}
	return fmt.Errorf("has hidden characters in %q", name)
}
