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
	r.inspect(func(n ast.IsNode) {
		var test ast.BinaryNode
		switch n := n.(type) {
		case ast.NodeTypeContains:
			test = n.BinaryNode
		case ast.NodeTypeContainsAll:
			test = n.BinaryNode
		case ast.NodeTypeContainsAny:
			test = n.BinaryNode
		}
		holder := labelsOf(test.Left)
		if holder == "" {
			return
		}
		for _, label := range stringLiterals(test.Right) {
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
