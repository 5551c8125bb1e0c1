package check

import (
	"encoding/json"
	"slices"

	"github.com/grafana/sobek/ast"

	"github.com/biplane-dev/biplane/internal/tool"
)

// checkPositions checks positional arguments.
func (c *checker) checkPositions(first *value, entry tool.Entry, args []ast.Expression, s *scope) {
	list := &value{kind: "array", exact: true, items: []*value{first}}
	for _, a := range args[1:] {
		if _, spread := a.(*ast.SpreadElement); spread {
			return
		}
		c.checkAwaited(a, s, "which can't be an argument")
		list.items = append(list.items, c.valueOf(a, s, 0))
	}
	if names := entry.Positions(); len(args) > len(names)+1 {
		c.reportAt(first.at, "%s takes one object with named arguments, or %d by position, got %d", entry.Path(),
			len(names), len(args))
		return
	}
	for _, x := range list.items {
		if !x.exact {
			return
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return
	}
	if err := entry.CheckArguments(raw); err != nil && tool.AsError(err).Kind == tool.Invalid {
		c.reportAt(first.at, "%s", tool.AsError(err).Msg)
	}
}

// rename changes the keys of v to the schema's spelling, as the call will.
func (v *value) rename(entry tool.Entry) {
	props := entry.Positions()
	for i, k := range v.keys {
		if slices.Contains(props, k) {
			continue
		}
		if name := entry.FindSpelling(k); name != "" && v.fields[name] == nil {
			v.keys[i], v.fields[name] = name, v.fields[k]
			delete(v.fields, k)
		}
	}
}
