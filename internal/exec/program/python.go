package program

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

// Python programs run unchanged: the interpreter reports their errors. Only surrounding text is
// removed, and calls that certainly don't match the catalog are reported before they run.

// PythonName is the name that a Python program runs under.
const PythonName = "program.py"

// A traced holds details of a program whose interpreter names lines in its errors.
type traced struct {
	source *lineTable
	indent int // columns removed from each line
	place  *regexp.Regexp
}

func preparePython(q Request, _ string, x *check.Index) (*Program, *Error) {
	code, line, e := unwrapPython(q.Source)
	if e != nil {
		return nil, e
	}
	code, indent := dedent(code)
	if strings.TrimSpace(code) == "" {
		return nil, &Error{Kind: "empty", Message: "the program is empty: send the code to run"}
	}
	masked := maskPython(code)
	if at := script.Get().FindStringIndex(masked); at != nil {
		e := &Error{Kind: "language",
			Message: "this looks like TypeScript, but was sent as Python: omit language, or set it to \"typescript\""}
		e.Line = line + 1 + strings.Count(code[:at[0]], "\n")
		e.Column = at[0] - strings.LastIndexByte(code[:at[0]], '\n') + indent
		return nil, e
	}
	prog := &Program{Runtime: "python", Code: code, Name: PythonName, Line: line, Source: q.Source}
	if q.Session { // to distinguish frames of functions of earlier programs
		h := fnv.New32a()
		_, _ = h.Write([]byte(q.Source)) // never fails
		prog.Name = fmt.Sprintf("program_%04x.py", h.Sum32()&0xffff)
	}
	prog.traced = &traced{source: newLineTable(q.Source, plainLines), indent: indent,
		place: regexp.MustCompile(`File "` + regexp.QuoteMeta(prog.Name) + `", line (\d{1,9})(?:, column (\d{1,9}))?`)}
	prog.setFindings(reviewPython(code, line, indent, prog.traced.source))
	if x == nil {
		return prog, nil
	}
	var found []problem
	found, prog.Attempts, prog.Declared = checkPython(x, masked, q)
	for i, f := range found {
		found[i].at = sourceOffset(prog.traced.source, code, f.at, line, indent)
	}
	if e := problems(found, q.Source); e != nil && !q.Unchecked {
		e.Attempts = prog.Attempts
		return nil, e
	}
	prog.reads = readPython(x, code, &q, func(at int) int {
		return sourceOffset(prog.traced.source, code, at, line, indent)
	})
	prog.find(x, &q)
	return prog, nil
}

// sourceOffset maps an offset in Python code to one in the agent's text. The code has the lines of
// the text, without those before it and without the common indentation.
func sourceOffset(source *lineTable, code string, at, line, indent int) int {
	n := strings.Count(code[:at], "\n")
	return source.atByte(line+n, at-strings.LastIndexByte(code[:at], '\n')-1+indent)
}

// script matches lines that are TypeScript and can't be Python.
var script = lazily.Regexp(`(?m)^[ \t]*(?:(?:export\s+)?(?:const|let|var)\s+[\w$]+\s*(?::[^=\n]+)?=[^=]|(?:export\s+)?(?:const|let|var)\s+[\[{][^\n]*=|` +
	`(?:export\s+(?:default\s+)?)?(?:async\s+)?function(?:\s*\*\s*[\w$]*|\s+[\w$]+)\s*\(|(?:export\s+(?:default\s+)?async\s+|export\s+(?:default\s+)?|async\s+)function\s*\(|function\s*\([^()\n]*\)\s*(?::[^{\n]*)?\{|import[ \t]+(?:\{|\*[ \t]+as\b|type\b|[\w$]+[ \t]*,[ \t]*\{|[\w$]+[ \t]+from[ \t])|(?:export\s+)?interface\s+[\w$]+[^\n(]*\{)`)

// unwrapPython extracts the program from the Markdown around it. It also returns the number of
// lines before the program. Lines between two blocks become empty, so that line numbers stay the
// same.
func unwrapPython(source string) (code string, line int, e *Error) {
	from := 0
	if strings.HasPrefix(source, byteOrderMark) {
		from = len(byteOrderMark)
	}
	var blocks []block
	if strings.Contains(source, "```") || strings.Contains(source, "~~~") {
		blocks = findBlocks(source, inPython)
	}
	if len(blocks) == 0 {
		if head, rest, found := strings.Cut(source[from:], "\n"); found &&
			languages.Get()[strings.ToLower(strings.TrimSpace(head))] == "python" {
			return rest, 1, nil
		}
		return source[from:], 0, nil
	}
	picked := pickBlocks(blocks, "python")
	if len(picked) == 0 {
		line, col := newLineTable(source, plainLines).position(blocks[0].at)
		return "", 0, &Error{Kind: "language", Line: line, Column: col,
			Message: "the text contains a block of " + blocks[0].info +
				", but not Python: write the program in Python, or omit language"}
	}
	var b strings.Builder
	at := picked[0].from
	line = strings.Count(source[:at], "\n")
	for _, k := range picked {
		b.WriteString(strings.Repeat("\n", strings.Count(source[at:k.from], "\n")))
		b.WriteString(source[k.from:k.to])
		at = k.to
	}
	return b.String(), line, nil
}

// dedent removes the common indentation of all lines, and returns its width.
func dedent(code string) (string, int) {
	inside := triples(code)
	common, first := "", true
	lines := strings.SplitAfter(code, "\n")
	at := 0
	for _, l := range lines {
		text := strings.TrimLeft(l, " \t")
		if strings.TrimSpace(text) != "" && !inAnySpan(inside, at) {
			lead := l[:len(l)-len(text)]
			if first {
				common, first = lead, false
			}
			for !strings.HasPrefix(lead, common) {
				common = common[:len(common)-1]
			}
		}
		if at += len(l); !first && common == "" {
			return code, 0
		}
	}
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, common)
	}
	return strings.Join(lines, ""), utf8.RuneCountInString(common)
}

// inAnySpan reports whether a place is inside one of ranges, but not at its start.
func inAnySpan(ranges []span, at int) bool {
	for _, r := range ranges {
		if at > r.from && at < r.to {
			return true
		}
	}
	return false
}

// triples returns the triple-quoted strings.
func triples(code string) (out []span) {
	eachString(code, func(from, to int, triple bool) {
		if triple {
			out = append(out, span{from, to})
		}
	})
	return out
}

// maskPython replaces all strings and comments by spaces.
func maskPython(code string) string {
	b := []byte(code)
	eachString(code, func(from, to int, _ bool) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	})
	return string(b)
}

// eachString calls tell with the range of each string and comment. A single-quoted string ends at
// the end of its line at the latest.
func eachString(code string, tell func(from, to int, triple bool)) {
	for i := 0; i < len(code); {
		c := code[i]
		switch {
		case c == '#':
			end := i + lineEnd(code[i:])
			tell(i, end, false)
			i = end
		case c == '"' || c == '\'':
			mark := code[i : i+1]
			if strings.HasPrefix(code[i:], strings.Repeat(mark, 3)) {
				mark = strings.Repeat(mark, 3)
			}
			end := pythonStringEnd(code, i+len(mark), mark)
			tell(i, end, len(mark) == 3)
			i = end
		default:
			i++
		}
	}
}

func pythonStringEnd(code string, i int, mark string) int {
	for i < len(code) {
		switch {
		case code[i] == '\\':
			i++
		case strings.HasPrefix(code[i:], mark):
			return i + len(mark)
		case code[i] == '\n' && len(mark) == 1:
			return i
		}
		i++
	}
	return len(code)
}

var (
	pythonCall = lazily.Regexp(`[\p{L}_][\p{L}\p{N}_]*(?:\s*\.\s*[\p{L}_][\p{L}\p{N}_]*)?`)
	catching   = lazily.Regexp(`\btry\s*:|\bsuppress\b|\breturn_exceptions\b`)
)

// checkPython finds calls of tools that certainly don't exist. It considers only names that the
// program uses exclusively as name.member. It also returns the paths of these tools, those of calls
// with an unknown namespace, and the namespaces that the program redefines.
func checkPython(x *check.Index, masked string, q Request) (found []problem, attempts, declared []string) {
	uses := map[string][]span{} // calls by name: the ranges of name.member(
	own := map[string]bool{}    // names used on their own
	for _, m := range pythonCall.Get().FindAllStringIndex(masked, -1) {
		if before := strings.TrimRight(masked[:m[0]], " \t"); strings.HasSuffix(before, ".") {
			continue
		}
		name, member, dotted := strings.Cut(masked[m[0]:m[1]], ".")
		if name = strings.TrimSpace(name); !dotted {
			own[name] = true
		} else if strings.HasPrefix(strings.TrimLeft(masked[m[1]:], " \t"), "(") && strings.TrimSpace(member) != "" {
			uses[name] = append(uses[name], span{m[0], m[1]})
		}
	}
	spaces := x.Names()
	for _, n := range spaces {
		if own[n] {
			declared = append(declared, n)
		}
	}
	if slices.Contains(q.Declared, check.Anything) {
		return nil, nil, declared
	}
	attempt := func(s span) {
		if path := dottedPath(masked[s.from:s.to]); len(attempts) < check.MaxAttempts &&
			!slices.Contains(attempts, path) {
			attempts = append(attempts, path)
		}
	}
	silent := catching.Get().MatchString(masked)
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		places := uses[name]
		if own[name] || slices.Contains(q.Declared, name) {
			continue
		}
		if !slices.Contains(spaces, name) { // such a call fails before it reaches the gateway
			for _, s := range places {
				attempt(s)
			}
		}
		if silent || !slices.Contains(spaces, name) && (q.Session || !awaited(masked, places) ||
			check.Nearest(name, spaces) == "") {
			continue
		}
		for _, s := range places {
			path := dottedPath(masked[s.from:s.to])
			if message := x.Unknown(path); message != "" && !strings.HasSuffix(path, "_") {
				attempt(s)
				found = append(found, problem{at: s.from, kind: "check", message: message})
			}
		}
	}
	slices.SortFunc(found, func(a, b problem) int { return a.at - b.at })
	slices.Sort(attempts)
	return found[:min(len(found), 5)], attempts, declared
}

// dottedPath returns name.member without the white space that Python allows in it.
func dottedPath(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == '.' || r == ' ' || r == '\t' || r == '\n'
	}), ".")
}

// awaited reports whether all places are preceded by await, as only calls of tools are.
func awaited(masked string, places []span) bool {
	for _, s := range places {
		if !strings.HasSuffix(strings.TrimRight(masked[:s.from], " \t"), "await") {
			return false
		}
	}
	return true
}

// locate returns the position of the innermost frame of a traceback that is in the program. The
// innermost frame comes last.
func (p *traced) locate(stack string) (line, col int, ok bool) {
	all := p.place.FindAllStringSubmatch(stack, 1000)
	for _, m := range slices.Backward(all) {
		line, _ = strconv.Atoi(m[1]) // at most nine digits
		if line < 1 || line > len(p.source.starts) {
			continue
		}
		if col, _ = strconv.Atoi(m[2]); col > 0 {
			return line, col + p.indent, true
		}
		text := p.source.text(line - 1)
		return line, utf8.RuneCountInString(text[:len(text)-len(strings.TrimLeft(text, " \t"))]) + 1, true
	}
	return 0, 0, false
}
