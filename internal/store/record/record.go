// Package record stores the audit record in the database. The leaves of its Merkle tree are rows
// with the hashes that tlog stores for them. It also stores the tree's sealed head, the spans in
// which lists search, and the data kept beside the leaves. A View reads the record in one read
// transaction, and an Edge adds to it in write transactions. The order of writes and their
// durability are up to package store.
package record

import (
	"context"
	"database/sql"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

// Purposes for which the data of the record is sealed.
const (
	payloadPurpose = "audit-payload"
	keptPurpose    = "audit-kept"
	// for records without a sealed head: records of older versions, and records without a name
	seedPurpose      = "audit-seed"
	namedPurpose     = "audit-named" // for records of older versions that need no witness
	witnessedPurpose = "audit-witnessed"
	headPurpose      = "audit-head"
	linkPurpose      = "audit-checkpoint"
)

// A Querier reads from a connection or a transaction.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// A Tx is a write transaction.
type Tx interface {
	Querier
	// ExecContext executes a statement that is rarely used.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// Statement executes a statement that is prepared once.
	Statement(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// An Edge is the state needed to add to the record. Its zero value is empty, and is loaded when
// first needed. All of its methods are part of the transaction passed to them, one at a time. If
// the transaction doesn't commit, Lose must follow. An error that is fault.Refused fails only the
// request, any other one fails the transaction.
type Edge struct {
	tree     *tree     // nil: not loaded yet
	heading  *headSeal // what the tree's head is sealed with; loaded with tree
	unsealed bool      // the current transaction has added leaves or checkpoints
	span     *span     // the span that is not full yet; loaded with tree
	greatest string    // greatest record in a full span; loaded with tree
	pack     pack      // kept data without its own row yet
	placing  []byte    // buffer for the leaf that is being added
}

// IsLoaded reports whether the tree is loaded, and matched its seal.
func (e *Edge) IsLoaded() bool { return e.tree != nil }

// DiscardState discards the state after a transaction that was not committed. It is loaded again
// when needed.
func (e *Edge) DiscardState() {
	e.tree, e.unsealed = nil, false
	e.pack.discard()
}

// LoadTree loads the tree if necessary. A broken tree is a refusal: only callers that add to it
// fail.
func (e *Edge) LoadTree(ctx context.Context, tx Tx, key *secret.Key) error {
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
	if err := e.checkTree(ctx, tx, t, key); err != nil {
		return err
	}
	if err := e.adoptChain(ctx, tx); err != nil {
		return err
	}
	if e.span, err = loadSpan(ctx, tx, t.size/spanLeaves*spanLeaves); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(record), '') FROM audit_record`).Scan(
		&e.greatest); err != nil {
		return err
	}
	e.tree = t
	return nil
}

// Head returns the tree's size and root. Grow must have been called in the same transaction.
func (e *Edge) Head() proof.Head { return e.tree.treeHead() }

// Origin returns the record's name, which is empty if it has none. Grow must have been called in
// the same transaction.
func (e *Edge) Origin() string { return e.heading.origin }

// A Tail is the part of the record that is rewritten at the end of each transaction that changes
// it. Nil fields are unchanged.
type Tail struct {
	Head              any // sealed
	First, Time, Kept any // the pack of the newest leaves: its first leaf, its time, its sealed data
}

// Tail returns the tail at the end of the transaction. Once it is written, Tailed must be called.
func (e *Edge) Tail(ctx context.Context, tx Tx) (t Tail, err error) {
	if e.pack.dirty {
		if err := e.settlePack(ctx, tx); err != nil {
			return t, err
		}
		t.First, t.Time, t.Kept = e.pack.tailColumns()
	}
	if e.unsealed {
		sealed, err := e.sealTree(ctx, tx)
		if err != nil {
			return t, err
		}
		t.Head = sealed
	}
	return t, nil
}

// MarkTailWritten records that the tail was written.
func (e *Edge) MarkTailWritten() { e.unsealed, e.pack.dirty = false, false }
