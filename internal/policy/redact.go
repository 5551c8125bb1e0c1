package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Redacted stands in results in the place of what policy leaves out.
const Redacted = "[redacted]"

// unreadable stands in the place of content in which fields can't be told apart.
const unreadable = "[redacted: policy leaves fields out of this result, and this part of it is not JSON]"

// A Result's redaction goes into its structured content, and into each text that is wholly a JSON object or list. Of what
// else there is (other texts, images, links, _meta) nobody can say which fields it holds: it is left out as a whole.
//
// Redact gives r with the values of the fields that paths name replaced by Redacted. Bounds on what is read are those of
// the door; what can't be read is left out.
func Redact(r *tool.Result, paths []string) *tool.Result {
	split := tool.ParsePaths(paths)
	v := struct {
		Content    []any           `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{Content: []any{}, IsError: r.IsError}
	for _, raw := range r.Content {
		text := unreadable
		var b tool.TextBlock
		if err := json.Unmarshal(raw, &b); err == nil && b.Type == "text" {
			if out, ok := redactJSON([]byte(b.Text), split); ok {
				text = string(out)
			}
		}
		v.Content = append(v.Content, tool.TextBlock{Type: "text", Text: text})
	}
	if r.Structured != nil {
		out, ok := redactJSON(r.Structured, split)
		if !ok {
			out = json.RawMessage(`{}`)
		}
		v.Structured = out
	}
	raw, err := tool.Marshal(v)
	if err == nil {
		var out *tool.Result
		if out, err = tool.ParseResult(raw); err == nil {
			return out
		}
	}
	return tool.Text(true, unreadable)
}

// redactDepth bounds the nesting of what is read.
const redactDepth = 200

// redactJSON gives a JSON object or list with what paths name replaced; false where it is none. Numbers keep their digits,
// objects lose the order of their fields.
func redactJSON(text []byte, paths tool.Paths) (json.RawMessage, bool) {
	head := bytes.TrimSpace(text)
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	v, ok := redactValue(v, paths, 0)
	if !ok {
		return nil, false
	}
	out, err := tool.Marshal(v)
	return out, err == nil
}

func redactValue(v any, paths tool.Paths, depth int) (any, bool) {
	if depth > redactDepth {
		return nil, false
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			var ok bool
			if v[i], ok = redactValue(e, paths, depth+1); !ok {
				return nil, false
			}
		}
	case map[string]any:
		for name, e := range v {
			below, whole := paths.Below(name)
			if whole {
				v[name] = Redacted
				continue
			}
			var ok bool
			if v[name], ok = redactValue(e, below, depth+1); !ok {
				return nil, false
			}
		}
	}
	return v, true
}

// redactPaths reads what @redact names.
func redactPaths(value string) ([]string, error) {
	paths := sorted(names(value))
	if len(paths) == 0 {
		return nil, fmt.Errorf(`@redact needs the fields of results that are left out: @redact("customer.email, **.ssn")`)
	}
	for _, p := range paths {
		if !tool.IsPath(p) {
			return nil, fmt.Errorf("@redact: %q is no path of fields, like customer.email, items.*.price or **.ssn", clip(p))
		}
	}
	return paths, nil
}

// redactions joins those of all permits.
func redactions(permits []*rule) []string {
	var out []string
	for _, p := range permits {
		out = append(out, p.bounds.redact...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
