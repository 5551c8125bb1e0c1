package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// maxPlainArguments is the maximum number of arguments that a plain signature lists.
const maxPlainArguments = 40

// plainSignature returns the signature that search shows without Config.Describe: the arguments by
// name, with their simple types.
func plainSignature(e *Entry) Signature {
	input := decodeSchema(e.Tool.InputSchema)
	required := map[string]bool{}
	for _, name := range input.RequiredNames() {
		required[name] = true
	}
	names := input.PropertyNames()
	slices.SortFunc(names, func(a, b string) int {
		if required[a] != required[b] {
			if required[a] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var params, example []string
	for i, name := range names {
		if i == maxPlainArguments {
			params = append(params, fmt.Sprintf("/* and %d more */", len(names)-i))
			break
		}
		key := name
		if !isIdentifier(name) {
			key = short(name)
		}
		optional := "?"
		property, _ := input.Property(name)
		typ, value := plainType(property)
		if required[name] {
			optional = ""
			example = append(example, key+": "+value)
		}
		params = append(params, key+optional+": "+typ)
	}
	arg, given := "", ""
	if len(params) > 0 {
		arg = "args: { " + strings.Join(params, "; ") + " }"
	}
	if len(example) > 0 {
		given = "{ " + strings.Join(example, ", ") + " }"
	}
	s := Signature{
		Code:    fmt.Sprintf("%s(%s): Promise<unknown>", e.Path(), arg),
		Example: fmt.Sprintf("await %s(%s)", e.Path(), given),
	}
	if e.Tool.OutputSchema == nil {
		s.ResultNote = "the type of the result is not known: look at it first"
	}
	return s
}

// decodeSchema reads a tool's schema. Schemas that exceed the limits are read as the zero Schema.
func decodeSchema(raw json.RawMessage) schema.Schema {
	if len(raw) > maxSchema {
		return schema.Schema{}
	}
	d := decoder{depth: maxSchemaDepth, nodes: maxSchemaNodes}
	doc, err := d.decode(raw)
	if err != nil {
		return schema.Schema{}
	}
	return schema.Of(doc)
}

// plainType returns the type that a schema specifies directly, and a sample value of it.
func plainType(s schema.Schema) (typ, value string) {
	if values := s.EnumValues(); len(values) > 0 && len(values) <= 12 {
		var all []string
		for _, v := range values {
			all = append(all, short(v))
		}
		return strings.Join(all, " | "), all[0]
	}
	switch s.TextOf("type") {
	case "string":
		return "string", `"..."`
	case "integer", "number":
		return "number", "1"
	case "boolean":
		return "boolean", "true"
	case "array":
		item, _ := plainType(s.Part("items"))
		return "(" + item + ")[]", "[]"
	case "object":
		return "object", "{}"
	}
	return "unknown", "null"
}
