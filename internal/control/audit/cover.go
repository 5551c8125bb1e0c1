package audit

import (
	"cmp"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
)

// A cover computes the root of a tree from some of its leaves, and from the stored hashes of the
// largest subtrees without any of them. It is an inclusion proof for all of these leaves at once:
// nodes above several leaves are computed only once.
type cover struct {
	leaves []*Leaf     // by index, without duplicates
	hashes []tlog.Hash // of the leaves' data
	stored []tlog.Hash // the stored hashes at the indexes from needed, in order
	differ bool        // a hash stored with one of the leaves differs from the computed one
}

// hasLeaves reports whether the tree of a head has all of the leaves at their indexes. It reads all
// the stored hashes that it needs at once.
func hasLeaves(v View, head proof.Head, leaves []*Leaf) (bool, error) {
	c := cover{leaves: slices.SortedStableFunc(slices.Values(leaves), func(a, b *Leaf) int {
		return cmp.Compare(a.Seq, b.Seq)
	})}
	kept := c.leaves[:0]
	for _, l := range c.leaves {
		h := tlog.RecordHash(l.Data)
		if n := len(kept); n > 0 && kept[n-1].Seq == l.Seq {
			if c.hashes[n-1] != h {
				return false, nil
			}
			continue
		}
		kept, c.hashes = append(kept, l), append(c.hashes, h)
	}
	c.leaves = kept
	hashes, err := v.ReadHashes(c.neededHashes(nil, 0, head.Size, 0, len(kept)))
	if err != nil {
		return false, brokenError(err)
	}
	c.stored = hashes
	root := c.subtreeRoot(0, head.Size, 0, len(kept))
	return !c.differ && root == head.Root, nil
}

// leftSize returns the size of the left subtree of a tree of n leaves (RFC 6962, section 2.1). n is
// greater than 1.
func leftSize(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }

// isComplete reports whether a subtree of n leaves is complete, and so stored as one hash.
func isComplete(n int64) bool { return n&(n-1) == 0 }

// countBelow returns how many of the leaves i to j have an index less than end.
func (c *cover) countBelow(end int64, i, j int) int {
	n, _ := slices.BinarySearchFunc(c.leaves[i:j], end, func(l *Leaf, end int64) int { return cmp.Compare(l.Seq, end) })
	return n
}

// neededHashes appends the indexes of the stored hashes that root needs for the subtree of n leaves
// from first on, in the order of their use. The cover's leaves i to j are in it.
func (c *cover) neededHashes(out []int64, first, n int64, i, j int) []int64 {
	switch {
	case i == j && isComplete(n):
		level := bits.TrailingZeros64(uint64(n))
		return append(out, tlog.StoredHashIndex(level, first>>level))
	case n == 1:
		return out
	}
	left := leftSize(n)
	k := i + c.countBelow(first+left, i, j)
	return c.neededHashes(c.neededHashes(out, first, left, i, k), first+left, n-left, k, j)
}

// subtreeRoot returns the root of the subtree described at needed.
func (c *cover) subtreeRoot(first, n int64, i, j int) (h tlog.Hash) {
	switch {
	case i == j && isComplete(n):
		h, c.stored = c.stored[0], c.stored[1:]
		return h
	case n == 1:
		return c.hashes[i]
	}
	left := leftSize(n)
	k := i + c.countBelow(first+left, i, j)
	h = c.subtreeRoot(first, left, i, k)
	h = tlog.NodeHash(h, c.subtreeRoot(first+left, n-left, k, j))
	if !isComplete(n) || i == j || c.leaves[j-1].Seq != first+n-1 {
		return h
	}
	if with, level := c.leaves[j-1].Hashes, bits.TrailingZeros64(uint64(n)); len(with) <= level || with[level] != h {
		c.differ = true
	}
	return h
}
