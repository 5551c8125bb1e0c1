package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/tokens"
)

// maxIdle is how many unused tools a page counts the tokens of.
const maxIdle = 300

// An idleUpstream is an upstream with tools that no one used.
type idleUpstream struct {
	Name   string
	Count  int
	All    bool // none of its tools was used
	Tokens int  // of the definitions of these tools
	Weekly int  // with one conversation a day for each client that was used
	More   bool // there are more definitions than were counted
}

// listIdle returns the upstreams with tools that no line of usage names, those with the most tokens
// first.
func listIdle(ctx context.Context, c *api.Client, lines []api.UsageLine) ([]idleUpstream, error) {
	tools, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	week, err := c.Usage(ctx, api.UsageQuery{From: time.Now().UTC().AddDate(0, 0, -7), By: []string{"client", "day"}})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for i := range lines {
		used[lines[i].Tool] = true
	}
	var counter tokens.Counter
	found, total, counted := map[string]*idleUpstream{}, map[string]int{}, 0
	for _, t := range tools {
		if total[t.Upstream]++; used[t.Upstream+"."+t.Name] {
			continue
		}
		u := found[t.Upstream]
		if u == nil {
			u = &idleUpstream{Name: t.Upstream}
			found[t.Upstream] = u
		}
		u.Count++
		if counted++; counted > maxIdle {
			u.More = true
			continue
		}
		d, err := c.Tool(ctx, t.Path)
		if err != nil {
			continue // the tool was removed since it was listed
		}
		u.Tokens += counter.Count(t.Name+" "+t.Description+" "+string(d.InputSchema), 1<<20)
	}
	var out []idleUpstream
	for _, u := range found {
		u.All, u.Weekly = u.Count == total[u.Name], u.Tokens*len(week.Lines)
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b idleUpstream) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}
