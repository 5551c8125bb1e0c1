package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxReads = 200 // of one program
	maxSteps = 16  // of a path
)

// Item is the step in a path from an array to its items.
const Item = ""

// A Read is a place where a program certainly reads a field of a tool's result, and neither tests
// nor sets it.
type Read struct {
	At   int // offset in the agent's text
	Tool tool.Entry
	Path []string // from the result to the field: names of fields, and Item
}

// A resultPath is a part of a tool's result.
type resultPath struct {
	tool  string // path of the tool
	steps []string
}

// encodeKey returns a key for the first steps of a path.
func (p resultPath) encodeKey(steps int) string {
	return strings.Join(append([]string{p.tool}, p.steps[:steps]...), "\x00")
}

func (p resultPath) addStep(name string) resultPath { return resultPath{p.tool, with(p.steps, name)} }

// results follows the results of tool calls through a program, and collects the reads of their
// fields.
type results struct {
	names
	reads reads
}

// reads are the reads of fields of results.
type reads struct {
	list    []read
	tested  map[string]bool // parts that the program tests or sets
	open    map[string]bool // parts that may have other fields than the tool returned
	guarded bool            // in an expression that tests values
	chain   bool            // in an optional chain, which tests all of its values
	// callbacks are the arrays whose items are the first parameters of functions.
	callbacks map[*ast.ParameterList]callback
}

type callback struct {
	array    ast.Expression
	test     bool // the function's value is only tested
	from, to int  // the parameters that are items
}

type read struct {
	at   int // offset in the code
	path resultPath
}

// walkTest walks an expression whose values the program tests: what it reads there may be missing.
func (c *checker) walkTest(e ast.Expression, s *scope) {
	before := c.reads.guarded
	c.reads.guarded = true
	c.walkExpression(e, s)
	c.reads.guarded = before
}

// walkOperand walks an expression one of whose fields is read.
func (c *checker) walkOperand(e ast.Expression, s *scope) {
	before := c.reads.guarded
	c.reads.guarded = before && c.reads.chain
	c.walkExpression(e, s)
	c.reads.guarded = before
}

// walkBinary walks the operands of a binary expression.
func (c *checker) walkBinary(e *ast.BinaryExpression, s *scope) {
	switch e.Operator {
	case js.LOGICAL_AND, js.LOGICAL_OR, js.COALESCE:
		c.walkTest(e.Left, s)
		c.walkTest(e.Right, s)
		return
	case js.EQUAL, js.NOT_EQUAL, js.STRICT_EQUAL, js.STRICT_NOT_EQUAL:
		if isNothing(e.Left) || isNothing(e.Right) {
			c.walkTest(e.Left, s)
			c.walkTest(e.Right, s)
			return
		}
	case js.IN, js.INSTANCEOF:
		c.openResult(e.Left, s)
		c.openResult(e.Right, s)
	}
	c.walkOperand(e.Left, s)
	c.walkOperand(e.Right, s)
}

// isNothing reports whether an expression is null or undefined.
func isNothing(e ast.Expression) bool {
	switch e := e.(type) {
	case *ast.NullLiteral:
		return true
	case *ast.Identifier:
		return e.Name == "undefined"
	case *ast.UnaryExpression:
		return e.Operator == js.VOID
	}
	return false
}

// bindItems declares the names of a target that is bound to each item of an array. outer is the
// scope of array.
func (s *scope) bindItems(target ast.Expression, array ast.Expression, outer *scope, loose bool) {
	in := newScope(nil)
	in.pattern(target, array, nil)
	for name, b := range in.names {
		b.scope, b.item, b.loose = outer, true, loose
		s.names[name] = b
	}
}

// bindCallback declares the parameters of a function that is called with the items of a part of a
// result, and records what their patterns read.
func (rs *results) bindCallback(params *ast.ParameterList, s, outer *scope) (test bool) {
	f, ok := rs.reads.callbacks[params]
	if !ok {
		return false
	}
	for i := f.from; i < min(f.to, len(params.List)); i++ {
		if params.List[i].Initializer != nil {
			continue
		}
		s.bindItems(params.List[i].Target, f.array, outer, true)
		if p, ok := rs.itemOf(f.array, outer, 0); ok {
			rs.readPattern(params.List[i].Target, p)
		}
	}
	return f.test
}

// readField records that a program reads a field of left. An empty name means that the name is
// unknown.
func (rs *results) readField(left ast.Expression, name string, at int, s *scope) {
	if name == "" || inherited.Has(name) && name != "name" && name != "length" && name != "arguments" {
		return
	}
	if p, ok := rs.resultOf(left, s, 0); ok {
		rs.recordRead(p.addStep(name), at)
	}
}

func (rs *results) recordRead(p resultPath, at int) {
	switch {
	case rs.reads.guarded:
		rs.reads.tested[p.encodeKey(len(p.steps))] = true
	case len(rs.reads.list) < maxReads:
		rs.reads.list = append(rs.reads.list, read{at, p})
	}
}

// openResult records that a value may have other fields than its tool returned, because the program
// passes it to something that may test or change it.
func (rs *results) openResult(e ast.Expression, s *scope) {
	if p, ok := rs.resultOf(e, s, 0); ok {
		rs.reads.open[p.encodeKey(len(p.steps))] = true
		return
	}
	switch e := e.(type) {
	case *ast.ArrayLiteral:
		for _, x := range e.Value {
			rs.openResult(x, s)
		}
	case *ast.SpreadElement:
		rs.openResult(e.Expression, s)
	case *ast.ObjectLiteral:
		for _, p := range e.Value {
			switch p := p.(type) {
			case *ast.PropertyShort:
				rs.openResult(&p.Name, s)
			case *ast.PropertyKeyed:
				rs.openResult(p.Value, s)
			}
		}
	case *ast.ConditionalExpression:
		rs.openResult(e.Consequent, s)
		rs.openResult(e.Alternate, s)
	case *ast.BinaryExpression:
		if e.Operator == js.LOGICAL_AND || e.Operator == js.LOGICAL_OR || e.Operator == js.COALESCE {
			rs.openResult(e.Left, s)
			rs.openResult(e.Right, s)
		}
	case *ast.AssignExpression:
		rs.openResult(e.Right, s)
	case *ast.Identifier:
		rs.openResultList(e, s)
	}
}

// setResult records that a part of a result is set: what the program reads below it is its own.
func (rs *results) setResult(target ast.Expression, s *scope) {
	switch t := target.(type) {
	case *ast.DotExpression:
		rs.openResult(t, s)
	case *ast.BracketExpression:
		if _, ok := t.Member.(*ast.StringLiteral); ok {
			rs.openResult(t, s)
		} else {
			rs.openResult(t.Left, s)
		}
	}
}

// bindResult records what a declaration does to a result.
func (rs *results) bindResult(b *ast.Binding, s *scope) {
	switch t := b.Target.(type) {
	case *ast.Identifier:
		known := s.lookup(t.Name.String())
		if known == nil || known.init == nil || known.loose && rs.assigned[t.Name.String()] {
			rs.openResult(b.Initializer, s)
		} else if _, ok := rs.resultOf(b.Initializer, s, 0); !ok && b.Initializer != nil {
			if _, ok := b.Initializer.(*ast.Identifier); !ok {
				rs.openResult(b.Initializer, s)
			}
		}
	case *ast.ArrayPattern:
		for i, e := range t.Elements {
			if p, ok := rs.findSettledItem(b.Initializer, s, i, 0); ok && e != nil {
				rs.readPattern(e, p)
			}
		}
	}
	if _, ok := b.Target.(*ast.Identifier); ok {
		return
	}
	if p, ok := rs.resultOf(b.Initializer, s, 0); ok {
		rs.readPattern(b.Target, p)
	}
}

// readPattern records the fields that a destructuring pattern reads.
func (rs *results) readPattern(target ast.Expression, p resultPath) {
	switch t := target.(type) {
	case *ast.Binding:
		rs.readPattern(t.Target, p)
	case *ast.ObjectPattern:
		for _, prop := range t.Properties {
			switch prop := prop.(type) {
			case *ast.PropertyShort:
				rs.readMember(p.addStep(prop.Name.Name.String()), int(prop.Name.Idx0())-1, prop.Initializer != nil)
			case *ast.PropertyKeyed:
				key, ok := prop.Key.(*ast.StringLiteral)
				if !ok || prop.Computed || key.Value == "" {
					continue
				}
				value, tested := prop.Value, false
				switch v := value.(type) {
				case *ast.AssignExpression:
					value, tested = v.Left, true
				case *ast.Binding:
					value, tested = v.Target, v.Initializer != nil
				}
				next := p.addStep(key.Value.String())
				rs.readMember(next, int(key.Idx0())-1, tested)
				if !tested {
					rs.readPattern(value, next)
				}
			}
		}
	case *ast.ArrayPattern:
		for _, e := range t.Elements {
			if e != nil {
				rs.readPattern(e, p.addStep(Item))
			}
		}
	}
}

// readMember records that a destructuring pattern reads a member. tested means that the pattern has
// a default for it.
func (rs *results) readMember(p resultPath, at int, tested bool) {
	before := rs.reads.guarded
	rs.reads.guarded = before || tested
	rs.recordRead(p, at)
	rs.reads.guarded = before
}

// resultOf returns the part of a tool's result that an expression certainly denotes.
func (rs *results) resultOf(e ast.Expression, s *scope, depth int) (p resultPath, ok bool) {
	if depth > maxFollow {
		return p, false
	}
	step := ""
	var left ast.Expression
	switch e := e.(type) {
	case *ast.AwaitExpression:
		m := rs.meaning(e.Argument, s, 0)
		if m.sense != promise || m.member == "" {
			return p, false
		}
		return resultPath{tool: m.path()}, true
	case *ast.Identifier:
		b := s.lookup(e.Name.String())
		if b == nil || b.init == nil || b.used ||
			b.loose && rs.assigned[e.Name.String()] {
			return p, false
		}
		b.used = true
		p, ok = rs.resultOfBinding(b, depth+1)
		b.used = false
		return p, ok && len(p.steps) <= maxSteps
	case *ast.CallExpression:
		return rs.resultOfCall(e, s, depth)
	case *ast.ArrayLiteral: // [...array], a copy
		if len(e.Value) == 1 {
			if sp, ok := e.Value[0].(*ast.SpreadElement); ok {
				return rs.resultOf(sp.Expression, s, depth+1)
			}
		}
		return p, false
	case *ast.DotExpression:
		left, step = e.Left, e.Identifier.Name.String()
	case *ast.BracketExpression:
		return rs.resultOfIndex(e, s, depth)
	case *ast.Optional:
		return rs.resultOf(e.Expression, s, depth+1)
	case *ast.OptionalChain:
		return rs.resultOf(e.Expression, s, depth+1)
	default:
		return p, false
	}
	if p, ok = rs.resultOf(left, s, depth+1); !ok || len(p.steps) >= maxSteps {
		return p, false
	}
	return p.addStep(step), true
}

// resultOfIndex is like resultOf, for left[member].
func (rs *results) resultOfIndex(e *ast.BracketExpression, s *scope, depth int) (p resultPath, ok bool) {
	step := Item
	switch key := e.Member.(type) {
	case *ast.StringLiteral:
		if step = key.Value.String(); step == "" {
			return p, false
		}
	case *ast.NumberLiteral:
		if at, err := strconv.Atoi(key.Literal); err == nil {
			if p, ok = rs.findSettledItem(e.Left, s, at, depth+1); ok {
				return p, true
			}
		}
	default:
		return p, false
	}
	p, ok = rs.resultOf(e.Left, s, depth+1)
	return p.addStep(step), ok && len(p.steps) < maxSteps
}

// resultOfBinding is like resultOf, for a declared name.
func (rs *results) resultOfBinding(b *binding, depth int) (p resultPath, ok bool) {
	keys := b.keys
	switch {
	case b.item:
		p, ok = rs.itemOf(b.init, b.scope, depth)
	case len(keys) > 0 && decodeIndex(keys[0]) >= 0:
		if p, ok = rs.findSettledItem(b.init, b.scope, decodeIndex(keys[0]), depth); ok {
			keys = keys[1:]
			break
		}
		fallthrough
	default:
		p, ok = rs.resultOf(b.init, b.scope, depth)
	}
	for _, k := range keys {
		if decodeIndex(k) >= 0 {
			k = Item
		}
		p = p.addStep(k)
	}
	return p, ok
}

// resultOfCall is like resultOf, for a call of a method that returns items of its array.
func (rs *results) resultOfCall(e *ast.CallExpression, s *scope, depth int) (p resultPath, ok bool) {
	callee, dotted := e.Callee.(*ast.DotExpression)
	if !dotted {
		return p, false
	}
	switch callee.Identifier.Name {
	case "filter", "slice", "sort", "reverse", "toSorted", "toReversed":
		return rs.resultOf(callee.Left, s, depth+1)
	case "find", "findLast", "at", "pop", "shift":
		p, ok = rs.itemOf(callee.Left, s, depth+1)
		return p, ok && len(p.steps) <= maxSteps
	}
	return p, false
}

var (
	// iterators are methods of arrays that call a function with each item.
	iterators = lazily.Words(`map filter forEach find findLast findIndex findLastIndex some every flatMap`)
	mappers   = lazily.Words(`map flatMap forEach`) // iterators that test nothing
	// readers are methods of arrays and texts that don't change them and return no fields.
	readers = lazily.Words(`
		slice join includes indexOf at concat sort reverse toSorted toReversed reduce pop shift keys
		entries values split startsWith endsWith trim toLowerCase toUpperCase toString match replace
		toFixed localeCompare`)
	// printers are objects whose methods only read their arguments.
	printers = lazily.Words(`console JSON Math`)
)

// passResults records what a call may do to the results that it is passed.
func (rs *results) passResults(e *ast.CallExpression, m meaning, s *scope) {
	callee, dotted := e.Callee.(*ast.DotExpression)
	if dotted {
		name := callee.Identifier.Name.String()
		if iterators.Has(name) && len(e.ArgumentList) > 0 {
			if params := parametersOf(e.ArgumentList[0]); params != nil {
				rs.reads.callbacks[params] = callback{callee.Left, !mappers.Has(name), 0, 1}
				return
			}
		}
		if len(e.ArgumentList) > 0 && (name == "sort" || name == "toSorted" || name == "reduce") {
			if params := parametersOf(e.ArgumentList[0]); params != nil {
				from := map[bool]int{true: 1}[name == "reduce"]
				rs.reads.callbacks[params] = callback{callee.Left, false, from, 2}
			}
		}
		if id, ok := callee.Left.(*ast.Identifier); ok && printers.Has(id.Name.String()) {
			return
		}
		if !readers.Has(name) {
			rs.openResult(callee.Left, s)
		}
	}
	if m.sense == oneTool || m.sense == caller {
		return
	}
	for _, a := range e.ArgumentList {
		rs.openResult(a, s)
	}
}

// parametersOf returns the parameters of a function literal, or nil for another expression.
func parametersOf(e ast.Expression) *ast.ParameterList {
	switch f := e.(type) {
	case *ast.ArrowFunctionLiteral:
		return f.ParameterList
	case *ast.FunctionLiteral:
		return f.ParameterList
	}
	return nil
}

// calledPath returns the path of the tool that callTool calls, or "" if it isn't certain.
func calledPath(e *ast.CallExpression) string {
	if len(e.ArgumentList) == 0 || len(e.ArgumentList) > 2 {
		return ""
	}
	path, ok := e.ArgumentList[0].(*ast.StringLiteral)
	if !ok || !strings.Contains(path.Value.String(), ".") {
		return ""
	}
	return path.Value.String()
}

// listReads returns the reads that the program neither guards nor makes of changed values.
func (c *checker) listReads() (out []Read) {
	entries := map[string]tool.Entry{}
	for _, r := range c.reads.list {
		skip := c.reads.tested[r.path.encodeKey(len(r.path.steps))]
		for n := 0; n < len(r.path.steps) && !skip; n++ {
			skip = c.reads.open[r.path.encodeKey(n)]
		}
		if skip {
			continue
		}
		at, ok := c.origin.SourceOffset(r.at)
		if !ok {
			continue
		}
		e, known := entries[r.path.tool]
		if !known {
			e, _ = c.resolve(r.path.tool)
			entries[r.path.tool] = e
		}
		if e != nil {
			out = append(out, Read{At: at, Tool: e, Path: r.path.steps})
		}
	}
	slices.SortStableFunc(out, func(a, b Read) int { return a.At - b.At })
	return out
}
