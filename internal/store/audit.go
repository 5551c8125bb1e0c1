package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// What is sealed for the record, each for a purpose of its own.
const (
	auditPayloadPurpose = "audit-payload"
	auditSeedPurpose    = "audit-seed"
)

// Audit is the record: an audit.Store.
type Audit struct {
	s       *Store
	key     *secret.Key
	pending atomic.Int64 // leaves that are queued, and nobody waits for
}

// Audit gives the record; key seals what is kept beside it. A record that an older version wrote is moved into its present
// form.
func (s *Store) Audit(ctx context.Context, key *secret.Key) (*Audit, error) {
	a := &Audit{s: s, key: key}
	if err := a.upgrade(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Signer gives the key of the record, which is made once. A log can't change its name: an origin other than the one that it
// was made with is an error of kind tool.Conflict. Empty: whatever it has, and a random one for a new log.
func (a *Audit) Signer(ctx context.Context, origin string) (*audit.Signer, error) {
	if origin != "" {
		if err := audit.CheckOrigin(origin); err != nil {
			return nil, err
		}
	}
	have, sealed, err := a.logRow(ctx)
	if err == nil && have == "" {
		name := origin
		if name == "" {
			name = audit.NewOrigin()
		}
		seed := a.key.Seal(auditSeedPurpose, audit.NewSeed(), []byte(name))
		if err := a.s.writer.do(ctx, true, `INSERT OR IGNORE INTO audit_log (id, origin, seed) VALUES (1, ?, ?)`, name, seed); err != nil {
			return nil, err
		}
		have, sealed, err = a.logRow(ctx)
	}
	if err != nil {
		return nil, err
	}
	if origin != "" && origin != have {
		return nil, tool.Errorf(tool.Conflict, "the record in this data folder is named %s, the configuration says %s: a record keeps its name; take audit.origin out, or use another folder with --data-dir", have, origin)
	}
	seed, err := a.key.Unseal(auditSeedPurpose, sealed, []byte(have))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the key of the record can't be opened with the key of this data folder, or was changed: restore the folder's key file, or $BIPLANE_KEY, from a backup: %w", err)
	}
	return audit.NewSigner(have, seed)
}

func (a *Audit) logRow(ctx context.Context) (origin string, sealed []byte, err error) {
	err = a.s.read.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`).Scan(&origin, &sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", nil, readError(ctx, err)
	}
	return origin, sealed, nil
}

const (
	insertLeaf = `INSERT INTO audit_leaf (seq, hashes, leaf) VALUES (?, ?, ?)`
	insertEnd  = `INSERT INTO audit_leaf (seq, hashes, leaf) SELECT ?, ?, ? WHERE EXISTS
		(SELECT 1 FROM audit_leaf WHERE leaf ->> 'record' = ? AND (leaf ->> 'part' = 'ended') = 0 AND leaf ->> 'part' = 'begun')`
	// What is recorded again is kept as long as the newest record of it; that is written once a day.
	keepPayload = `INSERT INTO audit_payload (head, digest, time, data) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
		(SELECT 1 FROM audit_payload WHERE head = ?1 AND digest = ?2)`
	touchPayload = `UPDATE audit_payload SET time = ?3 WHERE head = ?1 AND digest = ?2 AND time < ?3 - 86400000000`
)

// errNotBegun says that an end has no beginning.
var errNotBegun = errors.New("no such record has begun")

// Append adds a leaf.
func (a *Audit) Append(ctx context.Context, add *audit.Addition) error {
	sealed := make([][]byte, len(add.Keep))
	for i, k := range add.Keep {
		sealed[i] = a.key.Seal(auditPayloadPurpose, k.Data, []byte(k.Digest))
	}
	run := func(ctx context.Context, w *writer) error {
		for i, k := range add.Keep {
			if err := w.keep(ctx, k.Digest, add.Time, sealed[i]); err != nil {
				return err
			}
		}
		return w.leaf(ctx, add)
	}
	if add.Failed == nil {
		return a.refused(add, a.s.writer.call(ctx, add.Durable, run))
	}
	a.pending.Add(1)
	err := a.s.writer.post(ctx, run, func(err error) {
		a.pending.Add(-1)
		if err != nil {
			add.Failed(a.refused(add, err))
		}
	})
	if err != nil {
		a.pending.Add(-1)
	}
	return err
}

// refused makes an error of the database that of an addition.
func (a *Audit) refused(add *audit.Addition, err error) error {
	switch c := code(err); {
	case errors.Is(err, errNotBegun):
		return tool.Errorf(tool.NotFound, "no audit record %s has begun", add.Record)
	case c&0xff == sqlite3.SQLITE_CONSTRAINT && add.Part == audit.PartEnded:
		return tool.Errorf(tool.Conflict, "audit record %s has ended already: %w", add.Record, err)
	case c&0xff == sqlite3.SQLITE_CONSTRAINT:
		return tool.Errorf(tool.Conflict, "audit record %s has begun already: %w", add.Record, err)
	}
	return err
}

// keep keeps sealed bytes in the transaction under way.
func (w *writer) keep(ctx context.Context, digest string, at time.Time, sealed []byte) error {
	head := headOf(digest)
	res, err := w.statement(ctx, keepPayload, head, digest, at.UnixMicro(), sealed)
	if err != nil {
		return err
	}
	if n, _ := res.RowsAffected(); n == 0 {
		_, err = w.statement(ctx, touchPayload, head, digest, at.UnixMicro())
	}
	return err
}

// headOf is the number under which a digest, a name and hexadecimal, is found; it need not be its own alone.
func headOf(digest string) int64 {
	_, hex, _ := strings.Cut(digest, ":")
	n, _ := strconv.ParseUint(hex[:min(len(hex), 16)], 16, 64)
	return int64(n)
}

// leaf adds a leaf in the transaction under way: its index and its hashes are those of the tree as it is here.
func (w *writer) leaf(ctx context.Context, add *audit.Addition) error {
	if err := w.grow(ctx); err != nil {
		return err
	}
	next := *w.tree
	add.Seq = next.size
	data, err := add.At(add.Seq)
	if err != nil {
		return &refusal{err}
	}
	hashes := next.add(data)
	if add.Part == audit.PartEnded {
		res, err := w.statement(ctx, insertEnd, add.Seq, hashes, string(data), add.Record)
		if err != nil {
			return err
		}
		if n, _ := res.RowsAffected(); n == 0 {
			return &refusal{errNotBegun}
		}
	} else if _, err := w.statement(ctx, insertLeaf, add.Seq, hashes, string(data)); err != nil {
		return err
	}
	w.tree = &next
	return nil
}

// Checkpoint signs the tree between two appends, with the disk's word for all before it.
func (a *Audit) Checkpoint(ctx context.Context, sign func(audit.Head) (string, error)) error {
	return a.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.grow(ctx); err != nil {
			return err
		}
		text, err := sign(audit.Head{Size: w.tree.size, Root: w.tree.root()})
		if err != nil {
			return &refusal{err}
		}
		_, err = w.statement(ctx, `INSERT INTO audit_checkpoint (time, text) VALUES (?, ?)`, time.Now().UnixMicro(), text)
		return err
	})
}

// Prune throws away what was kept before a time, a bounded number at once, so that calls needn't wait for it.
func (a *Audit) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	for {
		var n int64
		err := a.s.writer.call(ctx, false, func(ctx context.Context, w *writer) error {
			res, err := w.statement(ctx, `DELETE FROM audit_payload WHERE id IN
				(SELECT id FROM audit_payload WHERE time < ? ORDER BY time LIMIT 500)`, before.UnixMicro())
			if err == nil {
				n, err = res.RowsAffected()
			}
			return err
		})
		rows += n
		if err != nil || n == 0 {
			return rows, err
		}
	}
}
