package policy

import (
	"slices"
	"strings"

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
	r.walkObjects(func(m map[string]any) {
		for _, op := range []string{"contains", "containsAll", "containsAny"} {
			n, _ := m[op].(map[string]any)
			holder := labelsOf(n["left"])
			if holder == "" {
				continue
			}
			for _, label := range stringLiterals(n["right"]) {
				switch {
				case !slices.Contains(Labels(), label):
					problems = append(problems,
						r.newProblem(f, label, "unknown label %s%s", quoteCedar(label),
							suggestName(label, Labels())))
				case holder == "context" && !slices.Contains(Sources(), label):
					problems = append(problems,
						r.newProblem(f, label, "context.labels never contains %s, which says where data goes: test "+
							"resource.labels instead", quoteCedar(label)))
				}
			}
		}
	})
	return problems
}

// labelsOf returns whose labels a node of the JSON form accesses: "context", "resource", or "" for
// other nodes.
func labelsOf(node any) string {
	n, _ := node.(map[string]any)
	get, _ := n["."].(map[string]any)
	left, _ := get["left"].(map[string]any)
	if holder, _ := left["Var"].(string); get["attr"] == "labels" && (holder == "context" || holder == "resource") {
		return holder
	}
	return ""
}

// stringLiterals returns the string literals of a node: one, or the elements of a set.
func stringLiterals(node any) (out []string) {
	n, _ := node.(map[string]any)
	if s, ok := n["Value"].(string); ok {
		return []string{s}
	}
	list, _ := n["Set"].([]any)
	for _, e := range list {
		out = append(out, stringLiterals(e)...)
	}
	return out
}
