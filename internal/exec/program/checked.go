package program

import (
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/grafana/sobek/ast"

	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

// A syntax is code with its syntax tree.
type syntax struct {
	text   string
	tree   *ast.Program // nil: the code is too large, or can't be parsed
	origin check.Origin
}

// parseFinal parses the final code. If the parser doesn't support all of its syntax, it parses a
// version compiled to older syntax.
func (s *steps) parseFinal() syntax {
	out := syntax{s.final.s, check.ParseCode(s.final.s), s}
	if out.tree != nil || len(out.text) > check.MaxParsed {
		return out
	}
	if lower := s.lowerSyntax(); lower != nil {
		return syntax{lower.output, check.ParseCode(lower.output), olderSyntax{from: s, to: lower}}
	}
	return out
}

// checkCalls checks a program against the catalog. A program with an eval is not checked, because
// it may declare and assign anything.
func (s *steps) checkCalls(in syntax, x *check.Index, declared []string) check.Report {
	assigned, dynamic := assignments(scan(s.final.s))
	if dynamic {
		return check.Report{}
	}
	r, _ := x.Check(check.Code{Text: in.text, Tree: in.tree, Origin: in.origin, Assigned: assigned, Declared: declared})
	return r
}

// An olderSyntax is the origin of final code that was compiled to older syntax.
type olderSyntax struct{ from, to *steps }

// SourceOffset maps an offset in the compiled code to one in the agent's text.
func (o olderSyntax) SourceOffset(off int) (int, bool) {
	if off, ok := o.to.inputOf(off); ok {
		return o.from.SourceOffset(off)
	}
	return 0, false
}

// problemsOf returns the problems of a check.
func problemsOf(r check.Report) (out []problem) {
	for _, p := range r.Problems {
		out = append(out, problem{at: p.At, kind: "check", message: p.Message})
	}
	return out
}

// lowerSyntax compiles the final code to syntax that the checker's parser supports. It returns nil
// if that fails.
func (s *steps) lowerSyntax() *steps {
	r := api.Transform(s.final.s,
		api.TransformOptions{Loader: api.LoaderJS, Target: api.ESNext, LogLevel: api.LogLevelSilent,
			Supported: map[string]bool{"async-generator": false, "for-await": false}, LogOverride: silent.Get(),
			Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
			LegalComments: api.LegalCommentsNone})
	if len(r.Errors) > 0 {
		return nil
	}
	return &steps{input: s.final, output: string(r.Code), srcMap: r.Map, source: s.source,
		final: &text{s: string(r.Code)}}
}

// assignments returns the names that are assigned anywhere, and reports whether there is an eval
// that could assign others.
func assignments(t *tokens) (assigned map[string]bool, dynamic bool) {
	assigned = map[string]bool{}
	for i := range t.list {
		if t.is(i, "=") && (t.is(i-1, "}") || t.is(i-1, "]")) {
			assignPattern(t, i-1, assigned)
		}
		if t.list[i].kind != word || t.is(i-1, ".") {
			continue
		}
		next := t.text(i + 1)
		switch {
		case next == "=" || next == "++" || next == "--",
			strings.HasSuffix(next, "=") && len(next) > 1 && !isComparison(next):
			if !(t.is(i-1, "const") || t.is(i-1, "let") || t.is(i-1, "var")) {
				assigned[t.text(i)] = true
			}
		case t.is(i-1, "++") || t.is(i-1, "--"), t.is(i+1, "of"), t.is(i+1, "in"):
			assigned[t.text(i)] = true
		case t.is(i, "eval") && next == "(", t.is(i, "Function") && next == "(":
			dynamic = true
		}
	}
	return assigned, dynamic
}

// assignPattern adds the names in a pattern that is assigned, and whose last bracket is token end.
// The pattern of a declaration, and an index, assign no other names.
func assignPattern(t *tokens, end int, assigned map[string]bool) {
	from := int(t.list[end].match)
	if from < 0 || t.is(from-1, "const") || t.is(from-1, "let") || t.is(from-1, "var") {
		return
	}
	if before := t.text(from - 1); t.is(from, "[") && from > 0 &&
		(before == ")" || before == "]" || t.list[from-1].kind == word) {
		return
	}
	for i := from; i < end; i++ {
		if t.list[i].kind == word && !t.is(i-1, ".") {
			assigned[t.text(i)] = true
		}
	}
}
