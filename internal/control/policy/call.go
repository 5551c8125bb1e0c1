package policy

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// DecideCall is Decide for a call of a tool. It also denies calls that no policy about the tool can
// permit: see denyCall. r.Tool is the tool as it applies to r.Arguments (tool.Tool.ForCall).
func (e *Engine) DecideCall(r Request) Decision {
	d := e.Decide(r)
	if denial, denied := e.denyCall(r, d); denied {
		return denial
	}
	return d
}

// denyCall denies a call, whatever the policies' decision d is, for two reasons: its tool requires
// another tool that the caller may not use, or policy removes fields by their names and the call
// renames fields. Otherwise it returns d and false.
func (e *Engine) denyCall(r Request, d Decision) (denial Decision, denied bool) {
	if r.Tool == nil || r.File != nil || len(r.Kinds) > 0 {
		return d, false
	}
	if t := r.Tool.RequiredTool(); t != nil && !e.Sight(r.Principal, time.Time{}).Shows(t) {
		return Decision{Effect: Deny, Policy: "required", Version: e.version,
			Reason: r.Tool.Path() + " is for callers that may call " + t.Path()}, true
	}
	if len(d.Redact) > 0 && d.Effect != Deny && r.Tool.Judge != nil && r.Tool.Judge.RenamesFields(r.Arguments) {
		return Decision{Effect: Deny, Policy: d.Policy, Version: d.Version, Reason: "policy leaves fields out of what " +
			r.Tool.Path() + " returns, by their names: use no aliases"}, true
	}
	return d, false
}

// describeDenial describes what would have to change for a call that denyCall denied. d is the
// policies' decision on it.
func describeDenial(t *tool.Tool, d Decision) string {
	if required := t.RequiredTool(); required != nil {
		return "it is denied unless the caller may call " + required.Path()
	}
	if d.Effect == Ask {
		return "it would require approval if the call renamed no fields"
	}
	return "it would be permitted if the call renamed no fields"
}
