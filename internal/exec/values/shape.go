package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// Outline returns a one-line description of the type of a JSON value, and a sensible limit for
// reading it.
func Outline(v json.RawMessage) (shape, limit string) {
	limit = "20000"
	if v[0] == '[' {
		limit = "50"
	}
	return text.Cut(shapeOf(v, 0), 1200), limit
}

const (
	shapeDepth  = 4
	shapeFields = 24
	shapeItems  = 20
)

// shapeOf returns the type of v in TypeScript notation, with the lengths of arrays and long
// strings.
func shapeOf(v json.RawMessage, depth int) string {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		return "undefined"
	}
	switch v[0] {
	case '{':
		return objectShape(v, depth)
	case '[':
		return arrayShape(v, depth)
	case '"':
		if len(v) > 500 {
			return fmt.Sprintf("string (%s characters)", text.Group(utf8.RuneCount(v)-2))
		}
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func objectShape(v json.RawMessage, depth int) string {
	if depth >= shapeDepth {
		return "{…}"
	}
	d := json.NewDecoder(bytes.NewReader(v))
	if _, err := d.Token(); err != nil {
		return "object"
	}
	var parts []string
	n := 0
	for ; d.More(); n++ {
		k, err := d.Token()
		var field json.RawMessage
		if err != nil || d.Decode(&field) != nil {
			return "object"
		}
		if n < shapeFields {
			parts = append(parts, text.Cut(fmt.Sprint(k), 60)+": "+shapeOf(field, depth+1))
		}
	}
	if n > shapeFields {
		parts = append(parts, fmt.Sprintf("… %s more fields", text.Group(n-shapeFields)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func arrayShape(v json.RawMessage, depth int) string {
	n := 0
	kinds := map[string]bool{}
	for item := range Items(v) {
		if n++; n <= shapeItems && depth < shapeDepth {
			kinds[shapeOf(item, depth+1)] = true
		}
	}
	switch {
	case n == 0:
		return "[]"
	case depth >= shapeDepth:
		return fmt.Sprintf("array of %s", text.Group(n))
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	sort.Strings(names)
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return fmt.Sprintf("array of %s %s", text.Group(n), strings.Join(names, " | "))
}
