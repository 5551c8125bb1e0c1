package record

import (
	"context"
	"errors"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Leaf is an addition waiting to be written.
type Leaf struct {
	Key *secret.Key // seals the data kept beside the leaf
	Add *audit.Addition
	Err error // why the leaf was refused
}

// Reasons to refuse a leaf.
var (
	errNotBegun = errors.New("the record has not begun")
	errTwice    = errors.New("this half of the record already exists")
)

// ErrVanished means that the database accepted a row and doesn't have it.
var ErrVanished = errors.New("the database accepted it but does not have it: its triggers were changed")

// ExplainError turns a database error into the error about the leaf.
func (l *Leaf) ExplainError(err error) error {
	switch {
	case errors.Is(err, errNotBegun):
		return tool.Errorf(tool.NotFound, "audit record %s has not begun", l.Add.Record)
	case errors.Is(err, errTwice) && l.Add.Part == audit.PartEnded:
		return tool.Errorf(tool.Conflict, "audit record %s has already ended: %w", l.Add.Record, err)
	case errors.Is(err, ErrVanished):
		return tool.Errorf(tool.Unavailable, "the audit record accepts no entries: %w: run biplane audit verify", err)
	case errors.Is(err, errTwice), fault.IsConstraint(err):
		return tool.Errorf(tool.Conflict, "audit record %s has already begun: %w", l.Add.Record, err)
	}
	return err
}

// insertLeaves returns the statement that inserts n leaves.
func insertLeaves(n int) string {
	const row = `, (?, ?, ?, ?)`
	return `INSERT INTO audit_leaf (seq, hashes, leaf, packed) VALUES ` + strings.Repeat(row, n)[2:]
}

// Add adds leaves in the current transaction. Their indexes and hashes follow from the tree in
// memory. If a single leaf is refused, the error is stored in that leaf.
func (e *Edge) Add(ctx context.Context, tx Tx, some []*Leaf) error {
	rows := make([]any, 0, 4*len(some))
	for _, x := range some {
		data, hashes, err := e.growTree(ctx, tx, x)
		switch {
		case fault.IsRefusal(err):
			x.Err = err
			continue
		case err != nil:
			return err
		}
		if packed := packLeaf(data); packed != nil {
			rows = append(rows, x.Add.Seq, hashes, "", packed)
		} else {
			rows = append(rows, x.Add.Seq, hashes, string(data), nil)
		}
		if err := e.keepAll(ctx, tx, x); err != nil {
			return err
		}
		if err := e.markLeaf(ctx, tx, x.Add.Seq, data); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := e.insertLeaves(ctx, tx, len(rows)/4, rows)
	if err == nil {
		return nil
	}
	e.tree = nil // it includes leaves that were not written
	if !fault.IsRefusal(err) {
		return err
	}
	for _, x := range some {
		x.Err = err
	}
	return nil
}

// insertLeaves writes n leaves. It returns a refusal for a constraint error, or if all rows
// vanished, since then none of them was written.
func (e *Edge) insertLeaves(ctx context.Context, tx Tx, n int, rows []any) error {
	done, err := tx.Statement(ctx, insertLeaves(n), rows...)
	if err != nil {
		return fault.RefuseConstraint(err)
	}
	switch there, err := done.RowsAffected(); {
	case err == nil && there == int64(n):
		e.unsealed = true
		return nil
	case err == nil && there == 0: // a foreign trigger can drop a row silently
		return fault.Refuse(ErrVanished)
	}
	return ErrVanished
}

// growTree adds a leaf to the tree. It returns the leaf, valid until the next call, and the hashes
// that are stored with it.
func (e *Edge) growTree(ctx context.Context, tx Tx, x *Leaf) (data, hashes []byte, err error) {
	if err := e.LoadTree(ctx, tx, x.Key); err != nil {
		return nil, nil, err
	}
	add := x.Add
	add.Seq = e.tree.size
	if data, err = add.AppendAt(e.placing[:0], add.Seq); err != nil {
		return nil, nil, fault.Refuse(err)
	}
	e.placing = data
	if err := e.checkPlace(ctx, tx, add); err != nil {
		return nil, nil, err
	}
	return data, e.tree.appendLeaf(data), nil
}
