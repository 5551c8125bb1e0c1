package record

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Chain authenticates the stored checkpoints and their times, from the first on. Each link is a
// keyed digest of the previous link and of a checkpoint with its time. The newest link is sealed
// with the record's head, and the witness holds one, too. They reveal a checkpoint that was
// removed, replaced or inserted, or whose time was changed.
type Chain struct {
	Count int64             // number of checkpoints
	Link  [sha256.Size]byte // the newest link; zero if there is none
}

// chainBytes is the size of an encoded Chain.
const chainBytes = 8 + sha256.Size

// extend returns the chain extended by a checkpoint. at is its time in microseconds since 1970.
func (c Chain) extend(key *secret.Key, at int64, text string) Chain {
	b := append(make([]byte, 0, sha256.Size+8+len(text)), c.Link[:]...)
	b = append(binary.BigEndian.AppendUint64(b, uint64(at)), text...)
	return Chain{c.Count + 1, key.MAC(linkPurpose, b)}
}

func (c Chain) appendTo(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(c.Count)), c.Link[:]...)
}

// Bytes returns the encoded chain.
func (c Chain) Bytes() []byte { return c.appendTo(make([]byte, 0, chainBytes)) }

// ParseChain decodes the chain at the beginning of b, and returns the remaining bytes.
func ParseChain(b []byte) (c Chain, rest []byte, ok bool) {
	if len(b) < chainBytes {
		return c, nil, false
	}
	return parseChain(b), b[chainBytes:], true
}

func parseChain(b []byte) Chain {
	return Chain{int64(binary.BigEndian.Uint64(b)), [sha256.Size]byte(b[8:chainBytes])}
}

const selectCheckpoints = `SELECT time, text FROM audit_checkpoint ORDER BY id`

// adoptChain computes the chain of the stored checkpoints if the head was sealed by a version
// without chains. The checkpoints are accepted as they are.
func (e *Edge) adoptChain(ctx context.Context, q Querier) error {
	if e.heading.chain != nil {
		return nil
	}
	var c Chain
	rows, err := q.QueryContext(ctx, selectCheckpoints)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		var text string
		if err := rows.Scan(&at, &text); err != nil {
			return err
		}
		c = c.extend(e.heading.key, at, text)
	}
	e.heading.chain = &c
	return rows.Err()
}

// Checkpoint stores a checkpoint. Grow must have been called in the same transaction.
func (e *Edge) Checkpoint(ctx context.Context, tx Tx, at time.Time, text string) error {
	_, err := tx.Statement(ctx, `INSERT INTO audit_checkpoint (time, text) VALUES (?, ?)`, at.UnixMicro(), text)
	if err != nil {
		return err
	}
	c := e.heading.chain.extend(e.heading.key, at.UnixMicro(), text)
	e.heading.chain, e.unsealed = &c, true
	return nil
}

// Chain returns the chain of the stored checkpoints. Grow must have been called in the same
// transaction.
func (e *Edge) Chain() Chain { return *e.heading.chain }

// Known is the witness's knowledge of the record.
type Known struct {
	proof.Head
	Chain *Chain // nil: the witness was written by a version without chains
}

// CountCheckpoints returns the number of stored checkpoints.
func (v *View) CountCheckpoints() (n int64, err error) {
	err = fault.ScanOne(v.tx.QueryRowContext(v.ctx, `SELECT count(*) FROM audit_checkpoint`), &n)
	return n, err
}

// CheckChain compares the stored checkpoints and their times with the chain sealed with the head,
// and with the witness's chain. See audit.View. A head or a witness that can't be read is reported
// elsewhere.
func (v *View) CheckChain() error {
	var sealed, known *Chain
	if h, head, err := readHead(v.ctx, v.tx, v.key); err == nil && head != nil {
		sealed = h.chain
	}
	if k, err := v.database.Witness(v.ctx, v); err == nil && k != nil {
		known = k.Chain
	}
	var c, then Chain // then: the chain up to the witness's count
	err := v.eachRow(selectCheckpoints, func(scan func(...any) error) error {
		var at int64
		var text string
		if err := scan(&at, &text); err != nil {
			return v.translateError(err)
		}
		c = c.extend(v.key, at, text)
		if known != nil && c.Count <= known.Count {
			then = c
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.compareWith(sealed, "were sealed with the record"); err != nil {
		return err
	}
	return then.compareWith(known, "are in its witness")
}

// compareWith returns an error unless c equals want. If want is nil, any chain is accepted.
func (c Chain) compareWith(want *Chain, how string) error {
	switch {
	case want == nil || c == *want:
		return nil
	case c.Count < want.Count:
		return tool.Errorf(tool.Conflict,
			"%d checkpoints are stored, but %d %s: checkpoints were removed", c.Count, want.Count, how)
	case c.Count > want.Count:
		return tool.Errorf(tool.Conflict,
			"%d checkpoints are stored, but %d %s: checkpoints were inserted", c.Count, want.Count, how)
	}
	return tool.Errorf(tool.Conflict,
		"%d checkpoints %s, but the stored ones differ: checkpoints were replaced, or their times changed",
		want.Count, how)
}
