package review

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxShellDepth = 60      // brackets in each other
	maxShellSteps = 20_000  // commands that are followed
	maxShellCalls = 8       // calls of functions in each other
	maxShellText  = MaxSize // bytes of what is known of a text
)

// ReviewShell reviews a shell script. It follows values through variables, functions, pipes and
// followCommand substitutions.
func ReviewShell(code string) []Finding {
	if len(code) > MaxSize || isTooDeep(code) {
		return refuseReview()
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(code), "")
	if err != nil {
		return refuseReview()
	}
	s := &shellFlow{vars: map[string]shellText{}, functions: map[string]*syntax.Stmt{}}
	s.checks.dropFindings()
	s.runAll(file.Stmts, shellText{})
	if s.steps > maxShellSteps {
		return refuseReview()
	}
	return s.checks.found
}

// isTooDeep reports whether the brackets of a script are nested too deeply to parse it.
func isTooDeep(code string) bool {
	depth := 0
	for i := range len(code) {
		switch code[i] {
		case '(', '{', '`':
			depth++
		case ')', '}':
			depth = max(depth-1, 0)
		}
		if depth > 20*maxShellDepth {
			return true
		}
	}
	return false
}

// A shellText is what is known of a text: a word, or what a command writes.
type shellText struct {
	taint taint
	safe  ruleSet
	text  string // its constant parts
	built bool   // it has constant and tainted parts
}

// mergeText returns a text that is one of two.
func (a shellText) mergeText(b shellText) shellText {
	switch {
	case a.taint == 0 && a.text == "":
		return b
	case b.taint == 0:
		return a
	case a.taint == 0:
		return b
	}
	return shellText{taint: a.taint | b.taint, safe: a.safe & b.safe, text: extendText(a.text, b.text),
		built: a.built || b.built}
}

// extendText returns a and b, cut where it is too long.
func extendText(a, b string) string {
	out := a + b
	return out[:min(len(out), maxShellText+1)]
}

// A shellFlow follows the values of a script.
type shellFlow struct {
	checks    checker
	vars      map[string]shellText
	functions map[string]*syntax.Stmt
	steps     int
	depth     int // of calls
}

// runAll follows commands, one after the other, and returns their output.
func (s *shellFlow) runAll(all []*syntax.Stmt, in shellText) (out shellText) {
	for _, st := range all {
		out = out.mergeText(s.followStatement(st, in))
	}
	return out
}

// followStatement follows a command that reads in, and returns its output.
func (s *shellFlow) followStatement(st *syntax.Stmt, in shellText) (out shellText) {
	if s.steps++; s.steps > maxShellSteps || st == nil {
		return out
	}
	toFile := false
	for _, r := range st.Redirs {
		switch {
		case r.Hdoc != nil:
			in = s.readWord(r.Hdoc)
			if w, ok := r.Word.Parts[0].(*syntax.SglQuoted); ok && w != nil {
				in = shellText{text: in.text}
			}
		case r.Word == nil:
		case r.Op == syntax.WordHdoc:
			in = s.readWord(r.Word)
		case r.Op == syntax.DplOut || r.Op == syntax.DplIn:
		default:
			target := s.readWord(r.Word)
			s.checkShellPath(target, r.Word)
			if r.Op == syntax.RdrIn {
				in = shellText{taint: fromResult}
				if proc := processIn(r.Word); proc != nil {
					in = s.runAll(proc.Stmts, shellText{})
				}
			} else {
				toFile = true
			}
		}
	}
	out = s.followCommand(st.Cmd, in)
	if toFile {
		out = shellText{}
	}
	return out
}

// followCommand follows a command without its redirections.
func (s *shellFlow) followCommand(cmd syntax.Command, in shellText) (out shellText) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return s.followCall(c, in)
	case *syntax.BinaryCmd:
		return s.followBinary(c, in)
	case *syntax.Block:
		return s.runAll(c.Stmts, in)
	case *syntax.Subshell:
		before := s.copyVars()
		out = s.runAll(c.Stmts, in)
		s.vars = before
	case *syntax.IfClause:
		return s.followBranch(c, in)
	case *syntax.WhileClause:
		for range 2 { // what the first pass sets reaches the second
			s.runAll(c.Cond, in)
			out = out.mergeText(s.runAll(c.Do, in))
		}
	case *syntax.ForClause:
		if iter, ok := c.Loop.(*syntax.WordIter); ok {
			var each shellText
			for _, w := range iter.Items {
				each = each.mergeText(s.readItem(w))
			}
			s.vars[iter.Name.Value] = each
		}
		for range 2 {
			out = out.mergeText(s.runAll(c.Do, in))
		}
	case *syntax.CaseClause:
		return s.followCase(c, in)
	case *syntax.FuncDecl:
		s.functions[c.Name.Value] = c.Body
	case *syntax.DeclClause:
		for _, a := range c.Args {
			s.followAssignment(a, c.Variant.Value == "declare" && isInteger(c.Args))
		}
	case *syntax.TimeClause:
		return s.followStatement(c.Stmt, in)
	case *syntax.CoprocClause:
		return s.followStatement(c.Stmt, in)
	}
	return out
}

// isInteger reports whether a declaration is of integers.
func isInteger(args []*syntax.Assign) bool {
	return len(args) > 0 && args[0].Naked && args[0].Value != nil && args[0].Value.Lit() == "-i"
}

// readItem returns what an item of a list of words may be: a pattern stands for names of files.
func (s *shellFlow) readItem(w *syntax.Word) shellText {
	t := s.readWord(w)
	if t.taint == 0 && strings.ContainsAny(w.Lit(), "*?[") {
		t.taint = fromListing
	}
	if len(w.Parts) == 1 {
		t.built, t.text = false, ""
	}
	return t
}

func (s *shellFlow) copyVars() map[string]shellText {
	out := make(map[string]shellText, len(s.vars))
	for name, v := range s.vars {
		out[name] = v
	}
	return out
}

// mergeVars makes each variable what it is now, or was in others.
func (s *shellFlow) mergeVars(others map[string]shellText) {
	for name, v := range others {
		s.vars[name] = s.vars[name].mergeText(v)
	}
}

// followBinary follows a pipe, or commands that are joined by && or ||.
func (s *shellFlow) followBinary(c *syntax.BinaryCmd, in shellText) shellText {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		return s.followStatement(c.Y, s.followStatement(c.X, in))
	}
	out := s.followStatement(c.X, in)
	before := s.copyVars()
	s.limitVariables(c.X, c.Op == syntax.AndStmt)
	out = out.mergeText(s.followStatement(c.Y, in))
	if endsFlow([]*syntax.Stmt{c.Y}) {
		s.vars = before
		s.limitVariables(c.X, c.Op == syntax.OrStmt) // otherwise the script has ended
		return out
	}
	for name, v := range before { // a test holds only in Y
		if now := s.vars[name]; now.safe != v.safe && now.taint == v.taint {
			s.vars[name] = v
		}
	}
	return out
}

// followBranch follows an if.
func (s *shellFlow) followBranch(c *syntax.IfClause, in shellText) (out shellText) {
	if c == nil {
		return out
	}
	s.runAll(c.Cond, in)
	if len(c.Cond) == 0 { // else
		return s.runAll(c.Then, in)
	}
	before := s.copyVars()
	test := c.Cond[len(c.Cond)-1]
	s.limitVariables(test, true)
	out = s.runAll(c.Then, in)
	after := s.vars
	s.vars = before
	s.limitVariables(test, false)
	out = out.mergeText(s.followBranch(c.Else, in))
	if !endsFlow(c.Then) {
		for name, v := range s.vars {
			if was, ok := before[name]; ok && was.taint == v.taint && c.Else == nil {
				v.safe &= after[name].safe | ^safeAll
			}
			s.vars[name] = v
		}
		s.mergeVars(after)
	}
	return out
}

// endsFlow reports whether commands end the script, the function or the loop.
func endsFlow(all []*syntax.Stmt) bool {
	if len(all) == 0 {
		return false
	}
	switch c := all[len(all)-1].Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) > 0 {
			switch c.Args[0].Lit() {
			case "exit", "return", "continue", "break", "die", "fail":
				return true
			}
		}
	case *syntax.Block:
		return endsFlow(c.Stmts)
	}
	return false
}

// followCase follows a case.
func (s *shellFlow) followCase(c *syntax.CaseClause, in shellText) (out shellText) {
	s.readWord(c.Word)
	name := variableOf(c.Word)
	start := s.copyVars()
	end := map[string]shellText{}
	rest := start[name] // if no pattern before matches
	for _, item := range c.Items {
		s.vars = map[string]shellText{}
		for n, v := range start {
			s.vars[n] = v
		}
		constant, excludes := true, false
		for _, p := range item.Patterns {
			text := p.Lit()
			constant = constant && text != "" && !strings.ContainsAny(text, "*?[")
			excludes = excludes || strings.Contains(text, "[!") || strings.Contains(text, "[^") ||
				strings.Contains(text, "/") || strings.Contains(text, "..")
		}
		v := rest
		if constant {
			v.safe = safeAll
		}
		if name != "" {
			s.vars[name] = v
		}
		out = out.mergeText(s.runAll(item.Stmts, in))
		if excludes {
			rest.safe = safeAll
		}
		if endsFlow(item.Stmts) {
			continue
		}
		for n, v := range s.vars {
			end[n] = end[n].mergeText(v)
		}
	}
	s.vars = start
	for n, v := range end {
		s.vars[n] = v
	}
	return out
}

// limitVariables marks the variables that a test limits to harmless texts, if the test has a
// result.
func (s *shellFlow) limitVariables(st *syntax.Stmt, holds bool) {
	if st == nil {
		return
	}
	if st.Negated {
		holds = !holds
	}
	mark := func(w *syntax.Word, rules ruleSet) {
		if name := variableOf(w); name != "" {
			v := s.vars[name]
			v.safe |= rules
			s.vars[name] = v
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.TestClause:
		s.limitByTest(c.X, holds, mark)
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt == holds { // both have that result
			s.limitVariables(c.X, holds)
			s.limitVariables(c.Y, holds)
		}
	case *syntax.CallExpr: // [ "$x" = a ]
		if len(c.Args) == 5 && c.Args[0].Lit() == "[" && (c.Args[2].Lit() == "=" || c.Args[2].Lit() == "==") && holds &&
			s.readWord(c.Args[3]).taint == 0 {
			mark(c.Args[1], safeAll)
		}
	}
}

func (s *shellFlow) limitByTest(x syntax.TestExpr, holds bool, mark func(*syntax.Word, ruleSet)) {
	switch t := x.(type) {
	case *syntax.ParenTest:
		s.limitByTest(t.X, holds, mark)
	case *syntax.UnaryTest:
		if t.Op == syntax.TsNot {
			s.limitByTest(t.X, !holds, mark)
		}
	case *syntax.BinaryTest:
		if t.Op == syntax.AndTest && holds || t.Op == syntax.OrTest && !holds {
			s.limitByTest(t.X, holds, mark)
			s.limitByTest(t.Y, holds, mark)
			return
		}
		w, ok := t.X.(*syntax.Word)
		p, ok2 := t.Y.(*syntax.Word)
		if !ok || !ok2 {
			return
		}
		pattern := constantOf(p)
		switch {
		case t.Op == syntax.TsReMatch && holds && strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") &&
			!strings.Contains(pattern, ".*"):
			mark(w, safeAll)
		case t.Op == syntax.TsReMatch && !holds && (strings.HasPrefix(pattern, "[^") || strings.Contains(pattern, "/")):
			mark(w, safeAll)
		case (t.Op == syntax.TsMatch || t.Op == syntax.TsMatchShort) && holds && pattern != "" &&
			!strings.ContainsAny(pattern, "*?"):
			mark(w, safeAll)
		case (t.Op == syntax.TsMatch || t.Op == syntax.TsMatchShort) && !holds && strings.ContainsAny(pattern, "/."),
			t.Op == syntax.TsNoMatch && holds && strings.ContainsAny(pattern, "/."):
			mark(w, safePath)
		}
	}
}

// variableOf returns the name of the variable that a word consists of, or "".
func variableOf(w *syntax.Word) string {
	if w == nil || len(w.Parts) != 1 {
		return ""
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	if p, ok := part.(*syntax.ParamExp); ok && p.Param != nil && p.Exp == nil && p.Repl == nil && p.Slice == nil {
		return p.Param.Value
	}
	return ""
}

// constantOf returns the constant parts of a word.
func constantOf(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if l, ok := q.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
		}
	}
	return b.String()
}

// processIn returns the process substitution <(...) that a word consists of, or nil.
func processIn(w *syntax.Word) *syntax.ProcSubst {
	if len(w.Parts) != 1 {
		return nil
	}
	p, _ := w.Parts[0].(*syntax.ProcSubst)
	return p
}
