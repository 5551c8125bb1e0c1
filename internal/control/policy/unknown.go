package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// withoutArguments returns the rule with a boolean in place of each comparison that uses an
// argument for which unknown is true.
func (r *rule) withoutArguments(unknown func(path string) bool) *ast.Policy {
	p := r.policy.AST()
	out := &ast.Policy{Effect: p.Effect, Annotations: p.Annotations, Principal: p.Principal, Action: p.Action,
		Resource: p.Resource}
	for _, c := range p.Conditions {
		body := unknownArguments(unknown).settleNode(c.Body)
		out.Conditions = append(out.Conditions, ast.ConditionType{Condition: c.Condition, Body: body})
	}
	return out
}

// unknownArguments reports which arguments are unknown, by path.
type unknownArguments func(path string) bool

// unknownBoolean returns a node that stands for a boolean of unknown value.
func unknownBoolean() ast.IsNode { return ast.Context().Access("program").AsIsNode() }

// settleNode returns a copy of n with its unknown parts replaced, or a boolean if the value of n
// itself is unknown.
func (u unknownArguments) settleNode(n ast.IsNode) ast.IsNode {
	if n, known := u.replaceUnknown(n); known {
		return n
	}
	return unknownBoolean()
}

// replaceUnknown returns a copy of n with its unknown parts replaced. known reports whether the
// value of n itself is known.
func (u unknownArguments) replaceUnknown(n ast.IsNode) (_ ast.IsNode, known bool) {
	if path, ok := argumentPath(n); ok {
		if _, tests := n.(ast.NodeTypeHas); tests && u(path) {
			return unknownBoolean(), true
		}
		return n, !u(path)
	}
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		n.Left, n.Right = u.settleNode(n.Left), u.settleNode(n.Right)
		return n, true
	case ast.NodeTypeOr:
		n.Left, n.Right = u.settleNode(n.Left), u.settleNode(n.Right)
		return n, true
	case ast.NodeTypeNot:
		n.Arg = u.settleNode(n.Arg)
		return n, true
	case ast.NodeTypeIfThenElse:
		n.If = u.settleNode(n.If)
		known = u.replaceAll(&n.Then, &n.Else)
		return n, known
	case ast.NodeTypeExtensionCall:
		n.Args = slices.Clone(n.Args)
		if known = u.replaceList(n.Args); !known && slices.Contains(booleanMethods, string(n.Name)) {
			return unknownBoolean(), true
		}
		return n, known
	}
	if test, known := u.replaceInTest(n); known {
		return test, true
	} else if test != nil {
		return unknownBoolean(), true
	}
	return u.replaceInValue(n)
}

// booleanMethods lists the methods of extension types that have a boolean result.
var booleanMethods = []string{
	"isIpv4", "isIpv6", "isLoopback", "isMulticast", "isInRange", "lessThan", "lessThanOrEqual", "greaterThan",
	"greaterThanOrEqual",
}

// replaceInTest is like replaceUnknown, for the operators that compare values. It returns nil for
// other nodes.
func (u unknownArguments) replaceInTest(n ast.IsNode) (_ ast.IsNode, known bool) {
	switch n := n.(type) {
	case ast.NodeTypeEquals:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeNotEquals:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeLessThan:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeLessThanOrEqual:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeGreaterThan:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeGreaterThanOrEqual:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeIn:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeContains:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeContainsAll:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeContainsAny:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeHasTag:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeHas:
		known = u.replaceAll(&n.Arg)
		return n, known
	case ast.NodeTypeIsEmpty:
		known = u.replaceAll(&n.Arg)
		return n, known
	case ast.NodeTypeLike:
		known = u.replaceAll(&n.Arg)
		return n, known
	case ast.NodeTypeIs:
		known = u.replaceAll(&n.Left)
		return n, known
	case ast.NodeTypeIsIn:
		known = u.replaceAll(&n.Left, &n.Entity)
		return n, known
	}
	return nil, false
}

// replaceInValue is like replaceUnknown, for the operators whose result may be of any type. Other
// values, and variables, are known.
func (u unknownArguments) replaceInValue(n ast.IsNode) (_ ast.IsNode, known bool) {
	switch n := n.(type) {
	case ast.NodeTypeAccess:
		known = u.replaceAll(&n.Arg)
		return n, known
	case ast.NodeTypeNegate:
		known = u.replaceAll(&n.Arg)
		return n, known
	case ast.NodeTypeGetTag:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeAdd:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeSub:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeMult:
		known = u.replaceAll(&n.Left, &n.Right)
		return n, known
	case ast.NodeTypeSet:
		n.Elements = slices.Clone(n.Elements)
		known = u.replaceList(n.Elements)
		return n, known
	case ast.NodeTypeRecord:
		n.Elements = slices.Clone(n.Elements)
		known = true
		for i := range n.Elements {
			known = u.replaceAll(&n.Elements[i].Value) && known
		}
		return n, known
	}
	return n, true
}

// replaceAll replaces the unknown parts of operands, and reports whether all their values are
// known.
func (u unknownArguments) replaceAll(operands ...*ast.IsNode) bool {
	known := true
	for _, n := range operands {
		var ok bool
		*n, ok = u.replaceUnknown(*n)
		known = known && ok
	}
	return known
}

func (u unknownArguments) replaceList(nodes []ast.IsNode) bool {
	known := true
	for i := range nodes {
		known = u.replaceAll(&nodes[i]) && known
	}
	return known
}
