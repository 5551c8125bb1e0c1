package policy

import "fmt"

// Reveals reports whether r.Tool may get personal data of r.Kinds in place of the tokens in
// r.Arguments, and if not, why (action reveal, context.kinds). It is decided like a call: denied by
// default, and a forbid overrides permits. A permit with @ask denies, since approving the call
// itself already shows what is sent. So does a permit with a stronger tier than programs run at.
func (e *Engine) Reveals(r Request) (bool, string) {
	d := e.decideRequest(r)
	if len(r.Kinds) > 0 && d.Effect == Allow {
		return true, ""
	}
	return false, fmt.Sprintf("policy %s: %s", d.Policy, d.Reason)
}

// checkReveal reports errors in a rule that is only about personal data.
func (r *rule) checkReveal(f File) []Problem {
	if !r.includesOnly(revealAction) || !r.bounds.ask && len(r.bounds.redact) == 0 && len(r.bounds.limits) == 0 {
		return nil
	}
	return []Problem{r.newProblem(f, "",
		"@ask, @redact and @limit apply to calls, not to the action reveal: put them on the permit for the call")}
}
