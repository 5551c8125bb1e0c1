package review

import "strings"

// A scope has the variables of a function or a block.
type scope struct {
	parent   *scope
	function bool // of a function, or of the whole program
	vars     map[string]*variable
	outer    []string // names of outer scopes that are assigned here
}

// A variable is a name and the values that it may have.
type variable struct {
	value *value
	depth int   // nesting in branches where it was declared
	alias *node // what it certainly is: a member, a module
	scope *scope
	calls bool // a parameter whose values come from calls
}

func (s *scope) findVariable(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// addVariable adds a name to a scope.
func (s *scope) addVariable(name string, depth int) *variable {
	if s.vars == nil {
		s.vars = map[string]*variable{}
	}
	x := &variable{depth: depth}
	s.vars[name] = x
	return x
}

// A guard is a test that makes a variable harmless.
type guard struct {
	v    *variable
	path string // members of the variable
	safe ruleSet
}

// bindTarget assigns v to a target. If declare is set, its names are declared in the current scope.
func (f *flow) bindTarget(target *node, v *value, declare bool) {
	switch target.kind {
	case nameNode:
		f.assignName(target.text, v, declare)
	case assignNode: // a default
		f.bindTarget(target.kids[0], joinValues(v, f.evaluateNode(target.kids[1])), declare)
	case spreadNode:
		f.bindTarget(target.kids[0], listOf(v), declare)
	case listNode:
		for i, k := range target.kids {
			switch {
			case k.kind == spreadNode:
				f.bindTarget(k.kids[0], listOf(v.joinElements()), declare)
			case i < len(v.items):
				f.bindTarget(k, v.items[i], declare)
			default:
				f.bindTarget(k, v.joinElements(), declare)
			}
		}
	case objectNode:
		for i, k := range target.kids {
			key := target.keys[i]
			switch {
			case key == "...":
				f.bindTarget(k, v, declare)
			case cleanMembers()[key] && !v.hasField(key):
				f.bindTarget(k, clean, declare)
			default:
				f.bindTarget(k, v.memberValue(key), declare)
			}
		}
	case memberNode, indexNode:
		f.bindMember(target, v)
	}
}

// bindMember assigns v to a member of a variable.
func (f *flow) bindMember(target *node, v *value) {
	variable, path := f.variableOf(target)
	if target.kind == indexNode {
		variable, path = f.variableOf(target.kids[0])
		path += "."
	}
	if variable == nil || variable.value == nil {
		return
	}
	f.changed = true
	out := *variable.value
	if out.taint == 0 {
		out.safe, out.at = v.safe, v.at
	}
	out.taint |= v.taint
	if name := strings.TrimPrefix(path, "."); name != "" && !strings.Contains(name, ".") {
		out.names, out.fields = withField(out.names, out.fields, name, v, 0)
	} else {
		out.open = out.open || v.taint != 0
	}
	variable.value = &out
}

// assignName assigns v to a name.
func (f *flow) assignName(name string, v *value, declare bool) {
	to := f.scope
	if f.python {
		for !to.function {
			to = to.parent
		}
	}
	var x *variable
	switch {
	case declare || f.python && !containsName(to.outer, name):
		if x = to.vars[name]; x == nil {
			x = to.addVariable(name, f.branch)
		}
	default:
		x = f.scope.findVariable(name)
		if x == nil {
			x = to.addVariable(name, f.branch)
		}
	}
	strong := !x.calls && (declare || f.branch <= x.depth && f.ownedBy(x, name))
	if !declare && f.loops > 0 && x.value != nil && !sameValue(x.value, v, 0) {
		f.changed = true
	}
	if x.value != nil && !strong {
		v = joinValues(x.value, v)
	}
	if x.value != v {
		x.value = v
		f.dropGuards(x)
	}
}

// ownedBy reports whether a variable belongs to the function that is being evaluated.
func (f *flow) ownedBy(x *variable, name string) bool {
	for s := f.scope; s != nil; s = s.parent {
		if s.vars[name] == x {
			return true
		}
		if s.function {
			return false
		}
	}
	return false
}

// dropGuards forgets the tests of a variable that is assigned.
func (f *flow) dropGuards(x *variable) {
	for i := range f.guards {
		if f.guards[i].v == x {
			f.guards[i].safe = 0
		}
	}
}

func containsName(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
