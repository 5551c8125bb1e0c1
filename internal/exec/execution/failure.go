package execution

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Kinds of failures caused by the program itself.
const (
	exceptionKind = "exception" // it threw an exception and did not catch it
	stalledKind   = "stalled"   // it waits for something that can't happen
	syntaxKind    = "syntax"    // its text is not a valid program
)

// limitOf returns the limit that ended a guest, or nil.
func limitOf(err error) *sandbox.LimitError {
	var l *sandbox.LimitError
	errors.As(err, &l)
	return l
}

// Thrown returns the Failure for an exception, with its position in the agent's text; p is nil if
// there is no program.
func Thrown(p *program.Program, g *sandbox.GuestError) *Failure {
	f := &Failure{Kind: exceptionKind, Message: g.Message}
	if g.Kind != "" {
		f.Kind = g.Kind
	}
	f.setLimit(g)
	switch {
	case g.Name == "" || f.Kind == stalledKind || f.Kind == string(tool.Limit):
	case f.Message == "" || f.Message == g.Name || strings.HasPrefix(f.Message, g.Name+"\n"): // notes and causes follow
		f.Message = g.Name + ", without a message" + strings.TrimPrefix(f.Message, g.Name)
	default:
		f.Message = g.Name + ": " + f.Message
	}
	if g.Upstream != "" && g.Tool != "" {
		f.Message += " (from " + g.Upstream + "." + g.Tool + ")"
	}
	if strings.TrimSpace(f.Message) == "" {
		f.Message = "the program threw an error without a message"
	}
	if p == nil {
		return f
	}
	if line, col, ok := p.Locate(g.Stack); ok {
		f.Line, f.Column, f.Frame = line, col, p.Frame(line, col)
	}
	f.Hint = hint(f.Message, p)
	if at, ok := p.InModule(g.Stack); ok {
		f.Message += fmt.Sprintf(" (in ./%s, line %d, column %d)\n%s", at.File, at.Line, at.Column, at.Frame)
		return f
	}
	reword(p, f)
	return f
}

var noProperty = lazily.Regexp(`^TypeError: cannot read property 'Symbol\.(?:asyncI|i)terator' of (undefined|null)$`)

// parsesJSON matches a frame whose marked line calls JSON.parse.
var parsesJSON = lazily.Regexp(`(?m)^>.*\bJSON\.parse\b`)

// reword rephrases the engine's message with names from the agent's text.
func reword(p *program.Program, f *Failure) {
	var called []string
	if f.Line > 0 {
		called = p.CalledAt(f.Line, f.Column)
	}
	switch m := noProperty.Get().FindStringSubmatch(f.Message); {
	case f.Message == "TypeError: not a function" && len(called) > 0:
		f.Message = "TypeError: " + strings.Join(called, " or ") + " is not a function"
	case m != nil:
		f.Message = "TypeError: " + m[1] + " is not iterable"
	case strings.HasPrefix(f.Message, "SyntaxError: unexpected token") && parsesJSON.Get().MatchString(f.Frame):
		f.Message += " in JSON"
	}
	// Python includes the position of what it can't compile in the message.
	if m, ok := strings.CutSuffix(f.Message, fmt.Sprintf(" (line %d, column %d)", f.Line, f.Column)); ok &&
		f.Kind == exceptionKind {
		f.Kind, f.Message = syntaxKind, m
	}
}

var notDefined = lazily.Regexp(`(?:ReferenceError: |NameError: name )'?([A-Za-z_$][\w$]*)'? is not defined`)

// absent maps names that programs expect from other environments to what to use instead.
var absent = lazily.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"XMLHttpRequest": "there is no network: programs reach the outside through tools only. search(\"...\") finds " +
			"one; fetch reaches hosts that policy permits",
		"WebSocket": "there is no network: programs reach the outside through tools only. search(\"...\") finds " +
			"one; fetch reaches hosts that policy permits",
		"axios": "packages are not available: programs reach the outside through tools only. search(\"...\") " +
			"finds one",
		"require": "require is not available: packages can't be loaded; tools are globals " +
			"(github.list_issues(...)), files are read with import { readFile } from \"node:fs/promises\"",
		"module":  "module is not available: return the value, or export default a function",
		"exports": "exports is not available: return the value, or export default a function",
		"process": "process is not available: there are no environment variables, arguments or exit codes; pass " +
			"what is needed in the program's text, and return the result",
		"Deno":      "Deno's interfaces are not available: call tools, and read files with node:fs/promises",
		"Bun":       "Bun's interfaces are not available: call tools, and read files with node:fs/promises",
		"window":    "window is not available: use globalThis",
		"document":  "document is not available: programs don't run in a browser",
		"global":    "use globalThis",
		"fs":        "files are read with import { readFile, readdir } from \"node:fs/promises\"",
		"__dirname": "files are below ./workspace, ./skills and ./tools: import { readdir } from \"node:fs/promises\"",
	}
}}

// hint returns advice about a common error, or "".
func hint(message string, p *program.Program) string {
	switch {
	case strings.HasPrefix(message, "TypeError: not a function"):
		return "the value called at the caret is not a function: it may have another type than expected"
	case strings.HasPrefix(message, "TypeError: Cannot convert undefined or null to object"):
		return "the value destructured, as in const { a } = x, or passed to Object.keys(x), is undefined or null: a " +
			"result may have a different shape than expected"
	case message == "TypeError: value is not iterable":
		return "the value iterated, as in for (const a of x), const [a] = x or [...x], is not a list: a result may " +
			"have a different shape than expected"
	case strings.HasPrefix(message, "TypeError: 'coroutine' object"):
		return "the result of an async function is available only by await: write await before the call"
	case strings.HasPrefix(message, "URLError: "):
		return absent.Get()["WebSocket"]
	case strings.HasSuffix(message, "wasi does not support processes."):
		return "there are no processes and no shell: programs reach the outside through tools only. search(\"...\") " +
			"finds one"
	case strings.HasPrefix(message, "TypeError: cannot read property"), strings.HasPrefix(message, "KeyError: no key"):
		return "a result may have a different shape than expected: return a small part of it to see"
	}
	m := notDefined.Get().FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	if h, ok := absent.Get()[m[1]]; ok {
		return h
	}
	return m[1] + " is neither defined in the program nor an upstream" + upstreams(p) +
		". Variables of earlier programs exist only in their session. search(\"...\") finds tools"
}

// upstreams lists the upstreams that a program can call.
func upstreams(p *program.Program) string {
	names := slices.Sorted(maps.Keys(p.Namespaces))
	switch n := len(names); {
	case n == 0:
		return ""
	case n > 40:
		names = append(names[:40], fmt.Sprintf("… %d more", n-40))
	}
	return "; upstreams: " + strings.Join(names, ", ")
}

// Broken returns the Failure of a program that didn't run or didn't finish.
func Broken(err error) *Failure {
	var p *program.Error
	if errors.As(err, &p) {
		f := &Failure{Kind: p.Kind, Message: p.Message, Line: p.Line, Column: p.Column, Frame: p.Frame, Text: p.Error(),
			More: len(FurtherProblems(err))}
		for _, m := range p.More {
			f.Message += "\n" + m.Message
		}
		return f
	}
	if l := limitOf(err); l != nil {
		return &Failure{Kind: string(tool.Limit), Limit: l.Limit, Message: l.Error()}
	}
	e := tool.AsError(err)
	if e == nil {
		e = tool.Errorf(tool.Internal, "the program ended without a message")
	}
	return &Failure{Kind: string(e.Kind), Limit: e.Limit, Message: e.Msg}
}

// FurtherProblems describes the problems in a program's text other than the first, for which
// Failure has fields.
func FurtherProblems(err error) (notes []string) {
	var p *program.Error
	if !errors.As(err, &p) {
		return nil
	}
	for _, m := range p.More {
		if m.Line > 0 {
			notes = append(notes,
				strings.TrimSpace(fmt.Sprintf("a further problem is at line %d, column %d\n%s", m.Line,
					m.Column, m.Frame)))
		}
	}
	return notes
}
