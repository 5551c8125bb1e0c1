package record

import (
	"context"
	"database/sql"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A tree is the part of the record's Merkle tree that is needed to append to it: its size, and the
// roots of the complete subtrees at its right edge. It is a value: a copy is a snapshot.
type tree struct {
	size int64
	edge [63]tlog.Hash // at level i: root of the subtree of 2^i leaves, if size has bit i
}

// appendLeaf appends a leaf, and returns the hashes stored with it, as tlog.StoredHashes does.
func (t *tree) appendLeaf(leaf []byte) []byte {
	h := tlog.RecordHash(leaf)
	out := append(make([]byte, 0, 2*tlog.HashSize), h[:]...)
	level := bits.TrailingZeros64(^uint64(t.size)) // number of subtrees that the leaf completes
	for i := range level {
		h = tlog.NodeHash(t.edge[i], h)
		out = append(out, h[:]...)
	}
	t.edge[level] = h
	t.size++
	return out
}

// treeHead returns the tree's size and root.
func (t *tree) treeHead() proof.Head { return proof.Head{Size: t.size, Root: t.treeRoot()} }

// treeRoot returns the tree's root (RFC 6962, section 2.1).
func (t *tree) treeRoot() tlog.Hash {
	var h tlog.Hash
	none := true
	for i := range t.edge {
		switch {
		case t.size>>i&1 == 0:
		case none:
			h, none = t.edge[i], false
		default:
			h = tlog.NodeHash(t.edge[i], h)
		}
	}
	if none {
		h, _ = tlog.TreeHash(0, nil)
	}
	return h
}

// selectTree selects the size and, for each level of the edge, the hash stored with the last leaf
// of its subtree. It is a single constant statement, because it runs at each start.
const selectTree = `WITH RECURSIVE n(n) AS (SELECT coalesce(max(seq), -1) + 1 FROM audit_leaf), level(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM level WHERE i < 62)
	SELECT n, i, substr(l.hashes, i * 32 + 1, 32) FROM n CROSS JOIN level LEFT JOIN audit_leaf l ON l.seq = ((n >> i) << i) - 1 WHERE i = 0 OR (n >> i) & 1 ORDER BY i`

// loadTree loads the tree from its stored hashes. A missing hash is an error, since nothing can be
// appended then.
func loadTree(ctx context.Context, q Querier) (*tree, error) {
	t := &tree{}
	rows, err := q.QueryContext(ctx, selectTree)
	if err != nil {
		return nil, fault.Translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var b []byte
		if err := rows.Scan(&t.size, &i, &b); err != nil {
			return nil, fault.Translate(err)
		}
		if t.size>>i&1 == 0 { // only needed for the size
			continue
		}
		if len(b) != tlog.HashSize {
			return nil, missingLeaf(t.size>>i<<i - 1)
		}
		t.edge[i] = tlog.Hash(b)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.Translate(err)
	}
	return t, nil
}

func missingLeaf(leaf int64) error {
	return tool.Errorf(tool.Unavailable,
		"the audit record is broken: leaf %d, or a hash of it, is missing: run biplane audit verify", leaf)
}

// storedHash returns the hash of a level that is stored with a leaf.
func storedHash(ctx context.Context, q Querier, level int, leaf int64) (h tlog.Hash, err error) {
	var b []byte
	err = q.QueryRowContext(ctx, `SELECT substr(hashes, ?, ?) FROM audit_leaf WHERE seq = ?`, level*tlog.HashSize+1,
		tlog.HashSize, leaf).Scan(&b)
	switch {
	case err == nil && len(b) == tlog.HashSize:
		return tlog.Hash(b), nil
	case err == nil || err == sql.ErrNoRows:
		return h, missingLeaf(leaf)
	}
	return h, fault.Translate(err)
}
