package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one mistake in a configuration file, or one setting without effect, with its place.
// It is not an error: an Error has all problems of a file.
type Problem struct {
	Line    int    `json:"line"` // 1-based; 0 if it concerns the whole file
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// An Error holds all errors in a configuration file, in the order of the file.
type Error struct {
	File     string
	Problems []Problem
}

// Error returns one line per problem: "file:line:column: message".
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": " + p.Message)
	}
	return b.String()
}

// sortProblems sorts problems in the order of the file.
func sortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}
