package policy

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// DecideCall is Decide for a call of a tool. It also denies calls that no policy about the tool can
// permit: see barCall. r.Tool is the tool as it applies to r.Arguments (tool.Tool.ForCall).
func (e *Engine) DecideCall(r Request) Decision {
	d := e.Decide(r)
	if bar, barred := e.barCall(r, d); barred {
		return bar
	}
	return d
}

// barCall denies a call that the policies have decided as d, if its tool requires another one that
// the caller may not use, or if policy removes fields by their names and the call renames fields.
func (e *Engine) barCall(r Request, d Decision) (bar Decision, barred bool) {
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

// describeBar describes what would change about a barred call, which d would decide.
func describeBar(t *tool.Tool, d Decision) string {
	if required := t.RequiredTool(); required != nil {
		return "it is denied unless the caller may call " + required.Path()
	}
	if d.Effect == Ask {
		return "it would require approval if the call renamed no fields"
	}
	return "it would be permitted if the call renamed no fields"
}
