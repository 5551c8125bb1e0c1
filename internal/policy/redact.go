package policy

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Redacted stands in results in the place of what policy leaves out.
const Redacted = "[redacted]"

// unreadable stands in the place of content in which fields can't be told apart.
const unreadable = "[redacted: policy leaves fields out of this result, and this part of it is not JSON]"

// uninspected stands in the place of a string that may hold fields in a form that can't be read.
const uninspected = "[redacted: policy leaves fields out of this result, and this text may have some of them]"

// Redact returns r with the values of the fields that paths name replaced by Redacted. It reads the
// structured content, each text block that is JSON, and JSON inside strings of both. It leaves out
// whatever it can't inspect: texts that are not JSON, images, links, _meta, and strings that seem
// to hold fields in another form. The door bounds what is read.
func Redact(r *tool.Result, paths []string) *tool.Result {
	d := newRedactor(paths)
	v := struct {
		Content    []any           `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{Content: []any{}, IsError: r.IsError}
	for _, raw := range r.Content {
		text := unreadable
		var b tool.TextBlock
		if err := json.Unmarshal(raw, &b); err == nil && b.Type == "text" {
			if out, ok := d.document(b.Text, d.root, 0); ok {
				text = out
			}
		}
		v.Content = append(v.Content, tool.TextBlock{Type: "text", Text: text})
	}
	if r.Structured != nil {
		v.Structured = d.structured(r.Structured)
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
