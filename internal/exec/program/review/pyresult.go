package review

import (
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// Limits of following tools' results through a Python program.
const (
	maxResultReads  = 200
	maxResultSteps  = 16
	maxResultFollow = 40
	maxResultWork   = 200_000 // nodes that are looked at, repeatedly
)

// A ResultRead is a place where a Python program certainly reads a field of a tool's result, and
// neither tests nor sets it.
type ResultRead struct {
	At   int      // offset in the code
	Tool string   // namespace and member
	Path []string // from the result to the field; "" is an item of an array
}

// FindResultReads returns the reads of fields in results of tools. spaces are the names that are
// namespaces unless the program binds them. It returns nothing for a program that it can't parse.
func FindResultReads(code string, spaces map[string]bool) []ResultRead {
	if len(code) > MaxSize || !strings.Contains(code, "await") {
		return nil
	}
	tree, err := parsePython(code)
	if err != nil {
		return nil
	}
	r := &resultReader{spaces: spaces, loose: map[string]bool{}, inner: map[*node]*names{}, open: map[string]bool{},
		tested: map[string]bool{}}
	module := &names{known: map[string]*bound{}, module: true}
	r.bindNames(tree, module)
	if r.dynamic {
		return nil
	}
	r.readNode(tree, module)
	r.openUses(tree, module, readUse)
	if !r.hasTime(0) {
		return nil
	}
	return r.listReads()
}

// A resultReader follows the results of tools through a Python program. A variable is followed if
// it is bound once. Reading a missing field raises an error in Python, so what a program tests by
// reading is read all the same.
type resultReader struct {
	spaces  map[string]bool
	loose   map[string]bool  // names that are bound where this reader doesn't follow
	inner   map[*node]*names // of functions and comprehensions
	open    map[string]bool  // parts that may have other fields than the tool returned
	tested  map[string]bool  // fields that the program tests
	guarded bool             // errors may be caught here
	catches bool             // the program may catch errors of its functions
	dynamic bool             // the program may bind names in ways that this reader doesn't see
	work    int
	found   []ResultRead
}

// hasTime counts work on n nodes, and reports whether there is time for it.
func (r *resultReader) hasTime(n int) bool {
	r.work += n
	return r.work <= maxResultWork
}

// A part is a part of a tool's result.
type part struct {
	tool  string
	steps []string
}

func (p part) addStep(s string) part {
	return part{p.tool, append(p.steps[:len(p.steps):len(p.steps)], s)}
}

// encodeKey returns a key for the first steps of a part.
func (p part) encodeKey(steps int) string {
	return strings.Join(append([]string{p.tool}, p.steps[:steps]...), "\x00")
}

// namedArgument returns the argument of a call with a name, or nil.
func namedArgument(n *node, name string) *node {
	if i := slices.Index(n.keys, name); i >= 0 {
		return n.kids[i+1]
	}
	return nil
}

// calleeName returns the name of the function that a call calls, or of a module's function, or "".
func calleeName(n *node) string {
	if n.kind != callNode {
		return ""
	}
	switch f := n.kids[0]; {
	case f.kind == nameNode:
		return f.text
	case f.kind == memberNode && !f.index && f.kids[0].kind == nameNode:
		return f.kids[0].text + "." + f.text
	}
	return ""
}

// findTool returns the path of the tool that a call calls, or "".
func (r *resultReader) findTool(n *node, s *names) string {
	if n.kind != callNode || n.kids[0].kind != memberNode || n.kids[0].index {
		return ""
	}
	space := n.kids[0].kids[0]
	if space.kind == memberNode && !space.index && space.kids[0].kind == nameNode && space.kids[0].text == "tools" &&
		s.findName("tools") == nil && r.spaces[space.text] {
		return space.text + "." + n.kids[0].text
	}
	if space.kind != nameNode || s.findName(space.text) != nil || r.loose[space.text] || !r.spaces[space.text] {
		return ""
	}
	return space.text + "." + n.kids[0].text
}

// findResult returns the part of a tool's result that an expression certainly evaluates to. awaited
// reports whether the expression is awaited.
func (r *resultReader) findResult(n *node, s *names, awaited bool, depth int) (p part, ok bool) {
	if n == nil || depth > maxResultFollow || !r.hasTime(1) {
		return p, false
	}
	switch n.kind {
	case nameNode:
		return r.findBound(n.text, s, depth)
	case memberNode:
		if !n.index && dictMethods.Has(n.text) {
			return p, false
		}
		p, ok = r.findResult(n.kids[0], s, false, depth+1)
		return p.addStep(n.text), ok && n.text != "" && len(p.steps) < maxResultSteps
	case indexNode:
		return r.findItem(n, s, depth)
	case callNode:
		return r.findCall(n, s, awaited, depth)
	case comprehensionNode: // a copy of an array, or a part of it
		if n.body == nil && len(n.kids) == 3 && n.kids[0].kind == nameNode && n.kids[1].kind == nameNode &&
			n.kids[0].text == n.kids[1].text {
			return r.findResult(n.kids[2], r.inner[n], false, depth+1)
		}
	}
	return part{}, false
}

// findItem is like findResult, for an index.
func (r *resultReader) findItem(n *node, s *names, depth int) (p part, ok bool) {
	key := n.kids[1]
	at := -1
	switch {
	case key.kind == listNode && key.text == "slice":
		return r.findResult(n.kids[0], s, false, depth+1)
	case key.kind == numberNode:
		var err error
		if at, err = strconv.Atoi(key.text); err != nil {
			return p, false
		}
	case key.kind != plainNode || key.text != "-" || key.kids[0].kind != numberNode:
		return p, false
	}
	if p, ok = r.findListItem(n.kids[0], s, at, depth); ok {
		return p, true
	}
	p, ok = r.findResult(n.kids[0], s, false, depth+1)
	return p.addStep(""), ok && len(p.steps) < maxResultSteps
}

// findBound is like findResult, for a name.
func (r *resultReader) findBound(name string, s *names, depth int) (p part, ok bool) {
	b := s.findName(name)
	if b == nil || b.count != 1 || b.value == nil || b.used || r.loose[name] {
		return p, false
	}
	b.used = true
	defer func() { b.used = false }()
	if b.item {
		if p, ok = r.findListItem(b.value, b.scope, -1, depth); ok {
			return p, true
		}
	}
	if p, ok = r.findResult(b.value, b.scope, b.first, depth+1); ok && b.item {
		p = p.addStep("")
	}
	return p, ok
}

// findCall is like findResult, for a call.
func (r *resultReader) findCall(n *node, s *names, awaited bool, depth int) (p part, ok bool) {
	if path := r.findTool(n, s); path != "" {
		return part{tool: path}, n.awaited || awaited
	}
	switch name := calleeName(n); {
	case s.findName(name) != nil:
	case (name == "sorted" || name == "list" || name == "reversed" || name == "tuple") && len(n.kids) > 1:
		return r.findResult(n.kids[1], s, false, depth+1)
	case name == "filter" && len(n.kids) == 3:
		return r.findResult(n.kids[2], s, false, depth+1)
	case (name == "min" || name == "max") && len(n.kids) > 1 && (len(n.kids) == 2 || n.keys[1] == "key"):
		p, ok = r.findResult(n.kids[1], s, false, depth+1)
		return p.addStep(""), ok && len(p.steps) < maxResultSteps
	case n.kids[0].kind == memberNode && n.kids[0].text == "get" && len(n.kids) == 2 && n.kids[1].kind == textNode &&
		n.kids[1].text != "":
		p, ok = r.findResult(n.kids[0].kids[0], s, false, depth+1)
		return p.addStep(n.kids[1].text), ok && len(p.steps) < maxResultSteps
	}
	return p, false
}

// dictMethods are the attributes of an object that are not its fields.
var dictMethods = lazily.Words(`clear copy fromkeys get items keys pop popitem setdefault update values`)

// dynamicFunctions may bind any name.
var dynamicFunctions = lazily.Words(`exec eval globals locals`)

// pureFunctions don't change their arguments.
var pureFunctions = lazily.Words(`print len str repr sum min max sorted list reversed enumerate zip any all int float
	bool set tuple range round abs json.dumps`)

// passingFunctions return their arguments, or items of them.
var passingFunctions = lazily.Words(`enumerate zip set`)

// pureMethods neither change the value that they are called on nor return parts of it.
var pureMethods = lazily.Words(`get index count sort reverse join strip lower upper split startswith endswith replace
	format`)

// readNode records the reads of a node, and what else it does with results.
func (r *resultReader) readNode(n *node, s *names) {
	if n == nil {
		return
	}
	before := r.guarded
	switch n.kind {
	case memberNode:
		r.recordRead(n, s)
	case testNode:
		if n.text == "in" || n.text == "not in" {
			r.openParts(n.kids[1], s)
		}
		if c := n.kids[1]; c.kind == callNode { // "name" in list(result)
			for _, a := range c.kids[1:] {
				r.openParts(a, s)
			}
		}
	case callNode:
		r.passParts(n, s)
	case assignNode:
		r.assignParts(n, s)
		if r.readTarget(n.kids[0], s); n.kids[1] != nil {
			r.readNode(n.kids[1], s)
		}
		return
	case returnNode:
		if !s.module && len(n.kids) > 0 {
			r.openParts(n.kids[0], s)
		}
	case blockNode:
		r.guarded = before || n.text == guardedBlock
	case funcNode, comprehensionNode:
		s = r.inner[n]
	}
	for i, k := range n.kids {
		if n.kind == loopNode && i == 0 || n.kind == comprehensionNode && i%2 == 1 {
			continue // a target
		}
		r.readNode(k, s)
	}
	for _, k := range n.params {
		if n.kind == comprehensionNode {
			r.readNode(k, s)
		} else if k.kind == assignNode {
			r.readNode(k.kids[1], s)
		}
	}
	r.readNode(n.body, s)
	r.guarded = before
}

// readTarget records what the target of an assignment reads.
func (r *resultReader) readTarget(n *node, s *names) {
	switch n.kind {
	case memberNode, indexNode:
		for _, k := range n.kids {
			r.readNode(k, s)
		}
	case listNode, spreadNode:
		for _, k := range n.kids {
			r.readTarget(k, s)
		}
	}
}

func (r *resultReader) recordRead(n *node, s *names) {
	if !n.index && (dictMethods.Has(n.text) || strings.HasPrefix(n.text, "__") || isListMethod(n)) {
		return
	}
	p, ok := r.findResult(n, s, false, 0)
	switch {
	case !ok:
	case r.guarded || r.catches && !s.module:
		r.tested[p.encodeKey(len(p.steps))] = true
	case len(r.found) < maxResultReads:
		r.found = append(r.found, ResultRead{n.at, p.tool, p.steps})
	}
}

// openParts records that results in a value may get other fields, because the program passes it to
// something that may test or change them.
func (r *resultReader) openParts(n *node, s *names) {
	if n == nil || !r.hasTime(1) {
		return
	}
	if p, ok := r.findResult(n, s, false, 0); ok {
		steps := len(p.steps)
		r.open[p.encodeKey(steps)] = true
		if steps > 0 && p.steps[steps-1] == "" { // it may be a key of an object
			r.open[p.encodeKey(steps-1)] = true
		}
		return
	}
	if all, in := r.findGather(n, s); all != nil {
		r.openList(all, in)
		return
	}
	switch n.kind {
	case callNode:
		if passingFunctions.Has(calleeName(n)) {
			for _, a := range n.kids[1:] {
				r.openParts(a, s)
			}
		}
	case listNode, objectNode, spreadNode, choiceNode, andNode, assignNode:
		for _, k := range n.kids {
			r.openParts(k, s)
		}
	case comprehensionNode:
		r.openParts(n.kids[0], r.inner[n])
	}
}

// openList is like openParts, for all results that a call waits for.
func (r *resultReader) openList(all *node, s *names) {
	for i := range all.kids[1:] {
		if p, ok := r.findListItem(all, s, i, 0); ok {
			r.open[p.encodeKey(len(p.steps))] = true
		}
	}
}

// passParts records what a call may do to the results that it is passed.
func (r *resultReader) passParts(n *node, s *names) {
	if r.findTool(n, s) != "" {
		return
	}
	f, name := n.kids[0], calleeName(n)
	if f.kind == memberNode && !f.index {
		if f.text == "get" && len(n.kids) > 1 && n.kids[1].kind == textNode {
			if p, ok := r.findResult(f.kids[0], s, false, 0); ok {
				p = p.addStep(n.kids[1].text)
				r.tested[p.encodeKey(len(p.steps))] = true
			}
		} else if !pureMethods.Has(f.text) {
			r.openParts(f.kids[0], s)
		}
	}
	if pureFunctions.Has(name) && s.findName(name) == nil || name == "asyncio.gather" {
		return
	}
	for _, a := range n.kids[1:] {
		r.openParts(a, s)
	}
}

// assignParts records what an assignment does to results.
func (r *resultReader) assignParts(n *node, s *names) {
	r.setParts(n.kids[0], s)
	target, value := n.kids[0], n.kids[1]
	if r.isFollowed(target, s) {
		return // an alias
	}
	if target.kind != listNode || !isGather(value) {
		r.openParts(value, s)
		return
	}
	for i, k := range target.kids {
		if p, ok := r.findListItem(value, s, i, 0); ok && !r.isFollowed(k, s) {
			r.open[p.encodeKey(len(p.steps))] = true
		}
	}
}

// isFollowed reports whether a target is a name for a part of a result, or for a list of results.
func (r *resultReader) isFollowed(target *node, s *names) bool {
	if target.kind != nameNode {
		return false
	}
	if _, ok := r.findBound(target.text, s, 0); ok {
		return true
	}
	list, _ := r.findGather(target, s)
	return list != nil
}

// setParts records that a target in a result is set.
func (r *resultReader) setParts(target *node, s *names) {
	switch target.kind {
	case memberNode:
		if p, ok := r.findResult(target, s, false, 0); ok {
			key := p.encodeKey(len(p.steps))
			r.open[key], r.tested[key] = true, true
		}
	case indexNode:
		r.openParts(target.kids[0], s)
	case listNode, spreadNode:
		for _, k := range target.kids {
			r.setParts(k, s)
		}
	}
}

// listReads returns the reads of fields that are neither tested nor in values that may have others.
func (r *resultReader) listReads() (out []ResultRead) {
	for _, f := range r.found {
		p := part{f.Tool, f.Path}
		skip := r.tested[p.encodeKey(len(p.steps))]
		for n := 0; n < len(p.steps) && !skip; n++ {
			skip = r.open[p.encodeKey(n)]
		}
		if !skip {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b ResultRead) int { return a.At - b.At })
	return out
}
