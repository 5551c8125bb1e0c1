// Package program makes an agent's text runnable. Models write code in many forms: with Markdown
// fences and prose around it, as an expression, as statements, as a function, as a
// module; in TypeScript or JavaScript. Prepare turns each into a script whose completion value is
// an async function that returns the program's value. It reports definite errors against the
// catalog, and maps positions back to the agent's text.
package program

import (
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Preparer. The zero value prepares programs without tools.
type Config struct {
	Catalog Catalog // the tools to check programs against; nil: none
	Clients Clients // writes the clients of programs in Go; nil: nothing
	Ahead   *Ahead  // a program that is read in advance; nil: none
	Results Results // what was observed of results, to warn about other fields; nil: nothing
}

// A Catalog lists the tools that programs call.
type Catalog interface {
	// Directories returns the tools that a principal can see, and all tools.
	Directories(who tool.Principal) (visible, all tool.Directory)
}

// A Preparer prepares programs. It is safe for concurrent use.
type Preparer struct {
	cfg   Config
	cache cache

	mu      sync.Mutex
	indexes *queue.Cache[tool.Directory, *check.Index] // indexes by the visible part of the current catalog
	whole   tool.Directory                             // the catalog of indexes
}

// New returns a Preparer.
func New(cfg Config) *Preparer { return &Preparer{cfg: cfg} }

// A Request is a text to make runnable.
type Request struct {
	Source    string
	Principal tool.Principal // whose tools the program is checked against
	// Language is "typescript", "javascript", "python", "bash", "go", "rust", "java" or a common
	// alias. If it is empty, the text determines the language. The default is TypeScript, which
	// includes JavaScript.
	Language string
	// Session means that later programs in the same sandbox can use the program's top-level
	// declarations, and declare the names again.
	Session bool
	// Unchecked disables the checks against the catalog, for a program that won't call it.
	Unchecked bool
	Declared  []string // names declared by earlier programs of the session (Program.Declared of each), in any order
	// Skills are the modules that the program can import from ./skills, by path below it:
	// "report.ts", "billing/tax.ts".
	Skills map[string]string
	Files  Files // nil: there are no modules in ./workspace
}

// Files are the files of a program.
type Files interface {
	// LoadModule returns the text of a module in ./workspace by its path below the root
	// ("workspace/util.ts").
	LoadModule(path string) (text string, ok bool)
}

// A Program is an agent's text in runnable form. It is immutable and safe for concurrent use.
type Program struct {
	// Runtime is the runtime for it: "js", "python", "bash", "go" (sandbox.Spec.Runtime).
	Runtime string
	// Code is the code for the guest (sandbox.Run.Code). For "js" it is a script to run by an
	// indirect eval. Its completion value is an async function without parameters, whose awaited
	// result is the value of the program. It calls __import(specifier, names) for each import.
	Code string
	// Name is the file name to run it under (sandbox.Run.Name), by which Locate finds it in stack
	// traces. Line is the number of lines of the agent's text before Code (sandbox.Run.Line).
	Name string
	Line int
	// Source is the text as the agent sent it.
	Source string
	// Namespaces are the members of each upstream, by its safe name. If the catalog is large,
	// upstreams that the program doesn't mention have no members here.
	Namespaces map[string][]string
	// Aliases maps names in the program that denote an upstream or a tool in the style of another
	// system: "mcp__github__list_issues" to "github.list_issues".
	Aliases map[string]string
	// Whole lists the namespaces whose members are complete.
	Whole []string
	// Files are the clients of a compiled program (sandbox.Run.Files).
	Files map[string]string
	// Imports lists the modules that the program imports, as written.
	Imports []string
	// Loads lists the modules that its modules in ./skills and ./workspace import, as written.
	Loads []string
	// Requires lists the modules that a "js" program loads with require, as written.
	Requires []string
	// Declared lists the names that the program leaves to later ones of its session, sorted.
	Declared []string
	// Findings are likely faults that the review found, by line.
	Findings []tool.Finding
	// Notes are hints for the agent to show with a result.
	Notes []string
	// Attempts are paths of tools that the program calls but that fail before the call is made,
	// because its principal can't see their upstream.
	Attempts []string
	// Remark is a hint to show if the program succeeds: why it has no value, or what its session
	// doesn't keep.
	Remark string

	reads    []check.Read  // fields of tools' results that it reads
	fleeting bool          // it depends on files, so the same text may become another program
	steps    *steps        // steps of a "js" program
	lead     int           // number of lines prepended to "js" code
	modules  []*moduleFile // its modules: their code comes before that of the steps
	traced   *traced       // details of a program in another language than "js"
	bundled  *bundled      // details of a bundle (FromBundle); nil: it is none
}

// Prepare makes a text runnable. The error is an *Error.
func (p *Preparer) Prepare(q Request) (*Program, error) {
	if e := checkSize(q.Source); e != nil {
		return nil, e
	}
	x, whole := p.indexOf(q.Principal)
	k := keyOf(q, x.Directory())
	if prog := p.cache.get(k, whole); prog != nil {
		return prog.addWarnings(p.cfg.Results), nil
	}
	language, e := languageOf(q)
	if e != nil {
		return nil, e
	}
	var prog *Program
	switch language {
	case "python":
		prog, e = preparePython(q, language, x)
	case "bash":
		prog, e = prepareShell(q)
	case "go", "rust", "java":
		prog, e = p.prepareForCompiler(q, language)
	default:
		prog, e = prepareScript(q, language, x, p.cfg.Ahead)
	}
	if e != nil {
		place(e, q.Source)
		return nil, e
	}
	p.cache.putProgram(q.Principal.ID, k, whole, prog)
	return prog.addWarnings(p.cfg.Results), nil
}

// modeOf returns the mode for reading a program in TypeScript or JavaScript.
func modeOf(q *Request, language string) mode {
	if language == "javascript" {
		return mode{api.LoaderJS, q.Session}
	}
	return mode{api.LoaderTS, q.Session}
}

// prepareScript prepares TypeScript or JavaScript; x and ahead may be nil.
func prepareScript(q Request, language string, x *check.Index, ahead *Ahead) (*Program, *Error) {
	var s *steps
	var m *assembly
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
	prog := &Program{Runtime: "js", Code: run.final.s, Name: FileName, Source: q.Source, Imports: m.specifiers,
		Declared: m.declared, Remark: m.note, steps: run}
	b, e := s.bundle(m, &q)
	if e != nil {
		return nil, e
	}
	prog.fleeting = b.asked
	if prog.modules = b.modules; len(b.modules) > 0 {
		var code strings.Builder
		for _, g := range b.modules {
			prog.Loads = append(prog.Loads, findImports(scan(g.steps.output))...)
			code.WriteString(g.steps.final.s)
		}
		prog.Code = code.String() + prog.Code
	}
	if strings.Contains(q.Source, "require") {
		prog.Requires = findImports(scan(s.final.s))
	}
	before, lines := leadCode(prog.Code)
	prog.Code, prog.lead = before+prog.Code, lines
	in := s.parseFinal()
	prog.setFindings(s.reviewScript(in))
	if x == nil {
		return prog, nil
	}
	r := s.checkCalls(in, x, q.Declared)
	if e := problems(problemsOf(r), q.Source); e != nil && !q.Unchecked {
		e.Attempts = r.Attempts
		return nil, e
	}
	prog.Attempts = r.Attempts
	prog.Notes, prog.reads = append(prog.Notes, r.Notes...), r.Reads
	if awaited {
		prog.Notes = append(prog.Notes, awaitNote)
	}
	prog.find(x, &q)
	return prog, nil
}

// maxIndexes is the maximum number of indexes kept for different views of a catalog.
const maxIndexes = 64

// indexOf returns the index of the part of the catalog that who can see, or nil if there is none,
// and the whole catalog.
func (p *Preparer) indexOf(who tool.Principal) (x *check.Index, whole tool.Directory) {
	if p.cfg.Catalog == nil {
		return nil, nil
	}
	v, whole := p.cfg.Catalog.Directories(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.indexes == nil || p.whole != whole {
		p.whole, p.indexes = whole, queue.NewCache[tool.Directory, *check.Index](maxIndexes, 0)
	}
	x, ok := p.indexes.Use(v)
	if !ok {
		x = check.New(v)
		p.indexes.Put(who.ID, v, x, 0)
	}
	return x, whole
}

// problems combines several problems in the agent's text into one error. It returns nil if there
// are none.
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

// languageOf returns the language of a program.
func languageOf(q Request) (string, *Error) {
	name := strings.ToLower(strings.TrimSpace(q.Language))
	if l := languages.Get()[name]; l != "" {
		return l, nil
	}
	if name != "" {
		return "", &Error{Kind: "language", Message: "language " + quote(q.Language) +
			" is not available here: use \"typescript\", \"javascript\", " +
			"\"python\", \"bash\", \"go\", \"rust\" or \"java\""}
	}
	head, _, _ := strings.Cut(strings.TrimPrefix(q.Source, byteOrderMark), "\n")
	if isShell(head) {
		return "bash", nil
	}
	if mark, info, _ := fenceLine(head, 0, len(head)); mark != "" && compilerOf(languages.Get()[info]) != nil {
		return languages.Get()[info], nil
	}
	if !strings.Contains(q.Source, "py") {
		return "typescript", nil
	}
	if languages.Get()[strings.ToLower(strings.TrimSpace(head))] == "python" {
		return "python", nil
	}
	said := "typescript"
	for _, b := range findBlocks(q.Source, inScript) {
		switch languages.Get()[b.info] {
		case "python":
			said = "python"
		case "typescript", "javascript":
			return "typescript", nil
		}
	}
	return said, nil
}

// place sets the frames of an error.
func place(e *Error, source string) {
	lines := newLineTable(source, plainLines)
	for _, x := range append([]*Error{e}, e.More...) {
		if x.Line > 0 {
			x.Frame = frame(lines, x.Line, x.Column)
		}
	}
}

// find sets the names by which the program refers to the catalog.
func (p *Program) find(x *check.Index, q *Request) {
	p.Namespaces, p.Whole = x.Namespaces(q.Source)
	p.Aliases = x.Aliases(q.Source, p.Runtime == "python")
}
