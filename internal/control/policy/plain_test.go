package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Plain returns an engine with the same policies that passes all of them to Cedar.
func Plain(e *Engine) *Engine {
	return &Engine{cfg: e.cfg, rules: e.rules, version: e.version, free: e.free, reads: e.reads, timed: e.timed}
}

// PlainShows is like Engine.Shows, by partial evaluation of every policy for a single tool.
func PlainShows(e *Engine, r Request) bool {
	if r.Tool == nil || isOwn(r.Tool) {
		return r.Tool != nil
	}
	if ReachesNetwork(r.Tool) {
		return slices.ContainsFunc(e.rules, func(r *rule) bool { return !r.forbid && r.includesAction(connectAction) })
	}
	w := &world{facts: e.toolFacts(r.Tool), user: userOf(r.Principal)}
	env := eval.Env{
		Principal: w.user.UID, Action: w.actionUID(), Resource: w.facts.entity.UID, Entities: w,
		Context: e.sightContext(Request{Principal: r.Principal, Time: r.Time}),
	}
	var may bool
	least, tiered := tool.MicroVM+1, tool.WASM
	var asking []*rule
	for _, rule := range e.rules {
		rest, keep := eval.PartialPolicy(env, (*ast.Policy)(rule.policy.AST()))
		if !keep {
			continue
		}
		sure, fails := len(rest.Conditions) == 0, alwaysFails(rest)
		switch {
		case rule.forbid && (sure || fails && len(rest.Conditions) == 1):
			return false
		case !rule.forbid && !fails:
			may, least = true, min(least, rule.bounds.tier)
			if sure {
				tiered = max(tiered, rule.bounds.tier)
			}
			if sure && rule.bounds.ask {
				asking = append(asking, rule)
			}
		}
	}
	return (len(asking) == 0 || len(commonGroups(asking)) > 0) && may &&
		(w.facts.action == executeAction || max(least, tiered) <= e.cfg.Strongest)
}
