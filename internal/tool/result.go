package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Result is the answer of a tool. Raw is the complete answer, byte for byte, and the other fields
// are views of it. So integers beyond 2^53, unknown fields and unknown kinds of content are passed
// on unchanged.
type Result struct {
	Raw     json.RawMessage   // an object in the form of MCP's CallToolResult
	Content []json.RawMessage // content blocks, each an object
	// Structured is structuredContent; nil if there is none. A tool that is a function may also
	// return a value that is not an object: Raw lacks it then, since MCP allows only objects.
	Structured json.RawMessage
	IsError    bool // the tool ran and reported failure
	Simulated  bool // the tool was not called: the program is being planned
}

// ParseResult returns a Result for an object in the form of MCP's CallToolResult. It keeps raw,
// which must not be modified.
func ParseResult(raw json.RawMessage) (*Result, error) {
	var v struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		IsError    bool              `json:"isError"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("tool result: %w", err)
	}
	if bytes.Equal(bytes.TrimSpace(v.Structured), []byte("null")) {
		v.Structured = nil
	}
	return &Result{Raw: raw, Content: v.Content, Structured: v.Structured, IsError: v.IsError}, nil
}

// MarshalJSON returns Raw.
func (r *Result) MarshalJSON() ([]byte, error) { return r.Raw, nil }

// A TextBlock is a text content block (MCP TextContent), as Biplane's own tools return it.
type TextBlock struct {
	Type string `json:"type"` // always "text"
	Text string `json:"text"`
}

// NewResult returns a Result of Biplane's own tools. Each content block must marshal to an object,
// and so must meta, the metadata (MCP _meta), unless it is nil. isError means that the tool reports
// failure.
func NewResult(content []any, meta any, isError bool) (*Result, error) {
	v := struct {
		Content []any `json:"content"`
		IsError bool  `json:"isError,omitempty"`
		Meta    any   `json:"_meta,omitempty"`
	}{content, isError, meta}
	if content == nil {
		v.Content = []any{}
	}
	raw, err := Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("tool result: %w", err)
	}
	return ParseResult(raw)
}

// StructuredResult returns a Result with an object, and with text blocks for callers that can't
// read it.
func StructuredResult(object json.RawMessage, texts ...string) (*Result, error) {
	v := struct {
		Content    []TextBlock     `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}{[]TextBlock{}, object}
	for _, t := range texts {
		v.Content = append(v.Content, TextBlock{"text", t})
	}
	raw, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return ParseResult(raw)
}

// Text returns a Result with text blocks.
func Text(isError bool, texts ...string) *Result {
	blocks := make([]any, len(texts))
	for i, t := range texts {
		blocks[i] = TextBlock{"text", t}
	}
	r, err := NewResult(blocks, nil, isError)
	if err != nil {
		panic(err) // can't happen: strings always marshal
	}
	return r
}

// Marshal is json.Marshal without escaping <, > and & for HTML, which would cost agents tokens.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
