// Package fault classifies database errors: it translates them for users, and marks errors that
// fail only one of the writes in a transaction.
package fault

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Code returns SQLite's extended result code of err, or 0 if it has none.
func Code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// Translate turns a database error into an error for users.
func Translate(err error) error {
	switch c := Code(err); {
	case c&0xff == sqlite3.SQLITE_FULL:
		return tool.Errorf(tool.Unavailable, "the store is full: free space on the data folder's disk: %w", err)
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		return NewClosedError()
	default:
		return tool.Errorf(tool.Unavailable, "store: %w", err)
	}
}

// TranslateRead is like Of, but returns the error of ctx if ctx has ended.
func TranslateRead(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return tool.AsError(ctx.Err())
	}
	return Translate(err)
}

// NewClosedError returns the error for a closed store.
func NewClosedError() error {
	return tool.Errorf(tool.Unavailable, "the store is closed: biplane is shutting down")
}

// ScanOne reads a row, if there is one. It returns an error for users.
func ScanOne(row *sql.Row, to ...any) error {
	if err := row.Scan(to...); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Translate(err)
	}
	return nil
}

// A refusal is an error that fails only one write.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// Refuse marks err as the failure of only one write, not of the others in its transaction.
func Refuse(err error) error { return &refusal{err} }

// IsRefusal reports whether err fails only one write.
func IsRefusal(err error) bool {
	if err == nil {
		return false
	}
	var r *refusal
	return errors.As(err, &r)
}

// RefuseConstraint turns a constraint error into a refusal, and returns any other error unchanged.
func RefuseConstraint(err error) error {
	if IsConstraint(err) {
		return Refuse(err)
	}
	return err
}

// IsConstraint reports whether err is a constraint error.
func IsConstraint(err error) bool { return Code(err)&0xff == sqlite3.SQLITE_CONSTRAINT }
