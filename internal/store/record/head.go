package record

import (
	"context"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Each transaction that adds leaves to the record seals its size and root with the folder's key,
// bound to the record's name. Whoever can write to the database and has no key can neither change a
// leaf nor add one so that leaves and seal agree: what doesn't agree is added to no more.

// A heading is what a sealed head is sealed with.
type heading struct {
	key    *secret.Key
	origin string // of the record; empty: it has no name yet
	chain  *Chain // of the checkpoints; nil: the head was sealed by a version that had none
}

func (h *heading) seal(t *tree) []byte {
	root := t.root()
	b := append(append(binary.BigEndian.AppendUint64(nil, uint64(t.size)), root[:]...), headChained)
	return h.key.Seal(headPurpose, h.chain.append(b), []byte(h.origin))
}

// open gives a sealed head, and sets the chain that was sealed with it.
func (h *heading) open(sealed []byte) (*audit.Head, error) {
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
	return &audit.Head{Size: int64(binary.BigEndian.Uint64(b)), Root: tlog.Hash(b[8:headSize])}, nil
}

// readHead reads the sealed head. It is nil where there need be none: nothing was recorded yet, or
// only by versions that sealed none.
func readHead(ctx context.Context, q Querier, key *secret.Key) (*heading, *audit.Head, error) {
	h := &heading{key: key}
	var seed, sealed []byte
	if err := fault.One(q.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`), &h.origin, &seed); err != nil {
		return nil, nil, err
	}
	if err := fault.One(q.QueryRowContext(ctx, `SELECT head FROM tail WHERE id = 1`), &sealed); err != nil {
		return nil, nil, err
	}
	if sealed != nil {
		head, err := h.open(sealed)
		return h, head, err
	}
	_, old, err := OpenSeed(key, h.origin, seed)
	if err == nil && old {
		return h, nil, nil
	}
	var some bool
	if err := fault.One(q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_leaf)`), &some); err != nil {
		return nil, nil, err
	}
	if seed == nil && !some {
		return h, nil, nil
	}
	return nil, nil, tool.Errorf(tool.Conflict, "the sealed head of the record was taken away")
}

// storedHashes reads the tree's hashes.
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

// whole makes sure that a tree that was read is the one that was sealed. Where it isn't, nothing is
// added to it any more.
func (e *Edge) whole(ctx context.Context, tx Tx, t *tree, key *secret.Key) (err error) {
	if e.unsealed { // the transaction under way has added to one that was
		return nil
	}
	e.heading, err = sealed(ctx, tx, t, key)
	return err
}

// sealed compares a tree with the sealed head, which it gives the heading of. What doesn't agree is
// fault.Refused.
func sealed(ctx context.Context, q Querier, t *tree, key *secret.Key) (*heading, error) {
	h, head, err := readHead(ctx, q, key)
	if err == nil {
		err = audit.Head{Size: t.size, Root: t.root()}.Against(head, storedHashes(ctx, q))
	}
	if err != nil && fault.Code(err) == 0 {
		err = fault.Refuse(tool.Errorf(tool.Unavailable, "the audit record is not what it was, so that nothing is added to it and no call is made: %w: run biplane audit verify and keep a copy of the data folder; "+
			"then restore it from a backup, or begin another record in another folder with --data-dir", err))
	}
	return h, err
}

// Sound looks whether the record is the one that was sealed, before anything is added to it. What
// an Edge would refuse is fault.Refused here, too.
func Sound(ctx context.Context, q Querier, key *secret.Key) error {
	t, err := loadTree(ctx, q)
	if err != nil && fault.Code(err) == 0 {
		return fault.Refuse(err)
	}
	if err == nil {
		_, err = sealed(ctx, q, t, key)
	}
	return err
}

// seal gives the head of the tree as the transaction under way leaves it, sealed.
func (e *Edge) seal(ctx context.Context, tx Tx) ([]byte, error) {
	if e.tree == nil {
		if err := e.Grow(ctx, tx, e.heading.key); err != nil {
			return nil, err
		}
	}
	return e.heading.seal(e.tree), nil
}

// Sealed gives the sealed head; nil where there need be none.
func (v *View) Sealed() (*audit.Head, error) {
	_, head, err := readHead(v.ctx, v.tx, v.key)
	return head, err
}
