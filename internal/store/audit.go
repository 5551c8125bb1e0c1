package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// What is sealed for the record, each for a purpose of its own.
const (
	auditPayloadPurpose = "audit-payload"
	auditKeptPurpose    = "audit-kept"
	auditSeedPurpose    = "audit-seed" // of records without a sealed head: those of older versions, and those that have no name yet
	auditNamedPurpose   = "audit-named"
	auditHeadPurpose    = "audit-head"
	auditAheadPurpose   = "audit-ahead"
)

// Audit is the record: an audit.Store.
type Audit struct {
	s      *Store
	key    *secret.Key
	origin string // of the record; set before anything is added to it
	plain  []byte // a leaf while it is sealed for the file beside the database, whose lock is held then
}

// Audit gives the record; key seals what is kept beside it. A record that an older version wrote is moved into its present
// form. A database with triggers or views that aren't Biplane's is an error of kind tool.Conflict.
func (s *Store) Audit(ctx context.Context, key *secret.Key) (_ *Audit, err error) {
	a := &Audit{s: s, key: key}
	if err := strange(ctx, s.read); err != nil {
		return nil, err
	}
	if err := a.upgrade(ctx); err != nil {
		return nil, err
	}
	if err := a.recover(ctx); err != nil {
		return nil, err
	}
	if a.origin, _, err = a.logRow(ctx); err != nil {
		return nil, err
	}
	return a, a.span(ctx)
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
		if err := a.unnamed(ctx, sealed); err != nil {
			return nil, err
		}
		name := origin
		if name == "" {
			name = audit.NewOrigin()
		}
		if err := a.name(ctx, name, audit.NewSeed(), nameLog); err != nil {
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
	seed, old, err := openSeed(a.key, have, sealed)
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the key of the record can't be opened with the key of this data folder, or was changed: restore the folder's key file, or $BIPLANE_KEY, from a backup: %w", err)
	}
	if old {
		if err := a.name(ctx, have, seed, renameLog); err != nil && !fault.Refused(err) { // Inspect and Append say so, too
			return nil, err
		}
	}
	a.origin = have
	return audit.NewSigner(have, seed)
}

// openSeed opens the seed of a log's key. old: the log need not have a sealed head.
func openSeed(key *secret.Key, origin string, sealed []byte) (seed []byte, old bool, err error) {
	if seed, err = key.Unseal(auditNamedPurpose, sealed, []byte(origin)); err == nil {
		return seed, false, nil
	}
	seed, err = key.Unseal(auditSeedPurpose, sealed, []byte(origin))
	return seed, true, err
}

// name gives a log its name and key, and seals its head, which it has from then on. One whose head is not what was sealed is left as it is.
func (a *Audit) name(ctx context.Context, origin string, seed []byte, query string) error {
	return a.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.grow(ctx, a.key); err != nil {
			return err
		}
		_, err := w.statement(ctx, query, origin, a.key.Seal(auditNamedPurpose, seed, []byte(origin)))
		if err == nil {
			w.heading.origin, w.unsealed = origin, true
		}
		return err
	})
}

// renameLog keeps the key of a log of an older version in the present form.
const renameLog = `UPDATE audit_log SET origin = ?, seed = ? WHERE id = 1`

// nameLog names a log that has no name. One row without a name, whose seed seals nothing, is that of a record that was moved from an
// older form and has no key yet.
const nameLog = `INSERT INTO audit_log (id, origin, seed) VALUES (1, ?, ?)
	ON CONFLICT (id) DO UPDATE SET origin = excluded.origin, seed = excluded.seed WHERE origin = ''`

// unnamed makes sure that a log without a name may be given one: it is new, or was moved from an older form. Of any other the row was taken
// away, and with a new key nobody could tell it from one that was written anew.
func (a *Audit) unnamed(ctx context.Context, sealed []byte) error {
	if sealed != nil {
		if _, err := a.key.Unseal(auditSeedPurpose, sealed, nil); err == nil {
			return nil
		}
	}
	var some bool
	if err := a.s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_leaf) OR EXISTS (SELECT 1 FROM audit_checkpoint)`).Scan(&some); err != nil {
		return fault.Reading(ctx, err)
	}
	if some || sealed != nil {
		return tool.Errorf(tool.Conflict, "the record in this data folder has entries, and its name and key are gone: somebody changed the database; restore it from a backup, or use another folder with --data-dir, and keep this one")
	}
	return nil
}

func (a *Audit) logRow(ctx context.Context) (origin string, sealed []byte, err error) {
	err = a.s.read.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`).Scan(&origin, &sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", nil, fault.Reading(ctx, err)
	}
	return origin, sealed, nil
}

// Append adds a leaf. It is queued, and the next transaction takes it along with what is queued before it: who waits for it has one made.
func (a *Audit) Append(ctx context.Context, add *audit.Addition) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	w, x := a.s.writer, &leaf{a: a, add: add}
	if add.Failed == nil || add.Durable {
		x.done = make(chan struct{})
		x.waits.Store(true)
		x.disk = add.Durable && (add.Failed == nil || !w.sound.Load())
	}
	queued, err := w.ledger.put(x)
	switch {
	case err != nil:
		return err
	case !queued:
		err := w.call(ctx, add.Durable || w.ledger.durably(), func(ctx context.Context, w *writer) error {
			if err := w.drain(ctx); err != nil { // what was added before it is before it
				return err
			}
			return w.leaf(ctx, x)
		})
		return x.refused(err)
	case add.Failed == nil, x.disk:
		return w.placed(x)
	case add.Durable:
		return w.reached(context.WithoutCancel(ctx), x)
	case add.Safe && w.ahead.secure() != nil:
		return w.takeAlong(context.WithoutCancel(ctx))
	}
	return nil
}

// Checkpoint signs the tree between two appends, with the disk's word for all before it.
func (a *Audit) Checkpoint(ctx context.Context, sign func(audit.Head) (string, error)) error {
	return a.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.drain(ctx); err != nil {
			return err
		}
		if err := w.grow(ctx, a.key); err != nil {
			return err
		}
		text, err := sign(audit.Head{Size: w.tree.size, Root: w.tree.root()})
		if err != nil {
			return fault.Refuse(err)
		}
		_, err = w.statement(ctx, `INSERT INTO audit_checkpoint (time, text) VALUES (?, ?)`, time.Now().UnixMicro(), text)
		return err
	})
}
