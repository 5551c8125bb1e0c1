// Package program makes an agent's text runnable. Models write code in many shapes: with Markdown fences and prose
// around it, as an expression, as statements, as a function to be called, as a module; in TypeScript or JavaScript.
// Prepare makes of each a script whose completion value is an async function that gives the program's value, checks
// it against the catalog where an error is certain, and maps positions back to the text as the agent wrote it.
package program

import (
	"strings"
	"sync/atomic"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/catalog"
)

// Config says what programs are prepared for. Its zero value prepares programs without tools.
type Config struct {
	Catalog func() *catalog.View // the tools to check programs against; nil: none
}

// A Preparer prepares programs. It is safe for concurrent use.
type Preparer struct {
	cfg   Config
	index atomic.Pointer[index]
}

// New makes a Preparer.
func New(cfg Config) *Preparer { return &Preparer{cfg: cfg} }

// A Program is an agent's text, made runnable. It doesn't change, and is safe for concurrent use.
type Program struct {
	// Code is a script, to be run under the name FileName by an indirect eval. Its completion value is an async
	// function without parameters; the value of the program is what its call gives, awaited. It calls
	// __import(specifier, names) for each import.
	Code string
	// Source is the text as the agent sent it.
	Source string
	// Namespaces are the upstreams by their safe names, each with its members; of those that the program doesn't
	// mention, none where the catalog is large.
	Namespaces map[string][]string
	// Imports are the modules that the program imports, as it names them.
	Imports []string
	// Notes are hints for the agent that are worth showing with a result.
	Notes []string

	steps *steps
}

// Prepare makes source runnable. language is "typescript", "javascript" or one of their common names; "" means
// TypeScript, of which JavaScript is a part. The error is an *Error.
func (p *Preparer) Prepare(source, language string) (*Program, error) {
	loader, e := loaderOf(language)
	if e == nil {
		e = checkSize(source)
	}
	if e != nil {
		return nil, e
	}
	s, m, e := assemble(source, loader)
	if e != nil {
		place(e, source)
		return nil, e
	}
	prog := &Program{Code: s.final.s, Source: source, Imports: m.specifiers, steps: s}
	if m.note != "" {
		prog.Notes = append(prog.Notes, m.note)
	}
	x := p.indexOf()
	if x == nil {
		return prog, nil
	}
	found, notes := x.check(s)
	if e := problems(found, source); e != nil {
		return nil, e
	}
	prog.Notes = append(prog.Notes, notes...)
	prog.Namespaces = namespaces(x.view, source)
	return prog, nil
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

func loaderOf(language string) (api.Loader, *Error) {
	switch languages[strings.ToLower(strings.TrimSpace(language))] {
	case "javascript":
		return api.LoaderJS, nil
	case "typescript":
		return api.LoaderTS, nil
	}
	if strings.TrimSpace(language) == "" {
		return api.LoaderTS, nil
	}
	return 0, &Error{Kind: "language", Message: "language " + quote(language) + " is not available here: use \"typescript\" or \"javascript\""}
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
