package review

import "strings"

// evaluateFunction evaluates the body of a function, once in each pass.
func (f *flow) evaluateFunction(n *node) *value {
	if n.scope == nil {
		n.scope = &scope{parent: f.scope, function: true}
	}
	outside, fn, before, branch, loops := f.scope, f.fn, len(f.guards), f.branch, f.loops
	f.scope, f.fn = n.scope, n
	f.functions = append(f.functions, n)
	for _, p := range n.params {
		f.bindParameter(p, nil)
	}
	f.evaluateNode(n.body)
	f.scope, f.fn, f.guards, f.branch, f.loops = outside, fn, f.guards[:before], branch, loops
	return &value{fn: n}
}

// bindParameter adds v to the values of a parameter; nil is none.
func (f *flow) bindParameter(p *node, v *value) {
	if p.kind != nameNode {
		initial := clean
		if p.kind == assignNode {
			initial = f.evaluateNode(p.kids[1])
			f.checks.checkAssignment(p.kids[0], p.kids[1], initial)
			if p.kids[0].kind == nameNode {
				if v == nil {
					v = initial
				}
				f.bindParameter(p.kids[0], joinValues(v, initial))
				return
			}
		}
		if v == nil {
			v = initial
		}
		f.bindTarget(p, v, false)
		return
	}
	x := f.scope.vars[p.text]
	if x == nil {
		x = f.scope.addVariable(p.text, f.branch)
		x.calls = true
	}
	if v == nil {
		return
	}
	x.value = f.joinState(x.value, v)
}

// joinState returns a state that has another value v. If that changes it, the program is evaluated
// again.
func (f *flow) joinState(old, v *value) *value {
	if old == nil {
		old = clean
	}
	joined := joinValues(old, v)
	if joined == old || sameValue(joined, old, 0) {
		return old
	}
	f.again = true
	return joined
}

func sameValue(a, b *value, depth int) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.taint != b.taint || a.safe != b.safe || a.built != b.built || a.known != b.known ||
		a.text != b.text || a.fn != b.fn || a.path != b.path || len(a.names) != len(b.names) ||
		len(a.items) != len(b.items) {
		return false
	}
	if depth > 3 {
		return true
	}
	for i := range a.fields {
		if !sameValue(a.fields[i], b.fields[i], depth+1) {
			return false
		}
	}
	for i := range a.items {
		if !sameValue(a.items[i], b.items[i], depth+1) {
			return false
		}
	}
	return (a.elem == nil) == (b.elem == nil) && sameValue(a.elem, b.elem, depth+1)
}

// callFunction returns the result of a function for arguments.
func (f *flow) callFunction(fn *node, args ...argument) *value {
	fn.called = true
	if fn.scope == nil {
		return clean
	}
	outside := f.scope
	f.scope = fn.scope
	positional := 0
	for _, a := range args {
		if a.key != "" {
			for _, p := range fn.params {
				if nameOf(p) == a.key {
					f.bindParameter(p, a.value)
				}
			}
			continue
		}
		if positional < len(fn.params) {
			p := fn.params[positional]
			if a.node != nil && isTools(a.node) {
				a.value = &value{taint: fromArgument, at: p.at}
				f.scope.aliasTools(p, a.node, f.branch)
			}
			if p.kind == spreadNode {
				f.bindParameter(p, a.value)
				continue
			}
			f.bindParameter(p, a.value)
			positional++
		}
	}
	f.scope = outside
	if fn.result == nil {
		return clean
	}
	return fn.result
}

// isTools reports whether a node is the object of all tools.
func isTools(n *node) bool {
	return n.kind == nameNode && n.text == "tools" ||
		n.kind == memberNode && n.text == "tools" && n.kids[0].kind == nameNode && n.kids[0].text == "globalThis"
}

// nameOf returns the name of a parameter, or "".
func nameOf(p *node) string {
	if p.kind == assignNode {
		p = p.kids[0]
	}
	if p.kind == nameNode {
		return p.text
	}
	return ""
}

// An argument is an argument of a call; key is "" for a position.
type argument struct {
	key   string
	value *value
	node  *node
}

// A call is a call that is being evaluated.
type call struct {
	node     *node
	path     string   // "db.query", or "" for a method of a value
	last     string   // the last name
	words    []string // of path
	imported bool     // path begins with a module, or with something that the program imports
	receiver *value   // of a method; nil: none
	args     []argument
}

// argumentAt returns the value of an argument by its position.
func (c *call) argumentAt(i int) *value {
	for _, a := range c.args {
		if a.key != "" {
			continue
		}
		if i == 0 {
			return a.value
		}
		i--
	}
	return clean
}

// joinTaint returns the taint of the arguments and the receiver.
func (c *call) joinTaint() *value {
	out := clean
	if c.receiver != nil {
		out = c.receiver.deriveValue()
	}
	for _, a := range c.args {
		out = joinValues(out, a.value.deriveValue())
	}
	return out
}

// evaluateCall returns the result of a call, and checks it.
func (f *flow) evaluateCall(n *node) *value {
	callee := n.kids[0]
	c := &call{node: n, path: f.scope.pathOf(callee)}
	var fn *node
	switch callee.kind {
	case memberNode:
		c.last = callee.text
		c.receiver = f.evaluateNode(callee.kids[0])
		fn = c.receiver.memberValue(callee.text).fn
	case nameNode:
		c.last = callee.text
		fn = f.readName(callee).fn
	default:
		fn = f.evaluateNode(callee).fn
	}
	if c.path != "" {
		c.imported = f.scope.isImported(callee)
		c.last = c.path[strings.LastIndexByte(c.path, '.')+1:]
	}
	f.evaluateArguments(c)
	if n.text == "tag" {
		return c.joinTaint()
	}
	f.checks.checkCall(c)
	if fn != nil {
		for _, a := range c.args { // the function may call its arguments
			if a.value.fn != nil {
				a.value.fn.called = true
			}
		}
		return f.callFunction(fn, c.args...)
	}
	if rejectsValues(c.last) {
		for _, a := range c.args {
			if v, path := f.scope.variableOf(a.node); v != nil {
				f.guards = append(f.guards, guard{v, path, safeAll})
			}
		}
	}
	if c.path != "" {
		return f.callPath(c)
	}
	return f.callMethod(c)
}

// evaluateArguments evaluates the arguments of a call.
func (f *flow) evaluateArguments(c *call) {
	n := c.node
	c.args = make([]argument, 0, len(n.kids)-1)
	for i, k := range n.kids[1:] {
		a := argument{node: k, value: f.evaluateNode(k)}
		if n.keys != nil {
			a.key = n.keys[i]
		}
		if k.kind == spreadNode && f.python && len(a.value.names) == 0 {
			a.value = f.evaluateNode(k.kids[0])
			if len(a.value.names) > 0 { // **options
				for j, name := range a.value.names {
					c.args = append(c.args, argument{name, a.value.fields[j], k})
				}
				continue
			}
			a.value = a.value.joinElements()
		}
		if a.key != "" {
			f.checks.checkProperty(a.key, k, a.value)
		}
		c.args = append(c.args, a)
	}
}

// rejectsValues reports whether a function is named as one that rejects bad values.
func rejectsValues(name string) bool {
	name = strings.ToLower(name)
	for _, p := range [...]string{"assert", "validate", "ensure"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// callPath returns the result of a function that the program doesn't define.
func (f *flow) callPath(c *call) *value {
	root, _, _ := strings.Cut(c.path, ".")
	first := c.argumentAt(0)
	switch {
	case c.path == "String" || c.path == "str":
		return first
	case c.path == "map" && len(c.args) > 1:
		return f.callEach(c.args[0].value, c.args[1].value.joinElements())
	case c.path == "filter" && len(c.args) > 1:
		return c.args[1].value
	case pathBuilders.Has(c.path):
		return joinPath(c)
	case c.path == "pathlib.Path" || c.path == "Path":
		out := *joinPath(c)
		out.path = true
		return &out
	case strings.HasSuffix(c.path, "basename") || pureNames.Has(c.path) || pureRoots.Has(root) && c.isBuiltin(root):
		return clean
	case c.path == "shlex.quote" || c.path == "shlex.join" || c.path == "quote" || c.path == "shellescape":
		return first.joinElements().withSafety(safeShell | safePath)
	case c.path == "encodeURIComponent" || c.path == "urllib.parse.quote" || c.path == "quote_plus":
		return first.withSafety(safePath)
	case c.path == "re.sub" && len(c.args) > 2:
		return replaceText(c.argumentAt(2), c.argumentAt(1), f.scope.patternOf(c.args[0].node))
	case c.path == "json.dumps" || c.path == "JSON.stringify":
		return first.deriveValue()
	case c.path == "Object.entries":
		e := first.joinElements()
		return listOf(&value{taint: first.taint, safe: first.safe, at: first.at,
			items: []*value{first.keysOf(), e}})
	case c.path == "Object.keys":
		return listOf(first.keysOf())
	case c.path == "Object.values":
		return listOf(first.joinElements())
	case c.path == "Object.assign" || wrappers.Has(c.path):
		return f.callWrapper(c)
	case c.path == "Promise.all" || c.path == "Promise.allSettled":
		return first
	case c.path == "asyncio.gather":
		out := &value{}
		for _, a := range c.args {
			out.items = append(out.items, a.value)
			out = &value{items: out.items, taint: out.taint | a.value.taint, at: a.value.at}
		}
		return out
	case argumentCalls.Has(c.path):
		return &value{taint: fromArgument, at: c.node.at}
	case passing.Has(c.path) || passingRoots.Has(root) && c.isBuiltin(root):
		f.callBack(c, c.joinTaint())
		return c.joinTaint() // the result contains the arguments
	case isEscape(c.last):
		return c.joinTaint().withSafety(escapeOf(c.path))
	case listsFiles(c):
		return &value{taint: fromListing, at: c.node.at}
	}
	f.callBack(c, clean)
	return &value{taint: fromResult, at: c.node.at}
}

// isBuiltin reports whether the first name of a path is a module or a global of the language,
// rather than an upstream.
func (c *call) isBuiltin(root string) bool {
	return c.imported || root[0] >= 'A' && root[0] <= 'Z' || root == "console" || root == "crypto" ||
		root == "performance"
}

// keysOf returns the value of a key of an object.
func (v *value) keysOf() *value {
	if len(v.names) > 0 && !v.open {
		return clean
	}
	return v.deriveValue()
}

// withSafety returns v as it is after it was made harmless.
func (v *value) withSafety(s ruleSet) *value {
	if v.taint == 0 {
		return v
	}
	out := *v
	out.safe |= s
	return &out
}

// callWrapper returns the value of functions that return their arguments in another form.
func (f *flow) callWrapper(c *call) *value {
	out := c.argumentAt(0)
	if c.last == "from" && len(c.args) > 1 { // Array.from(xs, fn)
		return f.callEach(c.args[1].value, out.joinElements())
	}
	for _, a := range c.args[min(1, len(c.args)):] {
		if a.key == "" && a.value.fn == nil {
			out = joinValues(out, a.value)
		}
	}
	return out
}

// callBack calls the functions among the arguments with v.
func (f *flow) callBack(c *call, v *value) (result *value) {
	result = clean
	for _, a := range c.args {
		if a.value.fn != nil {
			result = joinValues(result, f.callFunction(a.value.fn, argument{value: v, node: a.node}))
		}
	}
	return result
}

// callEach returns the list of the results of fn for elements like v.
func (f *flow) callEach(fn, v *value) *value {
	if fn.fn == nil {
		return listOf(v)
	}
	return listOf(f.callFunction(fn.fn, argument{value: v}, argument{value: clean}))
}

// joinPath returns the path that the arguments make.
func joinPath(c *call) *value {
	var parts []*value
	var at []int
	for i, a := range c.args {
		if i > 0 {
			parts, at = append(parts, knownText("/")), append(at, a.node.at)
		}
		parts, at = append(parts, a.value), append(at, a.node.at)
	}
	return concatTexts(parts, at)
}

// replaceText returns v after the matches of pattern were replaced.
func replaceText(v, by *value, pattern string) *value {
	switch {
	case strings.Contains(pattern, "[^") || strings.Contains(pattern, `\W`) || strings.Contains(pattern, `\D`):
		return v.withSafety(safeAll)
	case pattern == "'":
		v = v.withSafety(safeShell)
	case strings.Contains(pattern, ".."), strings.Contains(pattern, "/"), strings.Contains(pattern, `\.`):
		v = v.withSafety(safePath)
	}
	if by.taint != 0 {
		return concatTexts([]*value{v, by}, []int{v.at, by.at})
	}
	return v
}
