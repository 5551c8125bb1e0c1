// Package check finds errors in a program before it runs, based on the catalog: calls of tools that
// don't exist, arguments that don't match, promises used as values. It reports only errors that are
// certain.
package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/parser"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxProblems = 5  // maximum number reported at once
	maxUnknown  = 50 // maximum number of failed catalog lookups
)

// MaxParsed is the maximum size in bytes of code that is parsed. Larger programs are not checked.
const MaxParsed = 128 << 10

// A checker finds definite errors in a program before it runs: calls of tools that don't exist,
// invalid arguments, and results used without await. It reports nothing that is uncertain. Names
// that the program declares or assigns are ignored, and so are errors that a catch may handle.
type checker struct {
	results
	origin   Origin
	spaces   map[string]*spaceUse // uses of unknown namespaces
	tolerant bool                 // inside a try with a catch, or similar
	dynamic  bool                 // the program contains a with statement
	async    bool                 // inside a function that can use await
	awaits   []Span               // calls of tools inside a function that can use await
	unknown  int                  // number of names not found in the catalog
	found    []Problem
	notes    []string
	attempts []string // paths that the program calls and that are not tools
}

// A spaceUse records how a program uses a name that is neither declared nor a namespace.
type spaceUse struct {
	calls []spaceCall
	other bool     // it is used in other ways, perhaps to test whether it exists
	quiet []string // members called where errors are handled
}

type spaceCall struct {
	at     int
	member string
}

// An Origin knows where code comes from.
type Origin interface {
	// SourceOffset maps an offset in the code to one in the agent's text.
	SourceOffset(off int) (int, bool)
}

// A Code is a program to check.
type Code struct {
	Text     string       // JavaScript
	Tree     *ast.Program // the syntax tree of Text; nil: it can't be parsed
	Origin   Origin
	Assigned map[string]bool // names that are assigned outside their declarations
	// Declared lists the names declared by earlier programs of the session; Anything stands for any
	// name.
	Declared []string
}

// Anything in a list of declared names stands for names that are only known at run time.
const Anything = "*"

// A Problem is a definite error in a program.
type Problem struct {
	At      int    // offset in the agent's text
	Message string // for the agent: the problem and how to fix it
}

// MaxAttempts is the maximum number of Attempts in a Report.
const MaxAttempts = 20

// A Report is the result of a check.
type Report struct {
	Problems []Problem // at most five
	Notes    []string  // for the agent
	// Attempts are paths of tools that the program calls but that are not in the catalog; at most
	// MaxAttempts.
	Attempts []string
	// Reads are the fields of results that the program reads and does not test, by place. They are
	// not problems, and are the same whatever was observed of the results.
	Reads []Read
}

// Check checks a program. ok is false if the parser doesn't support all of the program's syntax.
func (x *Index) Check(code Code) (r Report, ok bool) {
	if len(code.Text) > MaxParsed {
		return Report{}, true
	}
	c := x.walk(code)
	if c == nil {
		return Report{}, false
	}
	if c.dynamic {
		return Report{}, true
	}
	if !slices.Contains(code.Declared, Anything) {
		c.reportUnknownSpaces()
	}
	sort.SliceStable(c.found, func(i, j int) bool { return c.found[i].At < c.found[j].At })
	c.found = slices.CompactFunc(c.found, func(a, b Problem) bool { return a.At == b.At })
	return Report{Problems: c.found[:min(len(c.found), maxProblems)], Notes: c.notes, Attempts: c.attempts,
		Reads: c.listReads()}, true
}

// recordAttempt records a path that is not a tool.
func (c *checker) recordAttempt(path string) {
	if len(c.attempts) < MaxAttempts && !slices.Contains(c.attempts, path) {
		c.attempts = append(c.attempts, path)
	}
}

// A Span is a range of offsets in a Code.
type Span struct{ From, To int }

// Awaits returns the calls of tools in a program where an await is allowed. It is for programs that
// await nothing, because they were written for a system with blocking calls.
func (x *Index) Awaits(code Code) []Span {
	c := x.walk(code)
	if c == nil || c.dynamic {
		return nil
	}
	return c.awaits
}

// walk returns a checker that has walked the whole program, or nil if the program has no tree.
func (x *Index) walk(code Code) *checker {
	if code.Tree == nil {
		return nil
	}
	c := &checker{origin: code.Origin, spaces: map[string]*spaceUse{},
		results: results{names: names{index: x, assigned: code.Assigned, aliases: map[string]meaning{}},
			reads: reads{tested: map[string]bool{}, open: map[string]bool{},
				callbacks: map[*ast.ParameterList]callback{}}}}
	outside := newScope(nil)
	for _, name := range code.Declared {
		outside.add(name)
	}
	c.walkStatements(code.Tree.Body, outside)
	return c
}

// ParseCode returns the syntax tree of code. It returns nil if code is too large or can't be
// parsed.
func ParseCode(code string) (tree *ast.Program) {
	if len(code) > MaxParsed {
		return nil
	}
	defer func() {
		if recover() != nil { // a bug in the parser disables the checks, but must not affect the program
			tree = nil
		}
	}()
	tree, err := parser.ParseFile(nil, "program.js", code, 0, parser.WithDisableSourceMaps)
	if err != nil {
		return nil
	}
	return tree
}

// report records a problem at a node, if it has a position in the agent's text.
func (c *checker) report(n ast.Node, format string, a ...any) {
	c.reportAt(int(n.Idx0())-1, format, a...)
}

func (c *checker) reportAt(off int, format string, a ...any) {
	if at, ok := c.origin.SourceOffset(off); ok {
		c.found = append(c.found, Problem{At: at, Message: fmt.Sprintf(format, a...)})
	}
}

// checkCall checks a call and walks it.
func (c *checker) checkCall(e *ast.CallExpression, s *scope) {
	m := c.meaning(e.Callee, s, 0)
	switch m.sense {
	case oneTool, caller, finder:
		if c.async {
			c.awaits = append(c.awaits, Span{int(e.Idx0()) - 1, int(e.Idx1()) - 1})
		}
	}
	before := c.tolerant
	switch m.sense {
	case oneTool:
		c.checkToolCall(e, m.path(), e.ArgumentList, s)
	case caller:
		c.checkCallTool(e, s)
	}
	c.passResults(e, m, s)
	switch callee := e.Callee.(type) {
	case *ast.Identifier:
	case *ast.DotExpression:
		c.checkProperty(callee.Left, callee.Identifier.Name.String(), s)
		c.readField(callee.Left, callee.Identifier.Name.String(), int(callee.Identifier.Idx0())-1, s)
		if !c.recordSpaceCall(callee, s) {
			switch callee.Identifier.Name {
			case "catch", "allSettled", "any": // errors of the receiver and of the arguments are caught
				c.tolerant = true
			case "then":
				c.tolerant = c.tolerant || len(e.ArgumentList) > 1
			case "stringify":
				if id, ok := callee.Left.(*ast.Identifier); ok && id.Name == "JSON" && len(e.ArgumentList) > 0 {
					c.checkAwaited(e.ArgumentList[0], s, "which is {} as JSON")
				}
			}
			c.walkOperand(callee.Left, s)
		}
	default:
		c.walkExpression(e.Callee, s)
	}
	for _, a := range e.ArgumentList {
		if sp, ok := a.(*ast.SpreadElement); ok {
			c.checkAwaited(sp.Expression, s, "which can't be spread")
		}
		c.walkExpression(a, s)
	}
	c.tolerant = before
}

// recordSpaceCall records name.member(...) and tools.name.member(...) if name is not a known
// namespace.
func (c *checker) recordSpaceCall(callee *ast.DotExpression, s *scope) bool {
	m := c.meaning(callee.Left, s, 0)
	switch left := callee.Left.(type) {
	case *ast.Identifier:
		if m.sense != free || globalNames.Has(m.space) {
			return false
		}
	case *ast.DotExpression:
		if m.sense != oneSpace || c.index.space(m.space) != nil || c.meaning(left.Left, s, 0).sense != allTools {
			return false
		}
	default:
		return false
	}
	u := c.useOf(m.space)
	if !c.tolerant {
		u.calls = append(u.calls, spaceCall{int(callee.Idx0()) - 1, callee.Identifier.Name.String()})
	} else {
		u.other = true
		u.quiet = append(u.quiet, callee.Identifier.Name.String())
	}
	return true
}

func (c *checker) useOf(name string) *spaceUse {
	u := c.spaces[name]
	if u == nil {
		u = &spaceUse{}
		c.spaces[name] = u
	}
	return u
}

// recordMention records the use of a name on its own.
func (c *checker) recordMention(id *ast.Identifier, s *scope) {
	if m := c.meaning(id, s, 0); m.sense == free {
		c.useOf(m.space).other = true
	}
}

var promiseMembers = lazily.Words(`
	then catch finally constructor toString valueOf hasOwnProperty toLocaleString __proto__`)

// checkProperty checks the access to a property, and records tools.name.
func (c *checker) checkProperty(left ast.Expression, name string, s *scope) {
	m := c.meaning(left, s, 0)
	switch m.sense {
	case promise:
		if name == "0" {
			c.checkAwaited(left, s, "which has no elements")
		} else if name != "" && !promiseMembers.Has(name) {
			c.checkAwaited(left, s, "which has no ."+name)
		}
	case allTools:
		if name != "" && c.index.space(name) == nil {
			c.useOf(name).other = true
		}
	}
}

// reportUnknownSpaces reports calls of name.member(...) if name is unknown and not used in any
// other way.
func (c *checker) reportUnknownSpaces() {
	for _, name := range slices.Sorted(maps.Keys(c.spaces)) {
		u := c.spaces[name]
		if !c.assigned[name] {
			for _, member := range u.quiet {
				c.recordAttempt(name + "." + member)
			}
		}
		if u.other || c.assigned[name] {
			continue
		}
		for _, k := range u.calls {
			if _, err := c.resolve(name + "." + k.member); err != nil {
				c.recordAttempt(name + "." + k.member)
				c.reportAt(k.at, "%s", c.notFound(err, name))
			}
		}
	}
}

// resolve looks up a path. After too many failed lookups it returns neither an entry nor an error,
// because finding the nearest names takes time.
func (c *checker) resolve(path string) (tool.Entry, error) {
	if c.unknown >= maxUnknown {
		return nil, nil
	}
	e, err := c.index.view.FindTool(path)
	if err != nil {
		c.unknown++
	}
	return e, err
}

// notFound returns the message for an upstream that doesn't exist.
func (c *checker) notFound(err error, name string) string {
	msg := name + " is not defined and is not an upstream. "
	if e := tool.AsError(err); strings.Contains(e.Msg, "did you mean") {
		msg = e.Msg + " "
	}
	if names := c.index.names(); names != "" {
		return msg + "Upstreams: " + names
	}
	return msg + "There are no upstreams"
}

// checkCallTool checks callTool("path", args) and callTool("server", "tool", args).
func (c *checker) checkCallTool(e *ast.CallExpression, s *scope) {
	if len(e.ArgumentList) == 0 {
		return
	}
	first, ok := e.ArgumentList[0].(*ast.StringLiteral)
	if !ok {
		return
	}
	path, rest := first.Value.String(), e.ArgumentList[1:]
	if len(rest) > 0 && !strings.Contains(path, ".") && !strings.Contains(path, "__") {
		second, ok := rest[0].(*ast.StringLiteral)
		switch space := c.index.view.Space(path); {
		case ok && (space != "" || len(rest) > 1):
			path, rest = path+"."+second.Value.String(), rest[1:]
		case space != "": // the tool is only known at run time
			return
		}
	}
	c.checkToolCall(e, path, rest, s)
}

// checkToolCall checks a call of the tool with a path.
func (c *checker) checkToolCall(e *ast.CallExpression, path string, args []ast.Expression, s *scope) {
	if c.tolerant || strings.HasPrefix(path, tool.Own+".") {
		return
	}
	entry, err := c.resolve(path)
	if err == nil {
		if entry != nil {
			c.checkArguments(e, entry, args, s)
		}
		return
	}
	var te *tool.Error
	if errors.As(err, &te) && te.Kind == tool.Conflict { // the name is ambiguous
		c.report(e, "%s", te.Msg)
	}
	if te == nil || te.Kind != tool.NotFound {
		return
	}
	space := c.index.upstreamOf(path)
	_, dotted := e.Callee.(*ast.DotExpression)
	switch {
	case space != nil && space.current():
		c.recordAttempt(path)
		c.report(e, "%s", te.Msg)
	case space == nil && !dotted && (strings.Contains(path, ".") || c.allCurrent()):
		c.recordAttempt(path)
		c.report(e, "%s", te.Msg) // name.member(...) is reported by reportUnknownSpaces
	}
}

// allCurrent reports whether the tool lists of all upstreams are up to date.
func (c *checker) allCurrent() bool {
	for _, s := range c.index.spaces {
		if !s.current() {
			return false
		}
	}
	return true
}

// checkCondition checks that a condition is not a promise.
func (c *checker) checkCondition(e ast.Expression, s *scope) {
	c.checkAwaited(e, s, "which is always true")
}

// checkAwaited checks that an expression used as a value is not a promise. why says why a promise
// is wrong there.
func (c *checker) checkAwaited(e ast.Expression, s *scope, why string) {
	m := c.meaning(e, s, 0)
	if m.sense != promise {
		return
	}
	if id, ok := e.(*ast.Identifier); ok {
		c.report(e, "%s is a promise, %s: its initializer is not awaited. Write `const %s = await ...`", id.Name,
			why, id.Name)
		return
	}
	c.report(e, "this call is not awaited: it returns a promise, %s. Write `await` before it; to use its value, "+
		"`(await f()).x`", why)
}

// globalNames are names that the engine or the runtime may define. Calls of them are never
// reported.
var globalNames = lazily.Words(
	`AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date
	Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Int16Array Int32Array Int8Array Intl
	Iterator AsyncIterator JSON Map Math NaN Infinity Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set
	SharedArrayBuffer String Symbol SyntaxError Temporal TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray
	WeakMap WeakRef WeakSet WebAssembly DisposableStack AsyncDisposableStack SuppressedError InternalError DOMException
	decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape eval globalThis isFinite isNaN parseFloat parseInt
	undefined arguments tools servers codemode mcp api callTool call_tool callMCPTool search text image notify exit store load sleep final_answer emit readResult console ToolError URL URLSearchParams URLPattern TextEncoder
	TextDecoder structuredClone setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate queueMicrotask
	atob btoa crypto performance AbortController AbortSignal Event CustomEvent EventTarget MessageChannel Blob File FormData
	Headers Request Response fetch ReadableStream WritableStream TransformStream navigator window self global process Buffer
	Deno Bun require module exports __import __module __dirname __filename document localStorage sessionStorage gc std os bjson`)
