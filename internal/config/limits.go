package config

import (
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// limits reads the rules that limit usage.
func (r *reader) limits(n *node) (rules []limit.Rule) {
	if n.kind != listNode {
		r.wrong(n, "limits must be a list, not %s", n.kind)
		return nil
	}
	const day = 24 * time.Hour
	for i, e := range n.list {
		rule := limit.Rule{Per: limit.PerPrincipal}
		what := fmt.Sprintf("limits[%d]", i)
		r.object(e, what, key{
			"what": func(n *node) {
				rule.What = limit.What(r.oneOf(n, what+".what",
					texts(limit.Quantities())...))
			},
			"max":       func(n *node) { rule.Max = float64(r.count(n, what+".max", 1, 1<<50)) },
			"window":    func(n *node) { rule.Window = r.days(n, what+".window", time.Second, 400*day) },
			"per":       func(n *node) { rule.Per = limit.Per(r.oneOf(n, what+".per", texts(limit.Scopes())...)) },
			"principal": func(n *node) { rule.Principal = r.text(n, what+".principal") },
			"group":     func(n *node) { rule.Group = r.text(n, what+".group") },
			"tools":     func(n *node) { rule.Tools = r.text(n, what+".tools") },
		})
		if err := rule.Check(); err != nil {
			r.wrong(e, "%s: %s", what, tool.AsError(err).Msg)
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

func texts[T ~string](all []T) (out []string) {
	for _, w := range all {
		out = append(out, string(w))
	}
	return out
}
