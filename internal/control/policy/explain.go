package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	public "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Explanation explains a decision.
type Explanation struct {
	Decision Decision
	Policies []Trace // deciding policies first, then by the number of missing parts
	Change   string  // the smallest change that would change the effect, as a sentence
}

// A Trace is the evaluation of one policy.
type Trace struct {
	ID      string
	File    string
	Line    int
	Forbid  bool
	Holds   bool     // all parts are true
	Missing []string // the parts that are not true, in Cedar; with the error, if a part can't be evaluated
	parts   []string // all parts
}

// Explain decides r, as DecideCall does, and explains the decision.
func (e *Engine) Explain(r Request) Explanation {
	x := e.explainPolicies(r)
	if denial, denied := e.denyCall(r, x.Decision); denied {
		x.Change = describeDenial(r.Tool, x.Decision)
		x.Decision = denial
	}
	return x
}

// explainPolicies decides r by the policies alone, and explains that.
func (e *Engine) explainPolicies(r Request) Explanation {
	x := Explanation{Decision: e.Decide(r)}
	if r.File == nil && (r.Tool == nil || isOwn(r.Tool)) || len(r.Kinds) > 0 &&
		(r.Tool == nil || r.Tool.Upstream == tool.Own) {
		return x
	}
	w, err := e.newWorld(r)
	if err != nil {
		return x
	}
	q := w.cedarRequest()
	env := eval.Env{Principal: q.Principal, Action: q.Action, Resource: q.Resource, Context: q.Context, Entities: w}
	for _, rule := range e.rules {
		x.Policies = append(x.Policies, rule.traceParts(env))
	}
	decided := strings.Split(x.Decision.Policy, ", ")
	slices.SortStableFunc(x.Policies, func(a, b Trace) int {
		rank := func(t Trace) int {
			switch {
			case slices.Contains(decided, t.ID):
				return 0
			case t.Holds:
				return 1
			}
			return 2
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a.Missing), len(b.Missing)),
			strings.Compare(a.ID, b.ID))
	})
	x.Change = x.describeChange(e)
	return x
}

// traceParts evaluates each part of a rule separately.
func (r *rule) traceParts(env eval.Env) Trace {
	t := Trace{ID: r.id, File: r.file, Line: r.policy.Position().Line, Forbid: r.forbid}
	p := r.policy.AST()
	scope := ast.Policy{Effect: p.Effect, Principal: p.Principal, Action: p.Action, Resource: p.Resource}
	for _, only := range []struct {
		name string
		part ast.Policy
	}{
		{"principal", ast.Policy{Principal: scope.Principal, Action: ast.ScopeTypeAll{}, Resource: ast.ScopeTypeAll{}}},
		{"action", ast.Policy{Principal: ast.ScopeTypeAll{}, Action: scope.Action, Resource: ast.ScopeTypeAll{}}},
		{"resource", ast.Policy{Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeAll{}, Resource: scope.Resource}},
	} {
		node := eval.PolicyToNode(&only.part)
		t.evaluatePart(env, node.AsIsNode(), true, false, scopeText(only.name, &only.part))
	}
	for _, c := range p.Conditions {
		if !c.Condition {
			t.evaluatePart(env, c.Body, false, false, "unless "+formatNode(c.Body))
			continue
		}
		before := len(t.Missing)
		for _, n := range splitConjuncts(c.Body) {
			t.evaluatePart(env, n, true, len(t.Missing) > before, formatNode(n))
		}
	}
	t.Holds = len(t.Missing) == 0
	return t
}

// evaluatePart evaluates a part of a policy. If guarded is true, an earlier part is false. That
// part may guard this one, so an error is not reported.
func (t *Trace) evaluatePart(env eval.Env, n ast.IsNode, want, guarded bool, said string) {
	if said == "" {
		return // the scope is open
	}
	t.parts = append(t.parts, said)
	v, err := eval.Eval(n, env)
	switch {
	case err != nil && guarded:
	case err != nil:
		t.Missing = append(t.Missing, said+" (can't be evaluated: "+oneLine(err.Error())+")")
	case v != cedar.Boolean(want):
		t.Missing = append(t.Missing, said)
	}
}

// splitConjuncts returns the operands of a condition joined by &&.
func splitConjuncts(n ast.IsNode) []ast.IsNode {
	if and, ok := n.(ast.NodeTypeAnd); ok {
		return append(splitConjuncts(and.Left), splitConjuncts(and.Right)...)
	}
	return []ast.IsNode{n}
}

// formatNode formats an expression in Cedar.
func formatNode(n ast.IsNode) string {
	p := ast.Permit().When(ast.NewNode(n))
	s := oneLine(string(cedar.NewPolicyFromAST((*public.Policy)(p)).MarshalCedar()))
	_, s, _ = strings.Cut(s, "when { ")
	return strings.TrimSuffix(s, " };")
}

// scopeText formats the one part of the scope that isn't open; "" if all are.
func scopeText(name string, p *ast.Policy) string {
	p.Effect = ast.EffectPermit
	s := oneLine(string(cedar.NewPolicyFromAST((*public.Policy)(p)).MarshalCedar()))
	s = strings.TrimSuffix(s[strings.IndexByte(s, '(')+1:], ");")
	for _, part := range splitScope(s) {
		if strings.HasPrefix(part, name+" ") {
			return part
		}
	}
	return ""
}

// splitScope splits at the commas outside of brackets and strings.
func splitScope(s string) []string {
	var out []string
	depth, quoted, from := 0, false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[from:]))
}

// countMissing returns a measure of how much is missing: first the number of parts, then how hard
// they are for the caller to change.
func (t *Trace) countMissing() int {
	n := 10_000 * len(t.Missing)
	for _, m := range t.Missing {
		for cost, word := range []string{"context.arguments", "context", "action", "principal", "resource"} {
			if strings.Contains(m, word) {
				n += cost
				break
			}
		}
	}
	return n
}

// describeChange describes the smallest change that would change the effect.
func (x *Explanation) describeChange(e *Engine) string {
	var permits, forbids []Trace // that hold
	nearest := -1
	for i, t := range x.Policies {
		broken := t.Forbid && slices.ContainsFunc(t.Missing, func(m string) bool {
			return strings.Contains(m, "(can't be evaluated: ")
		}) && t.ID == x.Decision.Policy
		switch {
		case t.Forbid && (t.Holds || broken):
			forbids = append(forbids, t)
		case t.Forbid:
		case t.Holds:
			permits = append(permits, t)
		case nearest < 0 || t.countMissing() < x.Policies[nearest].countMissing():
			nearest = i
		}
	}
	allow := ""
	if nearest >= 0 {
		n := x.Policies[nearest]
		allow = fmt.Sprintf("%s would permit it if this were true: %s", n.ID, strings.Join(n.Missing, "; and "))
	}
	switch x.Decision.Effect {
	case Deny:
		switch {
		case len(forbids) > 0:
			return describeExceptions(forbids, len(permits) == 0, allow)
		case len(permits) > 0: // a tier that is not available
			return "it would be permitted if programs ran at tier " + x.Decision.Grant.Tier.String()
		case allow == "":
			return "no permit applies to this: write one"
		}
		return allow
	case Ask:
		var asking []string
		for _, t := range permits {
			if e.ruleByID(cedar.PolicyID(t.ID)).bounds.ask {
				asking = append(asking, t.ID)
			}
		}
		if len(asking) < len(permits) {
			return "no approval would be needed if " + joinAlternatives(asking) +
				" did not apply: another permit allows it"
		}
		return "no approval would be needed if a permit without @ask applied, and " +
			joinAlternatives(asking) + " did not"
	}
	if len(permits) == 1 && len(permits[0].parts) > 0 {
		return fmt.Sprintf("it would be denied if one of these were false: %s (%s)",
			strings.Join(permits[0].parts, "; "), permits[0].ID)
	}
	ids := make([]string, len(permits))
	for i, t := range permits {
		ids[i] = t.ID
	}
	return "it would be denied if none of these applied: " + strings.Join(ids, ", ") + "; or if a forbid did apply"
}

// describeExceptions describes what would make forbids no longer apply.
func describeExceptions(forbids []Trace, permitToo bool, allow string) string {
	var parts []string
	for _, t := range forbids {
		switch {
		case len(t.Missing) > 0:
			parts = append(parts, fmt.Sprintf("%s could be evaluated: %s", t.ID, strings.Join(t.Missing, "; ")))
		case len(t.parts) == 0:
			parts = append(parts, t.ID+" were removed: it forbids everything")
		default:
			parts = append(parts, fmt.Sprintf("one of these were false: %s (%s)", strings.Join(t.parts, "; "), t.ID))
		}
	}
	s := "it would not be forbidden if " + strings.Join(parts, ", and if ")
	if permitToo && allow != "" {
		s += "; and " + allow
	} else if permitToo {
		s += "; a permit would be needed, too"
	}
	return s
}

func joinAlternatives(ids []string) string { return strings.Join(ids, " and ") }
