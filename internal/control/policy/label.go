package policy

import (
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/biplane-dev/biplane/internal/tool"
)

// CheckLabels returns an error if a label in list is not in known, which is Labels or Sources.
func CheckLabels(list, known []string) error {
	for _, l := range list {
		if !slices.Contains(known, l) {
			return tool.Errorf(tool.Invalid, "unknown label %q: labels are %s%s", clipText(l),
				strings.Join(known, ", "), suggestName(l, known))
		}
	}
	return nil
}

// wrongLabels reports the labels in the rule that can never occur. A policy that tests for one
// would never match.
func (r *rule) wrongLabels(f File) (problems []Problem) {
	r.inspectSets(func(set, tested ast.IsNode) {
		holder := labelsOf(set)
		if holder == "" {
			return
		}
		for _, label := range stringLiterals(tested) {
			switch {
			case !slices.Contains(Labels(), label):
				problems = append(problems,
					r.newProblem(f, label, "unknown label %s%s", quoteCedar(label), suggestName(label, Labels())))
			case holder == "context" && !slices.Contains(Sources(), label):
				problems = append(problems,
					r.newProblem(f, label, "context.labels never contains %s, which says where data goes: test "+
						"resource.labels instead", quoteCedar(label)))
			}
		}
	})
	return problems
}

// unknownFindings reports the findings in the rule that no review has.
func (r *rule) unknownFindings(f File) (problems []Problem) {
	r.inspectSets(func(set, tested ast.IsNode) {
		if attr, ok := attributeOf(set, "context"); !ok || attr != "findings" {
			return
		}
		known := tool.ReviewRules()
		for _, name := range stringLiterals(tested) {
			if !slices.Contains(known, name) {
				problems = append(problems, r.newProblem(f, name, "unknown finding %s: findings are %s%s",
					quoteCedar(name), strings.Join(known, ", "), suggestName(name, known)))
			}
		}
	})
	return problems
}

// inspectSets calls visit with the operands of each test of what a set contains.
func (r *rule) inspectSets(visit func(set, tested ast.IsNode)) {
	r.inspectConditions(func(n ast.IsNode) {
		switch n := n.(type) {
		case ast.NodeTypeContains:
			visit(n.Left, n.Right)
		case ast.NodeTypeContainsAll:
			visit(n.Left, n.Right)
		case ast.NodeTypeContainsAny:
			visit(n.Left, n.Right)
		}
	})
}

// labelsOf returns whose labels a node accesses: "context", "resource", or "" for other nodes.
func labelsOf(n ast.IsNode) string {
	access, _ := n.(ast.NodeTypeAccess)
	for _, holder := range []string{"context", "resource"} {
		if access.Value == "labels" && isVariable(access.Arg, holder) {
			return holder
		}
	}
	return ""
}

// stringLiterals returns the string literals of a node: one, or the elements of a set.
func stringLiterals(n ast.IsNode) (out []string) {
	switch n := n.(type) {
	case ast.NodeValue:
		if s, ok := n.Value.(cedar.String); ok {
			return []string{string(s)}
		}
	case ast.NodeTypeSet:
		for _, e := range n.Elements {
			out = append(out, stringLiterals(e)...)
		}
	}
	return out
}
