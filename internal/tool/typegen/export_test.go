package typegen

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Sample returns a small value that validates against a JSON Schema: the required and the most
// useful properties. It prefers the schema's own examples and defaults. The value is validated
// before it is returned. If no valid value is found, the error (Invalid) says why. The order of
// properties is from the schema.
func Sample(schema json.RawMessage) (json.RawMessage, error) {
	v, err := exampleValue(schema)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "no example that validates: %w", err)
	}
	return v.appendJSON(nil), nil
}

// File returns the module of one tool, tools/<namespace>/<member>.ts: a function that makes the
// call, and its types. It needs the declarations that Tree writes beside it (lib.runtime.d.ts).
func File(t *tool.Tool, n Names) string {
	m := newModule(Item{Tool: t, Names: n})
	return m.text()
}
