package program

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

const (
	maxModules = 100       // modules imported by a program, directly or indirectly
	maxBundle  = 512 << 10 // bytes of all modules
)

// A moduleFile is a module in ./skills or ./workspace that a program imports. It is sent to the
// guest with the program, as a CommonJS function, so imports may be circular.
type moduleFile struct {
	path    string // path below the root: "skills/report.ts"
	steps   *steps
	exports []string
	open    bool          // it may export more than exports
	imports []*moduleFile // its imports from ./skills and ./workspace
	lines   int           // lines of the final code
}

// A bundle holds all modules that a program imports, directly or indirectly.
type bundle struct {
	q       *Request
	modules []*moduleFile
	byPath  map[string]*moduleFile
	size    int
	asked   bool // a module was looked up, whether it exists or not
}

// resolvePath returns the path below the root of a module imported in the directory dir, or "" if
// specifier is not a path.
func resolvePath(dir, specifier string) string {
	switch {
	case strings.HasPrefix(specifier, "./"), strings.HasPrefix(specifier, "../"):
		return path.Join("/", dir, specifier)[1:]
	case strings.HasPrefix(specifier, "/"):
		return path.Clean(specifier)[1:]
	case strings.HasPrefix(specifier, "skills/"), strings.HasPrefix(specifier, "workspace/"):
		return path.Clean(specifier)
	}
	return ""
}

// endings are the suffixes that an import may omit, as in the guest.
var endings = [...]string{"", ".ts", ".js", ".mts", ".mjs", "/index.ts", "/index.js"}

// find returns the path and the text of a module.
func (b *bundle) find(at string) (file, source string, ok bool) {
	if path.Ext(at) == ".json" {
		return "", "", false
	}
	for _, end := range endings {
		if path.Ext(at+end) == "" {
			continue
		}
		name, skill := strings.CutPrefix(at+end, "skills/")
		if skill {
			source, ok = b.q.Skills[name]
		} else if strings.HasPrefix(at, "workspace/") && b.q.Files != nil {
			source, ok = b.q.Files.LoadModule(at + end)
		}
		if ok {
			return at + end, source, true
		}
	}
	return "", "", false
}

// take adds the module that a module in dir imports, and its imports in turn. It returns
// nil if the module is not in ./skills or ./workspace, or doesn't exist.
func (b *bundle) take(dir, specifier string) (*moduleFile, *Error) {
	at := resolvePath(dir, specifier)
	if !strings.HasPrefix(at, "skills/") && !strings.HasPrefix(at, "workspace/") {
		return nil, nil
	}
	b.asked = true
	file, source, ok := b.find(at)
	if !ok {
		return nil, nil
	}
	if m := b.byPath[file]; m != nil {
		return m, nil
	}
	if b.size += len(source); b.size > maxBundle || len(b.modules) >= maxModules {
		return nil, &Error{Kind: "limit",
			Message: fmt.Sprintf("the program imports too much: at most %d modules of together %d KiB are allowed",
				maxModules, maxBundle>>10)}
	}
	m, e := compileModule(file, source)
	if e != nil {
		return nil, e
	}
	b.byPath[file] = m
	b.modules = append(b.modules, m)
	for _, s := range findImports(scan(m.steps.output)) {
		other, e := b.take(path.Dir(file), s)
		if e != nil {
			return nil, e
		}
		if other != nil {
			m.imports = append(m.imports, other)
		}
	}
	return m, nil
}

// write writes the final code of the module. The guest reloads a module whose hash has changed,
// because its text or that of an imported module has.
func (m *moduleFile) write() {
	h := fnv.New64a()
	seen := map[*moduleFile]bool{}
	var add func(*moduleFile)
	add = func(g *moduleFile) {
		if !seen[g] {
			seen[g] = true
			_, _ = h.Write([]byte(g.path + "\x00" + g.steps.source + "\x00")) // never fails
			for _, i := range g.imports {
				add(i)
			}
		}
	}
	add(m)
	b := &textBuilder{parent: m.steps.output}
	b.add(fmt.Sprintf("__module(%s, \"%x\", function (module, exports, require) {\n", strconv.Quote(m.path), h.Sum64()),
		-1)
	b.keep(0, len(m.steps.output))
	b.add("\n});\n", -1)
	m.steps.final = b.text()
	m.lines = strings.Count(m.steps.final.s, "\n")
}

// all adds every skill, for a program whose imports are only known at run time. Modules that don't
// compile or exceed the bounds are left out.
func (b *bundle) all() {
	b.asked = true
	for _, name := range sortedKeys(b.q.Skills) {
		if l := languages.Get()[strings.TrimPrefix(path.Ext(name), ".")]; l == "typescript" || l == "javascript" {
			_, _ = b.take("", "./skills/"+name) // an error is reported when it is imported
		}
	}
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// findImports returns the modules that a compiled module imports.
func findImports(t *tokens) (specifiers []string) {
	for i := range t.list {
		if t.is(i, "require") && t.is(i+1, "(") && i+2 < len(t.list) && t.list[i+2].kind == str && t.is(i+3, ")") &&
			!t.is(i-1, ".") {
			if s, err := unquote(t.text(i + 2)); err == nil {
				specifiers = append(specifiers, s)
			}
		}
	}
	return specifiers
}

// compileModule compiles a module to a function.
func compileModule(file, source string) (*moduleFile, *Error) {
	if e := checkSize(source); e != nil {
		return nil, moduleError(file, source, problem{at: -1, message: e.Message, kind: e.Kind})
	}
	code := &text{s: source, pieces: []piece{{}}}
	t := scan(source)
	if p := tooDeep(t); p != nil {
		return nil, moduleError(file, source, *p)
	}
	loader := api.LoaderTS
	if languages.Get()[strings.TrimPrefix(path.Ext(file), ".")] == "javascript" {
		loader = api.LoaderJS
	}
	r := api.Transform(source, api.TransformOptions{
		Loader: loader, Format: api.FormatCommonJS, Target: api.ESNext,
		// modules can't import dynamically, because the engine loads none
		Supported: map[string]bool{"decorators": false, "using": false, "dynamic-import": false},
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		LegalComments: api.LegalCommentsNone,
		LogLevel:      api.LogLevelSilent, LogOverride: silent.Get(),
	})
	if len(r.Errors) > 0 {
		p := syntaxProblem(r.Errors, code, t)
		if strings.Contains(r.Errors[0].Text, "Top-level await") {
			p.message = "an imported module can't use await at the top level: use it in the exported functions"
		}
		return nil, moduleError(file, source, p)
	}
	m := &moduleFile{path: file}
	m.steps = &steps{source: source, code: code, input: code, output: string(r.Code), srcMap: r.Map}
	m.readExports(scan(m.steps.output), t)
	return m, nil
}

// moduleError describes a problem in a module as an error of the program that imports it.
func moduleError(file, source string, p problem) *Error {
	e := &Error{Kind: p.kind, Message: "./" + file + ": " + p.message}
	if e.Kind == "" {
		e.Kind = "syntax"
	}
	if p.at >= 0 {
		lines := newLineTable(source, plainLines)
		line, col := lines.position(p.at)
		e.Message += fmt.Sprintf(" (line %d, column %d of it)\n%s", line, col, frame(lines, line, col))
	}
	return e
}

// readExports determines the exports of the module. out is the compiled module, and in is its
// source.
func (m *moduleFile) readExports(out, in *tokens) {
	m.open = usesModuleExports(in)
	for i := range out.list {
		switch {
		case out.is(i, "__reExport") && out.is(i+1, "(") && !out.is(i-1, "="):
			m.open = true
		case out.is(i, "__export") && out.is(i+1, "(") && out.is(i+4, "{"):
			r := reader{out}
			in := r.inside(i + 4)
			for k := in[0]; k < in[1]; k++ {
				name := out.text(k)
				if s, err := unquote(name); out.list[k].kind == str && err == nil {
					name = s
				}
				m.exports = append(m.exports, plainName(name))
				for k < in[1] && !out.is(k, ",") {
					k = r.skip(k)
				}
			}
		}
	}
	for i := range in.list { // types may be imported, and are then undefined
		if t := in.text(i); (t == "interface" || t == "type") && i+1 < len(in.list) && in.list[i+1].kind == word {
			m.exports = append(m.exports, in.text(i+1))
		}
	}
}

// bundle returns the modules that a program imports.
func (s *steps) bundle(m *assembly, q *Request) (*bundle, *Error) {
	b := &bundle{q: q, byPath: map[string]*moduleFile{}}
	statements := map[string]bool{}
	for _, i := range m.imports {
		statements[i.specifier] = true
		g, e := b.take("", i.specifier)
		var message string
		switch {
		case e != nil:
		case g != nil:
			message = g.lacks(i)
		case strings.HasPrefix(resolvePath("", i.specifier), "skills/"):
			message = b.noSkill(i.specifier)
		}
		if message != "" {
			e = &Error{Kind: "check", Message: message}
		}
		if e != nil {
			if in, ok := s.inputOf(i.at); ok {
				at, _ := s.input.origin(in)
				at, _ = s.code.origin(max(at, 0))
				e.Line, e.Column = newLineTable(q.Source, plainLines).position(at)
			}
			return nil, e
		}
	}
	for _, spec := range m.specifiers {
		if _, e := b.take("", spec); e != nil && !statements[spec] {
			return nil, e
		}
	}
	if m.dynamic {
		b.all()
	}
	for _, g := range b.modules {
		g.write()
	}
	return b, nil
}

// lacks returns a message about the first imported name that the module doesn't export, or "".
func (m *moduleFile) lacks(i imported) string {
	if m.open {
		return ""
	}
	names := make([]string, 0, len(m.exports))
	for _, n := range m.exports {
		if n != "default" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range i.names {
		if slices.Contains(m.exports, plainName(n.name)) {
			continue
		}
		message := "./" + m.path + " exports no " + plainName(n.name)
		if near := check.Nearest(n.name, names); near != "" {
			message += ": did you mean " + near + "?"
		}
		if len(names) == 0 {
			return message + ": it has no named exports. Write `export` before what others may import"
		}
		return message + " It exports " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return ""
}

// noSkill returns a message about a skill that doesn't exist.
func (b *bundle) noSkill(specifier string) string {
	if path.Ext(specifier) == ".json" {
		return ""
	}
	var names []string
	for _, n := range sortedKeys(b.q.Skills) {
		names = append(names, "./skills/"+strings.TrimSuffix(n, path.Ext(n)))
	}
	message := "there is no skill " + specifier
	if near := check.Nearest(strings.TrimSuffix(specifier, path.Ext(specifier)), names); near != "" {
		message += ": did you mean " + near + "?"
	}
	if len(names) == 0 {
		return message + ": no skills are saved. Write a module to ./skills first; later programs can import it"
	}
	return message + " There are " + strings.Join(names[:min(len(names), 20)], ", ")
}

// A Place is a position in a module that a program imports.
type Place struct {
	File   string // path below the root: "skills/report.ts"
	Line   int    // from 1
	Column int    // in characters, from 1
	Frame  string // the surrounding lines, with a caret
}

// InModule returns the position of the innermost frame of an engine's stack trace, if it is in a
// module that the program imports.
func (p *Program) InModule(stack string) (at Place, ok bool) {
	if p.bundled != nil && (p.bundled.Python || p.bundled.Shell) {
		return p.bundled.locateFrame(stack)
	}
	for _, m := range stackPlace.Get().FindAllStringSubmatch(stack, 200) {
		l, _ := strconv.Atoi(m[1])
		c, _ := strconv.Atoi(m[2])
		if _, _, own := p.Position(l, c); own {
			return Place{}, false
		}
		if at, ok = p.module(l, c); ok {
			return at, true
		}
	}
	return Place{}, false
}

// module maps a position in Code to one in a module.
func (p *Program) module(genLine, genCol int) (at Place, ok bool) {
	genLine -= p.lead
	if p.bundled != nil {
		return p.bundled.locatePlace(genLine, genCol)
	}
	for _, m := range p.modules {
		if genLine <= m.lines {
			line, col, ok := m.steps.position(genLine, genCol)
			if !ok {
				return Place{}, false
			}
			return Place{File: m.path, Line: line, Column: col, Frame: frame(m.steps.sourceAt, line, col)}, true
		}
		genLine -= m.lines
	}
	return Place{}, false
}

// stackFrame matches a frame of the program in a stack trace, up to its position.
var stackFrame = lazily.Regexp(`(    at [^()\n]{0,200}\()program\.js:(\d{1,9}):(\d{1,9})\)`)

// Rewrite maps the frames of stack traces in s, which is output of the program, to the agent's text
// and the modules that it imports.
func (p *Program) Rewrite(s string) string {
	if !strings.Contains(s, "("+FileName+":") {
		return s
	}
	return stackFrame.Get().ReplaceAllStringFunc(s, func(frame string) string {
		m := stackFrame.Get().FindStringSubmatch(frame)
		line, _ := strconv.Atoi(m[2]) // at most nine digits
		col, _ := strconv.Atoi(m[3])
		if l, c, ok := p.Position(line, col); ok {
			return fmt.Sprintf("%s%s:%d:%d)", m[1], FileName, l, c)
		}
		if at, ok := p.module(line, col); ok {
			return fmt.Sprintf("%s%s:%d:%d)", m[1], at.File, at.Line, at.Column)
		}
		return frame
	})
}
