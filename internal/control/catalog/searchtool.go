package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/cputime"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a search answer.
const (
	defaultHits  = 5
	maxHits      = 50
	maxOneLine   = 200    // bytes of a tool's description
	maxCode      = 4_000  // bytes of a typed call
	maxExample   = 1_000  // bytes
	maxAnswer    = 48_000 // bytes of all hits; a hit that does not fit is shortened or omitted
	maxAbsent    = 1_000  // bytes about unavailable upstreams
	maxUpstreams = 200    // in an overview
	maxCopies    = 10     // named copies of one tool
)

const searchDescription = `Find tools. Each hit has the path, what the tool does, and a typed call to paste into a ` +
	`program. An empty query lists the upstreams and how they are.`

const searchSchema = `{"type":"object","properties":{` +
	`"query":{"type":"string","description":"what you want to do, in a few words"},` +
	`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"hits; default 5"},` +
	`"detail":{"type":"string","enum":["brief","full"],"description":"brief: path and description only; default ` +
	`full"}},` +
	`"additionalProperties":false}`

// SearchDefinition returns the definition of the tool that SearchTool implements.
func SearchDefinition() *tool.Tool {
	yes, no := true, false
	return &tool.Tool{Upstream: tool.Own, Name: "search", Title: "Search tools", Description: searchDescription,
		InputSchema: json.RawMessage(searchSchema), Annotations: tool.Annotations{ReadOnly: &yes, OpenWorld: &no}}
}

// SearchTool returns the tool `search`: {query, limit?, detail?} to text, with calls in the
// language of the calling program. The answer to a query depends only on the catalog. It searches
// the view that visible returns for the caller, or everything if visible is nil.
func (c *Catalog) SearchTool(visible func(tool.Principal) *View) tool.Caller {
	if visible == nil {
		visible = func(tool.Principal) *View { return c.View() }
	}
	args := &Entry{Tool: SearchDefinition(), schema: &argumentSchema{}}
	return tool.CallerFunc(func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
		end := cputime.StartTimer()
		defer func() { call.Observe().OnWork(ctx, end()) }()
		if err := args.Validate(call.Arguments); err != nil {
			return nil, err
		}
		in := struct {
			Query  string  `json:"query"`
			Limit  float64 `json:"limit"` // an integer, which may be written 5.0
			Detail string  `json:"detail"`
		}{Limit: defaultHits}
		if len(call.Arguments) > 0 {
			if err := json.Unmarshal(call.Arguments, &in); err != nil {
				return nil, tool.Errorf(tool.Invalid, "wrong arguments for search: %w", err)
			}
		}
		view := visible(call.Principal)
		if strings.TrimSpace(in.Query) == "" {
			return tool.Text(false, view.overview()), nil
		}
		text := c.answer(view, in.Query, int(in.Limit), in.Detail != "brief", call.FromProgram().Language)
		if call.FromProgram().Execution == "" {
			return tool.Text(false, text), nil
		}
		return c.list(view, in.Query, int(in.Limit), text, call.FromProgram().Language)
	})
}

// answer formats the results of a query.
func (c *Catalog) answer(v *View, query string, limit int, full bool, language string) string {
	hits, found := v.searchTools(query, min(limit, maxHits))
	var b strings.Builder
	switch {
	case len(v.entries) == 0:
		b.WriteString("There are no tools now.\n")
	case len(hits) == 0:
		fmt.Fprintf(&b, "The query %s has no words. An empty query lists the upstreams.\n", quoteShort(query))
	case !found:
		fmt.Fprintf(&b, "No tool fits %s. The nearest:\n\n", quoteShort(query))
		hits, full = hits[:min(len(hits), maxNearest)], false
	}
	left := 0
	for _, h := range hits {
		text := c.hit(h, full, language)
		if b.Len()+len(text) > maxAnswer {
			text = c.hit(h, false, language)
		}
		if b.Len()+len(text) > maxAnswer {
			left++
			continue
		}
		b.WriteString(text)
	}
	if left > 0 {
		fmt.Fprintf(&b, "%d more hits did not fit.\n", left)
	}
	if absent := v.absent(found); absent != "" {
		b.WriteString("Not searched:\n" + absent)
	}
	return strings.TrimRight(b.String(), "\n")
}

// hit formats one tool: its path and description, and if full is set its typed call. It also names
// the copies of the tool.
func (c *Catalog) hit(h Hit, full bool, language string) string {
	e := h.Entry
	var b strings.Builder
	b.WriteString(e.Path())
	text := e.Tool.Description
	if strings.TrimSpace(text) == "" {
		text = e.Tool.Title
	}
	if line := summary(text); line != "" {
		b.WriteString(" - " + line)
	}
	if len(h.Also) > 0 {
		b.WriteString(" (same tool: " + listCopies(h.Also) + ")")
	}
	b.WriteByte('\n')
	if !full {
		return b.String()
	}
	s := c.describe(e, language)
	for _, part := range [...]string{lines(s.Code, maxCode), lines(s.Example, maxExample)} {
		if part != "" {
			b.WriteString(part + "\n")
		}
	}
	mark := "// "
	if language == "python" {
		mark = "# "
	}
	if note := oneLine(s.ResultNote, maxOneLine); note != "" {
		b.WriteString(mark + note + "\n")
	}
	b.WriteByte('\n')
	return b.String()
}

// listCopies names the first of the copies of a tool.
func listCopies(copies []*Entry) string {
	out := strings.Join(copyPaths(copies), ", ")
	if n := len(copies) - maxCopies; n > 0 {
		out += fmt.Sprintf(" and %d more", n)
	}
	return out
}

// copyPaths returns the paths of the first maxCopies copies of a tool.
func copyPaths(copies []*Entry) []string {
	var out []string
	for _, e := range copies[:min(len(copies), maxCopies)] {
		out = append(out, e.Path())
	}
	return out
}

func (c *Catalog) describe(e *Entry, language string) Signature {
	if c.cfg.Describe != nil {
		return c.cfg.Describe(e, language)
	}
	return plainSignature(e)
}

// overview lists the upstreams, their states and the numbers of their tools.
func (v *View) overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s. Search with a query for typed calls.\n", text.Count(len(v.upstreams), "upstream"),
		text.Count(len(v.entries), "tool"))
	for i, u := range v.upstreams {
		if i == maxUpstreams {
			fmt.Fprintf(&b, "and %d more\n", len(v.upstreams)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s, %s", u.namespace, text.Count(len(u.entries), "tool"), state(u))
		if u.name != u.namespace {
			fmt.Fprintf(&b, " (%s)", quoteShort(u.name))
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// absent lists the unavailable upstreams, with the reason. If there were hits, it lists only those
// without any tools to search.
func (v *View) absent(found bool) string {
	var b strings.Builder
	for _, u := range v.upstreams {
		switch u.health.State {
		case tool.Down, tool.NeedsSignIn, tool.Connecting:
			if b.Len() < maxAbsent && !(found && len(u.entries) > 0) {
				fmt.Fprintf(&b, "%s\n", healthLine(u))
			}
		}
	}
	return b.String()
}

// state describes the health of u in a few words.
func state(u *upstream) string {
	text := string(u.health.State)
	if text == "" {
		text = string(tool.Ready)
	}
	if u.health.Stale {
		text += ", tools as last seen"
	}
	if r := oneLine(u.health.Reason, 160); r != "" {
		text += " (" + r + ")"
	}
	if u.health.State == tool.NeedsSignIn {
		text += ", run `biplane connect " + oneLine(u.name, 64) + "`"
	}
	return text
}

// summary shortens a description to one line: its first sentence, unless that is too short to be
// useful.
func summary(s string) string {
	line := oneLine(s, 4*maxOneLine)
	for from := 24; from < len(line); {
		i := strings.Index(line[from:], ". ")
		if i < 0 {
			break
		}
		if end := from + i; !strings.HasSuffix(line[:end], "e.g") && !strings.HasSuffix(line[:end], "i.e") {
			line = line[:end]
			break
		}
		from += i + 2
	}
	return cut(strings.TrimSuffix(line, "."), maxOneLine)
}

// lines removes invisible characters except line ends and tabs from code, and truncates it to n
// bytes.
func lines(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && !invisible(r) {
			return r
		}
		return -1
	}, s)
	return cut(strings.TrimRight(s, "\n "), n)
}
