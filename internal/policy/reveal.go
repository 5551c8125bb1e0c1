package policy

import "fmt"

// Reveals reports whether r.Tool may have personal data of r.Kinds in the place of the tokens that
// r.Arguments has, and why not (action reveal, context.kinds). It is decided like a call: default
// deny, and a forbid wins. Nobody is asked here: a permit with @ask doesn't count, and neither does
// one that asks for a stronger tier than programs run at. Whoever is asked about the call itself
// sees what is sent.
func (e *Engine) Reveals(r Request) (bool, string) {
	d := e.decide(r)
	if len(r.Kinds) > 0 && d.Effect == Allow {
		return true, ""
	}
	return false, fmt.Sprintf("policy %s: %s", d.Policy, d.Reason)
}

// checkReveal says what is wrong in what the rule says of personal data alone.
func (r *rule) checkReveal(f File) []Problem {
	if !r.only(revealAction) || !r.bounds.ask && len(r.bounds.redact) == 0 && len(r.bounds.limits) == 0 {
		return nil
	}
	return []Problem{r.problem(f, "", "@ask, @redact and @limit bound calls, and nothing holds them for the action reveal: put them on the permit of the call")}
}
