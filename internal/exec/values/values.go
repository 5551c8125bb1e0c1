// Package values converts tool results to values of programs (Of). It also presents values that may
// be too large to show to an agent: by their shape (Outline) or in parts (Items, Part, Runes). It
// works on the JSON text, so numbers keep their form, and large arrays need no more memory than
// their text.
package values

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// MaxErrorText is the maximum size in bytes of a tool's error text in a program.
const MaxErrorText = 16 << 10

// A Block holds the relevant parts of a content block (MCP ContentBlock): text, base64 in Data, or
// an embedded resource.
type Block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	Resource *struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// Of returns the value of a tool's result in a program, as one line of JSON. It is
// structuredContent if present. Otherwise a text that is a complete JSON object or array is parsed,
// and other text is a string. Several blocks become an array. Images, audio and resources become
// handles, and keep stores their blocks. So do the binary contents and the content blocks in the
// result of an MCP method; method is empty for other tools. It returns an error if the answer is
// not a valid MCP result.
func Of(method string, r *tool.Result, keep func(Block, json.RawMessage) string) (json.RawMessage, error) {
	v, err := resultValue(r, keep)
	if err != nil {
		return nil, err
	}
	return WithHandles(method, v, keep)
}

func resultValue(r *tool.Result, keep func(Block, json.RawMessage) string) (json.RawMessage, error) {
	var media, all []json.RawMessage
	for _, raw := range r.Content {
		var b Block
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, tool.Errorf(tool.Internal,
				"the tool's answer has a content block that is not an object: %w", err)
		}
		v, isMedia, err := blockValue(b, raw, keep)
		if err != nil {
			return nil, err
		}
		if isMedia {
			media = append(media, v)
		}
		all = append(all, v)
	}
	switch {
	case r.Structured != nil:
		return withMedia(r.Structured, media)
	case len(all) == 0:
		return json.RawMessage("null"), nil
	case len(all) == 1:
		return all[0], nil
	}
	return joinArray(all), nil
}

// blockValue returns the value of a content block, and reports whether it is a handle.
func blockValue(b Block, raw json.RawMessage, keep func(Block, json.RawMessage) string) (v json.RawMessage,
	media bool, err error) {
	switch {
	case b.Type == "text":
		return textValue(b.Text), false, nil
	case (b.Type == "image" || b.Type == "audio") && b.Data != "":
		v, err = tool.Marshal(handle{Type: b.Type, MimeType: b.MimeType, Size: DecodedSize(b.Data),
			Handle: keep(b, raw)})
		return v, true, err
	case b.Type == "resource" && b.Resource != nil:
		h := handle{Type: b.Type, URI: b.Resource.URI, MimeType: b.Resource.MimeType, Handle: keep(b, raw)}
		if t := b.Resource.Text; t != nil {
			h.Text, h.Size = t, len(*t)
		} else {
			h.Size = DecodedSize(b.Resource.Blob)
		}
		v, err = tool.Marshal(h)
		return v, true, err
	}
	v, err = compact(raw) // resource links and unknown kinds
	return v, false, err
}

// A handle represents a content block in a program.
type handle struct {
	Type     string  `json:"type"`
	URI      string  `json:"uri,omitempty"`
	MimeType string  `json:"mimeType,omitempty"`
	Size     int     `json:"size"`
	Text     *string `json:"text,omitempty"`
	Handle   string  `json:"handle"`
}

// maxHandle is the maximum size in bytes of a value that may be a handle.
const maxHandle = 8 << 20

// HandleOf returns the handle (res_…) of a value that represents a content block, or "".
func HandleOf(v json.RawMessage) string {
	if len(v) == 0 || v[0] != '{' || len(v) > maxHandle {
		return ""
	}
	var h handle
	if json.Unmarshal(v, &h) != nil || !strings.HasPrefix(h.Handle, "res_") {
		return ""
	}
	switch h.Type {
	case "image", "audio", "resource":
		return h.Handle
	}
	return ""
}

// DecodedSize returns the number of bytes encoded by a base64 string.
func DecodedSize(base64 string) int { return len(strings.TrimRight(base64, "=")) * 3 / 4 }

// textValue returns text as JSON: unchanged if it is a complete object or array, and otherwise as a
// string.
func textValue(s string) json.RawMessage {
	t := strings.TrimSpace(s)
	if t != "" && (t[0] == '{' || t[0] == '[') {
		if v, err := compact(json.RawMessage(t)); err == nil {
			return v
		}
	}
	v, err := tool.Marshal(s)
	if err != nil {
		panic(err) // can't happen: strings always marshal
	}
	return v
}

// withMedia returns structured content. If it is an object, media are added to it, so that they are
// not lost.
func withMedia(structured json.RawMessage, media []json.RawMessage) (json.RawMessage, error) {
	v, err := compact(structured)
	if err != nil || len(media) == 0 || v[0] != '{' {
		return v, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(v, &fields); err != nil {
		return nil, err
	}
	name := "content"
	for fields[name] != nil {
		name = "_" + name
	}
	out := append(json.RawMessage{}, v[:len(v)-1]...)
	if len(fields) > 0 {
		out = append(out, ',')
	}
	out = append(append(out, '"'), name...)
	return append(append(append(out, `":`...), joinArray(media)...), '}'), nil
}

func joinArray(all []json.RawMessage) json.RawMessage {
	out := json.RawMessage{'['}
	for i, v := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// compact returns JSON on one line. Numbers keep their form.
func compact(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return nil, tool.Errorf(tool.Internal, "the tool's answer is not JSON: %w", err)
	}
	return b.Bytes(), nil
}

// maxErrorData and maxErrorDepth limit the structured content of an error in a program.
const (
	maxErrorData  = 16 << 10
	maxErrorDepth = 32
)

// ErrorData returns the structured content of a failed tool call. If it is large, only the fields
// in which HTTP APIs report status and retries remain. It returns nil if there is none.
func ErrorData(r *tool.Result) json.RawMessage {
	if len(r.Structured) <= maxErrorData && isShallow(r.Structured, maxErrorDepth) {
		return r.Structured
	}
	var v struct {
		Status     json.Number `json:"status,omitempty"`
		Retryable  *bool       `json:"retryable,omitempty"`
		RetryAfter json.Number `json:"retry_after,omitempty"`
	}
	_ = json.Unmarshal(r.Structured, &v) // fields of another type are left out
	out, err := tool.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// isShallow reports whether maps and lists of a JSON value are nested no more than most levels
// deep.
func isShallow(v json.RawMessage, most int) bool {
	depth, text, escaped := 0, false, false
	for _, c := range v {
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{', c == '[':
			if depth++; depth > most {
				return false
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return true
}

// ErrorText returns the error text of a failed tool call, cut to MaxErrorText bytes.
func ErrorText(r *tool.Result) string {
	var parts []string
	for _, raw := range r.Content {
		var b Block
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			parts = append(parts, strings.TrimSpace(b.Text))
		}
	}
	msg := strings.Join(parts, "\n")
	if msg == "" && r.Structured != nil {
		msg = string(r.Structured)
	}
	if msg == "" {
		msg = "the tool reported a failure without a message"
	}
	return text.Cut(msg, MaxErrorText)
}
