package review

import "strings"

// A flow follows values through a program.
type flow struct {
	python    bool
	scope     *scope
	fn        *node // the function that is being evaluated
	branch    int   // nesting in branches and loops
	loops     int
	steps     int
	changed   bool // a variable changed that earlier statements of a loop may read
	again     bool // a function's parameters or result changed
	guards    guards
	functions []*node
	checks    checker
}

const (
	maxPasses = 5
	maxSteps  = 300_000 // evaluated nodes
)

// evaluateAll evaluates a program until nothing changes. It returns false if there are too many
// steps.
func (f *flow) evaluateAll(tree *node) bool {
	for pass := range maxPasses {
		f.scope = &scope{function: true}
		if tree.scope != nil {
			f.scope = tree.scope
		}
		tree.scope = f.scope
		f.again = false
		f.checks.dropFindings()
		f.guards, f.branch, f.fn, f.functions = f.guards[:0], 0, nil, f.functions[:0]
		for _, k := range tree.kids {
			f.evaluateNode(k)
		}
		if f.steps > maxSteps {
			return false
		}
		if pass == 0 {
			f.exposeFunctions()
		}
		if !f.again {
			return true
		}
	}
	return true
}

// exposeFunctions taints the parameters of functions that the program doesn't call: others do.
func (f *flow) exposeFunctions() {
	for _, fn := range f.functions {
		if fn.called || len(fn.params) == 0 || fn.scope == nil {
			continue
		}
		fn.called, f.again = true, true
		outside := f.scope
		f.scope = fn.scope
		for _, p := range fn.params {
			f.bindTarget(p, &value{taint: fromArgument, at: p.at}, true)
		}
		f.scope = outside
	}
}

// evaluateNode returns the value of a node. It never returns nil.
func (f *flow) evaluateNode(n *node) *value {
	if f.steps++; n == nil || f.steps > maxSteps {
		return clean
	}
	switch n.kind {
	case nameNode:
		return f.readName(n)
	case textNode:
		f.checks.checkText(n.text, n.at)
		return knownText(n.text)
	case numberNode, regexNode:
		return knownText(n.text)
	case memberNode:
		return f.readMember(n)
	case indexNode:
		return f.readIndex(n)
	case callNode, newNode:
		return f.evaluateCall(n)
	case joinNode:
		return f.evaluateJoin(n)
	case listNode:
		return f.evaluateList(n)
	case objectNode:
		return f.evaluateObject(n)
	case spreadNode:
		return f.evaluateNode(n.kids[0]).joinElements()
	case choiceNode:
		return f.evaluateChoice(n)
	case andNode:
		before := len(f.guards)
		left := f.evaluateNode(n.kids[0])
		f.addGuards(n.kids[0], true)
		right := f.evaluateNode(n.kids[1])
		f.guards = f.guards[:before]
		return joinValues(left.deriveValue(), right)
	case assignNode:
		return f.evaluateAssign(n)
	case funcNode:
		return f.evaluateFunction(n)
	case comprehensionNode:
		return f.evaluateComprehension(n)
	case importNode:
		return clean
	case returnNode:
		out := clean
		if len(n.kids) > 0 {
			out = f.evaluateNode(n.kids[0])
		}
		if f.fn != nil {
			f.fn.result = f.joinState(f.fn.result, out)
		}
		return out
	}
	return f.evaluateControl(n)
}

// evaluateControl evaluates statements, and values that don't contain any of their operands.
func (f *flow) evaluateControl(n *node) *value {
	switch n.kind {
	case blockNode:
		return f.evaluateBlock(n)
	case ifNode:
		f.evaluateIf(n)
	case loopNode:
		f.evaluateLoop(n)
	case outerNode:
		f.scope.outer = append(f.scope.outer[:0:0], n.keys...)
	default:
		for _, k := range n.kids {
			f.evaluateNode(k)
		}
	}
	return clean
}

func (f *flow) evaluateBlock(n *node) *value {
	before, outside := len(f.guards), f.scope
	if n.text == "{" {
		if n.scope == nil {
			n.scope = &scope{parent: f.scope}
		}
		f.scope = n.scope
	}
	out := clean
	for _, k := range n.kids {
		out = f.evaluateNode(k)
	}
	f.scope = outside
	if n.text == "{" || f.python {
		f.guards = f.guards[:before]
	}
	return out
}

func (f *flow) evaluateIf(n *node) {
	f.evaluateNode(n.kids[0])
	before := len(f.guards)
	f.branch++
	f.addGuards(n.kids[0], true)
	f.evaluateNode(n.kids[1])
	f.guards = f.guards[:before]
	f.addGuards(n.kids[0], false)
	f.evaluateNode(n.kids[2])
	f.branch--
	f.guards = f.guards[:before]
	switch {
	case leavesBlock(n.kids[1]):
		f.addGuards(n.kids[0], false)
	case leavesBlock(n.kids[2]):
		f.addGuards(n.kids[0], true)
	}
}

// leavesBlock reports whether a statement certainly ends the block around it.
func leavesBlock(n *node) bool {
	switch n.kind {
	case returnNode, exitNode:
		return true
	case blockNode:
		return len(n.kids) > 0 && leavesBlock(n.kids[len(n.kids)-1])
	}
	return false
}

func (f *flow) evaluateLoop(n *node) {
	source := f.evaluateNode(n.kids[1])
	f.branch++
	f.loops++
	before, outside := len(f.guards), f.scope
	if n.scope == nil && !f.python {
		n.scope = &scope{parent: f.scope}
	}
	if n.scope != nil {
		f.scope = n.scope
	}
	changed := f.changed
	for i := range 2 { // a value may come from the iteration before
		if i > 0 && (!f.changed || f.loops > 2) {
			break
		}
		f.changed = false
		if n.kids[0] != nil {
			f.bindTarget(n.kids[0], f.elementOf(n.kids[1], source), true)
		} else {
			f.addGuards(n.kids[1], true)
		}
		f.evaluateNode(n.kids[2])
		f.guards = f.guards[:before]
	}
	f.changed = f.changed || changed
	f.scope = outside
	f.loops--
	f.branch--
}

// elementOf returns the value of an element of a source with a value.
func (f *flow) elementOf(source *node, v *value) *value {
	if source.kind != callNode {
		return v.joinElements()
	}
	callee := source.kids[0]
	switch {
	case f.python && callee.kind == nameNode && callee.text == "enumerate",
		callee.kind == memberNode && callee.text == "entries" && callee.kids[0].text != "Object":
		return &value{taint: v.taint, safe: v.safe, at: v.at, items: []*value{clean, v.joinElements()}}
	case f.python && callee.kind == nameNode && callee.text == "zip" && len(source.kids) > 2:
		out := &value{taint: v.taint, safe: v.safe, at: v.at}
		for _, k := range source.kids[1:] {
			out.items = append(out.items, f.evaluateNode(k).joinElements())
		}
		return out
	}
	return v.joinElements()
}

func (f *flow) evaluateChoice(n *node) *value {
	if n.text != "?" {
		return joinValues(f.evaluateNode(n.kids[0]), f.evaluateNode(n.kids[1]))
	}
	f.evaluateNode(n.kids[0])
	before := len(f.guards)
	f.addGuards(n.kids[0], true)
	a := f.evaluateNode(n.kids[1])
	f.guards = f.guards[:before]
	f.addGuards(n.kids[0], false)
	b := f.evaluateNode(n.kids[2])
	f.guards = f.guards[:before]
	return joinValues(a, b)
}

// readName returns the value of a variable, or of a name that the program doesn't declare.
func (f *flow) readName(n *node) *value {
	v := f.scope.findVariable(n.text)
	if v == nil {
		if inputNames.Has(n.text) {
			return &value{taint: fromArgument, at: n.at}
		}
		return clean
	}
	if v.value == nil {
		return clean
	}
	return f.guards.applyTo(v.value, v, "")
}

// applyTo returns val with the effect of the tests that were made before.
func (g guards) applyTo(val *value, v *variable, path string) *value {
	if val.taint == 0 {
		return val
	}
	for i := range g {
		if test := &g[i]; test.v == v && test.path == path {
			out := *val
			out.safe |= test.safe
			val = &out
		}
	}
	return val
}

func (f *flow) readMember(n *node) *value {
	if name := f.scope.pathOf(n); name == "sys.argv" || name == "process.argv" || name == "Deno.args" {
		return &value{taint: fromArgument, at: n.at}
	}
	left := f.evaluateNode(n.kids[0])
	if n.text == "_create_unverified_context" {
		f.checks.reportTLS(n.at)
	}
	if cleanMembers.Has(n.text) && !left.hasField(n.text) ||
		left.path && (n.text == "name" || n.text == "stem" || n.text == "suffix") {
		return clean
	}
	out := left.memberValue(n.text)
	if out.taint != 0 && len(f.guards) > 0 {
		if v, path := f.scope.variableOf(n); v != nil {
			out = f.guards.applyTo(out, v, path)
		}
	}
	return out
}

func (f *flow) readIndex(n *node) *value {
	left := f.evaluateNode(n.kids[0])
	key := n.kids[1]
	f.evaluateNode(key)
	if key.kind == listNode && key.text == "slice" {
		return left
	}
	if key.kind == numberNode && len(left.items) > 0 && len(key.text) == 1 {
		if i := int(key.text[0] - '0'); i >= 0 && i < len(left.items) {
			return left.items[i]
		}
	}
	return left.joinElements()
}

func (f *flow) evaluateJoin(n *node) *value {
	parts, at := make([]*value, len(n.kids)), make([]int, len(n.kids))
	for i, k := range n.kids {
		parts[i], at[i] = f.evaluateNode(k), k.at
	}
	if len(parts) != 2 || n.text == "" {
		return concatTexts(parts, at)
	}
	left, right := parts[0], parts[1]
	switch n.text {
	case "+":
		if left.isList() || right.isList() {
			return listOf(joinValues(left.joinElements(), right.joinElements()))
		}
	case "/":
		if !left.path {
			return clean
		}
		out := *concatTexts([]*value{left, knownText("/"), right}, []int{at[0], at[0], at[1]})
		out.path = true
		return &out
	case "%":
		if !left.known && !left.built && left.text == "" {
			return clean // arithmetic
		}
		if !strings.Contains(left.text, "%") {
			return left
		}
		return fillIn(left, right.partsOf(), at[1])
	}
	return concatTexts(parts, at)
}

// partsOf returns the items of a list, or the value itself.
func (v *value) partsOf() []*value {
	if len(v.items) > 0 {
		return v.items
	}
	if len(v.fields) > 0 {
		return v.fields
	}
	return []*value{v}
}

// fillIn returns the text that a format makes of values.
func fillIn(format *value, values []*value, at int) *value {
	parts, places := []*value{format}, []int{at}
	for _, v := range values {
		parts, places = append(parts, v), append(places, at)
	}
	return concatTexts(parts, places)
}

func (f *flow) evaluateList(n *node) *value {
	out := &value{items: make([]*value, 0, len(n.kids))}
	for _, k := range n.kids {
		v := f.evaluateNode(k)
		if k.kind == spreadNode {
			out.elem = joinValues(out.elem, v)
		}
		out.items = append(out.items, v)
		if v.taint != 0 {
			if out.taint == 0 {
				out.safe, out.at = v.safe, v.at
			}
			out.taint |= v.taint
			out.safe &= v.safe
		}
	}
	if out.elem != nil {
		out.elem = (&value{items: out.items}).joinElements()
		out.items = nil
	}
	return out
}

func (f *flow) evaluateObject(n *node) *value {
	out := &value{}
	for i, k := range n.kids {
		v := f.evaluateNode(k)
		key := n.keys[i]
		f.checks.checkProperty(key, k, v)
		if v.taint != 0 {
			if out.taint == 0 {
				out.safe, out.at = v.safe, v.at
			}
			out.taint |= v.taint
			out.safe &= v.safe
		}
		switch {
		case key == "...":
			out.open = out.open || v.taint != 0
			for j, name := range v.names {
				out.names, out.fields = withField(out.names, out.fields, name, v.fields[j], 0)
			}
		case key == "":
			out.open = out.open || v.taint != 0
		case len(out.names) < maxFields:
			out.names, out.fields = append(out.names, key), append(out.fields, v)
		default:
			out.open = out.open || v.taint != 0
		}
	}
	return out
}

func (f *flow) evaluateComprehension(n *node) *value {
	outside, before := f.scope, len(f.guards)
	f.scope = &scope{parent: outside, vars: map[string]*variable{}, function: true}
	for i := 1; i+1 < len(n.kids); i += 2 {
		f.bindTarget(n.kids[i], f.elementOf(n.kids[i+1], f.evaluateNode(n.kids[i+1])), true)
	}
	for _, test := range n.params {
		f.evaluateNode(test)
		f.addGuards(test, true)
	}
	if n.body != nil {
		f.evaluateNode(n.body)
	}
	out := listOf(f.evaluateNode(n.kids[0]))
	f.scope, f.guards = outside, f.guards[:before]
	return out
}

func (f *flow) evaluateAssign(n *node) *value {
	target := n.kids[0]
	v := f.evaluateNode(n.kids[1])
	switch n.text {
	case "let", "=":
	case "+=":
		old := f.evaluateNode(target)
		if old.items != nil || old.elem != nil {
			v = listOf(joinValues(old.joinElements(), v.joinElements()))
		} else {
			v = concatTexts([]*value{old, v}, []int{target.at, n.kids[1].at})
		}
	case "/=", "%=":
		v = clean
	default:
		v = clean
	}
	f.checks.checkAssignment(target, n.kids[1], v)
	f.bindTarget(target, v, n.text == "let")
	if target.kind == objectNode {
		for i, k := range target.kids {
			if k.kind == nameNode && target.keys[i] != "" && target.keys[i] != "..." {
				if variable := f.scope.findVariable(k.text); variable != nil {
					variable.scope = f.scope
					variable.alias = newNodeAt(memberNode, k.at, target.keys[i], n.kids[1])
				}
			}
		}
	}
	if target.kind == nameNode {
		if variable := f.scope.findVariable(target.text); variable != nil {
			switch n.kids[1].kind {
			case memberNode, importNode, nameNode, callNode, newNode, choiceNode:
				variable.alias, variable.scope = n.kids[1], f.scope
			default:
				variable.alias = nil
			}
		}
	}
	return v
}
