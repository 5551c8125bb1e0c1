package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// archivedMark is the only byte of the column packed of a leaf that was moved to a segment.
const archivedMark = 2

func isArchived(packed []byte) bool { return len(packed) == 1 && packed[0] == archivedMark }

// An archive reads archived leaves for a View. It keeps the last block that it read.
type archive struct {
	folder   string
	segments []segment.Stored // by first leaf; nil: not loaded yet
	block    int64            // first leaf of leaves
	leaves   [][]byte
	missing  string // path of the last segment whose file was missing
}

// findSegment returns the segment that has a leaf, or nil.
func (a *archive) findSegment(seq int64) *segment.Stored {
	i := sort.Search(len(a.segments), func(i int) bool { return a.segments[i].Last >= seq })
	if i == len(a.segments) || a.segments[i].First > seq {
		return nil
	}
	return &a.segments[i]
}

// ListSegments returns the segments of the record, by their first leaf.
func (v *View) ListSegments() ([]segment.Stored, error) {
	if v.archive.segments != nil {
		return v.archive.segments, nil
	}
	out := []segment.Stored{}
	err := v.eachRow(`SELECT first, last, note FROM audit_segment ORDER BY first`,
		func(scan func(...any) error) error {
			var s segment.Stored
			if err := scan(&s.First, &s.Last, &s.Note); err != nil {
				return v.translateError(err)
			}
			s.Path = filepath.Join(v.archive.folder, segment.FileName(s.First, s.Last))
			out = append(out, s)
			return nil
		})
	if err == nil {
		v.archive.segments = out
	}
	return out, err
}

// archivedLeaf returns a leaf from its segment, valid until the next call. If the segment's file is
// missing, it returns the file's name. If the file doesn't have the leaf, or there is no such
// segment, it returns neither: the leaf was changed.
func (v *View) archivedLeaf(seq int64) (data []byte, absent string) {
	if _, err := v.ListSegments(); err != nil {
		return nil, ""
	}
	a := v.archive
	s := a.findSegment(seq)
	if s == nil {
		return nil, ""
	}
	first := seq / spanLeaves * spanLeaves
	if a.leaves == nil || a.block != first {
		if a.missing == s.Path { // it is not looked for again for each leaf
			return nil, filepath.Base(s.Path)
		}
		leaves, err := segment.ReadBlock(s.Path, (first-s.First)/spanLeaves)
		if errors.Is(err, segment.ErrMissing) {
			a.missing = s.Path
			return nil, filepath.Base(s.Path)
		}
		if err != nil {
			leaves = make([][]byte, spanLeaves)
		}
		a.block, a.leaves = first, leaves
	}
	return a.leaves[seq-first], ""
}

// readLeaf returns the leaf of a row. Its data is valid until the next call, its hashes for longer.
func (v *View) readLeaf(r *leafRow) audit.Leaf {
	l := audit.Leaf{Seq: r.seq, Hashes: splitHashes(r.hashes)}
	if len(r.leaf) == 0 && isArchived(r.packed) {
		l.Data, l.Absent = v.archivedLeaf(r.seq)
	} else {
		l.Data = v.unpackRow(r)
	}
	return l
}

// keepLeaf is like readLeaf, for a leaf that is kept.
func (v *View) keepLeaf(r *leafRow) audit.Leaf {
	l := v.readLeaf(r)
	l.Data = slices.Clone(l.Data)
	return l
}

// movedAtOnce is the number of leaves that one transaction moves: others wait for it.
const movedAtOnce = 4 * spanLeaves

// FindOld returns the oldest leaves that are not archived and whose records began before a time:
// whole spans, at most as many as one segment has. The newest span and the leaves after it stay.
func FindOld(ctx context.Context, q Querier, before string) (first, count int64, err error) {
	const start = `SELECT coalesce((SELECT max(last) + 1 FROM audit_segment), 0), coalesce(max(first), 0)
		FROM audit_span`
	var newest int64
	if err := q.QueryRowContext(ctx, start).Scan(&first, &newest); err != nil {
		return 0, 0, fault.TranslateRead(ctx, err)
	}
	// Spans are in the order of their leaves. A clock that was set back stops the search early.
	const young = `SELECT coalesce(min(first), ?2) FROM audit_span WHERE first >= ?1 AND until >= ?3`
	var end int64
	if err := q.QueryRowContext(ctx, young, first, newest, before).Scan(&end); err != nil {
		return 0, 0, fault.TranslateRead(ctx, err)
	}
	// no segment reaches into two runs, so that a missing one leaves other runs complete
	end = min(end, newest, first/segment.MaxLeaves*segment.MaxLeaves+segment.MaxLeaves)
	return first, max(end-first, 0), nil
}

// CountOld returns the number of leaves that can be archived, in several segments.
func CountOld(ctx context.Context, q Querier, before string) (n int64, err error) {
	const query = `WITH bound(first, newest) AS (SELECT coalesce((SELECT max(last) + 1 FROM audit_segment), 0),
			coalesce(max(first), 0) FROM audit_span)
		SELECT max(min(coalesce((SELECT min(s.first) FROM audit_span s WHERE s.first >= b.first AND s.until >= ?),
			newest), newest) - b.first, 0) FROM bound b`
	if err := q.QueryRowContext(ctx, query, before).Scan(&n); err != nil {
		return 0, fault.TranslateRead(ctx, err)
	}
	return n, nil
}

// FindOpenSegment returns the newest segment if the database still has the text of some of its
// leaves; otherwise nil.
func FindOpenSegment(ctx context.Context, q Querier) (*segment.Stored, error) {
	const query = `SELECT first, last, note FROM audit_segment s
		WHERE first = (SELECT max(first) FROM audit_segment) AND EXISTS (SELECT 1 FROM audit_leaf l
			WHERE l.seq BETWEEN s.first AND s.last AND l.packed IS NOT x'02')`
	var s segment.Stored
	err := q.QueryRowContext(ctx, query).Scan(&s.First, &s.Last, &s.Note)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return &s, nil
}

// errFull ends the reading of leaves when a segment is full.
var errFull = errors.New("the segment is full")

// BuildSegment reads the leaves of a new segment, at most count and as many as one has, and
// compares them with their hashes.
func (v *View) BuildSegment(first, count int64) (*segment.Builder, *segment.Header, error) {
	b, h := &segment.Builder{}, &segment.Header{First: first, Count: count}
	err := v.eachRow(`SELECT seq, hashes, leaf, packed FROM audit_leaf WHERE seq >= ? AND seq < ? ORDER BY seq`,
		func(scan func(...any) error) error {
			if b.IsFull() {
				return errFull
			}
			var r leafRow
			if err := scan(&r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
				return v.translateError(err)
			}
			l := v.readLeaf(&r)
			if r.seq != first+b.CountLeaves() || len(l.Hashes) == 0 || l.Hashes[0] != tlog.RecordHash(l.Data) {
				return tool.Errorf(tool.Conflict,
					"leaf %d of the audit record was changed: run biplane audit verify", first+b.CountLeaves())
			}
			f, _ := factsOf(l.Data)
			at, err := time.Parse(time.RFC3339Nano, f.time)
			if err != nil {
				return tool.Errorf(tool.Conflict,
					"leaf %d of the audit record has no time: run biplane audit verify", r.seq)
			}
			if h.Since.IsZero() || at.Before(h.Since) {
				h.Since = at
			}
			if at.After(h.Until) {
				h.Until = at
			}
			return b.AddLeaf(l.Data)
		}, first, first+count)
	switch {
	case errors.Is(err, errFull):
		h.Count, err = b.CountLeaves(), nil
	case err == nil && b.CountLeaves() != count:
		err = tool.Errorf(tool.Conflict,
			"leaf %d of the audit record is missing: run biplane audit verify", first+b.CountLeaves())
	}
	h.Digest = b.BodyDigest()
	return b, h, err
}

// AddSegment adds a segment whose file was written.
func AddSegment(ctx context.Context, tx Tx, h *segment.Header) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO audit_segment (first, last, note) VALUES (?, ?, ?)`, h.First,
		h.First+h.Count-1, h.Note)
	return fault.RefuseConstraint(err)
}

// MoveSome removes the text of some leaves that are in segments. It reports whether there are more.
// A row is replaced and not updated, because only then its page is merged with others.
func MoveSome(ctx context.Context, tx Tx) (more bool, err error) {
	const next = `SELECT l.seq, l.hashes FROM audit_segment s
		CROSS JOIN audit_leaf l ON l.seq BETWEEN s.first AND s.last
		WHERE s.first = (SELECT max(first) FROM audit_segment) AND l.packed IS NOT x'02' ORDER BY l.seq LIMIT ?`
	rows, err := tx.QueryContext(ctx, next, movedAtOnce)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var all []any
	for rows.Next() {
		var seq int64
		var hashes []byte
		if err := rows.Scan(&seq, &hashes); err != nil {
			return false, err
		}
		all = append(all, seq, hashes, "", []byte{archivedMark})
	}
	if err := rows.Err(); err != nil || len(all) == 0 {
		return false, err
	}
	const columns = 4
	done, err := tx.ExecContext(ctx, `DELETE FROM audit_leaf WHERE seq BETWEEN ? AND ?`, all[0], all[len(all)-columns])
	if err != nil {
		return false, fault.RefuseConstraint(err)
	}
	err = expectRows(done, len(all)/columns)
	for some := range slices.Chunk(all, 16*columns) {
		if err != nil {
			break
		}
		if done, err = tx.Statement(ctx, insertLeaves(len(some)/columns), some...); err == nil {
			err = expectRows(done, len(some)/columns)
		}
	}
	if err != nil {
		// not wrapped: any error after the deletion is one of the transaction, which is rolled back
		return false, fmt.Errorf("archive leaves: %v", err)
	}
	return len(all) == movedAtOnce*columns, nil
}

// expectRows returns an error unless a statement has changed n rows.
func expectRows(done sql.Result, n int) error {
	got, err := done.RowsAffected()
	if err == nil && got != int64(n) {
		err = ErrVanished
	}
	return err
}
