package review

import "strings"

// callMethod returns the result of a method of a value, or of an unknown function.
func (f *flow) callMethod(c *call) *value {
	r := c.receiver
	if r == nil {
		f.callBack(c, clean)
		return c.joinTaint()
	}
	if cleanMethods.Has(c.last) {
		return clean
	}
	if out := f.callListMethod(c); out != nil {
		return out
	}
	if out := f.callCollection(c); out != nil {
		return out
	}
	switch c.last {
	case "join":
		if f.python {
			return joinTexts(c.argumentAt(0), r, c.node.at)
		}
		return joinTexts(r, c.argumentAt(0), c.node.at)
	case "format", "format_map":
		if r.known || r.built || r.text != "" {
			return fillIn(r, c.listValues(), c.node.at)
		}
	case "replace", "replaceAll", "sub":
		if len(c.args) > 1 {
			return replaceText(r, c.argumentAt(1), f.scope.patternOf(c.args[0].node))
		}
	case "concat":
		if r.items != nil || r.elem != nil {
			return listOf(joinValues(r.joinElements(), c.argumentAt(0).joinElements()))
		}
		return fillIn(r, c.listValues(), c.node.at)
	case "joinpath":
		out := *concatTexts(append([]*value{r, knownText("/")}, c.listValues()...), placesOf(c, len(c.args)+2))
		out.path = true
		return &out
	case "glob", "rglob", "iterdir":
		return &value{taint: fromListing, at: c.node.at}
	case "read_text", "read_bytes":
		return &value{taint: fromResult, at: c.node.at}
	}
	if sameText.Has(c.last) {
		return r
	}
	f.callBack(c, r.deriveValue())
	return c.joinTaint()
}

// callListMethod returns the result of a method that calls its arguments with elements. It returns
// nil for other methods.
func (f *flow) callListMethod(c *call) *value {
	r := c.receiver
	switch c.last {
	case "map", "flatMap":
		f.callRest(c, r.joinElements())
		if len(c.args) > 0 {
			return f.callEach(c.args[0].value, r.joinElements())
		}
	case "forEach":
		if len(c.args) > 0 {
			f.callEach(c.args[0].value, r.joinElements())
		}
		return clean
	case "find", "at", "pop", "shift", "findLast", "next":
		if len(c.args) > 0 {
			f.callEach(c.args[0].value, r.joinElements())
		}
		return r.joinElements()
	case "filter", "sort", "toSorted", "some", "every":
		f.callBack(c, r.joinElements())
		return r
	case "reduce":
		if len(c.args) == 0 {
			return r.joinElements()
		}
		start := c.argumentAt(1)
		if fn := c.args[0].value.fn; fn != nil {
			return joinValues(start, f.callFunction(fn, argument{value: start}, argument{value: r.joinElements()}))
		}
	case "then":
		return f.callBack(c, r)
	case "catch", "finally":
		f.callBack(c, clean)
		return r
	}
	return nil
}

// callCollection returns the result of a method of lists, sets and maps. It returns nil for other
// methods.
func (f *flow) callCollection(c *call) *value {
	r := c.receiver
	switch c.last {
	case "push", "append", "add", "unshift", "extend", "set", "insert", "update", "setdefault":
		f.addElement(c)
		return r
	case "get":
		if a := c.argumentAt(0); a.known && len(r.names) > 0 {
			return r.memberValue(a.text)
		}
		return joinValues(r.joinElements(), c.argumentAt(1))
	case "items", "entries":
		return listOf(&value{taint: r.taint, safe: r.safe, at: r.at, items: []*value{r.keysOf(), r.joinElements()}})
	case "keys":
		return listOf(r.keysOf())
	case "values":
		return listOf(r.joinElements())
	}
	return nil
}

// placesOf returns n places for the parts of a call.
func placesOf(c *call, n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = c.node.at
		if j := i - 2; j >= 0 && j < len(c.args) {
			at[i] = c.args[j].node.at
		}
	}
	return at
}

// callRest calls the functions among the arguments after the first.
func (f *flow) callRest(c *call, v *value) {
	for _, a := range c.args[min(1, len(c.args)):] {
		if a.value.fn != nil {
			f.callFunction(a.value.fn, argument{value: v})
		}
	}
}

func (c *call) listValues() (out []*value) {
	for _, a := range c.args {
		out = append(out, a.value)
	}
	return out
}

// joinTexts returns the text that list.join(separator) or separator.join(list) makes in a call at a
// place.
func joinTexts(list, separator *value, callAt int) *value {
	if len(list.items) > 0 {
		var parts []*value
		var at []int
		for i, x := range list.items {
			if i > 0 {
				parts, at = append(parts, separator), append(at, callAt)
			}
			place := x.at
			if place == 0 {
				place = callAt
			}
			parts, at = append(parts, x), append(at, place)
		}
		return concatTexts(parts, at)
	}
	e := list.joinElements()
	out := *e
	out.known = false
	if e.taint != 0 {
		out.built = true
		if e.at == 0 {
			out.at = callAt
		}
	}
	out.items, out.elem, out.names, out.fields, out.fn = nil, nil, nil, nil, nil
	return &out
}

// addElement adds a call's arguments to its receiver, which is a list, a set or a map.
func (f *flow) addElement(c *call) {
	v, path := f.scope.variableOf(c.node.kids[0].kids[0])
	if v == nil || v.value == nil || path != "" {
		return
	}
	f.changed = true
	added := clean
	for i, a := range c.args {
		if i == 0 && (c.last == "set" || c.last == "insert" || c.last == "setdefault") && len(c.args) > 1 {
			continue
		}
		x := a.value
		if a.node.kind == spreadNode {
			x = f.evaluateNode(a.node)
		} else if c.last == "extend" || c.last == "update" {
			x = x.joinElements()
		}
		added = joinValues(added, x)
	}
	old := v.value
	if len(old.names) > 0 {
		out := *old
		out.taint |= added.taint
		out.open = out.open || added.taint != 0
		v.value = &out
		return
	}
	e := added
	if old.items == nil || len(old.items) > 0 {
		e = joinValues(old.joinElements(), added)
	}
	v.value = listOf(e)
	v.value.taint |= old.taint
}

// addGuards records what a test says about variables if it is positive, or if it is not.
func (f *flow) addGuards(n *node, positive bool) {
	switch n.kind {
	case notNode:
		f.addGuards(n.kids[0], !positive)
	case andNode:
		if positive {
			f.addGuards(n.kids[0], true)
			f.addGuards(n.kids[1], true)
		}
	case choiceNode:
		if !positive && n.text == "||" {
			f.addGuards(n.kids[0], false)
			f.addGuards(n.kids[1], false)
		}
	case assignNode:
		f.addGuards(n.kids[1], positive)
	case testNode:
		f.guardComparison(n, positive)
	case callNode:
		f.guardCall(n, positive)
	}
}

func (f *flow) guardNode(n *node, s ruleSet) {
	if n.kind == callNode && len(n.kids) > 1 { // String(x), path.relative(root, x)
		n = n.kids[len(n.kids)-1]
	}
	if n.kind == plainNode && len(n.kids) == 1 { // typeof x
		n = n.kids[0]
	}
	if v, path := f.scope.variableOf(n); v != nil {
		f.guards = append(f.guards, guard{v, path, s})
	}
}

// isConstant reports whether a node is a value of the program itself.
func (f *flow) isConstant(n *node) bool {
	switch n.kind {
	case textNode, numberNode:
		return true
	case nameNode, memberNode, listNode, indexNode, newNode, objectNode:
		return f.evaluateNode(n).taint == 0
	}
	return false
}

func (f *flow) guardComparison(n *node, positive bool) {
	left, right := n.kids[0], n.kids[1]
	switch n.text {
	case "==", "===", "is", "in":
	case "!=", "!==", "is not", "not in":
		positive = !positive
	default:
		return
	}
	switch {
	case n.text == "in" || n.text == "not in":
		switch {
		case positive && f.isConstant(right):
			f.guardNode(left, safeAll)
		case !positive && left.kind == textNode && strings.ContainsAny(left.text, "./"):
			f.guardNode(right, safePath)
		}
	case isNothing(right):
		f.addGuards(left, !positive)
	case positive && f.isConstant(right):
		f.guardNode(left, safeAll)
	case positive && f.isConstant(left):
		f.guardNode(right, safeAll)
	case positive: // x === path.basename(x)
		if right.kind == callNode && strings.HasSuffix(f.scope.pathOf(right.kids[0]), "basename") {
			f.guardNode(left, safePath)
		}
	}
}

// isNothing reports whether a node is null, undefined, None, -1 or false: the result of a test
// that failed.
func isNothing(n *node) bool {
	return n.kind == numberNode && (n.text == "none" || n.text == "false") ||
		n.kind == plainNode && (len(n.kids) == 0 || n.text == "-")
}

func (f *flow) guardCall(n *node, positive bool) {
	callee := n.kids[0]
	if callee.kind == nameNode || callee.kind == memberNode {
		if positive && approvesValues(callee.text) {
			for _, a := range n.kids[1:] {
				f.guardNode(a, safeAll)
			}
			if len(n.kids) == 1 && callee.kind == memberNode {
				f.guardNode(callee.kids[0], safeAll)
			}
			return
		}
	}
	if callee.kind != memberNode || len(n.kids) < 2 {
		return
	}
	object, first := callee.kids[0], n.kids[1]
	switch callee.text {
	case "includes", "has", "indexOf", "contains":
		switch {
		case positive && f.isConstant(object):
			f.guardNode(first, safeAll)
		case !positive && first.kind == textNode && strings.ContainsAny(first.text, "./"):
			f.guardNode(object, safePath)
		}
	case "test":
		if positive && strings.Contains(f.scope.patternOf(object)+"^", "^") &&
			(object.kind == regexNode || f.isConstant(object)) {
			f.guardNode(first, safeAll)
		}
	case "match", "fullmatch":
		if !positive {
			return
		}
		if f.python {
			f.guardNode(n.kids[len(n.kids)-1], safeAll)
		} else {
			f.guardNode(object, safeAll)
		}
	case "startsWith", "startswith", "is_relative_to":
		up := first.kind == textNode && strings.HasPrefix(first.text, "..")
		if positive != up {
			f.guardNode(object, safePath)
			if v, _ := f.scope.variableOf(object); up && v != nil && v.alias != nil && v.alias.kind == callNode {
				f.guardNode(v.alias, safePath) // const rel = path.relative(root, file)
			}
		}
	}
}

// approvesValues reports whether a function is named as one that tells good values from bad ones.
func approvesValues(name string) bool {
	switch name {
	case "isInteger", "isFinite", "isSafeInteger", "isalnum", "isdigit", "isidentifier", "isdecimal", "isnumeric",
		"isinstance", "isalpha":
		return true
	}
	name = strings.ToLower(name)
	return strings.Contains(name, "valid") || strings.Contains(name, "safe") || strings.Contains(name, "allowed")
}
