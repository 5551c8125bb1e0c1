package store

import (
	"context"

	"github.com/biplane-dev/biplane/internal/store/record"
)

// The tail is what each transaction writes anew: up to which entry of the file beside the database
// that has all, the record's sealed head, and what is kept for the newest leaves, and the versions
// of what grants something. It is one row, so that it costs one page and one statement.
const (
	updateTail = `UPDATE tail SET applied = coalesce(?1, applied), head = coalesce(?2, head),
		kept_first = coalesce(?3, kept_first), kept_time = coalesce(?4, kept_time), kept = coalesce(?5, kept), grants = coalesce(?6, grants) WHERE id = 1`
	insertTail = `INSERT INTO tail (id, applied, head, kept_first, kept_time, kept, grants)
		VALUES (1, coalesce(?1, 0), ?2, coalesce(?3, 0), coalesce(?4, 0), coalesce(?5, x''), ?6)`
)

// end writes the tail where the transaction under way has changed what is in it.
func (w *writer) end(ctx context.Context, group []*write) error {
	var applied any // nil: as it is
	of, err := w.edge.Tail(ctx, w.tx)
	if err != nil {
		return err
	}
	head, _ := of.Head.([]byte)
	granted, err := w.granted.Load().seal(ctx, w, head)
	if err != nil {
		return err
	}
	if all := numbers(group, w.taken); len(all) > 0 {
		applied = int64(w.ahead.position(all))
	}
	if applied == nil && of.Head == nil && of.Kept == nil && granted == nil {
		return nil
	}
	for _, query := range []string{updateTail, insertTail} {
		done, err := w.statement(ctx, query, applied, of.Head, of.First, of.Time, of.Kept, granted)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err == nil && n == 1 {
			w.edge.Tailed()
			return nil
		}
	}
	return record.ErrVanished
}
