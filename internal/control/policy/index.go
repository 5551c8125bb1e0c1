package policy

import (
	"slices"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// An index finds the rules whose scope may match an action and a resource, so that Cedar evaluates
// only those. This changes no decision: Cedar evaluates the scope before the conditions, and a
// scope can't fail.
type index map[string]*actionIndex // by action

// An actionIndex holds the rules of one action by their resource scope, as indexes in Engine.rules.
type actionIndex struct {
	open  []int // any resource
	rules set   // the rules of open
	kind  map[cedar.EntityType][]int
	named map[cedar.EntityUID][]int // for the entity, or entities in it
}

func newIndex(rules []*rule) index {
	x := index{}
	for _, action := range actions {
		a := &actionIndex{kind: map[cedar.EntityType][]int{}, named: map[cedar.EntityUID][]int{}}
		x[action] = a
		for i, r := range rules {
			if !r.includesAction(action) {
				continue
			}
			switch s := r.policy.AST().Resource.(type) {
			case ast.ScopeTypeEq:
				a.named[s.Entity] = append(a.named[s.Entity], i)
			case ast.ScopeTypeIn:
				a.named[s.Entity] = append(a.named[s.Entity], i)
			case ast.ScopeTypeIsIn:
				a.named[s.Entity] = append(a.named[s.Entity], i)
			case ast.ScopeTypeIs:
				a.kind[s.Type] = append(a.kind[s.Type], i)
			default:
				a.open, a.rules = append(a.open, i), append(a.rules, r)
			}
		}
	}
	return x
}

// matchingRules returns the rules whose scope may match an action on a resource, sorted by id. It
// may return rules that don't match.
func (e *Engine) matchingRules(action string, resource cedar.Entity) set {
	a := e.index[action]
	if a == nil {
		return e.rules
	}
	kind, named := a.kind[resource.UID.Type], a.named[resource.UID]
	n := len(kind) + len(named)
	for p := range resource.Parents.All() {
		n += len(a.named[p])
	}
	if n == 0 {
		return a.rules
	}
	found := make([]int, 0, len(a.open)+n)
	found = append(append(append(found, a.open...), kind...), named...)
	for p := range resource.Parents.All() {
		found = append(found, a.named[p]...)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	out := make(set, len(found))
	for i, at := range found {
		out[i] = e.rules[at]
	}
	return out
}

// inScope reports whether an entity is in a principal or resource scope.
func inScope(scope ast.IsScopeNode, e cedar.Entity) bool {
	in := func(id cedar.EntityUID) bool { return e.UID == id || e.Parents.Contains(id) }
	switch s := scope.(type) {
	case ast.ScopeTypeAll:
		return true
	case ast.ScopeTypeEq:
		return e.UID == s.Entity
	case ast.ScopeTypeIn:
		return in(s.Entity)
	case ast.ScopeTypeIs:
		return e.UID.Type == s.Type
	case ast.ScopeTypeIsIn:
		return e.UID.Type == s.Type && in(s.Entity)
	}
	return false
}

// A depends reports what the conditions of a rule depend on, apart from the arguments, the program
// and the labels, which a Sight doesn't know.
type depends struct {
	resource bool // the resource
	literal  bool // a literal entity that may be the resource
	caller   bool // the principal, the action, or another part of the context
}

// dependsOf returns the dependencies of a policy's conditions.
func dependsOf(p *cedar.Policy) (d depends) {
	for _, c := range p.AST().Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				if v, ok := n.Arg.(ast.NodeTypeVariable); ok && v.Name == "context" {
					d.caller = d.caller || !slices.Contains(callAttributes, n.Value)
					return false
				}
			case ast.NodeTypeVariable:
				d.resource = d.resource || n.Name == "resource"
				d.caller = d.caller || n.Name != "resource"
			case ast.NodeValue:
				if id, ok := n.Value.(cedar.EntityUID); ok {
					d.caller = true
					d.literal = d.literal || id.Type != userType && id.Type != groupType && id.Type != actionType
				}
			}
			return true
		})
	}
	return d
}
