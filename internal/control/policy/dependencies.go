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
	Findings  bool // what the review found in the program
}

// Looks returns the dependencies of the policies.
func (e *Engine) Looks() Dependencies {
	l := Dependencies{Arguments: e.reads}
	severalTiers := e.cfg.Strongest > e.cfg.Tier
	for _, r := range e.rules {
		l.Tier = l.Tier || severalTiers && r.bounds.tier > e.cfg.Tier
		switch r.policy.AST().Principal.(type) {
		case ast.ScopeTypeIn, ast.ScopeTypeIsIn:
			l.Principal = true
		}
		r.inspectConditions(func(n ast.IsNode) {
			if attr, ok := attributeOf(n, "principal"); ok {
				l.Principal = l.Principal || !slices.Contains([]string{"id", "client"}, attr)
			}
			if attr, ok := attributeOf(n, "context"); ok {
				l.Tier = l.Tier || severalTiers && attr == "tier"
				l.Findings = l.Findings || attr == "findings"
			}
			switch n := n.(type) {
			case ast.NodeTypeIn:
				l.Principal = l.Principal || isVariable(n.Left, "principal")
			case ast.NodeTypeIsIn:
				l.Principal = l.Principal || isVariable(n.Left, "principal")
			}
		})
	}
	return l
}
