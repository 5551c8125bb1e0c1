package audit

import (
	"crypto/sha256"
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
	size    int64
	nodes   [63]node
	owner   *verifier // reports the faults
	hashing []byte    // buffer of hashLeaf
}

// hashLeaf returns tlog.RecordHash of a leaf, without allocating.
func (e *edge) hashLeaf(leaf []byte) tlog.Hash {
	e.hashing = append(append(e.hashing[:0], 0), leaf...)
	return sha256.Sum256(e.hashing)
}

// hashNode returns tlog.NodeHash of two nodes, without allocating.
func hashNode(left, right tlog.Hash) tlog.Hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+tlog.HashSize:], right[:])
	return sha256.Sum256(b[:])
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

// skipTo advances to size to over missing leaves.
func (e *edge) skipTo(from, to int64) {
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

// addLeaf adds a leaf; n is its node without hashes. placed is false if the leaf names another
// index. addLeaf reports whether the leaf's bytes match the stored hash.
func (e *edge) addLeaf(l Leaf, n *node, placed bool) (same bool) {
	own := e.hashLeaf(l.Data)
	if l.Absent != "" && len(l.Hashes) > 0 { // the tree shows whether the stored hash was changed
		own = l.Hashes[0]
	}
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
		e.owner.reportFault(Fault{What: faultHash, Seq: l.Seq, Last: l.Seq, Record: n.id,
			Msg: fmt.Sprintf("%s has %d stored hashes, not %d: they were changed", describeLeaf(l.Seq, n.id),
				len(stored), levels+1)})
		trust = false
	}
	cur := *n
	for i := range levels {
		var want *tlog.Hash
		if trust {
			want = &stored[i+1]
		}
		cur = e.mergeNodes(&e.nodes[i], &cur, want)
	}
	e.nodes[levels] = cur
	e.size = l.Seq + 1
	return same
}

// mergeNodes returns the parent of two nodes. want is its stored hash, or nil.
func (e *edge) mergeNodes(left, right *node, want *tlog.Hash) node {
	up := node{lo: left.lo, hi: right.hi}
	if left.unknown || right.unknown {
		e.trustStored(left, right)
		up.unknown = want == nil
		if want != nil {
			up.hash = *want
		}
		return up
	}
	if want == nil {
		e.trustStored(left, right)
		up.hash = tlog.NodeHash(left.hash, right.hash)
		return up
	}
	up.hash = *want
	if !left.doubted && !right.doubted && hashNode(left.hash, right.hash) == *want {
		return up
	}
	for _, l := range left.possibleHashes() {
		for _, r := range right.possibleHashes() {
			if hashNode(l, r) == *want {
				e.resolveNode(left, l)
				e.resolveNode(right, r)
				return up
			}
		}
	}
	e.trustStored(left, right)
	up.doubted, up.alt = true, tlog.NodeHash(left.hash, right.hash)
	return up
}

// possibleHashes returns the possible hashes of a node.
func (n *node) possibleHashes() []tlog.Hash {
	if n.doubted {
		return []tlog.Hash{n.hash, n.alt}
	}
	return []tlog.Hash{n.hash}
}

// resolveNode reports what was changed, once it is known which hash is right.
func (e *edge) resolveNode(n *node, right tlog.Hash) {
	if !n.doubted {
		return
	}
	if right == n.hash {
		e.reportChanged(n)
	} else {
		msg := fmt.Sprintf("the stored hash of %s was changed, the leaf was not", describeLeaf(n.lo, n.id))
		if n.lo != n.hi {
			msg = fmt.Sprintf("the stored hash of the leaves %d to %d was changed, the leaves were not", n.lo, n.hi)
		}
		e.owner.reportFault(Fault{What: faultHash, Seq: n.lo, Last: n.hi, Record: n.id, Msg: msg})
	}
	n.doubted, n.hash = false, right
}

func (e *edge) reportChanged(n *node) {
	msg := fmt.Sprintf("%s was changed: its bytes differ from the recorded ones", describeLeaf(n.lo, n.id))
	if n.lo != n.hi {
		msg = fmt.Sprintf("one or more of the leaves %d to %d were changed, together with their hashes", n.lo, n.hi)
	}
	e.owner.reportFault(Fault{What: faultChanged, Seq: n.lo, Last: n.hi, Record: n.id, Msg: msg})
}

// trustStored resolves nodes in favor of their stored hashes, since nothing contradicts them.
func (e *edge) trustStored(nodes ...*node) {
	for _, n := range nodes {
		if n.doubted {
			e.resolveNode(n, n.hash)
		}
	}
}

// currentNodes returns the nodes of the edge, lowest first.
func (e *edge) currentNodes() (out []*node) {
	for i := range e.nodes {
		if e.size>>i&1 == 1 {
			out = append(out, &e.nodes[i])
		}
	}
	return out
}

// hasDoubts reports whether any node is in doubt or has missing leaves.
func (e *edge) hasDoubts() bool {
	for _, n := range e.currentNodes() {
		if n.doubted || n.unknown {
			return true
		}
	}
	return false
}

// matchesRoot compares the tree's root with a signed one, and resolves all doubts if they match.
// The result isn't sure if leaves are missing.
func (e *edge) matchesRoot(root tlog.Hash) (ok, sure bool) {
	nodes := e.currentNodes()
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
				e.resolveNode(n, n.alt)
			} else {
				e.resolveNode(n, n.hash)
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

// computeRoot returns the tree's root, or false if leaves are missing.
func (e *edge) computeRoot() (tlog.Hash, bool) {
	nodes := e.currentNodes()
	for _, n := range nodes {
		if n.unknown {
			return tlog.Hash{}, false
		}
	}
	return rootOf(nodes, nil), true
}

// resolveAll resolves all remaining doubts after the last leaf.
func (e *edge) resolveAll() { e.trustStored(e.currentNodes()...) }
