package store

import (
	"context"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// OldData counts and deletes old data. It needs no key, since it reads no content.
type OldData struct{ s *Store }

// OldData returns the old data of the store.
func (s *Store) OldData() OldData { return OldData{s} }

// Conditions for executions that ended before ?1, and for those of them that have a journal. The
// index is by start.
const (
	oldExecutions = ` FROM execution x WHERE started < ?1 AND ended <> 0 AND ended < ?1`
	oldJournals   = oldExecutions + ` AND EXISTS (SELECT 1 FROM execution_part WHERE execution = x.id)`
	oldUsage      = ` FROM usage WHERE start < ?1`
)

// CountExecutions returns the number of executions that ended before a time.
func (o OldData) CountExecutions(ctx context.Context, before time.Time) (int64, error) {
	return o.countRows(ctx, oldExecutions, before.UnixMicro())
}

// CountJournals returns the number of those executions that have a journal.
func (o OldData) CountJournals(ctx context.Context, before time.Time) (int64, error) {
	return o.countRows(ctx, oldJournals, before.UnixMicro())
}

// CountUsage returns the number of rows of usage that begin before a time.
func (o OldData) CountUsage(ctx context.Context, before time.Time) (int64, error) {
	return o.countRows(ctx, oldUsage, before.Unix())
}

func (o OldData) countRows(ctx context.Context, from string, bound int64) (n int64, err error) {
	if err := o.s.read.QueryRowContext(ctx, `SELECT count(*)`+from, bound).Scan(&n); err != nil {
		return 0, fault.TranslateRead(ctx, err)
	}
	return n, nil
}

// DeleteExecutions deletes the oldest executions that ended before a time, with their journals, and
// returns their number, which is at most most.
func (o OldData) DeleteExecutions(ctx context.Context, before time.Time, most int) (int64, error) {
	e := &Executions{s: o.s}
	return o.deleteSome(ctx, oldExecutions, before.UnixMicro(), most, e.deleteExecutions)
}

// lostToPrune says why an execution without a journal can't be replayed.
const lostToPrune = "its journal was deleted by biplane prune"

// DeleteJournals deletes the journals of such executions. The executions stay in lists, and say
// that they can't be replayed.
func (o OldData) DeleteJournals(ctx context.Context, before time.Time, most int) (int64, error) {
	return o.deleteSome(ctx, oldJournals, before.UnixMicro(), most, func(ctx context.Context, ids []string) error {
		list, err := tool.Marshal(ids)
		if err != nil {
			return err
		}
		return o.s.writer.execAll(ctx, false, append(journalSteps(string(list)), step{`UPDATE execution SET bytes = 0,
			lost = CASE lost WHEN '' THEN ?2 ELSE lost END WHERE id IN ` + theseIDs, []any{string(list), lostToPrune}}))
	})
}

// DeleteUsage deletes the rows of usage that begin before a time, and returns their number.
func (o OldData) DeleteUsage(ctx context.Context, before time.Time, most int) (n int64, err error) {
	err = o.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
		done, err := w.runStatement(ctx, `DELETE FROM usage WHERE (start, span, who, upstream, tool) IN
			(SELECT start, span, who, upstream, tool`+oldUsage+` LIMIT ?2)`,
			before.Unix(), most)
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); err != nil || n == int64(most) {
			return err
		}
		return w.execStep(ctx, step{query: dropWho})
	})
	if err != nil {
		return 0, err
	}
	return n, o.s.shrinkFile(ctx)
}

// deleteSome calls remove with the ids of the oldest executions that match, a few at a time, and
// returns the space to the file system. It returns their number.
func (o OldData) deleteSome(ctx context.Context, from string, bound int64, most int,
	remove func(context.Context, []string) error) (n int64, err error) {
	ids, err := o.s.queryStrings(ctx, `SELECT id`+from+` ORDER BY started LIMIT ?2`, bound, most)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(ids, deletedAtOnce) {
		if err := ctx.Err(); err != nil {
			return n, tool.AsError(err)
		}
		if err := remove(ctx, some); err != nil {
			return n, err
		}
		n += int64(len(some))
	}
	if err := o.s.shrinkFile(ctx); err != nil {
		return n, err
	}
	return n, o.s.truncateAhead()
}
