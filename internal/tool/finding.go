package tool

import (
	"fmt"
	"slices"
)

// A Finding is a likely fault that the review of a program found. It never contains the text of a
// secret.
type Finding struct {
	Rule    string `json:"rule"` // one of ReviewRules
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Better  string `json:"better"` // what to write instead
}

// String returns the finding as one line.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s. Better: %s", f.Rule, f.Message, f.Better)
	}
	return fmt.Sprintf("%s at line %d, column %d: %s. Better: %s", f.Rule, f.Line, f.Column, f.Message, f.Better)
}

// ReviewRules returns the rules of the review, which are the possible values of Finding.Rule.
func ReviewRules() []string {
	return []string{"eval", "path", "secret", "shell", "sql", "tls", "unreviewed"}
}

// FindingRules returns the rules of findings, sorted, each once.
func FindingRules(all []Finding) (rules []string) {
	for _, f := range all {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
