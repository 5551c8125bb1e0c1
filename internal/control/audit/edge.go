package audit

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// An edge is the right edge of a tree that is recomputed beside the stored one. At level i it has
// the root of the complete subtree of 2^i leaves, if the size has bit i.
//
// If a leaf's bytes don't have the stored hash, both hashes are tracked. The hash of a larger
// subtree, or a checkpoint, then shows which of them was changed. So one change is reported as one
// fault, and not as one in each subtree above it.
type edge struct {
	size  int64
	nodes [63]node
	fault func(Fault)
}

// A node is the root of a complete subtree.
type node struct {
	hash    tlog.Hash // the stored hash; unless in doubt, also the computed one
	alt     tlog.Hash // the computed hash, if doubted
	doubted bool
	unknown bool   // leaves below it are missing
	lo, hi  int64  // range of leaves below it
	id      string // record of a single leaf
}

// skip advances to size to over missing leaves.
func (e *edge) skip(from, to int64) {
	for i := range e.nodes {
		if to>>i&1 == 0 {
			continue
		}
		lo := to >> (i + 1) << (i + 1)
		if hi := lo + 1<<i; hi > from {
			e.nodes[i] = node{unknown: true, lo: lo, hi: hi - 1}
		}
	}
	e.size = to
}

// add adds a leaf; n is its node without hashes. placed means that the leaf is at its own index, as
// far as known. add reports whether the leaf's bytes are those that were hashed.
func (e *edge) add(l Leaf, n *node, placed bool) (same bool) {
	own := tlog.RecordHash(l.Data)
	levels := bits.TrailingZeros64(^uint64(l.Seq))
	stored, trust := l.Hashes, true
	n.hash, same = own, true
	switch {
	case len(stored) > 0 && stored[0] != own:
		n.hash, n.alt, n.doubted, same = stored[0], own, true, false
	case !placed: // the whole row belongs to another leaf
		n.unknown, trust = true, false
	}
	if trust && len(stored) != levels+1 {
		e.fault(Fault{What: FaultHash, Seq: l.Seq, Last: l.Seq, Record: n.id, Msg: fmt.Sprintf("%s has %d stored hashes, not %d: they were changed", named(l.Seq, n.id), len(stored), levels+1)})
		trust = false
	}
	cur := *n
	for i := range levels {
		var want *tlog.Hash
		if trust {
			want = &stored[i+1]
		}
		cur = e.merge(&e.nodes[i], &cur, want)
	}
	e.nodes[levels] = cur
	e.size = l.Seq + 1
	return same
}

// merge returns the parent of two nodes. want is its stored hash, or nil.
func (e *edge) merge(left, right *node, want *tlog.Hash) node {
	up := node{lo: left.lo, hi: right.hi}
	if left.unknown || right.unknown {
		e.blame(left, right)
		up.unknown = want == nil
		if want != nil {
			up.hash = *want
		}
		return up
	}
	if want == nil {
		e.blame(left, right)
		up.hash = tlog.NodeHash(left.hash, right.hash)
		return up
	}
	up.hash = *want
	for _, l := range left.choices() {
		for _, r := range right.choices() {
			if tlog.NodeHash(l, r) == *want {
				e.resolve(left, l)
				e.resolve(right, r)
				return up
			}
		}
	}
	e.blame(left, right)
	up.doubted, up.alt = true, tlog.NodeHash(left.hash, right.hash)
	return up
}

// choices returns the possible hashes of a node.
func (n *node) choices() []tlog.Hash {
	if n.doubted {
		return []tlog.Hash{n.hash, n.alt}
	}
	return []tlog.Hash{n.hash}
}

// resolve reports what was changed, once it is known which hash is right.
func (e *edge) resolve(n *node, right tlog.Hash) {
	if !n.doubted {
		return
	}
	if right == n.hash {
		e.changed(n)
	} else {
		msg := fmt.Sprintf("the stored hash of %s was changed, the leaf was not", named(n.lo, n.id))
		if n.lo != n.hi {
			msg = fmt.Sprintf("the stored hash of the leaves %d to %d was changed, the leaves were not", n.lo, n.hi)
		}
		e.fault(Fault{What: FaultHash, Seq: n.lo, Last: n.hi, Record: n.id, Msg: msg})
	}
	n.doubted, n.hash = false, right
}

func (e *edge) changed(n *node) {
	msg := fmt.Sprintf("%s was changed: its bytes are not those that were recorded", named(n.lo, n.id))
	if n.lo != n.hi {
		msg = fmt.Sprintf("of the leaves %d to %d one or more were changed, with their own hashes", n.lo, n.hi)
	}
	e.fault(Fault{What: FaultChanged, Seq: n.lo, Last: n.hi, Record: n.id, Msg: msg})
}

// blame resolves nodes in favor of their stored hashes, since nothing contradicts them.
func (e *edge) blame(nodes ...*node) {
	for _, n := range nodes {
		if n.doubted {
			e.resolve(n, n.hash)
		}
	}
}

// current returns the nodes of the edge, lowest first.
func (e *edge) current() (out []*node) {
	for i := range e.nodes {
		if e.size>>i&1 == 1 {
			out = append(out, &e.nodes[i])
		}
	}
	return out
}

// doubts reports whether any node is in doubt or has missing leaves.
func (e *edge) doubts() bool {
	for _, n := range e.current() {
		if n.doubted || n.unknown {
			return true
		}
	}
	return false
}

// is compares the tree's root with a signed one, and resolves all doubts if they match. The result
// isn't sure if leaves are missing.
func (e *edge) is(root tlog.Hash) (ok, sure bool) {
	nodes := e.current()
	var in []*node
	for _, n := range nodes {
		if n.unknown {
			return false, false
		}
		if n.doubted && len(in) < 10 {
			in = append(in, n)
		}
	}
	for pick := range 1 << len(in) {
		chosen := map[*node]bool{}
		for i, n := range in {
			chosen[n] = pick>>i&1 == 1
		}
		if rootOf(nodes, chosen) != root {
			continue
		}
		for _, n := range in {
			if chosen[n] {
				e.resolve(n, n.alt)
			} else {
				e.resolve(n, n.hash)
			}
		}
		return true, true
	}
	return false, true
}

// rootOf returns the root of a tree with this edge, with the alternative hashes of the chosen
// nodes.
func rootOf(nodes []*node, chosen map[*node]bool) (h tlog.Hash) {
	if len(nodes) == 0 {
		h, _ = tlog.TreeHash(0, nil)
	}
	for i, n := range nodes {
		own := n.hash
		if chosen[n] {
			own = n.alt
		}
		if i == 0 {
			h = own
		} else {
			h = tlog.NodeHash(own, h)
		}
	}
	return h
}

// root returns the tree's root, or false if leaves are missing.
func (e *edge) root() (tlog.Hash, bool) {
	nodes := e.current()
	for _, n := range nodes {
		if n.unknown {
			return tlog.Hash{}, false
		}
	}
	return rootOf(nodes, nil), true
}

// settle resolves all remaining doubts after the last leaf.
func (e *edge) settle() { e.blame(e.current()...) }
