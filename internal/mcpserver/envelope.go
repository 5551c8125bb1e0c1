package mcpserver

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An envelope is what has to be known of a message before it goes to the SDK.
type envelope struct {
	id      json.RawMessage // nil: no call
	method  string          // empty: a response, or a batch
	version string          // in _meta of the parameters
	name    string          // parameter name
	args    json.RawMessage // parameter arguments
	argsAt  [2]int          // where args stands in the message
}

// maxDepth is how deep a message may nest; the SDK's own bound is the same.
const maxDepth = 1000

// maxID is the largest integer that an id may be: beyond it a client written in JavaScript couldn't
// tell two ids apart, nor could the SDK.
const maxID = 1 << 53

// readEnvelope reads the outside of a JSON-RPC message or of a batch of them. It refuses, with a
// JSON-RPC error, what is not JSON, what nests too deep, and an id that could not be answered with
// the same id.
func readEnvelope(raw []byte) (envelope, *jsonrpc.Error) {
	var e envelope
	if tooDeep(raw) {
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "message nests deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	if !json.Valid(raw) {
		return e, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "message is not valid JSON"}
	}
	ms, ok := parts(raw)
	if !ok {
		if bytes.TrimLeft(raw, " \t\r\n")[0] == '[' {
			return e, nil
		}
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "message is not a JSON-RPC object"}
	}
	if e.id = field(raw, ms, "id"); e.id != nil && !goodID(e.id) {
		e.id = nil
		return e, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "id must be a string, or an integer of at most 2^53"}
	}
	e.method = text(field(raw, ms, "method"))
	params := field(raw, ms, "params")
	pm, _ := parts(params)
	e.name = text(field(params, pm, "name"))
	if e.args = field(params, pm, "arguments"); e.args != nil {
		// A field is a part of its object's bytes: what is left of their capacity says where.
		at := cap(raw) - cap(e.args)
		e.argsAt = [2]int{at, at + len(e.args)}
	}
	if meta := field(params, pm, "_meta"); meta != nil {
		mm, _ := parts(meta)
		e.version = text(field(meta, mm, mcp.MetaKeyProtocolVersion))
	}
	return e, nil
}

// text gives the value of a JSON string; empty for all else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// goodID says whether an id can be written back exactly as it came.
func goodID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return true
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && -maxID <= n && n <= maxID
}

// tooDeep says whether raw nests deeper than maxDepth. It may be anything, valid or not.
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

// encodeError writes a JSON-RPC error response. The id is left out where it isn't known, as MCP's
// schema wants it.
func encodeError(id json.RawMessage, e *jsonrpc.Error) []byte {
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		panic(err) // an id that was read and an error with valid data always marshal
	}
	return b
}
