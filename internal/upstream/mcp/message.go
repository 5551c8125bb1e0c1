package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxDepth bounds how deep what comes from a server may nest; deeper JSON is refused before anything parses it.
const maxDepth = 512

// maxBatch bounds the messages in one JSON-RPC batch (revision 2025-03-26 only).
const maxBatch = 1000

var errDepth = fmt.Errorf("nests deeper than %d levels", maxDepth)

// decode reads one JSON-RPC message or a batch of them. Payloads (params, results) are the bytes that came.
//
// It is lenient where leniency costs nothing: an error response without an id gives a Response whose ID is not valid, and
// a response that is understandable but not quite JSON-RPC (no version tag, an error of the wrong shape) is still one,
// because a call that fails now is better than one that runs into its timeout.
func decode(data []byte) ([]jsonrpc.Message, error) {
	data = bytes.TrimSpace(data)
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
		if m, err := decodeOne(p); err == nil { // one bad part costs itself only
			out = append(out, m)
		}
	}
	return out, nil
}

func decodeOne(data []byte) (jsonrpc.Message, error) {
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	m, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return salvage(data, err)
	}
	return m, nil
}

// salvage makes a Response of what the strict decoder refused with cause, if it can be one.
func salvage(data []byte, cause error) (jsonrpc.Message, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	_, isRequest := f["method"]
	fault, hasError := f["error"]
	result, hasResult := f["result"]
	if isRequest || !hasError && !hasResult {
		return nil, cause
	}
	r := &jsonrpc.Response{}
	if n, err := strconv.ParseInt(string(f["id"]), 10, 64); err == nil {
		r.ID, _ = jsonrpc.MakeID(float64(n))
	}
	if hasResult && !hasError {
		if !r.ID.IsValid() {
			return nil, cause
		}
		r.Result = result
		return r, nil
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError}
	if json.Unmarshal(fault, e) != nil || e.Message == "" {
		e = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: cleanLine(string(fault), 300)}
	}
	r.Error = e
	return r, nil
}

// checkJSON says whether data is one JSON value that nests no deeper than depth.
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

// appendRequest writes a request, or a notification when id is 0. fields are the members of params after _meta, already
// JSON, so that arguments go out as the bytes that came in.
func appendRequest(b []byte, id int64, method string, meta, fields []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(b, `"id":`...)
		b = strconv.AppendInt(b, id, 10)
		b = append(b, ',')
	}
	b = append(b, `"method":"`...)
	b = append(b, method...) // ours: never needs escaping
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

// quote is s as a JSON string.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // strings always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oversizeID finds the id of a response that was too large to keep, from its first and last bytes. Encoders write the id
// before the result or after it.
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
