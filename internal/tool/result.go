package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Result is what a tool answered. Raw is the whole answer byte for byte; the other fields are views of it, so that
// integers over 2^53, unknown fields and unknown kinds of content survive from the upstream to whoever asked.
type Result struct {
	Raw        json.RawMessage   // an object of the shape of MCP's CallToolResult
	Content    []json.RawMessage // the content blocks, each an object
	Structured json.RawMessage   // structuredContent; nil if there is none
	IsError    bool              // the tool ran and reports failure
	Simulated  bool              // the tool was not called: the program is being planned
}

// ParseResult makes a Result from an object of the shape of MCP's CallToolResult. It keeps raw, which must not change.
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

// MarshalJSON gives Raw as it is.
func (r *Result) MarshalJSON() ([]byte, error) { return r.Raw, nil }

// A TextBlock is the content block that our own tools answer with (MCP TextContent).
type TextBlock struct {
	Type string `json:"type"` // always "text"
	Text string `json:"text"`
}

// NewResult makes a Result of our own tools: content blocks that marshal to objects, metadata or nil (MCP _meta), and
// whether it reports failure.
func NewResult(content []any, meta map[string]any, isError bool) (*Result, error) {
	v := struct {
		Content []any          `json:"content"`
		IsError bool           `json:"isError,omitempty"`
		Meta    map[string]any `json:"_meta,omitempty"`
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

// Text makes a Result of text blocks.
func Text(isError bool, texts ...string) *Result {
	blocks := make([]any, len(texts))
	for i, t := range texts {
		blocks[i] = TextBlock{"text", t}
	}
	r, err := NewResult(blocks, nil, isError)
	if err != nil {
		panic(err) // strings always marshal
	}
	return r
}

// Marshal is json.Marshal without the escaping of <, > and & that HTML wants and agents pay for.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
