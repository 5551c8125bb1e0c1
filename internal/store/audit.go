package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// auditAheadPurpose is the purpose for which a leaf is sealed in the write-ahead file.
const auditAheadPurpose = "audit-ahead"

// Audit is the audit record. It implements audit.Store.
type Audit struct {
	s       *Store
	key     *secret.Key
	origin  string // of the record; set before anything is added to it
	witness *witness
	broken  error  // why nothing can be added to the record; nil: it was sound when it was opened
	plain   []byte // plaintext buffer for sealing a leaf for the write-ahead file; guarded by the file's lock
}

// Audit returns the audit record; key seals the data kept beside it. It upgrades the record of an
// older version. It returns an error of kind tool.Conflict if the database has triggers or views
// that Biplane didn't create. If the record doesn't match its seals, nothing can be added to it.
func (s *Store) Audit(ctx context.Context, key *secret.Key) (_ *Audit, err error) {
	a := &Audit{s: s, key: key, witness: &witness{path: filepath.Join(s.dir, WitnessFile), key: key}}
	s.grants(key) // grants are bound to the record's head, and sealed with it
	if err := rejectTriggers(ctx, s.read); err != nil {
		return nil, err
	}
	if err := a.upgradeRecord(ctx); err != nil {
		return nil, err
	}
	if err := a.recoverLeaves(ctx); err != nil {
		return nil, err
	}
	if a.origin, _, err = record.ReadName(ctx, a.s.read); err != nil {
		return nil, err
	}
	a.broken = a.viewWithoutQueue(ctx, func(v *record.View) error {
		if err := v.CheckSeal(); err != nil {
			return err
		}
		return a.compareWitness(ctx, v)
	})
	if a.broken != nil && (ctx.Err() != nil || !fault.IsRefusal(a.broken)) {
		return nil, fault.TranslateRead(ctx, a.broken)
	}
	return a, a.writeSpans(ctx)
}

// compareWitness compares the record with its witness. A refusal says why nothing can be added to
// the record.
func (a *Audit) compareWitness(ctx context.Context, v *record.View) error {
	err := compareHeads(v)
	if err == nil || ctx.Err() != nil || fault.Code(err) != 0 {
		return err
	}
	return fault.Refuse(tool.Errorf(tool.Unavailable,
		"the audit record does not match its witness, so nothing is recorded and no call is made: %w: "+
			"run biplane audit verify and keep a copy of the data folder; then restore the whole folder from a "+
			"backup, or begin a new record in another folder "+
			"with --data-dir", err))
}

// compareHeads returns an error of kind Conflict if the record doesn't begin with what the witness
// knows.
func compareHeads(v *record.View) error {
	known, err := v.WitnessHead()
	if err != nil || known == nil {
		return err
	}
	h, err := v.Head()
	if err != nil {
		return err
	}
	if h.Size < known.Size {
		return tool.Errorf(tool.Conflict, "the record has %d entries, but its witness %s has %d: entries were "+
			"removed, or an older copy was put in place",
			h.Size, WitnessFile, known.Size)
	}
	root, err := tlog.TreeHash(known.Size, v)
	if err == nil && root != known.Root {
		err = tool.Errorf(tool.Conflict,
			"the first %d entries of the record differ from those of its witness %s", known.Size, WitnessFile)
	}
	return err
}

// witnessedHead returns the head in the witness, or nil if no witness is required yet. It returns
// an error of kind Conflict if the witness is missing, was changed, or is from another record
// than the one that name returns.
func (a *Audit) witnessedHead(name func() (origin string, sealed []byte, err error)) (*record.Known, error) {
	x, err := a.witness.loadNewest()
	if err != nil {
		return nil, err
	}
	origin, sealed, err := name()
	switch {
	case err != nil:
		return nil, err
	case x == nil && origin != "" && record.RequiresWitness(a.key, origin, sealed):
		return nil, tool.Errorf(tool.Conflict, "the record's witness %s is missing", WitnessFile)
	case x == nil, x.Size == 0:
		// The record is from an older version, or about to be created. An interrupted start may
		// have left another name.
		return nil, nil
	case origin == "":
		return nil, tool.Errorf(tool.Conflict,
			"the record %s of %d entries, which the witness %s describes, is missing", x.origin, x.Size, WitnessFile)
	case origin != x.origin:
		return nil, tool.Errorf(tool.Conflict,
			"the record is %s, but the witness %s describes %s of %d entries", origin, WitnessFile, x.origin, x.Size)
	}
	return &x.Known, nil
}

// knownTo returns the witness's head, or nil if the witness is newer than the snapshot v.
func (a *Audit) knownTo(ctx context.Context, v *record.View) (*record.Known, error) {
	k, err := a.witnessedHead(v.ReadName)
	if err != nil { // the record may have been named since
		k, err = a.witnessedHead(func() (string, []byte, error) { return record.ReadName(ctx, a.s.read) })
	}
	if err != nil || k == nil || coversWitness(v, k) {
		return k, err
	}
	later := false
	err = a.viewWithoutQueue(ctx, func(v *record.View) error { later = coversWitness(v, k); return nil })
	if err != nil || later {
		return nil, err
	}
	return k, nil
}

// coversWitness reports whether v has at least as many entries and checkpoints as the witness. A
// head that can't be read is reported elsewhere.
func coversWitness(v *record.View, k *record.Known) bool {
	h, err := v.Head()
	if err != nil {
		return true
	}
	n, err := v.CountCheckpoints()
	return h.Size >= k.Size && (err != nil || k.Chain == nil || n >= k.Chain.Count)
}

// Attest updates the witness if the record has grown.
func (a *Audit) Attest(ctx context.Context) error {
	if a.origin == "" || a.broken != nil {
		return nil
	}
	var size int64
	err := a.viewWithoutQueue(ctx, func(v *record.View) error {
		h, err := v.Head()
		size = h.Size
		return err
	})
	if err != nil || size <= a.witness.headSize() {
		return err
	}
	return a.saveHead(ctx, a.origin)
}

// saveHead saves the record's current head in the witness. Everything that it covers is on the disk
// by then.
func (a *Audit) saveHead(ctx context.Context, origin string) error {
	var h proof.Head
	var c record.Chain
	err := a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.edge.LoadTree(ctx, w.tx, a.key); err != nil {
			return err
		}
		h, c = w.edge.Head(), w.edge.Chain()
		return nil
	})
	if err != nil {
		return err
	}
	return a.witness.saveHead(origin, h, c)
}

// Signer returns the signer of the record, whose key is created once. A log can't change its name:
// an origin other than the original one is an error of kind tool.Conflict. An empty origin means
// the existing name, or a random one for a new log.
func (a *Audit) Signer(ctx context.Context, origin string) (*proof.Signer, error) {
	if origin != "" {
		if err := proof.CheckOrigin(origin); err != nil {
			return nil, err
		}
	}
	have, sealed, err := record.ReadName(ctx, a.s.read)
	if err == nil && have == "" {
		if err := a.checkNew(ctx, sealed); err != nil {
			return nil, err
		}
		name := origin
		if name == "" {
			name = proof.NewOrigin()
		}
		// Save the witness before the name: a process that dies here leaves only an empty witness.
		if err := a.saveHead(ctx, name); err != nil {
			return nil, err
		}
		if err := a.setName(ctx, name, proof.NewSeed()); err != nil {
			return nil, err
		}
		have, sealed, err = record.ReadName(ctx, a.s.read)
	}
	if err != nil {
		return nil, err
	}
	if origin != "" && origin != have {
		return nil, tool.Errorf(tool.Conflict, "the record in this data folder is named %s, but the configuration "+
			"says %s: a record keeps its name; remove audit.origin, or use another folder with --data-dir",
			have, origin)
	}
	seed, old, err := record.OpenSeed(a.key, have, sealed)
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the key of the record can't be opened with the key of this data "+
			"folder, or was changed: restore the folder's key file, or $BIPLANE_KEY, from a backup: %w", err)
	}
	if a.broken == nil && !record.RequiresWitness(a.key, have, sealed) { // it is from an older version
		if err := a.saveHead(ctx, have); err != nil && !fault.IsRefusal(err) {
			return nil, err
		}
		old = true
	}
	if old {
		// Inspect and Append report this error, too
		if err := a.setName(ctx, have, seed); err != nil && !fault.IsRefusal(err) {
			return nil, err
		}
	}
	a.origin = have
	return proof.NewSigner(have, seed)
}

// checkNew checks that a record without a name is new, or was upgraded from an older form.
// Otherwise it was removed.
func (a *Audit) checkNew(ctx context.Context, sealed []byte) error {
	if err := record.CheckNameless(ctx, a.s.read, a.key, sealed); err != nil {
		return err
	}
	_, err := a.witnessedHead(func() (string, []byte, error) { return record.ReadName(ctx, a.s.read) })
	if x, _ := a.witness.loadNewest(); err == nil && x == nil && sealed == nil && a.s.prepared {
		err = tool.Errorf(tool.Conflict,
			"the database has no record, and the data folder has no witness %s, which a new folder has", WitnessFile)
	}
	var granted bool
	if err == nil && a.s.isMarked() {
		if err = fault.ScanOne(a.s.read.QueryRowContext(ctx, `SELECT grants IS NOT NULL FROM tail WHERE id = 1`),
			&granted); err == nil && !granted {
			err = errOlder
		}
	}
	if err != nil {
		return tool.Errorf(tool.Conflict, "%w: the record was removed: restore the whole data folder from a backup, "+
			"or use another folder with --data-dir, and keep this one", err)
	}
	return nil
}

// setName names the record. See record.Edge.Name.
func (a *Audit) setName(ctx context.Context, origin string, seed []byte) error {
	return a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		return w.edge.SetName(ctx, w.tx, a.key, origin, seed)
	})
}

// upgradeRecord moves the record of an older version into the tree, in one transaction.
func (a *Audit) upgradeRecord(ctx context.Context) error {
	old, err := record.IsOld(ctx, a.s.read)
	if err != nil || !old {
		return err
	}
	return a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.edge.UpgradeRecord(ctx, w.tx, a.key); err != nil {
			// not wrapped: any error is from the transaction
			return fmt.Errorf("move the record of an older version: %v", err)
		}
		return nil
	})
}

// writeSpans writes the spans that a record of an older version lacks, in batches.
func (a *Audit) writeSpans(ctx context.Context) error {
	for {
		first, size, err := record.FirstWithoutSpan(ctx, a.s.read)
		if err != nil || !record.FillsSpan(first, size) {
			return err
		}
		err = a.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
			return record.WriteSpans(ctx, w.tx, first, size)
		})
		if err != nil {
			return err
		}
	}
}

// Append adds a leaf. The leaf is queued, and the next transaction writes it with everything queued
// before it. A caller that waits for the leaf starts a transaction.
func (a *Audit) Append(ctx context.Context, add *audit.Addition) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	// The writer refuses it, too, but some milliseconds later, after data read by that leaf's call
	// has been sent.
	if a.broken != nil {
		return a.broken
	}
	w, x := a.s.writer, &leaf{Leaf: record.Leaf{Key: a.key, Add: add}, a: a}
	if add.Failed == nil || add.Durable {
		x.done = make(chan struct{})
		x.waits.Store(true)
		x.disk = add.Durable && (add.Failed == nil || !w.sound.Load())
	}
	queued, err := w.ledger.enqueue(x)
	switch {
	case err != nil:
		return err
	case !queued:
		err := w.runInTransaction(ctx, add.Durable || w.ledger.needsDisk(), func(ctx context.Context, w *writer) error {
			if err := w.drainLeaves(ctx); err != nil { // leaves queued earlier come before it
				return err
			}
			return w.addLeaf(ctx, x)
		})
		return x.ExplainError(err)
	case add.Failed == nil, x.disk:
		return w.awaitPosition(x)
	case add.Durable:
		return w.awaitDisk(context.WithoutCancel(ctx), x)
	case add.Safe && w.ahead.writePending() != nil:
		return w.takeAlong(context.WithoutCancel(ctx))
	}
	return nil
}

// Checkpoint signs the tree between two appends, after everything before it is on the disk.
func (a *Audit) Checkpoint(ctx context.Context, sign func(proof.Head) (string, error)) error {
	var signed proof.Head
	var chain record.Chain
	err := a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.drainLeaves(ctx); err != nil {
			return err
		}
		if err := w.edge.LoadTree(ctx, w.tx, a.key); err != nil {
			return err
		}
		signed = w.edge.Head()
		text, err := sign(signed)
		if err != nil {
			return fault.Refuse(err)
		}
		if err := w.edge.Checkpoint(ctx, w.tx, time.Now(), text); err != nil {
			return err
		}
		chain = w.edge.Chain()
		return nil
	})
	if err == nil && a.origin != "" && a.broken == nil {
		if err := a.witness.saveHead(a.origin, signed, chain); err != nil { // the old witness is still true
			a.s.log.Warn("audit witness not written", "err", err)
		}
	}
	return err
}

// Prune deletes data kept before a time, and returns the number of rows deleted. It deletes in
// batches, so that calls needn't wait for it.
func (a *Audit) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	for {
		var n int64
		err := a.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) (err error) {
			n, err = w.edge.PruneKept(ctx, w.tx, before)
			return err
		})
		if err != nil {
			return rows, err
		}
		if n == 0 {
			return rows, a.s.truncateAhead()
		}
		rows += n
	}
}

// View calls f with a snapshot of the record: f reads in one transaction, which blocks no one.
func (a *Audit) View(ctx context.Context, f func(audit.View) error) error {
	if err := a.commitQueue(ctx); err != nil {
		return err
	}
	return a.viewWithoutQueue(ctx, func(v *record.View) error { return f(v) })
}

// wholeConns is the number of connections of ViewWhole: one for the snapshot, and one for SQLite's
// integrity check.
const wholeConns = 2

// ViewWhole is like View for an f that reads the whole record, which takes long. It opens
// connections of its own, so that other readers don't wait for one.
func (a *Audit) ViewWhole(ctx context.Context, pace interface{ PauseWork(context.Context) },
	f func(audit.View) error) (err error) {
	if err := a.commitQueue(ctx); err != nil {
		return err
	}
	db, err := openDatabase(filepath.Join(a.s.dir, File), "on")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(wholeConns)
	defer func() { err = errors.Join(err, db.Close()) }()
	return a.viewIn(ctx, db, func(v *record.View) error {
		v.Pace = pace
		return f(v)
	})
}

// commitQueue commits the queued leaves, so that a view includes them.
func (a *Audit) commitQueue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	if !a.s.writer.ledger.hasUncommitted() {
		return nil
	}
	return a.s.writer.takeAlong(ctx)
}

// viewWithoutQueue is View without the queued leaves.
func (a *Audit) viewWithoutQueue(ctx context.Context, f func(*record.View) error) error {
	return a.viewIn(ctx, a.s.read, f)
}

// viewIn is like viewWithoutQueue, with the connections of db.
func (a *Audit) viewIn(ctx context.Context, db *sql.DB, f func(*record.View) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fault.TranslateRead(ctx, err)
	}
	defer tx.Rollback()
	return f(record.NewView(ctx, tx, a.key, viewDatabase{tx, db, a}, a.archiveFolder()))
}

// A viewDatabase implements record.Database for a view, within its transaction.
type viewDatabase struct {
	tx    *sql.Tx
	db    *sql.DB // of tx
	audit *Audit
}

// CheckSchema compares the database's schema with the expected one.
func (d viewDatabase) CheckSchema(ctx context.Context) error { return compareSchema(ctx, d.tx) }

// CheckTable runs SQLite's integrity check on a table, on a connection of its own. So other readers
// continue, and may see an earlier state of the table. It calls pause repeatedly.
func (d viewDatabase) CheckTable(ctx context.Context, table string, pause func()) (problems []string, err error) {
	c, err := d.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = withPauses(c, pause, func() error {
		problems, err = queryStrings(ctx, c, `PRAGMA integrity_check('`+table+`')`)
		return cmp.Or(err, ctx.Err())
	})
	return slices.DeleteFunc(problems, func(line string) bool { return line == "ok" }), err
}

// Witness returns what the witness knows about v.
func (d viewDatabase) Witness(ctx context.Context, v *record.View) (*record.Known, error) {
	return d.audit.knownTo(ctx, v)
}
