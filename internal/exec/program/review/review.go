// Package review finds what most often goes wrong in generated programs: queries, shell commands
// and paths that are built from tool results or arguments; checks of TLS certificates that are
// switched off; fetched text that is run as a program; secrets in the text. It follows values
// through the variables and functions of one program. It runs nothing, and does no I/O.
package review

import (
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
)

// MaxSize is the maximum size of a program that is reviewed, in bytes.
const MaxSize = 128 << 10

// A Finding is a likely fault in a program.
type Finding struct {
	Rule    string // one of the constants: SQL
	At      int    // offset in the code
	Message string // what is wrong; without the text of a secret
	Better  string // what to write instead
}

// ReviewScript reviews JavaScript from its syntax tree. A program without a tree is unreviewed.
func ReviewScript(code string, tree *ast.Program) []Finding {
	if tree == nil || len(code) > MaxSize {
		return refuseReview()
	}
	c := converter{}
	return followValues(newNodeAt(blockNode, 0, "", c.convertStatements(tree.Body)...), false)
}

// ReviewPython reviews a program in Python.
func ReviewPython(code string) []Finding {
	if len(code) > MaxSize {
		return refuseReview()
	}
	tree, err := parsePython(strings.TrimPrefix(code, "\ufeff"))
	if err != nil {
		return refuseReview()
	}
	return followValues(tree, true)
}

func followValues(tree *node, python bool) []Finding {
	f := &flow{python: python, checks: checker{python: python}}
	if !f.evaluateAll(tree) {
		return refuseReview()
	}
	slices.SortStableFunc(f.checks.found, func(a, b Finding) int { return a.At - b.At })
	return f.checks.found
}

// refuseReview returns the finding of a program that can't be reviewed.
func refuseReview() []Finding {
	return []Finding{{Rule: Unreviewed,
		Message: "this program can't be reviewed: it is too large, or its syntax isn't supported",
		Better:  "write a smaller program; read data through a tool or a file"}}
}
