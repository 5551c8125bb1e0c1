package policy

import (
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Profiles limit principals to the tools of the endpoint through which they came. The keys are
// names of profiles; the values match the profile's tools.
type Profiles map[string][]Rule

// ExplainDenial returns why a principal's profile doesn't have a tool, or "" if it does. A
// principal whose profile is unknown, as after a change of the configuration, has no tools. Every
// profile has search, execute and resume, which reach nothing else.
func (ps Profiles) ExplainDenial(p tool.Principal, t *tool.Tool) string {
	if p.Profile == "" {
		return ""
	}
	rules, ok := ps[p.Profile]
	required := t.RequiredTool()
	has := func(t *tool.Tool) bool {
		return slices.ContainsFunc(rules, func(r Rule) bool { return r.MatchesTool(t) })
	}
	switch {
	case !ok:
		return fmt.Sprintf("there is no profile %q", p.Profile)
	case t.Upstream == tool.Own && !ReachesNetwork(t):
		return ""
	case !has(t):
		return "profile " + p.Profile + " does not have it"
	case required != nil && !has(required):
		return "it is for callers that may call " + required.Path() + ", and profile " + p.Profile +
			" does not have that"
	}
	return ""
}
