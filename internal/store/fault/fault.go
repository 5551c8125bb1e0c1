// Package fault says what errors of the database mean: to people, and to a write among those that
// share a transaction with it.
package fault

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Code gives SQLite's extended result code of err, 0 if it has none.
func Code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// Of makes an error of the database one for people.
func Of(err error) error {
	switch c := Code(err); {
	case c&0xff == sqlite3.SQLITE_FULL:
		return tool.Errorf(tool.Unavailable, "the store is full: free space where the data folder is: %w", err)
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		return Closed()
	default:
		return tool.Errorf(tool.Unavailable, "store: %w", err)
	}
}

// Reading is Of for what was read under ctx, whose end is the error then.
func Reading(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return tool.AsError(ctx.Err())
	}
	return Of(err)
}

// Closed says that the store is closed.
func Closed() error {
	return tool.Errorf(tool.Unavailable, "the store is closed: biplane is shutting down")
}

// One reads a row, if there is one. Its error is one for people.
func One(row *sql.Row, to ...any) error {
	if err := row.Scan(to...); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Of(err)
	}
	return nil
}

// A refusal is the failure of one write alone.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// Refuse makes an error of a write's function the failure of its write alone, and of none that
// shares a transaction with it.
func Refuse(err error) error { return &refusal{err} }

// Refused reports whether an error is the failure of one write alone.
func Refused(err error) bool {
	if err == nil {
		return false
	}
	var r *refusal
	return errors.As(err, &r)
}

// Constrained makes what a constraint said a refusal.
func Constrained(err error) error {
	if IsConstraint(err) {
		return Refuse(err)
	}
	return err
}

// IsConstraint reports whether err is what a constraint said.
func IsConstraint(err error) bool { return Code(err)&0xff == sqlite3.SQLITE_CONSTRAINT }
