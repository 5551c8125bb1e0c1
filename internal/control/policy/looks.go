package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Dependencies reports what decisions depend on, besides the caller's id and client and the tool.
type Dependencies struct {
	Arguments bool
	Principal bool // more than its ID and client: groups, roles, the agent
	Tier      bool // the tier of the calling program
}

// Looks returns what the policies depend on.
func (e *Engine) Looks() Dependencies {
	l := Dependencies{Arguments: e.reads}
	severalTiers := e.cfg.Strongest > e.cfg.Tier
	for _, r := range e.rules {
		l.Tier = l.Tier || severalTiers && r.bounds.tier > e.cfg.Tier
		switch r.policy.AST().Principal.(type) {
		case ast.ScopeTypeIn, ast.ScopeTypeIsIn:
			l.Principal = true
		}
		r.walkObjects(func(m map[string]any) {
			for _, op := range []string{".", "has"} {
				n, _ := m[op].(map[string]any)
				left, _ := n["left"].(map[string]any)
				attr, _ := n["attr"].(string)
				switch left["Var"] {
				case "principal":
					l.Principal = l.Principal || !slices.Contains([]string{"id", "client"}, attr)
				case "context":
					l.Tier = l.Tier || severalTiers && attr == "tier"
				}
			}
			if n, ok := m["in"].(map[string]any); ok {
				if left, _ := n["left"].(map[string]any); left["Var"] == "principal" {
					l.Principal = true
				}
			}
		})
	}
	return l
}
