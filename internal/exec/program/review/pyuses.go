package review

import (
	"slices"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A use is the purpose of an expression's value.
type use uint8

const (
	anyUse   use = iota // it may be tested or changed
	readUse             // its fields are read, or its truth
	printUse            // it is printed
)

// Functions by what they do with a result.
var (
	measuringFunctions = lazily.Words(`len sum any all int float bool round abs range`)
	writingFunctions   = lazily.Words(`str repr json.dumps`)
	listMethods        = lazily.Words(`append copy count extend index insert pop remove reverse sort`)
	copyingFunctions   = lazily.Words(`sorted list reversed tuple min max`)
)

// openUses opens the parts of results in n unless their use is known to be harmless.
func (r *resultReader) openUses(n *node, s *names, u use) {
	if n == nil {
		return
	}
	if u == anyUse {
		r.openParts(n, s)
	}
	switch n.kind {
	case memberNode:
		r.openUses(n.kids[0], s, r.useOfBase(n, s))
	case indexNode:
		r.openUses(n.kids[0], s, r.useOfBase(n, s))
		r.openUses(n.kids[1], s, anyUse)
	case callNode:
		r.openCallee(n, s)
		r.openArguments(n, s, u)
	case assignNode:
		r.openAssignment(n, s)
	case loopNode:
		r.openSource(n.kids[0], n.kids[1], s)
		r.openAll(n.kids[2:], s, anyUse)
	case comprehensionNode:
		r.openComprehension(n, s)
	case funcNode:
		for _, p := range n.params {
			if p.kind == assignNode {
				r.openUses(p.kids[1], s, anyUse)
			}
		}
		r.openUses(n.body, r.inner[n], anyUse)
	case blockNode:
		for _, k := range n.kids {
			if s.module || k.kind == assignNode {
				r.openUses(k, s, readUse)
			} else { // perhaps it is yielded
				r.openUses(k, s, anyUse)
			}
		}
	case ifNode:
		r.openUses(n.kids[0], s, readUse)
		r.openAll(n.kids[1:], s, anyUse)
	case notNode:
		r.openAll(n.kids, s, readUse)
	case andNode, joinNode, choiceNode:
		if n.kind != andNode && u == readUse {
			u = anyUse
		}
		r.openAll(n.kids, s, u)
	case returnNode:
		if s.module {
			u = readUse
		}
		r.openAll(n.kids, s, u)
	default:
		r.openAll(n.kids, s, anyUse)
		r.openUses(n.body, s, anyUse)
	}
}

func (r *resultReader) openAll(list []*node, s *names, u use) {
	for _, k := range list {
		r.openUses(k, s, u)
	}
}

// useOfBase returns the use of what a field or an item is read from.
func (r *resultReader) useOfBase(n *node, s *names) use {
	if _, ok := r.findResult(n, s, false, 0); ok {
		return readUse
	}
	if list, _ := r.findGather(n.kids[0], s); list != nil && n.kind == indexNode {
		return readUse
	}
	return anyUse
}

// openCallee is like openUses, for the function that a call calls.
func (r *resultReader) openCallee(n *node, s *names) {
	f := n.kids[0]
	if f.kind != memberNode || f.index {
		r.openUses(f, s, readUse)
		return
	}
	u := anyUse
	key := namedArgument(n, "key")
	if pureMethods.Has(f.text) && (key == nil || key.kind == funcNode) && !isListMethod(f) {
		u = readUse
		// A method of an item may test a key: for k in result: k.startswith("a").
		if p, ok := r.findResult(f.kids[0], s, false, 0); ok && f.text != "get" && len(p.steps) > 0 &&
			p.steps[len(p.steps)-1] == "" {
			u = anyUse
		}
	}
	r.openUses(f.kids[0], s, u)
}

// isListMethod reports whether a field is a method of a list that a function returned, perhaps of
// the keys of an object.
func isListMethod(n *node) bool { return n.kids[0].kind == callNode && listMethods.Has(n.text) }

// openArguments is like openUses, for the arguments of a call.
func (r *resultReader) openArguments(n *node, s *names, u use) {
	args, name := n.kids[1:], calleeName(n)
	if s.findName(name) != nil {
		name = ""
	}
	switch {
	case name == "print", u == printUse && writingFunctions.Has(name):
		r.openAll(args, s, printUse)
	case measuringFunctions.Has(name), r.findTool(n, s) != "":
		r.openAll(args, s, readUse)
	case copyingFunctions.Has(name) && len(args) > 0:
		key := namedArgument(n, "key")
		first := readUse
		if _, ok := r.findResult(n, s, false, 0); !ok || key != nil && key.kind != funcNode {
			first = anyUse
		}
		r.openUses(args[0], s, first)
		r.openAll(args[1:], s, anyUse)
	default:
		r.openAll(args, s, anyUse)
	}
}

// openAssignment is like openUses, for an assignment.
func (r *resultReader) openAssignment(n *node, s *names) {
	target, value := n.kids[0], n.kids[1]
	u := anyUse
	if n.text == "=" && (r.isFollowed(target, s) || target.kind == listNode && value != nil && isGather(value)) {
		u = readUse
	}
	r.openUses(value, s, u)
	if target.kind == memberNode || target.kind == indexNode {
		r.openAll(target.kids[:1], s, r.useOfBase(target, s))
	}
}

// openSource is like openUses, for what a loop goes through.
func (r *resultReader) openSource(target, source *node, s *names) {
	if target == nil { // while
		r.openUses(source, s, readUse)
		return
	}
	r.setParts(target, s)
	name := calleeName(source)
	pairs := (name == "enumerate" || name == "zip") && target.kind == listNode
	switch {
	case pairs:
		for i, a := range source.kids[1:] {
			if name == "enumerate" {
				i++
			}
			u := anyUse
			if i < len(target.kids) && r.isFollowed(target.kids[i], s) {
				u = readUse
			}
			r.openUses(a, s, u)
		}
	case r.isFollowed(target, s):
		r.openUses(source, s, readUse)
	default:
		r.openUses(source, s, anyUse)
	}
}

// openComprehension is like openUses, for a comprehension.
func (r *resultReader) openComprehension(n *node, s *names) {
	in := r.inner[n]
	u := anyUse
	if _, ok := r.findResult(n, s, false, 0); ok {
		u = readUse
	}
	r.openUses(n.kids[0], in, u)
	for pair := range slices.Chunk(n.kids[1:], 2) {
		if len(pair) == 2 {
			r.openSource(pair[0], pair[1], in)
		}
	}
	r.openAll(n.params, in, readUse)
	r.openUses(n.body, in, anyUse)
}
