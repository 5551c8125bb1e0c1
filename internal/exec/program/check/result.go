package check

import (
	"slices"
	"strings"

	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"

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

func (p resultPath) encodeKey() string { return p.tool + "\x00" + strings.Join(p.steps, "\x00") }

func (p resultPath) addStep(name string) resultPath { return resultPath{p.tool, with(p.steps, name)} }

// reads collects the reads of fields of results.
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
	array ast.Expression
	test  bool // the function's value is only tested
}

type read struct {
	at   int // offset in the code
	path resultPath
}

// walkTest walks an expression whose values the program tests: what it reads there may be missing.
func (c *checker) walkTest(e ast.Expression, s *scope) {
	before := c.reads.guarded
	c.reads.guarded = true
	c.expression(e, s)
	c.reads.guarded = before
}

// walkOperand walks an expression one of whose fields is read.
func (c *checker) walkOperand(e ast.Expression, s *scope) {
	before := c.reads.guarded
	c.reads.guarded = before && c.reads.chain
	c.expression(e, s)
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

// bindCallback declares the first parameter of a function that is called with the items of a part
// of a result, and records what its pattern reads.
func (c *checker) bindCallback(params *ast.ParameterList, s, outer *scope) (test bool) {
	f, ok := c.reads.callbacks[params]
	if !ok || len(params.List) == 0 || params.List[0].Initializer != nil {
		return false
	}
	s.bindItems(params.List[0].Target, f.array, outer, true)
	if p, ok := c.resultOf(f.array, outer, 0); ok {
		c.readPattern(params.List[0].Target, p.addStep(Item))
	}
	return f.test
}

// readField records that a program reads a field of left. An empty name means that the name is
// unknown.
func (c *checker) readField(left ast.Expression, name string, at int, s *scope) {
	if name == "" || inherited[name] && name != "name" && name != "length" && name != "arguments" {
		return
	}
	if p, ok := c.resultOf(left, s, 0); ok {
		c.recordRead(p.addStep(name), at)
	}
}

func (c *checker) recordRead(p resultPath, at int) {
	switch {
	case c.reads.guarded:
		c.reads.tested[p.encodeKey()] = true
	case len(c.reads.list) < maxReads:
		c.reads.list = append(c.reads.list, read{at, p})
	}
}

// openResult records that a value may have other fields than its tool returned, because the program
// passes it to something that may test or change it.
func (c *checker) openResult(e ast.Expression, s *scope) {
	if p, ok := c.resultOf(e, s, 0); ok {
		c.reads.open[p.encodeKey()] = true
		c.reads.open[p.addStep(Item).encodeKey()] = true
	}
}

// readPattern records the fields that a destructuring pattern reads.
func (c *checker) readPattern(target ast.Expression, p resultPath) {
	switch t := target.(type) {
	case *ast.Binding:
		c.readPattern(t.Target, p)
	case *ast.ObjectPattern:
		for _, prop := range t.Properties {
			switch prop := prop.(type) {
			case *ast.PropertyShort:
				c.readMember(p.addStep(prop.Name.Name.String()), int(prop.Name.Idx0())-1, prop.Initializer != nil)
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
				c.readMember(next, int(key.Idx0())-1, tested)
				if !tested {
					c.readPattern(value, next)
				}
			}
		}
	case *ast.ArrayPattern:
		for _, e := range t.Elements {
			if e != nil {
				c.readPattern(e, p.addStep(Item))
			}
		}
	}
}

// readMember records that a destructuring pattern reads a member. tested means that the pattern has
// a default for it.
func (c *checker) readMember(p resultPath, at int, tested bool) {
	before := c.reads.guarded
	c.reads.guarded = before || tested
	c.recordRead(p, at)
	c.reads.guarded = before
}

// resultOf returns the part of a tool's result that an expression certainly denotes.
func (c *checker) resultOf(e ast.Expression, s *scope, depth int) (p resultPath, ok bool) {
	if depth > maxFollow {
		return p, false
	}
	step := ""
	var left ast.Expression
	switch e := e.(type) {
	case *ast.AwaitExpression:
		m := c.meaning(e.Argument, s, 0)
		if m.sense != promise || m.member == "" {
			return p, false
		}
		return resultPath{tool: m.path()}, true
	case *ast.Identifier:
		b := s.lookup(e.Name.String())
		if b == nil || b.init == nil || b.used ||
			b.loose && c.assigned[e.Name.String()] {
			return p, false
		}
		b.used = true
		p, ok = c.resultOf(b.init, b.scope, depth+1)
		b.used = false
		if ok && b.item {
			p = p.addStep(Item)
		}
		for _, k := range b.keys {
			p = p.addStep(k)
		}
		return p, ok && len(p.steps) <= maxSteps
	case *ast.DotExpression:
		left, step = e.Left, e.Identifier.Name.String()
	case *ast.BracketExpression:
		left = e.Left
		switch key := e.Member.(type) {
		case *ast.StringLiteral:
			if step = key.Value.String(); step == "" {
				return p, false
			}
		case *ast.NumberLiteral:
			step = Item
		default:
			return p, false
		}
	case *ast.Optional:
		return c.resultOf(e.Expression, s, depth+1)
	case *ast.OptionalChain:
		return c.resultOf(e.Expression, s, depth+1)
	default:
		return p, false
	}
	if p, ok = c.resultOf(left, s, depth+1); !ok || len(p.steps) >= maxSteps {
		return p, false
	}
	return p.addStep(step), true
}

var (
	// iterators are methods of arrays that call a function with each item.
	iterators = map[string]bool{"map": true, "filter": true, "forEach": true, "find": true, "findLast": true,
		"findIndex": true, "findLastIndex": true, "some": true, "every": true, "flatMap": true}
	mappers = map[string]bool{"map": true, "flatMap": true, "forEach": true} // iterators that test nothing
	// readers are methods of arrays and texts that don't change them and return no fields.
	readers = map[string]bool{"slice": true, "join": true, "includes": true, "indexOf": true, "at": true,
		"concat": true, "keys": true, "entries": true, "values": true, "split": true, "startsWith": true,
		"endsWith": true, "trim": true, "toLowerCase": true, "toUpperCase": true, "toString": true, "match": true,
		"replace": true, "toFixed": true, "localeCompare": true}
	// printers are objects whose methods only read their arguments.
	printers = map[string]bool{"console": true, "JSON": true, "Math": true}
)

// passResults records what a call may do to the results that it is passed.
func (c *checker) passResults(e *ast.CallExpression, m meaning, s *scope) {
	callee, dotted := e.Callee.(*ast.DotExpression)
	if dotted {
		name := callee.Identifier.Name.String()
		if iterators[name] && len(e.ArgumentList) > 0 {
			if params := parametersOf(e.ArgumentList[0]); params != nil {
				c.reads.callbacks[params] = callback{callee.Left, !mappers[name]}
				return
			}
		}
		if id, ok := callee.Left.(*ast.Identifier); ok && printers[id.Name.String()] {
			return
		}
		if !readers[name] {
			c.openResult(callee.Left, s)
		}
	}
	if m.sense == oneTool || m.sense == caller {
		return
	}
	for _, a := range e.ArgumentList {
		c.openResult(a, s)
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
		parent := resultPath{r.path.tool, r.path.steps[:len(r.path.steps)-1]}
		if c.reads.tested[r.path.encodeKey()] || c.reads.open[parent.encodeKey()] {
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
