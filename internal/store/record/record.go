// Package record is how the audit record lies in the database: the leaves of its Merkle tree, each
// a row with the hashes that tlog stores for it; the tree's head, sealed; the spans by which lists
// are searched; and what is kept beside the leaves. A View reads it within one transaction that
// reads, an Edge adds to it within those that write. Whose turn it is to write, and what of it the
// disk has, is the store's.
package record

import (
	"context"
	"database/sql"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

// What is sealed for the record, each for a purpose of its own.
const (
	payloadPurpose = "audit-payload"
	keptPurpose    = "audit-kept"
	// of records without a sealed head: those of older versions, and those that have no name yet
	seedPurpose      = "audit-seed"
	namedPurpose     = "audit-named" // of records of older versions that need have no witness
	witnessedPurpose = "audit-witnessed"
	headPurpose      = "audit-head"
	linkPurpose      = "audit-checkpoint"
)

// A Querier reads: a connection, or a transaction.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// A Tx is a transaction that writes.
type Tx interface {
	Querier
	// ExecContext does a statement that is not done often.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Statement does one that is prepared once.
	Statement(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// An Edge is what must be known of the record to add to it. Its zero value knows nothing, and reads
// it when it is first needed. All that it does is part of the transaction that it is given, one at
// a time; when that ends otherwise than by a commit, Lose must follow. Errors that are
// fault.Refused are the failure of what was asked, others that of the transaction.
type Edge struct {
	tree     *tree    // nil: not read yet
	heading  *heading // what the tree's head is sealed with; as tree
	unsealed bool     // the transaction under way has added leaves to the tree
	span     *span    // the one that is not full yet; as tree
	greatest string   // record in a span that is full; as tree
	pack     pack     // of what is kept, and has no row yet
	placing  []byte   // the leaf that is being added
}

// Known reports whether the tree is known, and was what was sealed.
func (e *Edge) Known() bool { return e.tree != nil }

// Lose forgets what a transaction did that was not committed: whatever is there now is read again.
func (e *Edge) Lose() {
	e.tree, e.unsealed = nil, false
	e.pack.lose()
}

// Grow makes sure that the tree is known. A broken one stops who adds to it, and nobody else.
func (e *Edge) Grow(ctx context.Context, tx Tx, key *secret.Key) error {
	if e.tree != nil {
		return nil
	}
	t, err := loadTree(ctx, tx)
	if err != nil && fault.Code(err) == 0 {
		return fault.Refuse(err)
	}
	if err != nil {
		return err
	}
	if err := e.whole(ctx, tx, t, key); err != nil {
		return err
	}
	if err := e.adoptChain(ctx, tx); err != nil {
		return err
	}
	if e.span, err = loadSpan(ctx, tx, t.size/spanLeaves*spanLeaves); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(record), '') FROM audit_record`).Scan(&e.greatest); err != nil {
		return err
	}
	e.tree = t
	return nil
}

// Head gives the tree's size and root. Grow must have been called in the same transaction.
func (e *Edge) Head() audit.Head { return audit.Head{Size: e.tree.size, Root: e.tree.root()} }

// Origin gives the record's name, empty when it has none. Grow must have been called in the same
// transaction.
func (e *Edge) Origin() string { return e.heading.origin }

// A Tail is what of the record is written anew at the end of each transaction that changes it; nil:
// as it is.
type Tail struct {
	Head              any // sealed
	First, Time, Kept any // the pack of what is kept of the newest leaves: its first leaf, its time, sealed
}

// Tail gives the tail as the transaction leaves it. When it is written, Tailed must follow.
func (e *Edge) Tail(ctx context.Context, tx Tx) (t Tail, err error) {
	if e.pack.dirty {
		if err := e.settlePack(ctx, tx); err != nil {
			return t, err
		}
		t.First, t.Time, t.Kept = e.pack.row()
	}
	if e.unsealed {
		sealed, err := e.seal(ctx, tx)
		if err != nil {
			return t, err
		}
		t.Head = sealed
	}
	return t, nil
}

// Tailed notes that the tail is written.
func (e *Edge) Tailed() { e.unsealed, e.pack.dirty = false, false }
