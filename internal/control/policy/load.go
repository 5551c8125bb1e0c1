package policy

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed starter/*.cedar
var starters embed.FS

// Starter returns the policies with a name that come with Biplane, to be used as they are or
// copied. It returns false if there are none.
func Starter(name string) (File, bool) {
	text, err := starters.ReadFile("starter/" + name + ".cedar")
	return File{name + ".cedar", text}, err == nil && !strings.Contains(name, "/")
}

// Starters returns the names of the starter policies, the most permissive last.
func Starters() []string { return []string{"read-only", "ask-for-writes", "open"} }

// A File is a file of Cedar policies.
type File struct {
	Name string // as in problems
	Text []byte
}

// Limits on policies.
const (
	FileBytes = 256 << 10 // of one file
	MaxFiles  = 1000      // in a folder
	maxRules  = 10_000
	maxNested = 200 // depth of brackets
)

// A Problem is one error in policies.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 1-based; 0 if it concerns the whole file
	Column  int    `json:"column"`
	Policy  string `json:"policy,omitempty"` // its id
	Message string `json:"message"`
}

// String returns "file:line:column: message".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// An Error holds all errors in policies, in the order of files and lines.
type Error struct{ Problems []Problem }

// Error returns one line per problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func newError(problems []Problem) error {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	e := &Error{slices.Compact(problems)}
	return &tool.Error{Kind: tool.Invalid, Msg: e.Error(), Err: e}
}

// loadFiles parses policies, and sorts them by id.
func loadFiles(files []File) (rules []*rule, problems []Problem) {
	if len(files) > MaxFiles {
		return nil, []Problem{{File: "policies",
			Message: fmt.Sprintf("there are %d files: the most is %d", len(files), MaxFiles)}}
	}
	seen := map[string]*rule{}
	for _, f := range files {
		list, p := parseFile(f)
		if p != nil {
			problems = append(problems, *p)
			continue
		}
		for _, policy := range list {
			r, wrong := newRule(f, policy)
			problems = append(problems, wrong...)
			if seen[r.id] != nil && policy.Annotations()["id"] == "" { // two on one line
				r.id += fmt.Sprintf(":%d", policy.Position().Column)
			}
			if first := seen[r.id]; first != nil {
				problems = append(problems,
					r.newProblem(f, "@id", "the id %q is also used at %s:%d: give each policy its own id", r.id,
						first.file, first.policy.Position().Line))
				continue
			}
			seen[r.id] = r
			rules = append(rules, r)
		}
	}
	if len(rules) > maxRules {
		problems = append(problems,
			Problem{File: files[0].Name,
				Message: fmt.Sprintf("there are %d policies: the maximum is %d", len(rules), maxRules)})
	}
	slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.id, b.id) })
	return rules, problems
}

var parserPlace = lazily.Regexp(`^parser error:(?: parse error at)? <input>:(\d+):(\d+):? ?(.*)$`)

func parseFile(f File) (cedar.PolicyList, *Problem) {
	if len(f.Text) > FileBytes {
		return nil, &Problem{File: f.Name,
			Message: fmt.Sprintf("the file has %d bytes: the maximum is %d", len(f.Text), FileBytes)}
	}
	depth := 0
	for _, c := range f.Text { // before the parser, which is recursive, runs
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxNested {
			return nil, &Problem{File: f.Name, Message: "nested too deeply"}
		}
	}
	list, err := cedar.NewPolicyListFromBytes(f.Name, f.Text)
	if err == nil {
		return list, nil
	}
	m := parserPlace.Get().FindStringSubmatch(oneLine(err.Error()))
	if m == nil {
		return nil, &Problem{File: f.Name, Message: oneLine(err.Error())}
	}
	line, _ := strconv.Atoi(m[1])
	column, _ := strconv.Atoi(m[2])
	return nil, &Problem{File: f.Name, Line: line, Column: column, Message: "this is not Cedar: " + m[3]}
}

// newRule parses the annotations of a policy.
func newRule(f File, p *cedar.Policy) (*rule, []Problem) {
	r := &rule{file: f.Name, policy: p, forbid: p.Effect() == cedar.Forbid}
	notes := p.Annotations()
	if r.id = string(notes["id"]); r.id == "" {
		r.id = fmt.Sprintf("%s:%d", f.Name, p.Position().Line)
	}
	r.reason = clipText(oneLine(string(notes["reason"])))
	var problems []Problem
	wrong := func(at, format string, a ...any) { problems = append(problems, r.newProblem(f, "@"+at, format, a...)) }
	for name, value := range notes {
		value := strings.TrimSpace(string(value))
		switch name {
		case "id", "reason":
			if value == "" {
				wrong(string(name), "@%s needs a text: @%s(\"...\")", name, name)
			}
		case "ask":
			if r.bounds.ask, r.bounds.approvers = true, sortList(splitNames(value)); len(r.bounds.approvers) == 0 {
				wrong("ask", `@ask needs the groups whose members decide: @ask("approvers")`)
			}
		case "tier":
			t, err := tool.ParseTier(value)
			if err != nil {
				wrong("tier", "@tier: %s", err)
			}
			r.bounds.tier = t
		case "limit":
			var err error
			if r.bounds.limits, err = r.limitsOf(value); err != nil {
				wrong("limit", "@limit: %s", tool.AsError(err).Msg)
			}
		case "redact":
			var err error
			if r.bounds.redact, err = redactPaths(value); err != nil {
				wrong("redact", "%s", err)
			}
			if only, ok := p.AST().Action.(ast.ScopeTypeEq); ok && only.Entity.ID == executeAction {
				wrong("redact", "@redact removes fields from the results of tools, not from those of programs: put "+
					"it on the permit for the call")
			}
		default:
			wrong(string(name), "unknown annotation @%s%s", name,
				suggestName(string(name), []string{"id", "reason", "ask", "tier", "limit", "redact"}))
		}
		if r.forbid && (name == "ask" || name == "tier" || name == "limit" || name == "redact") {
			wrong(string(name), "@%s has no effect on a forbid: remove it", name)
		}
	}
	return r, problems
}

// splitNames splits a comma-separated list.
func splitNames(s string) []string {
	var out []string
	for n := range strings.SplitSeq(s, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// newProblem returns a problem of the rule, at the first occurrence of at in it.
func (r *rule) newProblem(f File, at, format string, a ...any) Problem {
	line, column := locateWord(f.Text, r.policy.Position(), at)
	return Problem{File: f.Name, Line: line, Column: column, Policy: r.id, Message: fmt.Sprintf(format, a...)}
}

// locateWord returns the line and column of the first occurrence of a word in the policy at pos, or
// of the policy if there is none.
func locateWord(text []byte, pos cedar.Position, word string) (line, column int) {
	if pos.Offset > len(text) || word == "" {
		return pos.Line, pos.Column
	}
	rest := string(text[pos.Offset:])
	if end := strings.Index(rest, ";\n"); end >= 0 {
		rest = rest[:end]
	}
	found := regexp.MustCompile(`(^|[^\w])(` + regexp.QuoteMeta(word) + `)($|[^\w])`).FindStringSubmatchIndex(rest)
	if found == nil {
		return pos.Line, pos.Column
	}
	before := rest[:found[4]]
	if n := strings.Count(before, "\n"); n > 0 {
		return pos.Line + n, len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	}
	return pos.Line, pos.Column + len([]rune(before))
}

// suggestName suggests the element of known that is nearest to name; "" if none is near.
func suggestName(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// editDistance returns the edit distance between a and b in bytes. If either is long, it returns
// the sum of the lengths, since nothing is near then.
func editDistance(a, b string) int {
	if len(a) > 128 || len(b) > 128 {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
