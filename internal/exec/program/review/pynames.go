package review

import "slices"

// names are the names that a function, a comprehension or the module binds.
type names struct {
	parent *names
	known  map[string]*bound
	module bool
}

// A bound is the value of a name.
type bound struct {
	count int
	value *node // nil: unknown
	scope *names
	item  bool // it is an item of value, not value itself
	first bool // value needn't be awaited: something awaits it
	used  bool // findResult is following it
}

// findName returns the value of a name, or nil.
func (s *names) findName(name string) *bound {
	for ; s != nil; s = s.parent {
		if b := s.known[name]; b != nil {
			return b
		}
	}
	return nil
}

// bindNames records what a node binds in a scope.
func (r *resultReader) bindNames(n *node, s *names) {
	if n == nil {
		return
	}
	switch n.kind {
	case assignNode:
		r.bindTarget(n.kids[0], bound{value: n.kids[1], scope: s}, s, n.text != "=")
	case loopNode:
		if n.kids[0] != nil {
			r.bindTarget(n.kids[0], bound{value: n.kids[1], scope: s, item: true}, s, false)
		}
	case outerNode:
		for _, name := range n.keys {
			r.loose[name] = true
		}
	case blockNode:
		r.dynamic = r.dynamic || n.text == matchBlock || n.text == importBlock
		if n.text == guardedBlock {
			r.catches = true
			for _, name := range n.keys {
				r.loose[name] = true
			}
		}
	case funcNode:
		s = r.newNames(n, s)
		for _, p := range n.params {
			r.bindTarget(p, bound{}, s, false)
		}
	case comprehensionNode:
		s = r.newNames(n, s)
		for i := 1; i+1 < len(n.kids); i += 2 {
			r.bindTarget(n.kids[i], bound{value: n.kids[i+1], scope: s, item: true}, s, false)
		}
	case callNode:
		r.dynamic = r.dynamic || dynamicFunctions.Has(calleeName(n))
		r.bindLambda(n, s)
	}
	for _, k := range slices.Concat(n.kids, n.params) {
		r.bindNames(k, s)
	}
	r.bindNames(n.body, s)
}

func (r *resultReader) newNames(n *node, s *names) *names {
	if r.inner[n] == nil {
		r.inner[n] = &names{parent: s, known: map[string]*bound{}}
	}
	return r.inner[n]
}

// bindTarget records that a target is bound. again means that it already had a value.
func (r *resultReader) bindTarget(target *node, b bound, s *names, again bool) {
	switch target.kind {
	case nameNode:
		r.dynamic = r.dynamic || target.text == "asyncio" && !isAsyncio(b.value)
		old := s.known[target.text]
		if old == nil {
			old = &bound{}
			*old = b
			s.known[target.text] = old
		}
		if old.count++; again {
			old.count++
		}
	case assignNode: // a parameter with a default, or a chain of assignments
		r.bindTarget(target.kids[0], bound{}, s, again)
	case spreadNode:
		r.bindTarget(target.kids[0], bound{}, s, again)
	case listNode:
		for i, k := range target.kids {
			r.bindTarget(k, r.findElement(b, i, len(target.kids)), s, again)
		}
	}
}

// isAsyncio reports whether a value is the module asyncio.
func isAsyncio(n *node) bool { return n != nil && n.kind == importNode && n.text == "asyncio" }

// findElement returns the value of element i of a target with n elements.
func (r *resultReader) findElement(b bound, i, n int) bound {
	v := b.value
	switch {
	case v == nil:
	case b.item && calleeName(v) == "enumerate" && len(v.kids) >= 2 && n == 2 && i == 1:
		return bound{value: v.kids[1], scope: b.scope, item: true}
	case b.item && calleeName(v) == "zip" && len(v.kids) == n+1:
		return bound{value: v.kids[i+1], scope: b.scope, item: true}
	case !b.item && isGather(v) && i+1 < len(v.kids) && !hasSpread(v.kids[1:i+2]):
		return bound{value: v.kids[i+1], scope: b.scope, first: true}
	}
	return bound{}
}

// hasSpread reports whether one of several expressions stands for any number of values.
func hasSpread(list []*node) bool {
	return slices.ContainsFunc(list, func(k *node) bool { return k.kind == spreadNode })
}

// isGather reports whether an expression waits for several results, and raises their errors.
func isGather(n *node) bool {
	return n.awaited && calleeName(n) == "asyncio.gather" && !slices.Contains(n.keys, "return_exceptions")
}

// findGather returns the call that waits for the results that an expression is a list of, or nil.
func (r *resultReader) findGather(n *node, s *names) (*node, *names) {
	for range maxResultFollow {
		if n == nil || n.kind != nameNode {
			break
		}
		b := s.findName(n.text)
		if b == nil || b.count != 1 || b.item || r.loose[n.text] {
			return nil, nil
		}
		n, s = b.value, b.scope
	}
	if n == nil || n.kind != callNode || !isGather(n) {
		return nil, nil
	}
	return n, s
}

// findListItem returns what an item of a list of results certainly is: the one at an index, or any
// one if the index is negative.
func (r *resultReader) findListItem(list *node, s *names, at, depth int) (p part, ok bool) {
	n, s := r.findGather(list, s)
	if n == nil || !r.hasTime(len(n.kids)) {
		return p, false
	}
	args := n.kids[1:]
	if at >= 0 && at < len(args) && !hasSpread(args[:at+1]) {
		return r.findResult(args[at], s, true, depth+1)
	}
	paths := map[string]bool{}
	for _, a := range args {
		if a.kind == spreadNode {
			a = a.kids[0]
		}
		if b := s.findName(a.text); a.kind == nameNode && b != nil && b.count == 1 && b.value != nil && !b.item &&
			!r.loose[a.text] {
			a = b.value
		}
		switch a.kind {
		case comprehensionNode:
			paths[r.findTool(a.kids[0], r.inner[a])] = true
		case listNode:
			for _, k := range a.kids {
				paths[r.findTool(k, s)] = true
			}
		default:
			paths[r.findTool(a, s)] = true
		}
	}
	for path := range paths {
		return part{tool: path}, len(paths) == 1 && path != ""
	}
	return p, false
}

// bindLambda records that the parameter of a lambda is an item of an array:
// sorted(a, key=lambda x: ...).
func (r *resultReader) bindLambda(n *node, s *names) {
	args := n.kids[1:]
	var array, f *node
	switch name := calleeName(n); {
	case (name == "sorted" || name == "min" || name == "max") && len(args) >= 2:
		array, f = args[0], namedArgument(n, "key")
	case n.kids[0].kind == memberNode && n.kids[0].text == "sort":
		array, f = n.kids[0].kids[0], namedArgument(n, "key")
	}
	if f == nil || f.kind != funcNode || len(f.params) != 1 || f.params[0].kind != nameNode {
		return
	}
	in := r.newNames(f, s)
	in.known[f.params[0].text] = &bound{value: array, scope: s, item: true}
}
