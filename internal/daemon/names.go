package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/policy/desk"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/hint"
)

// CheckNames returns a line for each name in the configuration and its policies that no tool or
// upstream has. It starts nothing, but uses the tools that each upstream last listed, as stored in
// the data folder. If names of other upstreams can't be checked, another line says so.
func CheckNames(ctx context.Context, s *config.Config, folder string) ([]string, error) {
	e, err := s.Engine()
	if err != nil {
		return nil, err
	}
	listed, err := listedBefore(ctx, folder)
	if err != nil {
		return nil, err
	}
	var unlisted, unchecked []string
	var tools []*tool.Tool
	for _, c := range s.ListSources() {
		all, ok := listed[c.Name]
		switch {
		case c.Disabled:
		case ok:
			tools = append(tools, c.Narrow.Keep(all)...)
		default:
			unlisted = append(unlisted, c.Name)
			if s.NamesTools(c.Name) || e.NamesUpstream(c.Name) {
				unchecked = append(unchecked, c.Name)
			}
		}
	}
	lines := s.UnmatchedNames(listed)
	for _, p := range desk.WireProblems(e.CheckNames(tools, append(unlisted, tool.Own)...)) {
		lines = append(lines, "policy "+policyLine(p))
	}
	for i := range lines {
		lines[i] += " (as last listed)"
	}
	if len(unchecked) > 0 {
		lines = append(lines, fmt.Sprintf(
			"the names of tools could not be checked for upstreams that have not listed any yet (%s): "+
				"run biplane tools",
			strings.Join(unchecked, ", ")))
	}
	return lines, nil
}

// listedBefore returns the tools that upstreams have listed, according to the data folder. Only
// their names are set.
func listedBefore(ctx context.Context, folder string) (map[string][]*tool.Tool, error) {
	stored, err := store.StoredHints(ctx, folder)
	if err != nil {
		return nil, err
	}
	out := map[string][]*tool.Tool{}
	for upstream, data := range stored {
		sights, err := hint.ParseSights(data)
		if err != nil {
			continue // the next start reports it
		}
		for _, name := range slices.Sorted(maps.Keys(sights.Tools)) {
			out[upstream] = append(out[upstream], &tool.Tool{Upstream: upstream, Name: strings.ToValidUTF8(name, "")})
		}
	}
	return out, nil
}
