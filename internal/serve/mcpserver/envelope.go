package mcpserver

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An envelope holds the parts of a message that are needed before it goes to the SDK.
type envelope struct {
	id      json.RawMessage // nil: not a call
	method  string          // empty: a response or a batch
	version string          // from _meta of the parameters
	name    string          // the parameter name
	task    string          // the parameter taskId
	args    json.RawMessage // the parameter arguments
	argsAt  [2]int          // start and end of args in the message
}

// maxDepth is the maximum nesting depth of a message; the SDK has the same limit.
const maxDepth = 1000

// maxID is the largest integer that is accepted as an id. Beyond it, neither a JavaScript client
// nor the SDK could distinguish two ids.
const maxID = 1 << 53

// readEnvelope parses the outer structure of a JSON-RPC message or of a batch. It returns a
// JSON-RPC error for invalid JSON, for messages nested too deeply, and for an id that could not be
// echoed exactly.
func readEnvelope(raw []byte) (envelope, *jsonrpc.Error) {
	var e envelope
	if tooDeep(raw) {
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "message nests deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	if !json.Valid(raw) {
		return e, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "message is not valid JSON"}
	}
	ms, ok := parseParts(raw)
	if !ok {
		if bytes.TrimLeft(raw, " \t\r\n")[0] == '[' {
			return e, nil
		}
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "message is not a JSON-RPC object"}
	}
	if e.id = fieldOf(raw, ms, "id"); e.id != nil && !isExactID(e.id) {
		e.id = nil
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "id must be a string, or an integer of at most 2^53"}
	}
	e.method = stringValue(fieldOf(raw, ms, "method"))
	params := fieldOf(raw, ms, "params")
	pm, _ := parseParts(params)
	e.name = stringValue(fieldOf(params, pm, "name"))
	e.task = stringValue(fieldOf(params, pm, "taskId"))
	if e.args = fieldOf(params, pm, "arguments"); e.args != nil {
		// A field is a slice of its object's bytes, so its position follows from its remaining
		// capacity.
		at := cap(raw) - cap(e.args)
		e.argsAt = [2]int{at, at + len(e.args)}
	}
	if meta := fieldOf(params, pm, "_meta"); meta != nil {
		mm, _ := parseParts(meta)
		e.version = stringValue(fieldOf(meta, mm, mcp.MetaKeyProtocolVersion))
	}
	return e, nil
}

// stringValue returns the value of a JSON string, or the empty string for other values.
func stringValue(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// isExactID reports whether an id can be echoed exactly as it was received.
func isExactID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return true
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && -maxID <= n && n <= maxID
}

// tooDeep reports whether raw is nested deeper than maxDepth. raw may be invalid JSON.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// encodeError encodes a JSON-RPC error response. As MCP's schema requires, an unknown id is
// omitted.
func encodeError(id json.RawMessage, e *jsonrpc.Error) []byte {
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		panic(err) // a parsed id and an error with valid data can always be marshaled
	}
	return b
}
