package store

import (
	"context"

	"github.com/biplane-dev/biplane/internal/store/record"
)

// The tail is data that each transaction rewrites. It has the number of the last entry of the
// write-ahead file that is in the database, and the record's sealed head. It also has the data kept
// for the newest leaves, and the versions of the grant lists. It is a single row, so that it costs
// one page and one statement.
const (
	updateTail = `UPDATE tail SET applied = coalesce(?1, applied), head = coalesce(?2, head),
		kept_first = coalesce(?3, kept_first), kept_time = coalesce(?4, kept_time), kept = coalesce(?5, kept), grants = coalesce(?6, grants) WHERE id = 1`
	insertTail = `INSERT INTO tail (id, applied, head, kept_first, kept_time, kept, grants)
		VALUES (1, coalesce(?1, 0), ?2, coalesce(?3, 0), coalesce(?4, 0), coalesce(?5, x''), ?6)`
)

// writeTail writes the tail if the current transaction changed it.
func (w *writer) writeTail(ctx context.Context, group []*write) error {
	var applied any // nil: unchanged
	of, err := w.edge.Tail(ctx, w.tx)
	if err != nil {
		return err
	}
	head, _ := of.Head.([]byte)
	granted, err := w.granted.Load().sealChanges(ctx, w, head)
	if err != nil {
		return err
	}
	if all := entryNumbers(group, w.taken); len(all) > 0 {
		applied = int64(w.ahead.databasePosition(all))
	}
	if applied == nil && of.Head == nil && of.Kept == nil && granted == nil {
		return nil
	}
	for _, query := range []string{updateTail, insertTail} {
		done, err := w.runStatement(ctx, query, applied, of.Head, of.First, of.Time, of.Kept, granted)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err == nil && n == 1 {
			w.edge.MarkTailWritten()
			return nil
		}
	}
	return record.ErrVanished
}
