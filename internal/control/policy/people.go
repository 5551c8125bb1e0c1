package policy

import (
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// People answers which principals exist, for CheckPeople.
type People interface {
	// Decides reports whether anyone in a group can decide on calls, besides the user of the
	// machine.
	Decides(group string) bool
	// IsGroup reports whether a principal can be in a group, and IsUser whether one can have an ID.
	IsGroup(name string) bool
	IsUser(id string) bool
}

// everyApprover is the group of all approvers. The user of the machine is always in it.
const everyApprover = "approvers"

// CheckPeople returns warnings for groups of @ask in which no one can decide, and for groups and
// users in policies that can't exist.
func (e *Engine) CheckPeople(p People) (warnings []Problem) {
	for _, r := range e.rules {
		f := e.ruleFile(r)
		for _, g := range r.bounds.approvers {
			if g != everyApprover && !p.Decides(g) {
				warnings = append(warnings,
					r.newProblem(f, g, "@ask names the group %s, whose members can't decide, so only an admin and "+
						"this machine's user can: no API key has this group and the role approver, and no issuer is "+
						"configured (biplane keys create NAME --role approver --scope api --group %s)", quoteCedar(g),
						quoteCedar(g)))
			}
		}
		for _, g := range r.entityIDs("Group") {
			if !p.IsGroup(g) {
				warnings = append(warnings,
					r.newProblem(f, g,
						"Group::%s has no members: no API key has this group, and no issuer is configured",
						quoteCedar(g)))
			}
		}
		for _, u := range r.entityIDs("User") {
			if !p.IsUser(u) {
				warnings = append(warnings,
					r.newProblem(f, u, "unknown entity User::%s: an ID names this machine's user (local:NAME), "+
						"of an API key (key:NAME) or from an issuer", quoteCedar(u)))
			}
		}
	}
	return warnings
}

// WithoutTools returns the names of the upstreams without tools in a list.
func WithoutTools(names []string, tools []*tool.Tool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Upstream == n })
	})
}
