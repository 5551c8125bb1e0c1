package typegen

// smallType is the maximum length of a type that is written inline at each use instead of being
// declared.
const smallType = 40

// maxNesting bounds the nesting of types that are inlined because they are used once.
const maxNesting = 12

// settle decides which named parts of a schema are declared and which are inlined. It also removes
// references that TypeScript rejects.
func settle(self *named, defs []*named) *document {
	all := append([]*named{self}, defs...)
	cutCycles(all)
	order := markRecursive(self)
	heights := map[*named]int{}
	inlined := func(t typ) typ {
		if r, ok := t.(*refType); ok && r.to.inline {
			return r.to.body
		}
		return t
	}
	for _, n := range order { // each type comes after the types that it refers to
		n.body = rewrite(n.body, inlined)
		heights[n] = height(n.body, heights)
		if n == self || n.recursive {
			continue
		}
		_, small := inlineText(n.body, smallType)
		n.inline = small || n.uses == 1 && heights[n] <= maxNesting
	}
	d := &document{root: self.body}
	if self.uses > 0 {
		d.self = self
		d.root = &refType{self}
	}
	d.collect(d.root, map[*named]bool{})
	return d
}

// collect adds the types that t refers to, in reading order.
func (d *document) collect(t typ, seen map[*named]bool) {
	if r, ok := t.(*refType); ok && !seen[r.to] {
		seen[r.to] = true
		d.defs = append(d.defs, r.to)
		d.collect(r.to.body, seen)
		return
	}
	children(t, func(t typ, _ bool) { d.collect(t, seen) })
}

// cutCycles removes references through which a type would directly mean itself. TypeScript rejects
// them, and they are redundant: "A is A or a string" is a string, "A is A and an object" is an
// object.
func cutCycles(all []*named) {
	const open, done = 1, 2
	state := map[*named]int{}
	var visit func(n *named)
	var walk func(t, instead typ) typ
	walk = func(t, instead typ) typ {
		switch v := t.(type) {
		case *refType:
			if state[v.to] == open {
				return instead
			}
			visit(v.to)
		case *unionType:
			return union(mapTypes(v.arms, func(t typ) typ { return walk(t, tNever) })...)
		case *interType:
			return intersect(mapTypes(v.arms, func(t typ) typ { return walk(t, tUnknown) })...)
		}
		return t
	}
	visit = func(n *named) {
		if state[n] != 0 {
			return
		}
		state[n] = open
		n.body = walk(n.body, unknownBecause("refers to itself"))
		state[n] = done
	}
	for _, n := range all {
		visit(n)
	}
}

func mapTypes(ts []typ, f func(typ) typ) []typ {
	out := make([]typ, len(ts))
	for i, t := range ts {
		out[i] = f(t)
	}
	return out
}

// markRecursive marks at least one name of every cycle. It returns all names reachable from self,
// ending with self. Except for cycles, each name comes after the names that it refers to.
func markRecursive(self *named) []*named {
	var order []*named
	const open, done = 1, 2
	state := map[*named]int{}
	var visit func(n *named)
	var walk func(t typ, _ bool)
	walk = func(t typ, _ bool) {
		if r, ok := t.(*refType); ok {
			if state[r.to] == open {
				r.to.recursive = true
			}
			visit(r.to)
			return
		}
		children(t, walk)
	}
	visit = func(n *named) {
		if state[n] != 0 {
			return
		}
		state[n] = open
		walk(n.body, true)
		state[n] = done
		order = append(order, n)
	}
	visit(self)
	return order
}

// height returns the nesting depth of t.
func height(t typ, of map[*named]int) int {
	h := 0
	children(t, func(t typ, _ bool) { h = max(h, height(t, of)+1) })
	return h
}
