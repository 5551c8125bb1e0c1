package vfs

import "time"

// A node is a directory or a file.
type node struct {
	dir      bool
	entries  *order // entries of a directory; nil if it is empty
	file     *file
	size     int64 // size of a file, in bytes
	modified time.Time
}

// A totals holds totals over a node, or over everything below it.
type totals struct {
	count int   // files and directories
	bytes int64 // of the files
	depth int   // levels
	long  int   // length of the longest path, in bytes
}

// add combines the totals of siblings.
func (s totals) add(t totals) totals {
	return totals{s.count + t.count, s.bytes + t.bytes, max(s.depth, t.depth), max(s.long, t.long)}
}

// totalsBelow returns the totals of everything below n; zero for a file.
func (n node) totalsBelow() totals {
	if n.entries == nil {
		return totals{}
	}
	return n.entries.all
}

// totalsFor returns the totals of n under its name.
func (n node) totalsFor(name string) totals {
	s := n.totalsBelow()
	s.count++
	s.bytes += n.size
	s.depth++
	if s.long > 0 {
		s.long++ // the slash
	}
	s.long += len(name)
	return s
}

// An order is the entries of a directory by name: an immutable balanced (AVL) tree, so that it can
// be shared. nil is the empty one.
type order struct {
	name        string
	node        node
	left, right *order
	height      int
	all         totals
}

func (o *order) tall() int {
	if o == nil {
		return 0
	}
	return o.height
}

// branch returns a tree of an entry and the subtrees l and r, of any heights.
func branch(name string, n node, l, r *order) *order {
	all := n.totalsFor(name)
	if l != nil {
		all = all.add(l.all)
	}
	if r != nil {
		all = all.add(r.all)
	}
	return &order{name, n, l, r, 1 + max(l.tall(), r.tall()), all}
}

// rebalance is like branch, and rebalances l and r, whose heights differ by at most two.
func rebalance(name string, n node, l, r *order) *order {
	switch {
	case l.tall() > r.tall()+1:
		if l.left.tall() >= l.right.tall() {
			return branch(l.name, l.node, l.left, branch(name, n, l.right, r))
		}
		m := l.right
		return branch(m.name, m.node, branch(l.name, l.node, l.left, m.left), branch(name, n, m.right, r))
	case r.tall() > l.tall()+1:
		if r.right.tall() >= r.left.tall() {
			return branch(r.name, r.node, branch(name, n, l, r.left), r.right)
		}
		m := r.left
		return branch(m.name, m.node, branch(name, n, l, m.left), branch(r.name, r.node, m.right, r.right))
	}
	return branch(name, n, l, r)
}

func (o *order) get(name string) (node, bool) {
	for o != nil {
		switch {
		case name < o.name:
			o = o.left
		case name > o.name:
			o = o.right
		default:
			return o.node, true
		}
	}
	return node{}, false
}

// with returns o with n stored under name.
func (o *order) with(name string, n node) *order {
	switch {
	case o == nil:
		return branch(name, n, nil, nil)
	case name < o.name:
		return rebalance(o.name, o.node, o.left.with(name, n), o.right)
	case name > o.name:
		return rebalance(o.name, o.node, o.left, o.right.with(name, n))
	}
	return branch(name, n, o.left, o.right)
}

// without returns o without name, which it contains.
func (o *order) without(name string) *order {
	switch {
	case o == nil:
		return nil
	case name < o.name:
		return rebalance(o.name, o.node, o.left.without(name), o.right)
	case name > o.name:
		return rebalance(o.name, o.node, o.left, o.right.without(name))
	case o.right == nil:
		return o.left
	}
	next := o.right
	for next.left != nil {
		next = next.left
	}
	return rebalance(next.name, next.node, o.left, o.right.without(next.name))
}

// split returns the entries before name, the node of name if found, and the entries after it.
func (o *order) split(name string) (before *order, at node, found bool, after *order) {
	switch {
	case o == nil:
		return nil, node{}, false, nil
	case name < o.name:
		l, at, found, r := o.left.split(name)
		return l, at, found, branch(o.name, o.node, r, o.right)
	case name > o.name:
		l, at, found, r := o.right.split(name)
		return branch(o.name, o.node, o.left, l), at, found, r
	}
	return o.left, o.node, true, o.right
}

// each calls f for the entries in order until it returns false, and reports whether it never did.
func (o *order) each(f func(name string, n node) bool) bool {
	return o == nil || o.left.each(f) && f(o.name, o.node) && o.right.each(f)
}

// find returns the node at a path below n.
func (n node) find(names []string) (node, bool) {
	for _, name := range names {
		var ok bool
		if n, ok = n.entries.get(name); !ok { // a file has no entries
			return node{}, false
		}
	}
	return n, true
}

// with returns n with m stored at a path below it, and creates missing directories. A directory
// that gains an entry is marked as modified.
func (n node) with(names []string, m node, now time.Time) node {
	if len(names) == 0 {
		return m
	}
	child, found := n.entries.get(names[0])
	if !found {
		n.modified = now
		child = node{dir: true, modified: now}
	}
	n.entries = n.entries.with(names[0], child.with(names[1:], m, now))
	return n
}

// without returns n without the node at a path below it, which must exist.
func (n node) without(names []string, now time.Time) node {
	if len(names) == 1 {
		n.entries, n.modified = n.entries.without(names[0]), now
		return n
	}
	child, _ := n.entries.get(names[0])
	n.entries = n.entries.with(names[0], child.without(names[1:], now))
	return n
}
