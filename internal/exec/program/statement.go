package program

// A form is the form of a statement, as far as it matters for a program's value.
type form uint8

const (
	other      form = iota // declarations of variables, return, throw, break, loops, with, debugger
	expression             // E ;
	empty                  // ;
	function               // a function declaration: it is hoisted
	class
	braces // { ... }
	branch // if
	try
	choice  // switch
	labeled // label: statement
)

// A stmt is a statement of compiled code: the tokens [lo, hi).
type stmt struct {
	form   form
	lo, hi int
	// parts are the token ranges of inner statements: of branch, one statement each; of try and
	// braces, the contents of blocks; of choice, the contents of {}.
	parts [][2]int
}

// A reader parses statements in compiled code, where every statement ends in ';' or '}'.
type reader struct{ *tokens }

// statements parses the statements in [lo, hi).
func (r reader) statements(lo, hi int) []stmt {
	var out []stmt
	for lo < hi {
		s := r.statement(lo, hi)
		out = append(out, s)
		lo = s.hi
	}
	return out
}

// statement parses the statement at lo. It consumes at least one token.
func (r reader) statement(lo, hi int) stmt {
	s := stmt{lo: lo, hi: hi}
	t := r.text(lo)
	switch {
	case r.list[lo].kind == punct && t == ";":
		s.form, s.hi = empty, lo+1
	case r.list[lo].kind == open && t == "{":
		s.form, s.hi, s.parts = braces, r.after(lo), [][2]int{r.inside(lo)}
	case r.list[lo].kind == word:
		r.keyword(&s, t)
	default:
		s.form, s.hi = expression, r.semicolon(lo, hi)
	}
	s.hi = max(min(s.hi, hi), lo+1)
	return s
}

// keyword parses a statement that starts with the word t.
func (r reader) keyword(s *stmt, t string) {
	lo, hi := s.lo, s.hi
	switch t {
	case "if":
		r.ifStatement(s)
	case "for":
		k := lo + 1
		if r.is(k, "await") {
			k++
		}
		s.hi = r.body(r.skip(k), hi)
	case "while", "with":
		s.hi = r.body(r.skip(lo+1), hi)
	case "do":
		s.hi = r.semicolon(r.body(lo+1, hi), hi)
	case "try":
		r.tryStatement(s)
	case "switch":
		k := r.skip(lo + 1)
		s.form, s.hi = choice, r.skip(k)
		if k < hi {
			s.parts = [][2]int{r.inside(k)}
		}
	case "function":
		s.form, s.hi = function, r.functionEnd(lo)
	case "class":
		s.form, s.hi = class, r.classEnd(lo)
	case "return", "throw", "break", "continue", "debugger", "var", "const", "export":
		s.hi = r.semicolon(lo, hi)
	case "import":
		s.hi = r.semicolon(lo, hi)
		if r.is(lo+1, "(") || r.is(lo+1, ".") { // a dynamic import, or import.meta
			s.form = expression
		}
	default:
		switch {
		case t == "async" && r.is(lo+1, "function") && !r.list[lo+1].nl:
			s.form, s.hi = function, r.functionEnd(lo+1)
		case t == "let" && lo+1 < hi && (r.list[lo+1].kind == word || r.is(lo+1, "[") || r.is(lo+1, "{")):
			s.hi = r.semicolon(lo, hi)
		case r.is(lo+1, ":"):
			s.form, s.hi = labeled, r.body(lo+2, hi)
			s.parts = [][2]int{{lo + 2, s.hi}}
		default:
			s.form, s.hi = expression, r.semicolon(lo, hi)
		}
	}
}

func (r reader) ifStatement(s *stmt) {
	s.form = branch
	hi := s.hi
	k := r.skip(s.lo + 1)
	s.hi = r.body(k, hi)
	s.parts = append(s.parts, [2]int{k, s.hi})
	if r.is(s.hi, "else") && s.hi < hi {
		k = s.hi + 1
		s.hi = r.body(k, hi)
		s.parts = append(s.parts, [2]int{k, s.hi})
	}
}

func (r reader) tryStatement(s *stmt) {
	s.form = try
	s.parts = append(s.parts, r.inside(s.lo+1))
	s.hi = r.skip(s.lo + 1)
	if r.is(s.hi, "catch") {
		k := s.hi + 1
		if r.is(k, "(") {
			k = r.skip(k)
		}
		s.parts = append(s.parts, r.inside(k))
		s.hi = r.skip(k)
	}
	if r.is(s.hi, "finally") {
		s.hi = r.skip(s.hi + 1)
	}
}

// body returns the end of the single statement at lo.
func (r reader) body(lo, hi int) int {
	if lo >= hi {
		return hi
	}
	return r.statement(lo, hi).hi
}

// skip returns the token after the bracket that opens at i, or i+1 if none does.
func (r reader) skip(i int) int {
	if i < len(r.list) && r.list[i].kind == open {
		return r.after(i)
	}
	return i + 1
}

// inside returns the tokens between the bracket that opens at i and its closing bracket.
func (r reader) inside(i int) [2]int {
	if i >= len(r.list) || r.list[i].kind != open {
		return [2]int{i, i}
	}
	return [2]int{i + 1, max(i+1, r.after(i)-1)}
}

// semicolon returns the token after the next ';' outside brackets.
func (r reader) semicolon(lo, hi int) int {
	for i := lo; i < hi; {
		if r.list[i].kind == open {
			i = r.after(i)
			continue
		}
		if r.is(i, ";") {
			return i + 1
		}
		i++
	}
	return hi
}

// functionEnd returns the end of the function whose keyword is at i.
func (r reader) functionEnd(i int) int {
	for i < len(r.list) && !r.is(i, "(") {
		i++
	}
	return r.skip(r.skip(i))
}

// classEnd returns the end of the class whose keyword is at i. Its extends clause may contain
// braces: after those the compiler continues on the same line.
func (r reader) classEnd(i int) int {
	for i < len(r.list) {
		if r.list[i].kind != open {
			i++
			continue
		}
		isBrace := r.is(i, "{")
		i = r.after(i)
		if isBrace && (i >= len(r.list) || r.list[i].nl || r.is(i, ";")) {
			return i
		}
	}
	return i
}
