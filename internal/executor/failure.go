package executor

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Kinds of failures that are the program's own.
const (
	exceptionKind = "exception" // it threw, and did not catch
	stalledKind   = "stalled"   // it waits for what can't come
	syntaxKind    = "syntax"    // its text is no program
)

// limitOf finds the limit that ended a guest.
func limitOf(err error) *sandbox.LimitError {
	var l *sandbox.LimitError
	errors.As(err, &l)
	return l
}

// thrown tells what a program threw, at its place in the agent's own text.
func (r *run) thrown(g *sandbox.GuestError) *Failure {
	f := &Failure{Kind: exceptionKind, Message: g.Message}
	switch {
	case g.Kind != "":
		f.Kind = g.Kind
	case g.Name == "InternalError" && strings.Contains(g.Message, "out of memory"):
		f.Kind, f.Message = string(tool.Limit), "the program reached its memory limit: hold less at a time"
	case strings.Contains(g.Message, "Maximum call stack size exceeded"), g.Name == "InternalError" && strings.Contains(g.Message, "stack overflow"):
		f.Kind, f.Message = string(tool.Limit), "the program reached its stack limit: recurse less deeply, or use a loop"
	}
	switch {
	case g.Name == "" || f.Kind == stalledKind || f.Kind == string(tool.Limit):
	case f.Message == "" || f.Message == g.Name:
		f.Message = g.Name + ", without a message"
	default:
		f.Message = g.Name + ": " + f.Message
	}
	if g.Upstream != "" && g.Tool != "" {
		f.Message += " (from " + g.Upstream + "." + g.Tool + ")"
	}
	if strings.TrimSpace(f.Message) == "" {
		f.Message = "the program threw an error without a message"
	}
	if r.program == nil {
		return f
	}
	if line, col, ok := r.program.Locate(g.Stack); ok {
		f.Line, f.Column, f.Frame = line, col, r.program.Frame(line, col)
	}
	f.Hint = hint(f.Message)
	if at, ok := r.program.InModule(g.Stack); ok {
		f.Message += fmt.Sprintf(" (in ./%s, line %d, column %d)\n%s", at.File, at.Line, at.Column, at.Frame)
		return f
	}
	r.reword(f)
	return f
}

var noProperty = regexp.MustCompile(`^TypeError: cannot read property 'Symbol\.(?:asyncI|i)terator' of (undefined|null)$`)

// parsesJSON matches the frame of a line that does.
var parsesJSON = regexp.MustCompile(`(?m)^>.*\bJSON\.parse\b`)

// reword says with the agent's own text what the engine says without it.
func (r *run) reword(f *Failure) {
	name := ""
	if f.Line > 0 {
		name = r.program.NameAt(f.Line, f.Column)
	}
	switch m := noProperty.FindStringSubmatch(f.Message); {
	case f.Message == "TypeError: not a function" && name != "":
		f.Message = "TypeError: " + name + " is not a function"
	case m != nil:
		f.Message = "TypeError: " + m[1] + " is not iterable"
	case strings.HasPrefix(f.Message, "SyntaxError: unexpected token") && parsesJSON.MatchString(f.Frame):
		f.Message += " in JSON"
	}
	// Python names the place of what it can't compile in the message.
	if m, ok := strings.CutSuffix(f.Message, fmt.Sprintf(" (line %d, column %d)", f.Line, f.Column)); ok && f.Kind == exceptionKind {
		f.Kind, f.Message = syntaxKind, m
	}
}

// places makes the frames of stack traces in s, which the program wrote or gave, speak of the agent's own text.
func (r *run) places(s string) string {
	if r.program == nil {
		return s
	}
	return r.program.Rewrite(s)
}

// failureText is what the agent reads of a program that failed: what, where, a hint, and what was done already.
func (r *run) failureText(e *Execution) string {
	f := e.Error
	var b strings.Builder
	if f.text != "" {
		b.WriteString(prose.Cut(f.text, 32<<10))
	} else {
		b.WriteString(prose.Cut(f.Message, 32<<10))
	}
	if f.Line > 0 && f.Frame != "" && f.text == "" {
		fmt.Fprintf(&b, " (line %d, column %d)\n\n%s", f.Line, f.Column, f.Frame)
	}
	if f.Hint != "" {
		b.WriteString("\n\nhint: " + f.Hint)
	}
	if len(e.Calls) > 0 {
		b.WriteString("\n\n" + callsMade(e.Calls))
	}
	return b.String()
}

// maxListed is how many calls an error text names one by one.
const maxListed = 20

// callsMade lists the calls of a failed program, so that the next attempt does not repeat what they did; those that were
// refused before anything was sent are named apart.
func callsMade(calls []CallRecord) string {
	made, unsent := split(calls)
	var b strings.Builder
	if len(made) > 0 {
		fmt.Fprintf(&b, "%s made before it ended; the next program must not repeat what they changed:", countWas(len(made)))
		listCalls(&b, made)
	}
	if len(unsent) > 0 {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "%s not made, and changed nothing:", countWas(len(unsent)))
		listCalls(&b, unsent)
	}
	return b.String()
}

// split parts the calls that reached their tools, or may have, from those that surely did not.
func split(calls []CallRecord) (made, unsent []CallRecord) {
	for i := range calls {
		if calls[i].unsent {
			unsent = append(unsent, calls[i])
		} else {
			made = append(made, calls[i])
		}
	}
	return made, unsent
}

func listCalls(b *strings.Builder, calls []CallRecord) {
	for i, c := range calls {
		if len(calls) > maxListed && i >= maxListed*3/4 && i < len(calls)-maxListed/4 {
			if i == maxListed*3/4 {
				fmt.Fprintf(b, "\n… %s more", prose.Group(len(calls)-maxListed))
			}
			continue
		}
		fmt.Fprintf(b, "\n- %s %s -> %s", prose.Cut(c.Tool, 100), c.args, outcomeText(&c))
	}
}

func outcomeText(c *CallRecord) string {
	said := prose.Cut(firstLine(c.Error), 200)
	switch {
	case c.From != "":
		return "ok, not made again: from " + c.From
	case c.Error == "":
		return fmt.Sprintf("ok (%s, %s)", prose.Size(c.Bytes), prose.Duration(c.took))
	case c.unsent:
		return said
	case strings.HasPrefix(c.Error, "canceled"), strings.HasPrefix(c.Error, "timed out"):
		return said + " (whether it took effect is not known)"
	}
	return "failed: " + said
}

// firstLine gives the first line of s; where that ends in a colon, with the next one, which it speaks of.
func firstLine(s string) string {
	first, rest, _ := strings.Cut(s, "\n")
	first = strings.TrimSpace(first)
	if strings.HasSuffix(first, ":") {
		next, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		first = strings.TrimSuffix(first, ":")
		if next = strings.TrimSpace(strings.TrimLeft(next, "-*• \t")); next != "" {
			first += ": " + next
		}
	}
	return first
}

func countWas(n int) string {
	if n == 1 {
		return "1 call was"
	}
	return prose.Group(n) + " calls were"
}

var notDefined = regexp.MustCompile(`ReferenceError: '?([A-Za-z_$][\w$]*)'? is not defined`)

// absent are the names that programs expect from elsewhere, and what there is instead.
var absent = map[string]string{
	"XMLHttpRequest": "there is no network: programs reach the outside through tools only. search(\"...\") finds one; fetch reaches hosts that policy permits",
	"WebSocket":      "there is no network: programs reach the outside through tools only. search(\"...\") finds one; fetch reaches hosts that policy permits",
	"axios":          "packages are not available: programs reach the outside through tools only. search(\"...\") finds one",
	"require":        "require is not available: packages can't be loaded; tools are globals (github.list_issues(...)), files are read with import { readFile } from \"node:fs/promises\"",
	"module":         "there is no module object: return the value, or export default a function",
	"exports":        "there is no exports object: return the value, or export default a function",
	"process":        "process is not available: there are no environment variables, arguments or exit codes; pass what is needed in the program's text, and return the result",
	"Deno":           "Deno's interfaces are not available: call tools, and read files with node:fs/promises",
	"Bun":            "Bun's interfaces are not available: call tools, and read files with node:fs/promises",
	"window":         "there is no window: use globalThis",
	"document":       "there is no document: programs don't run in a browser",
	"global":         "use globalThis",
	"fs":             "files are read with import { readFile, readdir } from \"node:fs/promises\"",
	"__dirname":      "files are those below ./workspace, ./skills and ./tools: import { readdir } from \"node:fs/promises\"",
}

// hint says what to do about an error that programs often make.
func hint(message string) string {
	switch {
	case strings.HasPrefix(message, "TypeError: not a function"):
		return "what is called at the caret is no function: its value may have another type than expected"
	case strings.HasPrefix(message, "TypeError: Cannot convert undefined or null to object"):
		return "what is taken apart, as in const { a } = x or Object.keys(x), is undefined or null: a result may have another shape than expected"
	case message == "TypeError: value is not iterable":
		return "what is looped over or taken apart, as in for (const a of x), const [a] = x or [...x], is no list: a result may have another shape than expected"
	case strings.HasPrefix(message, "TypeError: 'coroutine' object"):
		return "an async function gives its result to await only: write await in front of its call"
	case strings.HasPrefix(message, "URLError: "):
		return absent["WebSocket"]
	case strings.HasSuffix(message, "wasi does not support processes."):
		return "there are no processes and no shell: programs reach the outside through tools only. search(\"...\") finds one"
	case strings.HasPrefix(message, "TypeError: cannot read property"), strings.HasPrefix(message, "KeyError: no key"):
		return "a result may have another shape than expected: return a small part of it to see"
	}
	m := notDefined.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	if h, ok := absent[m[1]]; ok {
		return h
	}
	return m[1] + " is no variable of the program and no upstream. What earlier programs declared lives on in their session only. search(\"...\") finds tools"
}
