package policy

import (
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// inspectConditions calls f for each node of the rule's conditions.
func (r *rule) inspectConditions(f func(ast.IsNode)) {
	for _, c := range r.policy.AST().Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			f(n)
			return true
		})
	}
}

// entityIDs returns the ids of all entities of a type in the rule.
func (r *rule) entityIDs(kind string) []string {
	var ids []string
	add := func(all ...cedar.EntityUID) {
		for _, e := range all {
			if string(e.Type) == kind {
				ids = append(ids, string(e.ID))
			}
		}
	}
	p := r.policy.AST()
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Action, p.Resource} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			add(s.Entity)
		case ast.ScopeTypeIn:
			add(s.Entity)
		case ast.ScopeTypeInSet:
			add(s.Entities...)
		case ast.ScopeTypeIsIn:
			add(s.Entity)
		}
	}
	r.inspectConditions(func(n ast.IsNode) {
		if v, ok := n.(ast.NodeValue); ok {
			if e, ok := v.Value.(cedar.EntityUID); ok {
				add(e)
			}
		}
	})
	return sortList(ids)
}

// argumentPaths returns the dotted paths of all arguments in the rule.
func (r *rule) argumentPaths() []string {
	var paths []string
	r.inspectConditions(func(n ast.IsNode) {
		if path, ok := argumentPath(n); ok {
			paths = append(paths, path)
		}
	})
	return sortList(paths)
}

// argumentPath returns the path that a node accesses below context.arguments, "" for all of it.
func argumentPath(n ast.IsNode) (string, bool) {
	if attr, ok := attributeOf(n, "context"); ok {
		return "", attr == "arguments"
	}
	holder, attr := accessOf(n)
	if holder == nil {
		return "", false
	}
	path, ok := argumentPath(holder)
	return strings.TrimPrefix(path+"."+attr, "."), ok
}

// attributeOf returns the attribute of a variable that a node accesses or tests for.
func attributeOf(n ast.IsNode, variable string) (attr string, ok bool) {
	holder, attr := accessOf(n)
	return attr, isVariable(holder, variable)
}

// accessOf returns the parts of a node that accesses an attribute or tests for it. The holder is
// nil for other nodes.
func accessOf(n ast.IsNode) (holder ast.IsNode, attr string) {
	switch n := n.(type) {
	case ast.NodeTypeAccess:
		return n.Arg, string(n.Value)
	case ast.NodeTypeHas:
		return n.Arg, string(n.Value)
	}
	return nil, ""
}

func isVariable(n ast.IsNode, name string) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && string(v.Name) == name
}
