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

// The guards are the tests that certainly succeeded before the node that is being evaluated.
type guards []guard

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
			case cleanMembers.Has(key) && !v.hasField(key):
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
	variable, path := f.scope.variableOf(target)
	if target.kind == indexNode {
		variable, path = f.scope.variableOf(target.kids[0])
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
	strong := !x.calls && (declare || f.branch <= x.depth && f.scope.ownsVariable(x, name))
	if !declare && f.loops > 0 && x.value != nil && !sameValue(x.value, v, 0) {
		f.changed = true
	}
	if x.value != nil && !strong {
		v = joinValues(x.value, v)
	}
	if x.value != v {
		x.value = v
		f.guards.forgetVariable(x)
	}
}

// ownsVariable reports whether a variable belongs to the function of the scope.
func (s *scope) ownsVariable(x *variable, name string) bool {
	for ; s != nil; s = s.parent {
		if s.vars[name] == x {
			return true
		}
		if s.function {
			return false
		}
	}
	return false
}

// forgetVariable forgets the tests of a variable that is assigned.
func (g guards) forgetVariable(x *variable) {
	for i := range g {
		if g[i].v == x {
			g[i].safe = 0
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

// pathOf returns the dotted name of a function or a namespace that the program doesn't define, or
// "".
func (s *scope) pathOf(n *node) string { return cleanPath(s.pathDeep(n, 0)) }

func (s *scope) pathDeep(n *node, depth int) string {
	if depth > 20 {
		return ""
	}
	switch n.kind {
	case nameNode:
		v := s.findVariable(n.text)
		if v == nil {
			return n.text
		}
		if v.alias != nil && v.alias != n && v.scope != nil {
			if v.alias.kind == nameNode && v.alias.text == n.text {
				return ""
			}
			return v.scope.pathDeep(v.alias, depth+1)
		}
	case importNode:
		return n.text
	case memberNode:
		if left := s.pathDeep(n.kids[0], depth+1); left != "" {
			if n.text == "default" {
				return left
			}
			return left + "." + n.text
		}
	case choiceNode: // "default" in m ? m.default : m
		if n.text == "?" {
			if left := s.pathDeep(n.kids[1], depth+1); left == s.pathDeep(n.kids[2], depth+1) {
				return left
			}
		}
	case callNode:
		if callee := n.kids[0]; callee.kind == nameNode && len(n.kids) > 1 {
			switch callee.text {
			case "require", "__import":
				if n.kids[1].kind == textNode {
					return n.kids[1].text
				}
			case "promisify":
				return s.pathDeep(n.kids[1], depth+1)
			}
		} else if callee.kind == memberNode && callee.text == "promisify" && len(n.kids) > 1 {
			return s.pathDeep(n.kids[1], depth+1)
		}
	}
	return ""
}

// cleanPath removes what only says where a name comes from.
func cleanPath(path string) string {
	for _, p := range [...]string{"./", "../", "/", "node:", "tools/", "servers/", "tools.", "servers.", "globalThis.",
		"builtins."} {
		path = strings.TrimPrefix(path, p)
	}
	if strings.Contains(path, "/") {
		path = strings.ReplaceAll(path, "/", ".")
		path = strings.ReplaceAll(strings.ReplaceAll(path, ".ts.", "."), ".js.", ".")
	}
	if strings.HasPrefix(path, "fs.promises.") {
		path = "fs." + path[len("fs.promises."):]
	}
	return strings.TrimPrefix(path, "tools.")
}

// isImported reports whether the first name of a function is declared by the program.
func (s *scope) isImported(n *node) bool {
	for n.kind == memberNode {
		n = n.kids[0]
	}
	return n.kind != nameNode || s.findVariable(n.text) != nil
}

// patternOf returns the text of a regular expression.
func (s *scope) patternOf(n *node) string {
	switch n.kind {
	case regexNode, textNode:
		return n.text
	case nameNode:
		if v := s.findVariable(n.text); v != nil && v.value != nil {
			return v.value.text
		}
	case callNode:
		if len(n.kids) > 1 && s.pathOf(n.kids[0]) == "re.compile" {
			return s.patternOf(n.kids[1])
		}
	}
	return ""
}

// aliasTools notes that a parameter is the object of all tools. Other members of it are arguments.
func (s *scope) aliasTools(p, tools *node, depth int) {
	alias := func(name string, n *node) {
		x := s.vars[name]
		if x == nil {
			x = s.addVariable(name, depth)
			x.calls = true
		}
		x.alias, x.scope = n, s
	}
	switch p.kind {
	case nameNode:
		alias(p.text, tools)
	case objectNode:
		for i, k := range p.kids {
			if k.kind == nameNode {
				alias(k.text, newNodeAt(memberNode, k.at, p.keys[i], tools))
			}
		}
	}
}

// variableOf returns the variable of a node like a.b.c, and the path of its members.
func (s *scope) variableOf(n *node) (v *variable, path string) {
	for n.kind == memberNode {
		path = "." + n.text + path
		n = n.kids[0]
	}
	if n.kind != nameNode {
		return nil, ""
	}
	return s.findVariable(n.text), path
}
