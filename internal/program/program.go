// Package program makes an agent's text runnable. Models write code in many shapes: with Markdown fences and prose
// around it, as an expression, as statements, as a function to be called, as a module; in TypeScript or JavaScript.
// Prepare makes of each a script whose completion value is an async function that gives the program's value, checks
// it against the catalog where an error is certain, and maps positions back to the text as the agent wrote it.
package program

import (
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/program/check"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config says what programs are prepared for. Its zero value prepares programs without tools.
type Config struct {
	Catalog func() *catalog.View // the tools to check programs against; nil: none
	// Visible gives what of Catalog somebody may see; nil: all of it.
	Visible func(tool.Principal) *catalog.View
	Ahead   *Ahead // a program that is known already; nil: none
}

// A Preparer prepares programs. It is safe for concurrent use.
type Preparer struct {
	cfg   Config
	cache cache

	mu      sync.Mutex
	indexes *queue.Cache[*catalog.View, *check.Index] // of the catalog as it is, by what is visible of it
	whole   *catalog.View                             // the catalog of indexes
}

// New makes a Preparer.
func New(cfg Config) *Preparer { return &Preparer{cfg: cfg} }

// A Request is a text to make runnable.
type Request struct {
	Source    string
	Principal tool.Principal // who sees the tools that the program is checked against
	Language  string         // "typescript", "javascript", "python" or one of their common names; "" means what the text says, else TypeScript (of which JavaScript is a part)
	// Session says that what the program declares at its top is there for the programs that come after it in the same
	// sandbox, and may be declared again by them.
	Session bool
	// Unchecked leaves out the checks against the catalog, for a program that will not call it.
	Unchecked bool
	Declared  []string // what earlier programs of the session have declared, in any order: Program.Declared of each
	// Skills are the modules that the program may import from ./skills, by their path below it: "report.ts",
	// "billing/tax.ts".
	Skills map[string]string
	// Files gives the text of a module in ./workspace that the program imports, by its path below the root
	// ("workspace/util.ts"); nil: there are none.
	Files func(path string) (text string, ok bool)
}

// A Program is an agent's text, made runnable. It doesn't change, and is safe for concurrent use.
type Program struct {
	// Runtime is what runs it: "js" or "python" (sandbox.Spec.Runtime).
	Runtime string
	// Code is what the guest is to run (sandbox.Run.Code). In "js" it is a script, to be run by an indirect eval: its
	// completion value is an async function without parameters, and the value of the program is what its call gives,
	// awaited. It calls __import(specifier, names) for each import.
	Code string
	// Name is the file name to run it under, so that Locate finds it in stack traces (sandbox.Run.Name), and Line how many
	// lines of the agent's text stand before Code (sandbox.Run.Line).
	Name string
	Line int
	// Source is the text as the agent sent it.
	Source string
	// Namespaces are the upstreams by their safe names, each with its members; of those that the program doesn't
	// mention, none where the catalog is large.
	Namespaces map[string][]string
	// Aliases are names that the program mentions, and that stand for an upstream or a tool in a form of another system:
	// "mcp__github__list_issues" for "github.list_issues".
	Aliases map[string]string
	// Whole are the namespaces of which all members are listed.
	Whole []string
	// Imports are the modules that the program imports, as it names them.
	Imports []string
	// Declared are the names that the program leaves to the later ones of its session, sorted.
	Declared []string
	// Notes are hints for the agent that are worth showing with a result.
	Notes []string
	// Attempts are paths of tools that the program calls, and that fail before the call is made: its principal doesn't see their upstream.
	Attempts []string
	// Remark is a hint that matters once the program has ended well: why it has no value, what its session doesn't keep.
	Remark string

	fleeting bool     // the same text may be another program the next time: it depends on files
	steps    *steps   // of what runs in "js"
	lead     int      // lines of ours that stand before all of "js"
	modules  []*given // of it: their code stands before that of the steps
	python   *python  // of what runs in "python"
}

// Prepare makes a text runnable. The error is an *Error.
func (p *Preparer) Prepare(q Request) (*Program, error) {
	if e := checkSize(q.Source); e != nil {
		return nil, e
	}
	x, whole := p.indexOf(q.Principal)
	k := keyOf(q, x.View())
	if prog := p.cache.get(k, whole); prog != nil {
		return prog, nil
	}
	language, e := languageOf(q)
	if e != nil {
		return nil, e
	}
	var prog *Program
	if language == "python" {
		prog, e = preparePython(q, language, x)
	} else {
		prog, e = prepareScript(q, language, x, p.cfg.Ahead)
	}
	if e != nil {
		place(e, q.Source)
		return nil, e
	}
	p.cache.put(q.Principal.ID, k, whole, prog)
	return prog, nil
}

// modeOf says how to read a program in TypeScript or JavaScript.
func modeOf(q *Request, language string) mode {
	if language == "javascript" {
		return mode{api.LoaderJS, q.Session}
	}
	return mode{api.LoaderTS, q.Session}
}

// prepareScript prepares TypeScript or JavaScript; x and ahead may be nil.
func prepareScript(q Request, language string, x *check.Index, ahead *Ahead) (*Program, *Error) {
	var s *steps
	var m *made
	var e *Error
	if r := ahead.take(&q); r != nil {
		s, m, e = r.steps, r.made, r.err
	} else {
		s, m, e = assemble(q.Source, modeOf(&q, language))
	}
	if e != nil {
		return nil, e
	}
	run := s
	if q.Session {
		run = m.session
	}
	awaited := false
	if x != nil && standsStill(q.Source) {
		awaited = s.await(x, q.Declared)
		if run != s {
			run.await(x, q.Declared)
		}
	}
	prog := &Program{Runtime: "js", Code: run.final.s, Name: FileName, Source: q.Source, Imports: m.specifiers, Declared: m.declared, Remark: m.note, steps: run}
	b, e := s.bundle(m, &q)
	if e != nil {
		return nil, e
	}
	prog.fleeting = b.asked
	if prog.modules = b.modules; len(b.modules) > 0 {
		var code strings.Builder
		for _, g := range b.modules {
			code.WriteString(g.steps.final.s)
		}
		prog.Code = code.String() + prog.Code
	}
	before, lines := lead(prog.Code)
	prog.Code, prog.lead = before+prog.Code, lines
	if x == nil {
		return prog, nil
	}
	r := s.check(x, q.Declared)
	if e := problems(checked(r), q.Source); e != nil && !q.Unchecked {
		e.Attempts = r.Attempts
		return nil, e
	}
	prog.Attempts = r.Attempts
	prog.Notes = append(prog.Notes, r.Notes...)
	if awaited {
		prog.Notes = append(prog.Notes, awaitNote)
	}
	prog.find(x, &q)
	return prog, nil
}

// maxIndexes is how many different views of one catalog have their indexes kept.
const maxIndexes = 64

// indexOf gives the index of what somebody sees of the catalog, nil where there is none, and the whole catalog.
func (p *Preparer) indexOf(who tool.Principal) (x *check.Index, whole *catalog.View) {
	if p.cfg.Catalog == nil {
		return nil, nil
	}
	if whole = p.cfg.Catalog(); whole == nil {
		return nil, nil
	}
	v := whole
	if p.cfg.Visible != nil {
		v = p.cfg.Visible(who)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.indexes == nil || p.whole != whole {
		p.whole, p.indexes = whole, queue.NewCache[*catalog.View, *check.Index](maxIndexes, 0)
	}
	x, ok := p.indexes.Use(v)
	if !ok {
		x = check.New(v)
		p.indexes.Put(who.ID, v, x, 0)
	}
	return x, whole
}

// problems makes one error of several problems in the agent's text; nil where there is none.
func problems(found []problem, source string) *Error {
	if len(found) == 0 {
		return nil
	}
	lines := newLineTable(source, plainLines)
	var all []*Error
	for _, f := range found {
		e := &Error{Kind: f.kind, Message: f.message}
		e.Line, e.Column = lines.position(f.at)
		all = append(all, e)
	}
	first := all[0]
	first.More = all[1:]
	place(first, source)
	return first
}

// languageOf gives "typescript", "javascript" or "python".
func languageOf(q Request) (string, *Error) {
	name := strings.ToLower(strings.TrimSpace(q.Language))
	if l := languages[name]; l != "" {
		return l, nil
	}
	if name != "" {
		return "", &Error{Kind: "language", Message: "language " + quote(q.Language) + " is not available here: use \"typescript\", \"javascript\" or \"python\""}
	}
	if !strings.Contains(q.Source, "py") {
		return "typescript", nil
	}
	head, _, _ := strings.Cut(strings.TrimPrefix(q.Source, byteOrderMark), "\n")
	if languages[strings.ToLower(strings.TrimSpace(head))] == "python" {
		return "python", nil
	}
	said := "typescript"
	for _, b := range findBlocks(q.Source, inScript) {
		switch languages[b.info] {
		case "python":
			said = "python"
		case "typescript", "javascript":
			return "typescript", nil
		}
	}
	return said, nil
}

// place fills in the frames of an error.
func place(e *Error, source string) {
	lines := newLineTable(source, plainLines)
	for _, x := range append([]*Error{e}, e.More...) {
		if x.Line > 0 {
			x.Frame = frame(lines, x.Line, x.Column)
		}
	}
}
