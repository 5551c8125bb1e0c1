package record

import (
	"context"
	"errors"
	"strings"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Leaf is an addition that is to be written.
type Leaf struct {
	Key *secret.Key // seals what is kept beside it
	Add *audit.Addition
	Err error // what it is refused for
}

// What a leaf is refused for.
var (
	errNotBegun = errors.New("no such record has begun")
	errTwice    = errors.New("this half of it is there")
)

// ErrVanished says that the database took what it doesn't have.
var ErrVanished = errors.New("the database took it and does not have it: its triggers were changed")

// Explain makes an error of the database that of the leaf.
func (l *Leaf) Explain(err error) error {
	switch {
	case errors.Is(err, errNotBegun):
		return tool.Errorf(tool.NotFound, "no audit record %s has begun", l.Add.Record)
	case errors.Is(err, errTwice) && l.Add.Part == audit.PartEnded:
		return tool.Errorf(tool.Conflict, "audit record %s has ended already: %w", l.Add.Record, err)
	case errors.Is(err, ErrVanished):
		return tool.Errorf(tool.Unavailable, "the audit record takes nothing: %w: run biplane audit verify", err)
	case errors.Is(err, errTwice), fault.IsConstraint(err):
		return tool.Errorf(tool.Conflict, "audit record %s has begun already: %w", l.Add.Record, err)
	}
	return err
}

// insertLeaves writes so many leaves.
func insertLeaves(n int) string {
	return `INSERT INTO audit_leaf (seq, hashes, leaf) VALUES (?, ?, ?)` + strings.Repeat(`, (?, ?, ?)`, n-1)
}

// Add adds leaves in the transaction under way: their indexes and their hashes are those of the
// tree as it is here. What one of them is refused for alone is noted with it.
func (e *Edge) Add(ctx context.Context, tx Tx, some []*Leaf) error {
	rows := make([]any, 0, 3*len(some))
	for _, x := range some {
		data, hashes, err := e.grown(ctx, tx, x)
		switch {
		case fault.Refused(err):
			x.Err = err
			continue
		case err != nil:
			return err
		}
		rows = append(rows, x.Add.Seq, hashes, string(data))
		if err := e.keepAll(ctx, tx, x); err != nil {
			return err
		}
		if err := e.mark(ctx, tx, x.Add.Seq, data); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := e.insert(ctx, tx, len(rows)/3, rows)
	if err == nil {
		return nil
	}
	e.tree = nil // it has grown by what isn't there
	if !fault.Refused(err) {
		return err
	}
	for _, x := range some {
		x.Err = err
	}
	return nil
}

// insert writes n leaves. What a constraint says, or a row that vanished, is a refusal where
// nothing is left of them.
func (e *Edge) insert(ctx context.Context, tx Tx, n int, rows []any) error {
	done, err := tx.Statement(ctx, insertLeaves(n), rows...)
	if err != nil {
		return fault.Constrained(err)
	}
	switch there, err := done.RowsAffected(); {
	case err == nil && there == int64(n):
		e.unsealed = true
		return nil
	case err == nil && there == 0: // a trigger that isn't ours can let a row vanish without a word
		return fault.Refuse(ErrVanished)
	}
	return ErrVanished
}

// grown adds a leaf to the tree, and gives it, until the next one, with the hashes that are stored
// with it.
func (e *Edge) grown(ctx context.Context, tx Tx, x *Leaf) (data, hashes []byte, err error) {
	if err := e.Grow(ctx, tx, x.Key); err != nil {
		return nil, nil, err
	}
	add := x.Add
	add.Seq = e.tree.size
	if data, err = add.AppendAt(e.placing[:0], add.Seq); err != nil {
		return nil, nil, fault.Refuse(err)
	}
	e.placing = data
	if err := e.placeable(ctx, tx, add); err != nil {
		return nil, nil, err
	}
	return data, e.tree.add(data), nil
}
