package typegen

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Sample gives a small value that validates against a JSON Schema: what is required and what is useful, from the
// schema's own examples and defaults where it has them. It is checked with a real validator before it is given; where
// no value is found that validates, the error (Invalid) says why. The schema's order of properties is kept.
func Sample(schema json.RawMessage) (json.RawMessage, error) {
	v, err := exampleValue(schema)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "no example that validates: %w", err)
	}
	return v.appendJSON(nil), nil
}

// File writes the module of one tool, tools/<namespace>/<member>.ts: a function that makes the call, and its types.
// It needs the declarations that Tree writes beside it (lib.runtime.d.ts).
func File(t *tool.Tool, n Names) string {
	m := newModule(t, n)
	return m.text()
}
