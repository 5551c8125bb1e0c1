package catalog

import (
	"fmt"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Found is a search hit as programs receive it.
type Found struct {
	Path        string   `json:"path"`
	Name        string   `json:"name"` // name of the tool at its upstream
	Upstream    string   `json:"upstream"`
	Description string   `json:"description"`
	Call        string   `json:"call,omitempty"`    // the typed call
	Example     string   `json:"example,omitempty"` // an example call
	Also        []string `json:"also,omitempty"`    // paths of the same tool at other upstreams
	Note        string   `json:"note,omitempty"`    // about all hits; set on the first only
}

// list returns the hits of a query as a list for a program, together with the text that an agent
// would read.
func (c *Catalog) list(v *View, query string, limit int, text, language string) (*tool.Result, error) {
	hits, fits := v.searchTools(query, min(limit, maxHits))
	if len(hits) == 0 {
		return tool.Text(false, text), nil
	}
	if !fits {
		hits = hits[:min(len(hits), maxNearest)]
	}
	out := []Found{}
	size := 0
	for _, h := range hits {
		s := c.describe(h.Entry, language)
		f := Found{Path: h.Entry.Path(), Name: h.Entry.Tool.Name, Upstream: h.Entry.Tool.Upstream,
			Description: summary(h.Entry.Tool.Description),
			Call:        lines(s.Code, maxCode), Example: lines(s.Example, maxExample), Also: copyPaths(h.Also)}
		if size += len(f.Call) + len(f.Example) + len(f.Description); size > maxAnswer {
			f.Call, f.Example = "", ""
		}
		out = append(out, f)
	}
	if !fits {
		out[0].Note = fmt.Sprintf("no tool fits %s; these are the nearest", quoteShort(query))
	}
	if absent := v.absent(fits); absent != "" {
		out[0].Note = joinNotes(out[0].Note, "not searched: "+oneLine(absent, maxAbsent))
	}
	raw, err := tool.Marshal(struct {
		Content    []tool.TextBlock `json:"content"`
		Structured []Found          `json:"structuredContent"`
	}{[]tool.TextBlock{{Type: "text", Text: text}}, out})
	if err != nil {
		return nil, err
	}
	return tool.ParseResult(raw)
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
