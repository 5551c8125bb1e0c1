package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxPlainArguments is the maximum number of arguments that a plain signature lists.
const maxPlainArguments = 40

// plainSignature returns the signature that search shows without Config.Describe: the arguments by
// name, with their simple types.
func plainSignature(e *Entry) Signature {
	d := decoder{depth: maxSchemaDepth, nodes: maxSchemaNodes}
	var schema map[string]any
	if len(e.Tool.InputSchema) <= maxSchema {
		if doc, err := d.decode(e.Tool.InputSchema); err == nil {
			schema, _ = doc.(map[string]any)
		}
	}
	props, _ := schema["properties"].(map[string]any)
	required := map[string]bool{}
	list, _ := schema["required"].([]any)
	for _, r := range list {
		if name, ok := r.(string); ok {
			required[name] = true
		}
	}
	names := slices.SortedFunc(maps.Keys(props), func(a, b string) int {
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
		typ, value := plainType(props[name])
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

// plainType returns the type that a schema specifies directly, and a sample value of it.
func plainType(v any) (typ, value string) {
	s, _ := v.(map[string]any)
	if values, ok := s["enum"].([]any); ok && len(values) > 0 && len(values) <= 12 {
		var all []string
		for _, v := range values {
			all = append(all, short(v))
		}
		return strings.Join(all, " | "), all[0]
	}
	switch s["type"] {
	case "string":
		return "string", `"..."`
	case "integer", "number":
		return "number", "1"
	case "boolean":
		return "boolean", "true"
	case "array":
		item, _ := plainType(s["items"])
		return "(" + item + ")[]", "[]"
	case "object":
		return "object", "{}"
	}
	return "unknown", "null"
}
