// Package evalset contains sets of tools and queries by which the search of tools is judged. Each
// query has the tools that answer it.
package evalset

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// In a file, "# " begins a comment, "tool " a tool, and "= hard" the hard queries. All other lines
// are queries: text => tool, tool.
//
//go:embed *.txt
var files embed.FS

// A Set is a set of tools and queries.
type Set struct {
	Tools   map[string][]*tool.Tool // by upstream
	Queries []Query
	Hard    []Query // without any word of the tool
}

// A Query is a query with the tools that answer it.
type Query struct {
	Text string
	Want []string // upstream.tool
}

// HeldOut names the sets on which the search was not tuned.
var HeldOut = []string{"heldout-software", "heldout-work", "heldout-last", "heldout-independent"}

// ReadSet returns the set with a name.
func ReadSet(name string) (*Set, error) {
	raw, err := files.ReadFile(name + ".txt")
	if err != nil {
		return nil, err
	}
	s := &Set{Tools: map[string][]*tool.Tool{}}
	list := &s.Queries
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line == "= hard":
			list = &s.Hard
		case strings.HasPrefix(line, "tool "):
			t, err := parseTool(strings.TrimPrefix(line, "tool "))
			if err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", name, i+1, err)
			}
			s.Tools[t.Upstream] = append(s.Tools[t.Upstream], t)
		default:
			text, want, ok := strings.Cut(line, " => ")
			if !ok {
				return nil, fmt.Errorf("%s, line %d: it is no query", name, i+1)
			}
			*list = append(*list, Query{text, strings.Split(want, ", ")})
		}
	}
	return s, nil
}

// parseTool parses "upstream.name | description | parameter:type:description; ...".
func parseTool(line string) (*tool.Tool, error) {
	parts := strings.SplitN(line, " | ", 3)
	up, name, ok := strings.Cut(parts[0], ".")
	if len(parts) < 2 || !ok {
		return nil, fmt.Errorf("%q is no tool", line)
	}
	type property struct {
		Type        string   `json:"type,omitempty"`
		Enum        []string `json:"enum,omitempty"`
		Description string   `json:"description,omitempty"`
	}
	props := map[string]property{}
	if len(parts) == 3 {
		for _, p := range strings.Split(parts[2], ";") {
			f := strings.SplitN(strings.TrimSpace(p), ":", 3)
			if f[0] == "" || len(f) < 2 {
				continue
			}
			prop := property{Type: f[1]}
			if values, ok := strings.CutPrefix(f[1], "enum("); ok {
				prop = property{Enum: strings.Split(strings.TrimSuffix(values, ")"), ",")}
			}
			if len(f) == 3 {
				prop.Description = f[2]
			}
			props[f[0]] = prop
		}
	}
	schema, err := json.Marshal(struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
	}{"object", props})
	return &tool.Tool{Upstream: up, Name: name, Description: strings.TrimSuffix(parts[1], " |"),
		InputSchema: schema}, err
}
