package record

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
)

const (
	// runLeaves is the number of leaves in a run: offsets in it have 16 bits.
	runLeaves = 1 << 16
	// denseFrom is the number of leaves from which a posting is stored as a bitmap.
	denseFrom = runLeaves / 16
	// rowBytes is the size, in bytes, at which a row of postings is full.
	rowBytes = 3500
	// bitmapBytes is the size of a posting that is a bitmap, in bytes.
	bitmapBytes = runLeaves / 8
)

// A bitmap is a set of leaves of a run.
type bitmap [runLeaves / 64]uint64

// newBitmap returns the set of all leaves of a run.
func newBitmap() *bitmap {
	b := &bitmap{}
	for i := range b {
		b[i] = ^uint64(0)
	}
	return b
}

func (b *bitmap) setBit(n int64) { b[n>>6] |= 1 << (n & 63) }

// intersect keeps the leaves that are also in c. It reports whether any is left.
func (b *bitmap) intersect(c *bitmap) bool {
	left := uint64(0)
	for i := range b {
		b[i] &= c[i]
		left |= b[i]
	}
	return left != 0
}

// eachSpan calls f for each span of the run that has leaves in b, with the span's number and the
// offsets of these leaves in it. b may be nil.
func (b *bitmap) eachSpan(f func(n int64, at []byte)) {
	if b == nil {
		return
	}
	const words = spanLeaves / 64
	for n := range int64(runLeaves / spanLeaves) {
		var at []byte
		for i, w := range b[n*words : (n+1)*words] {
			for ; w != 0; w &= w - 1 {
				at = append(at, byte(64*i+bits.TrailingZeros64(w)))
			}
		}
		if len(at) > 0 {
			f(n, at)
		}
	}
}

// A run is a search index of 65536 leaves: for each mark, the leaves that have it. It replaces 256
// spans once they are full, so that a search for a mark reads a few rows and not 256. Its rows are
// sorted by mark, and appended to their table.
type run struct {
	first int64
	bounds
	postings map[uint32][]uint16
	late     map[int64]uint32 // outcomes of calls that began in earlier runs, by the leaf of their beginning
}

// newRun builds a run from its spans.
func newRun(spans []spanRow) *run {
	r := &run{first: spans[0].first, postings: map[uint32][]uint16{}, late: map[int64]uint32{}}
	for _, s := range spans {
		r.bounds.extend(s.bounds)
		eachMark(s.marks, func(m uint32, at []byte) {
			for _, n := range at {
				r.postings[m] = append(r.postings[m], uint16(s.first-r.first)+uint16(n))
			}
		})
	}
	late := map[uint32]bool{}
	for _, s := range spans {
		eachEnd(s.first, s.ends, func(begun int64, m uint32) {
			if begun < r.first {
				r.late[begun] = m
				return
			}
			r.postings[m] = append(r.postings[m], uint16(begun-r.first))
			late[m] = true
		})
	}
	for m := range late { // calls don't end in the order in which they begin
		slices.Sort(r.postings[m])
	}
	return r
}

// A postingRow is a row of postings as it is stored.
type postingRow struct {
	key  int64
	data []byte
}

func postingKey(first int64, mark uint32) int64 { return first/runLeaves<<32 | int64(mark) }

// encodeRows returns the encoded postings. Each has its mark (4 bytes), the number of its leaves
// less one (2 bytes), and the leaves (2 bytes each, or a bitmap).
func (r *run) encodeRows() (out []postingRow) {
	var row postingRow
	for _, m := range slices.Sorted(maps.Keys(r.postings)) {
		at := r.postings[m]
		if len(row.data) == 0 {
			row.key = postingKey(r.first, m)
		}
		row.data = binary.BigEndian.AppendUint32(row.data, m)
		row.data = binary.BigEndian.AppendUint16(row.data, uint16(len(at)-1))
		if len(at) < denseFrom {
			for _, n := range at {
				row.data = binary.BigEndian.AppendUint16(row.data, n)
			}
		} else {
			dense := make([]byte, bitmapBytes)
			for _, n := range at {
				dense[n>>3] |= 1 << (n & 7)
			}
			row.data = append(row.data, dense...)
		}
		if len(row.data) >= rowBytes {
			out = append(out, row)
			row = postingRow{}
		}
	}
	if len(row.data) > 0 {
		out = append(out, row)
	}
	return out
}

// addPostings adds the leaves that have a mark. row is the row of postings that has the mark, if
// any row has.
func (b *bitmap) addPostings(row []byte, mark uint32) {
	for len(row) > 6 {
		m, n := binary.BigEndian.Uint32(row), int(binary.BigEndian.Uint16(row[4:]))+1
		row = row[6:]
		size := 2 * n
		if n >= denseFrom {
			size = bitmapBytes
		}
		switch {
		case len(row) < size || m > mark:
			return
		case m < mark:
			row = row[size:]
			continue
		case n >= denseFrom:
			for i := range b {
				b[i] |= binary.LittleEndian.Uint64(row[8*i:])
			}
		default:
			for i := range n {
				b.setBit(int64(binary.BigEndian.Uint16(row[2*i:])))
			}
		}
		return
	}
}

const (
	selectSpans = `SELECT first, low, high, since, until, marks, ends FROM audit_span WHERE first >= ? AND first < ` +
		`? ORDER BY first`
	insertRun     = `INSERT OR REPLACE INTO audit_run (first, low, high, since, until) VALUES (?, ?, ?, ?, ?)`
	insertPosting = `INSERT OR REPLACE INTO audit_posting (key, data) VALUES (?, ?)`
	insertLate    = `INSERT OR REPLACE INTO audit_late (seq, mark) VALUES (?, ?)`
	emptySpans    = `UPDATE audit_span SET marks = x'', ends = x'' WHERE first >= ? AND first < ?`
)

// putRun writes the run that begins with leaf first. Its spans must be written.
func putRun(ctx context.Context, tx Tx, first int64) error {
	spans, err := loadSpans(ctx, tx, first, first+runLeaves)
	if err != nil || len(spans) == 0 {
		return err
	}
	r := newRun(spans)
	if _, err := tx.Statement(ctx, insertRun, first, r.low, r.high, r.since, r.until); err != nil {
		return err
	}
	for _, row := range r.encodeRows() {
		if _, err := tx.Statement(ctx, insertPosting, row.key, row.data); err != nil {
			return err
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(r.late)) {
		if _, err := tx.Statement(ctx, insertLate, seq, int64(r.late[seq])); err != nil {
			return err
		}
	}
	_, err = tx.Statement(ctx, emptySpans, first, first+runLeaves)
	return err
}

// loadSpans reads the spans that begin within a range of leaves.
func loadSpans(ctx context.Context, q Querier, from, to int64) (out []spanRow, err error) {
	rows, err := q.QueryContext(ctx, selectSpans, from, to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s spanRow
		if err := rows.Scan(&s.first, &s.low, &s.high, &s.since, &s.until, &s.marks, &s.ends); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// all is an upper bound of all leaves.
const all = math.MaxInt64
