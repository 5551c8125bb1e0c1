package record

import (
	"context"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Each transaction that adds leaves seals the record's size and root with the folder's key, bound
// to the record's name. With write access to the database and without the key, an attacker can
// neither change nor add a leaf so that it matches the seal. Nothing more is added to a record that
// doesn't match.

// A headSeal holds what a head is sealed with.
type headSeal struct {
	key    *secret.Key
	origin string // name of the record; empty: it has none yet
	chain  *Chain // of the checkpoints; nil: the head was sealed by a version without chains
}

func (h *headSeal) sealHead(t *tree) []byte {
	root := t.treeRoot()
	b := append(append(binary.BigEndian.AppendUint64(nil, uint64(t.size)), root[:]...), headChained)
	return h.key.Seal(headPurpose, h.chain.appendTo(b), []byte(h.origin))
}

// openHead unseals a head, and sets the chain that was sealed with it.
func (h *headSeal) openHead(sealed []byte) (*proof.Head, error) {
	b, err := h.key.Unseal(headPurpose, sealed, []byte(h.origin))
	h.chain = nil
	switch {
	case err != nil, len(b) < headSize:
		err = secret.ErrUnseal
	case len(b) == headSize, len(b) == headSize+1 && b[headSize] == headGrants:
	case len(b) == headSize+1+chainBytes && b[headSize] == headChained:
		c := parseChain(b[headSize+1:])
		h.chain = &c
	default:
		err = secret.ErrUnseal
	}
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the sealed head of the record was changed, or sealed with another key")
	}
	return &proof.Head{Size: int64(binary.BigEndian.Uint64(b)), Root: tlog.Hash(b[8:headSize])}, nil
}

// readHead reads the sealed head. The head is nil if none is required: nothing has been recorded,
// or only by versions that sealed none.
func readHead(ctx context.Context, q Querier, key *secret.Key) (*headSeal, *proof.Head, error) {
	h := &headSeal{key: key}
	var seed, sealed []byte
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`), &h.origin,
		&seed); err != nil {
		return nil, nil, err
	}
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT head FROM tail WHERE id = 1`), &sealed); err != nil {
		return nil, nil, err
	}
	if sealed != nil {
		head, err := h.openHead(sealed)
		return h, head, err
	}
	_, old, err := OpenSeed(key, h.origin, seed)
	if err == nil && old {
		return h, nil, nil
	}
	var some bool
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_leaf)`), &some); err != nil {
		return nil, nil, err
	}
	if seed == nil && !some {
		return h, nil, nil
	}
	return nil, nil, tool.Errorf(tool.Conflict, "the sealed head of the record is missing")
}

// storedHashes returns a reader of the tree's stored hashes.
func storedHashes(ctx context.Context, q Querier) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, 0, len(indexes))
		for _, i := range indexes {
			level, n := tlog.SplitStoredHashIndex(i)
			h, err := storedHash(ctx, q, level, (n+1)<<level-1)
			if err != nil {
				return nil, err
			}
			out = append(out, h)
		}
		return out, nil
	})
}

// checkTree checks that a tree that was read matches its seal. If it doesn't, nothing more is added
// to it.
func (e *Edge) checkTree(ctx context.Context, tx Tx, t *tree, key *secret.Key) (err error) {
	if e.unsealed { // the current transaction has added to a tree that was checked
		return nil
	}
	e.heading, err = openHead(ctx, tx, t, key)
	return err
}

// openHead compares a tree with the sealed head, and returns the head's heading. A mismatch is an
// error that is fault.Refused.
func openHead(ctx context.Context, q Querier, t *tree, key *secret.Key) (*headSeal, error) {
	h, head, err := readHead(ctx, q, key)
	if err == nil {
		err = t.treeHead().CompareWith(head, storedHashes(ctx, q))
	}
	if err != nil && fault.Code(err) == 0 {
		err = fault.Refuse(tool.Errorf(tool.Unavailable, "the audit record does not match its sealed head, so "+
			"nothing is recorded and no call is made: %w: run biplane audit verify and keep a copy of the data folder; "+
			"then restore it from a backup, or begin a new record in another folder with --data-dir", err))
	}
	return h, err
}

// CheckSeal checks whether the record matches its seal, before anything is added to it. If an Edge
// would refuse it, the error is fault.Refused here, too.
func (v *View) CheckSeal() error {
	_, err := v.Head()
	if err != nil && fault.Code(err) == 0 {
		return fault.Refuse(err)
	}
	if err == nil {
		_, err = openHead(v.ctx, v.tx, v.tree, v.key)
	}
	return err
}

// sealTree returns the sealed head of the tree at the end of the current transaction.
func (e *Edge) sealTree(ctx context.Context, tx Tx) ([]byte, error) {
	if e.tree == nil {
		if err := e.LoadTree(ctx, tx, e.heading.key); err != nil {
			return nil, err
		}
	}
	return e.heading.sealHead(e.tree), nil
}

// SealedHead returns the sealed head, or nil if none is required.
func (v *View) SealedHead() (*proof.Head, error) {
	_, head, err := readHead(v.ctx, v.tx, v.key)
	return head, err
}
