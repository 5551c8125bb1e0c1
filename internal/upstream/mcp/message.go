package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxDepth limits the nesting of JSON from a server; deeper JSON is rejected before it is parsed.
const maxDepth = 512

// maxBatch limits the messages in one JSON-RPC batch (revision 2025-03-26 only).
const maxBatch = 1000

var errDepth = fmt.Errorf("nests deeper than %d levels", maxDepth)

// decodeMessages parses one JSON-RPC message or a batch of them. Payloads (params, results) are
// slices of data, the bytes as received.
//
// It is lenient where that is harmless. An error response without an id becomes a Response with an
// invalid ID. A response that is understandable but not quite JSON-RPC (no version tag, an error of
// the wrong shape) is accepted, since a call that fails now is better than one that times out.
func decodeMessages(data []byte) ([]jsonrpc.Message, error) {
	data = trimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("empty message")
	}
	if err := checkJSON(data, maxDepth); err != nil {
		return nil, err
	}
	if data[0] != '[' {
		m, err := decodeOne(data)
		if err != nil {
			return nil, err
		}
		return []jsonrpc.Message{m}, nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, err
	}
	if len(parts) > maxBatch {
		return nil, fmt.Errorf("a batch of %d messages, more than %d", len(parts), maxBatch)
	}
	out := make([]jsonrpc.Message, 0, len(parts))
	for _, p := range parts {
		if m, err := decodeOne(p); err == nil { // an invalid part affects only itself
			out = append(out, m)
		}
	}
	return out, nil
}

// decodeOne parses one message, which must be valid JSON. It is a lenient jsonrpc.DecodeMessage
// without copies.
func decodeOne(data []byte) (jsonrpc.Message, error) {
	if data[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	var tag, id, method, params, result, fault json.RawMessage
	walkMembers(data, func(key string, value json.RawMessage) {
		switch key {
		case "jsonrpc":
			tag = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			params = value
		case "result":
			result = value
		case "error":
			fault = value
		}
	})
	if string(fault) == "null" { // as some servers write next to a result
		fault = nil
	}
	switch {
	case method != nil:
		r := &jsonrpc.Request{Params: params}
		if string(tag) != `"2.0"` {
			return nil, errors.New("not JSON-RPC 2.0")
		}
		if err := json.Unmarshal(method, &r.Method); err != nil {
			return nil, errors.New("its method is not a string")
		}
		if id != nil {
			if r.ID = readID(id); !r.ID.IsValid() {
				return nil, errors.New("its id is neither a number nor a string")
			}
		}
		return r, nil
	case fault != nil:
		return &jsonrpc.Response{ID: readID(id), Error: readError(fault)}, nil
	case id == nil || string(tag) != `"2.0"` && result == nil:
		return nil, errors.New("neither a request nor a response")
	}
	r := &jsonrpc.Response{ID: readID(id), Result: result}
	if !r.ID.IsValid() {
		return nil, errors.New("a response without an id")
	}
	return r, nil
}

// readID parses an id. The result is invalid unless the id is an integer or a string.
func readID(raw json.RawMessage) (id jsonrpc.ID) {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			id, _ = jsonrpc.MakeID(s)
		}
		return id
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n > -1<<53 && n < 1<<53 {
		id, _ = jsonrpc.MakeID(float64(n))
	}
	return id
}

// readError parses the error of a response, whatever its form.
func readError(raw json.RawMessage) *jsonrpc.Error {
	e := &jsonrpc.Error{}
	if json.Unmarshal(raw, e) != nil {
		e = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: cleanLine(string(raw), 300)}
	}
	if e.Message == "" {
		e.Message = "an error without a message"
	}
	return e
}

// walkMembers calls take for each member of an object, in order. Values are slices of data. The
// object must be valid JSON.
func walkMembers(data []byte, take func(key string, value json.RawMessage)) {
	for i := 1; i < len(data); {
		i += countSpaces(data[i:])
		if i >= len(data) || data[i] != '"' {
			return // the end
		}
		n := valueLen(data[i:])
		key := string(data[i+1 : i+n-1])
		if strings.Contains(key, `\`) {
			_ = json.Unmarshal(data[i:i+n], &key)
		}
		i += n
		i += countSpaces(data[i:]) + 1 // the colon
		i += countSpaces(data[i:])
		n = valueLen(data[i:])
		take(key, data[i:i+n:i+n])
		i += n
		i += countSpaces(data[i:]) + 1 // the comma, or the end
	}
}

func countSpaces(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return i
		}
	}
	return len(b)
}

// valueLen returns the length of the JSON value at the start of b.
func valueLen(b []byte) int {
	level, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				if inString = false; level == 0 {
					return i + 1
				}
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			level++
		case c == '}' || c == ']':
			if level--; level == 0 {
				return i + 1
			}
			if level < 0 { // the end of the enclosing value
				return i
			}
		case level == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			return i
		}
	}
	return len(b)
}

// trimSpace removes JSON white space, a subset of Unicode's, from both ends.
func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// checkJSON returns an error unless data is one JSON value that nests no deeper than depth.
func checkJSON(data []byte, depth int) error {
	level, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if level++; level > depth {
				return errDepth
			}
		case c == '}' || c == ']':
			level--
		}
	}
	if !json.Valid(data) {
		return errors.New("not valid JSON")
	}
	return nil
}

// appendRequest appends a request, or a notification if id is 0. fields are the members of params
// after _meta, already encoded, so that arguments are sent byte for byte.
func appendRequest(b []byte, id int64, method string, meta, fields []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, id, 10)
		b = append(b, ',')
	}
	b = append(b, `"method":"`...)
	b = append(b, method...) // a constant: never needs escaping
	b = append(b, `"`...)
	if len(meta)+len(fields) > 0 {
		b = append(b, `,"params":{`...)
		if len(meta) > 0 {
			b = append(b, `"_meta":{`...)
			b = append(b, meta...)
			b = append(b, '}')
			if len(fields) > 0 {
				b = append(b, ',')
			}
		}
		b = append(b, fields...)
		b = append(b, '}')
	}
	return append(b, '}')
}

// quoteString encodes s as a JSON string.
func quoteString(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oversizeID extracts the id of a response that was too large to keep, from its first and last
// bytes. Encoders write the id before or after the result.
func oversizeID(head, tail []byte) (int64, bool) {
	key := []byte(`"id":`)
	if i := bytes.Index(head[:min(len(head), 64)], key); i >= 0 {
		if id, ok := leadingInt(head[i+len(key):]); ok {
			return id, true
		}
	}
	tail = tail[max(0, len(tail)-64):]
	if i := bytes.LastIndex(tail, key); i >= 0 {
		return leadingInt(tail[i+len(key):])
	}
	return 0, false
}

func leadingInt(b []byte) (int64, bool) {
	b = bytes.TrimLeft(b, " ")
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	id, err := strconv.ParseInt(string(b[:n]), 10, 64)
	return id, err == nil
}
