package program

import (
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/exec/program/review"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxFindings = 20 // of a program
	maxWarnings = 5  // that an answer shows
)

// reviewScript reviews a program in TypeScript or JavaScript.
func (s *steps) reviewScript(in syntax) []tool.Finding {
	found := review.ReviewScript(in.text, in.tree)
	if len(found) == 0 {
		return nil
	}
	lines := newLineTable(s.source, plainLines)
	return describeFindings(found, lines, in.origin.SourceOffset)
}

// reviewPython reviews Python code that begins after some lines of the agent's text, without some
// columns of indentation.
func reviewPython(code string, line, indent int, source *lineTable) []tool.Finding {
	found := review.ReviewPython(code)
	return describeFindings(found, source, func(at int) (int, bool) {
		return sourceOffset(source, code, at, line, indent), true
	})
}

// describeFindings returns findings with their positions in the agent's text, in order.
func describeFindings(found []review.Finding, lines *lineTable, sourceOf func(int) (int, bool)) (out []tool.Finding) {
	for _, x := range found {
		f := tool.Finding{Rule: x.Rule, Message: x.Message, Better: x.Better}
		if at, ok := sourceOf(x.At); ok && at >= 0 && x.Rule != review.Unreviewed {
			f.Line, f.Column = lines.position(at)
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b tool.Finding) int { return a.Line - b.Line })
	return capFindings(slices.Compact(out))
}

// capFindings limits the number of findings, but keeps the first of each rule.
func capFindings(all []tool.Finding) (out []tool.Finding) {
	seen := map[string]bool{}
	left := maxFindings
	for _, f := range all {
		if seen[f.Rule] && left <= 0 {
			continue
		}
		seen[f.Rule] = true
		left--
		out = append(out, f)
	}
	return out
}

// setFindings sets the findings of a program, and warns the agent of them.
func (p *Program) setFindings(found []tool.Finding) {
	p.Findings = found
	if p.Runtime != "js" && len(p.Code) <= review.MaxSize && len(found) == 1 && found[0].Rule == review.Unreviewed {
		return // its syntax is wrong: the interpreter reports that better
	}
	for i, f := range found {
		if i == maxWarnings {
			p.Notes = append(p.Notes, fmt.Sprintf("warning: the review found %d more", len(found)-i))
			break
		}
		p.Notes = append(p.Notes, "warning: "+f.String())
	}
}
