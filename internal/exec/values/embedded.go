package values

import (
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// WithHandles returns the result of an MCP method, with handles in place of its binary contents and
// of the content blocks in its messages. keep stores their blocks. Other methods' results are
// unchanged.
func WithHandles(method string, result json.RawMessage,
	keep func(Block, json.RawMessage) string) (json.RawMessage, error) {
	switch method {
	case tool.ReadResource:
		return replaceItems(result, "contents", func(item json.RawMessage) (json.RawMessage, error) {
			return contentsValue(item, keep)
		})
	case tool.GetPrompt:
		return replaceItems(result, "messages", func(item json.RawMessage) (json.RawMessage, error) {
			return messageValue(item, keep)
		})
	}
	return result, nil
}

// replaceItems replaces the items of a member that is a list. It returns raw itself if there is no
// such member.
func replaceItems(raw json.RawMessage, member string,
	replace func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(fields[member], &items) != nil {
		return raw, nil
	}
	for i, item := range items {
		var err error
		if items[i], err = replace(item); err != nil {
			return nil, err
		}
	}
	var err error
	if fields[member], err = tool.Marshal(items); err != nil {
		return nil, err
	}
	return tool.Marshal(fields)
}

// contentsValue returns the value of the contents of a resource: a handle if they are binary.
func contentsValue(raw json.RawMessage, keep func(Block, json.RawMessage) string) (json.RawMessage, error) {
	var c struct {
		URI      string `json:"uri"`
		MimeType string `json:"mimeType"`
		Blob     string `json:"blob"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Blob == "" {
		return raw, nil
	}
	h := handle{Type: "resource", URI: c.URI, MimeType: c.MimeType, Size: DecodedSize(c.Blob)}
	var block any = struct {
		Type     string          `json:"type"`
		Resource json.RawMessage `json:"resource"`
	}{h.Type, raw}
	if kind, _, _ := strings.Cut(c.MimeType, "/"); kind == "image" || kind == "audio" { // which models understand
		h.Type = kind
		block = struct {
			Type     string `json:"type"`
			Data     string `json:"data"`
			MimeType string `json:"mimeType"`
		}{kind, c.Blob, c.MimeType}
	}
	encoded, err := tool.Marshal(block)
	if err != nil {
		return nil, err
	}
	var b Block
	if err := json.Unmarshal(encoded, &b); err != nil {
		return nil, err
	}
	h.Handle = keep(b, encoded)
	return tool.Marshal(h)
}

// messageValue returns the value of a message of a prompt, with a handle in place of an image,
// audio or a resource.
func messageValue(raw json.RawMessage, keep func(Block, json.RawMessage) string) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	var b Block
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(fields["content"], &b) != nil || b.Type == "text" {
		return raw, nil
	}
	v, isMedia, err := blockValue(b, fields["content"], keep)
	if err != nil || !isMedia {
		return raw, err
	}
	fields["content"] = v
	return tool.Marshal(fields)
}
