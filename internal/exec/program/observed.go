package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	basetext "github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/exec/program/review"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of warnings about fields that were never observed.
const (
	maxMissing = 3  // warnings in one program
	maxNamed   = 8  // observed fields in one warning
	maxShown   = 64 // bytes of the name of the field
)

// Results has what was observed of the results of tools that don't declare their type.
type Results interface {
	// FindMissing reports on the last field of a path into results of a tool (check.Read.Path). ok
	// is true if certainly none of the observed results had it.
	FindMissing(e tool.Entry, path []string) (m Missing, ok bool)
}

// A Missing is a field that was never observed.
type Missing struct {
	Results int      // number of results that were read
	Fields  []string // that were observed in its place
}

// addWarnings returns p, with warnings about fields that it reads and that were never observed. p
// itself may be cached, and the observations change, so the warnings are not part of it.
func (p *Program) addWarnings(known Results) *Program {
	if known == nil {
		return p
	}
	var notes []string
	var lines *lineTable
	warned := map[string]bool{}
	for _, r := range p.reads {
		m, ok := known.FindMissing(r.Tool, r.Path)
		name := r.Path[len(r.Path)-1]
		key := r.Tool.Path() + "\x00" + strings.Join(r.Path, "\x00")
		if !ok || warned[key] {
			continue
		}
		warned[key] = true
		if lines == nil {
			lines = newLineTable(p.Source, plainLines)
		}
		line, _ := lines.position(r.At)
		notes = append(notes, fmt.Sprintf("warning: line %d: no result of %s had a field %q in %s; observed there: %s",
			line, r.Tool.Path(), basetext.Clip(name, maxShown), basetext.Count(m.Results, "result"),
			listNearest(name, m.Fields)))
		if len(notes) == maxMissing {
			break
		}
	}
	if notes == nil {
		return p
	}
	own := *p
	own.Notes = append(slices.Clone(p.Notes), notes...)
	return &own
}

// readPython returns the fields of results that Python code reads and does not test. sourceOf maps
// an offset in the code to one in the agent's text.
func readPython(x *check.Index, code string, q *Request, sourceOf func(at int) int) (out []check.Read) {
	if slices.Contains(q.Declared, check.Anything) {
		return nil
	}
	spaces := map[string]bool{}
	for _, name := range x.Names() {
		spaces[name] = !slices.Contains(q.Declared, name)
	}
	for _, f := range review.FindResultReads(code, spaces) {
		if e, err := x.Directory().FindTool(f.Tool); err == nil {
			out = append(out, check.Read{At: sourceOf(f.At), Tool: e, Path: f.Path})
		}
	}
	return out
}

// listNearest returns the names that are most similar to name.
func listNearest(name string, names []string) string {
	names = slices.Clone(names)
	near := check.Nearest(name, names)
	slices.SortStableFunc(names, func(a, b string) int {
		if (a == near) != (b == near) {
			if a == near {
				return -1
			}
			return 1
		}
		return cmp.Compare(basetext.Distance(name, a, maxShown), basetext.Distance(name, b, maxShown))
	})
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
