package policy

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Redacted replaces the values of removed fields in results.
const Redacted = "[redacted]"

// unreadable replaces content whose fields can't be parsed.
const unreadable = "[redacted: policy removes fields from this result, and this part is not JSON]"

// uninspected replaces a string that may contain fields in an unsupported format.
const uninspected = "[redacted: policy removes fields from this result, and this text may contain some of them]"

// Redact returns r with the values of the fields that paths match replaced by Redacted. It reads
// the structured content, each text block that is JSON, and JSON in strings of both. It removes
// everything that it can't inspect: texts that are not JSON, images, links, _meta, and strings that
// seem to contain fields in another format. The gateway limits the size of r.
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
			if out, ok := d.redactDocument(b.Text, d.root, 0); ok {
				text = out
			}
		}
		v.Content = append(v.Content, tool.TextBlock{Type: "text", Text: text})
	}
	if r.Structured != nil {
		v.Structured = d.redactStructuredContent(r.Structured)
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

// redactPaths parses the value of @redact.
func redactPaths(value string) ([]string, error) {
	paths := sortList(splitNames(value))
	if len(paths) == 0 {
		return nil, fmt.Errorf(
			`@redact is empty: name the fields to remove from results, such as @redact("customer.email, **.ssn")`)
	}
	for _, p := range paths {
		if !tool.IsPath(p) {
			return nil, fmt.Errorf(
				"@redact: invalid field path %q: write one like customer.email, items.*.price or **.ssn",
				clipText(p))
		}
	}
	return paths, nil
}

// joinPaths returns the union of the paths of all permits.
func joinPaths(permits []*rule) []string {
	var out []string
	for _, p := range permits {
		out = append(out, p.bounds.redact...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
