package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// readLimits reads the rules that limit usage.
func (r *fileReader) readLimits(n *node) (rules []limit.Rule) {
	if n.kind != listNode {
		r.addProblem(n, "limits must be a list, not %s", n.kind)
		return nil
	}
	const day = 24 * time.Hour
	for i, e := range n.list {
		rule := limit.Rule{Per: limit.PerPrincipal}
		what := fmt.Sprintf("limits[%d]", i)
		r.readObject(e, what, key{
			"what": func(n *node) {
				rule.What = limit.Quantity(r.oneOf(n, what+".what",
					toStrings(limit.AllQuantities())...))
			},
			"max":    func(n *node) { rule.Max = float64(r.readCount(n, what+".max", 1, 1<<50)) },
			"window": func(n *node) { rule.Window = r.readDays(n, what+".window", time.Second, 400*day) },
			"per": func(n *node) {
				rule.Per = limit.Scope(r.oneOf(n, what+".per", toStrings(limit.AllScopes())...))
			},
			"principal": func(n *node) { rule.Principal = r.readText(n, what+".principal") },
			"group":     func(n *node) { rule.Group = r.readText(n, what+".group") },
			"tools":     func(n *node) { rule.Tools = r.readText(n, what+".tools") },
			"hosts":     func(n *node) { rule.Hosts = strings.ToLower(r.readText(n, what+".hosts")) },
		})
		if err := rule.Check(); err != nil {
			r.addProblem(e, "%s: %s", what, tool.AsError(err).Msg)
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

func toStrings[T ~string](all []T) (out []string) {
	for _, w := range all {
		out = append(out, string(w))
	}
	return out
}
