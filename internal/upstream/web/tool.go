package web

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

// A definition is a tool in MCP's format.
type definition struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Input       json.RawMessage  `json:"inputSchema"`
	Output      json.RawMessage  `json:"outputSchema,omitempty"`
	Annotations tool.Annotations `json:"annotations"`
}

// NewTool returns a tool, cleaned as the tools of MCP servers are.
func NewTool(upstreamName, name, title, text string, a tool.Annotations, input, output []byte) (*tool.Tool, error) {
	d := definition{Name: name, Title: CleanLine(title, 200), Description: strings.ToValidUTF8(text, "\uFFFD"),
		Input: input, Output: output, Annotations: a}
	written, err := tool.Marshal(d)
	if err != nil {
		return nil, err
	}
	hidden := plaintext.ListHidden(written)
	raw, err := plaintext.Definition(written)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(raw, written) {
		d = definition{}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, err
		}
	}
	return &tool.Tool{Upstream: upstreamName, Name: name, Title: d.Title, Description: d.Description,
		InputSchema: d.Input, OutputSchema: d.Output, Annotations: a, Raw: raw, Hidden: hidden}, nil
}

// NewResult returns the result of a call, whose structured content is a. The text is shown to
// callers that can't read the structure.
func NewResult(a any, blocks []json.RawMessage, isError bool, text string) (*tool.Result, error) {
	structured, err := tool.Marshal(a)
	if err != nil {
		return nil, err
	}
	if text == "" {
		text = string(structured)
	}
	block, err := tool.Marshal(tool.TextBlock{Type: "text", Text: text})
	if err != nil {
		return nil, err
	}
	raw, err := tool.Marshal(struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		IsError    bool              `json:"isError,omitempty"`
	}{append([]json.RawMessage{block}, blocks...), structured, isError})
	if err != nil {
		return nil, err
	}
	return tool.ParseResult(raw)
}

// ClipBytes returns at most n bytes of s.
func ClipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
