package tool

import "encoding/json"

// A Scope is a session of a principal or, if Session is empty, everything that the principal does
// outside of sessions. Each scope has a vault of personal data.
type Scope struct{ Owner, Session string }

// Texts are texts that a model will see together. Personal data in them is hidden in place, in the
// order of the fields.
type Texts struct {
	JSON   []*json.RawMessage // JSON values
	Text   []*string
	Blocks []*json.RawMessage // MCP content blocks
}
