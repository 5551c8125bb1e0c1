package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

// A View implements audit.View. It is only used during the call that it is created for, so it holds
// the context.
type View struct {
	// Pace is called repeatedly by the goroutines of long work, if it is not nil. It may
	// block.
	Pace interface{ PauseWork(context.Context) }

	ctx      context.Context
	tx       *sql.Tx
	key      *secret.Key
	database Database
	tree     *tree // read at first use; the transaction sees no later one
	unpacker unpacker
	archive  *archive
	index    *indexCheck // has all leaves; nil: not rebuilt yet
}

// A Database tells a View about the database around the record.
type Database interface {
	// CheckSchema compares the database's schema with the expected one.
	CheckSchema(ctx context.Context) error
	// CheckTable returns what SQLite's integrity check finds wrong with a table. It may be called
	// while the view is used. It calls pause repeatedly.
	CheckTable(ctx context.Context, table string, pause func()) (problems []string, err error)
	// Witness returns what the witness knows about v, or nil if no witness is required.
	Witness(ctx context.Context, v *View) (*Known, error)
}

// NewView returns a View of a read transaction, whose context is ctx. key unseals the data that is
// kept. folder has the segments.
func NewView(ctx context.Context, tx *sql.Tx, key *secret.Key, database Database, folder string) *View {
	return &View{ctx: ctx, tx: tx, key: key, database: database, archive: &archive{folder: folder}}
}

// ReadName returns the record's name and the sealed seed of its key. See Name.
func (v *View) ReadName() (origin string, sealed []byte, err error) { return ReadName(v.ctx, v.tx) }

// WitnessHead returns the witness's head, or nil if no witness is required.
func (v *View) WitnessHead() (*proof.Head, error) {
	k, err := v.database.Witness(v.ctx, v)
	if err != nil || k == nil {
		return nil, err
	}
	return &k.Head, nil
}

// FirstExecution returns the id of the oldest execution in the database and its start time. The id
// is empty if there is none.
func (v *View) FirstExecution() (id string, began time.Time, err error) {
	var at int64
	err = fault.ScanOne(v.tx.QueryRowContext(v.ctx, `SELECT id, started FROM execution ORDER BY started LIMIT 1`),
		&id, &at)
	return id, time.UnixMicro(at).UTC(), err
}

// pauseWork pauses long work, if it should.
func (v *View) pauseWork() {
	if v.Pace != nil {
		v.Pace.PauseWork(v.ctx)
	}
}

func (v *View) translateError(err error) error { return fault.TranslateRead(v.ctx, err) }

// ReadHashes returns stored hashes by their index.
func (v *View) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if len(indexes) < 8 {
		return storedHashes(v.ctx, v.tx).ReadHashes(indexes)
	}
	at := make([][2]int64, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		at[i] = [2]int64{(n+1)<<level - 1, int64(level*tlog.HashSize) + 1}
	}
	list, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	out, have := make([]tlog.Hash, len(at)), 0
	const query = `SELECT j.key, substr(l.hashes, j.value ->> 1, 32) FROM json_each(?) j CROSS JOIN audit_leaf l ON ` +
		`l.seq = j.value ->> 0`
	err = v.eachRow(query, func(scan func(...any) error) error {
		var i int
		var b sql.RawBytes
		if err := scan(&i, &b); err != nil {
			return v.translateError(err)
		}
		if len(b) != tlog.HashSize || i < 0 || i >= len(out) {
			return missingLeaf(at[i][0])
		}
		out[i] = tlog.Hash(b)
		have++
		return nil
	}, string(list))
	if err == nil && have < len(out) {
		err = missingLeaf(at[slices.Index(out, tlog.Hash{})][0])
	}
	return out, err
}

// Head returns the tree's size and root.
func (v *View) Head() (proof.Head, error) {
	if v.tree == nil {
		t, err := loadTree(v.ctx, v.tx)
		if err != nil {
			return proof.Head{}, err
		}
		v.tree = t
	}
	return v.tree.treeHead(), nil
}

func splitHashes(b []byte) []tlog.Hash {
	out := make([]tlog.Hash, 0, len(b)/tlog.HashSize)
	for len(b) >= tlog.HashSize {
		out, b = append(out, tlog.Hash(b[:tlog.HashSize])), b[tlog.HashSize:]
	}
	return out
}

// A leafRow is a row of audit_leaf. The columns are valid until the next row is read.
type leafRow struct {
	seq                  int64
	hashes, leaf, packed sql.RawBytes
}

// unpackRow returns the leaf of a row, valid until the next call. If the row was tampered with so
// that it can't be unpacked, the leaf is nil, which doesn't match the row's hash.
func (v *View) unpackRow(r *leafRow) []byte {
	data, err := v.unpacker.unpackLeaf(r.leaf, r.packed)
	if err != nil {
		return nil
	}
	return data
}

// Leaves calls f with the leaves from index from on. If these are all leaves, it also rebuilds the
// search index for CheckIntegrity, and reads the stored one meanwhile.
func (v *View) Leaves(from int64, f func(audit.Leaf) error) error {
	if from == math.MinInt64 {
		c := newIndexCheck(v)
		var wg sync.WaitGroup
		wg.Go(c.sumTables)
		wg.Go(c.checkTables)
		err := v.scanLeaves(f, c.addLeaf)
		wg.Wait()
		if err == nil {
			v.index = c
		}
		return err
	}
	return v.eachRow(`SELECT seq, hashes, leaf, packed FROM audit_leaf WHERE seq >= ? ORDER BY seq`,
		func(scan func(...any) error) error {
			var r leafRow
			if err := scan(&r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
				return v.translateError(err)
			}
			return f(v.readLeaf(&r))
		}, from)
}

// Checkpoints calls f with each stored checkpoint.
func (v *View) Checkpoints(f func(string) error) error {
	return v.eachRow(`SELECT text FROM audit_checkpoint ORDER BY id`, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return v.translateError(err)
		}
		return f(text)
	})
}

// eachRow calls f with each row of a query.
func (v *View) eachRow(query string, f func(scan func(...any) error) error, args ...any) error {
	rows, err := v.tx.QueryContext(v.ctx, query, args...)
	return v.scanRows(rows, err, f)
}

// eachRowOf is like eachRow, for a prepared query.
func (v *View) eachRowOf(query *sql.Stmt, f func(scan func(...any) error) error, args ...any) error {
	rows, err := query.QueryContext(v.ctx, args...)
	return v.scanRows(rows, err, f)
}

// scanRows calls f with each of some rows.
func (v *View) scanRows(rows *sql.Rows, err error, f func(scan func(...any) error) error) error {
	if err != nil {
		return v.translateError(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return v.translateError(err)
	}
	return nil
}
