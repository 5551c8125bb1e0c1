package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

// spanLeaves is the number of leaves in a span.
const spanLeaves = 256

// A span is a search index of 256 leaves: for each mark, the leaves that have it. A mark is the
// hash of a member's name and value. Marks may collide, so matches must be checked.
//
// In the encoding, the marks are in ascending order. Each has its value (4 bytes), the number of
// its leaves less one (1 byte), and the offsets of these leaves (1 byte each). All marks are those
// of beginnings. The outcomes of calls are stored separately, by the leaf of their beginning.
type span struct {
	first int64
	bounds
	marks map[uint32][]byte
	// for each end: its offset (1 byte), its distance from its beginning (a varint), and the mark
	// of its outcome (4 bytes)
	ends   []byte
	places map[place]int64 // leaves of the halves of records
	events map[string]bool // records without an end
}

// A spanRow is a span as it is stored.
type spanRow struct {
	first int64
	bounds
	marks, ends []byte
}

// bounds are the least and greatest records that begin in some leaves, and the least and greatest
// of their times. All are empty if no record begins there.
type bounds struct{ low, high, since, until string }

func (b *bounds) extend(o bounds) {
	if o.low == "" {
		return
	}
	if b.low == "" {
		*b = o
		return
	}
	b.low, b.since = min(b.low, o.low), min(b.since, o.since)
	b.high, b.until = max(b.high, o.high), max(b.until, o.until)
}

// A place is one of the two halves of a record.
type place struct {
	record string
	ended  bool
}

// rowAt returns the row of audit_record for a half at a leaf.
func (p place) rowAt(seq int64) recordRow {
	r := recordRow{0, seq, []byte(p.record)}
	if p.ended {
		r.ended = 1
	}
	return r
}

func newSpan(first int64) *span {
	return &span{first: first, marks: map[uint32][]byte{}, places: make(map[place]int64, spanLeaves),
		events: map[string]bool{}}
}

// addLeaf adds a leaf. Malformed leaves are ignored.
func (s *span) addLeaf(seq int64, data []byte) {
	if f, ok := factsOf(data); ok {
		s.addFacts(seq, &f)
	}
}

// addFacts adds the leaf that has some facts.
func (s *span) addFacts(seq int64, f *facts) {
	if f.record == "" {
		return
	}
	s.places[place{f.record, f.ended}] = seq
	if f.ended {
		s.ends = append(s.ends, byte(seq-s.first))
		s.ends = binary.AppendVarint(s.ends, seq-f.begun)
		s.ends = binary.BigEndian.AppendUint32(s.ends, f.outcome)
		return
	}
	if f.event {
		s.events[f.record] = true
	}
	s.bounds.extend(bounds{f.record, f.record, f.time, f.time})
	for _, m := range f.marks[:f.n] {
		if at := s.marks[m]; len(at) == 0 || at[len(at)-1] != byte(seq-s.first) {
			s.marks[m] = append(at, byte(seq-s.first))
		}
	}
}

// encodeMarks returns the encoded marks.
func (s *span) encodeMarks() []byte {
	out := []byte{}
	for _, m := range slices.Sorted(maps.Keys(s.marks)) {
		at := s.marks[m]
		out = append(binary.BigEndian.AppendUint32(out, m), byte(len(at)-1))
		out = append(out, at...)
	}
	return out
}

// eachMark calls f with each encoded mark, and the leaves that have it.
func eachMark(kept []byte, f func(m uint32, at []byte)) {
	for len(kept) > 5 && len(kept) >= 6+int(kept[4]) {
		end := 6 + int(kept[4])
		f(binary.BigEndian.Uint32(kept), kept[5:end])
		kept = kept[end:]
	}
}

// eachEnd calls f for each call that ends in a span, with the leaf of its beginning and the mark of
// its outcome.
func eachEnd(first int64, kept []byte, f func(begun int64, outcome uint32)) {
	for len(kept) > 1 {
		seq := first + int64(kept[0])
		distance, n := binary.Varint(kept[1:])
		if n <= 0 || len(kept) < 1+n+4 {
			return
		}
		f(seq-distance, binary.BigEndian.Uint32(kept[1+n:]))
		kept = kept[1+n+4:]
	}
}

// endsBytes returns the encoded ends.
func (s *span) endsBytes() []byte {
	if s.ends == nil {
		return []byte{}
	}
	return s.ends
}

// findMarks returns the offsets of the leaves that have all marks, in order.
func findMarks(kept []byte, marks []uint32) []byte {
	left := slices.Sorted(slices.Values(marks))
	var out []byte
	for len(left) > 0 {
		if len(kept) < 5 || len(kept) < 6+int(kept[4]) {
			return nil
		}
		m, at := binary.BigEndian.Uint32(kept), kept[5:6+int(kept[4])]
		kept = kept[len(at)+5:]
		switch {
		case m > left[0]:
			return nil
		case m < left[0]:
			continue
		case out == nil:
			out = slices.Clone(at)
		default:
			out = slices.DeleteFunc(out, func(b byte) bool { return !slices.Contains(at, b) })
		}
		left = slices.DeleteFunc(left, func(x uint32) bool { return x == m })
	}
	return out
}

// markOf returns the hash of a member's name and value (FNV-1a).
func markOf[T string | []byte](name, value T) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	h = h * 16777619
	for i := range len(value) {
		h = (h ^ uint32(value[i])) * 16777619
	}
	return h
}

// facts are the searchable properties of a leaf.
type facts struct {
	record  string
	time    string
	ended   bool
	event   bool
	seq     int64
	begun   int64  // for an end: the leaf of its beginning
	outcome uint32 // for an end: the mark of its outcome
	marks   [9]uint32
	n       int // number of marks
}

// beginsMark is the mark of all leaves that begin a record.
var beginsMark = markOf("begins", "")

// factsOf parses a leaf: a canonical JSON object whose members are strings, numbers and objects. It
// reports whether the leaf is well-formed, as far as it parses it.
func factsOf(data []byte) (f facts, ok bool) {
	ok = walkMembers(data, func(name, value []byte) {
		switch string(name) {
		case "record":
			f.record = string(value)
		case "part":
			f.ended, f.event = string(value) == audit.PartEnded, string(value) == audit.PartEvent
		case "time":
			f.time = string(value)
		case "seq":
			f.seq, _ = strconv.ParseInt(string(value), 10, 64)
		case "begun":
			f.begun, _ = strconv.ParseInt(string(value), 10, 64)
		case "outcome":
			f.outcome = markOf(name, value)
			f.addMark(f.outcome)
		case "tool", "upstream", "principal", "execution", "kind", "effect":
			f.addMark(markOf(name, value))
		}
	})
	f.marks[f.n] = beginsMark
	f.n++
	return f, ok
}

func (f *facts) addMark(m uint32) {
	if f.n < len(f.marks)-1 {
		f.marks[f.n] = m
		f.n++
	}
}

// factsOfLeaf is like factsOf, for a leaf that may be decoded.
func factsOfLeaf(l *audit.Leaf) (f facts, ok bool) {
	f.seq, f.begun, ok = l.EachMember(func(name, value string) {
		switch name {
		case "record":
			f.record = value
		case "part":
			f.ended, f.event = value == audit.PartEnded, value == audit.PartEvent
		case "time":
			f.time = value
		case "outcome":
			f.outcome = markOf(name, value)
			f.addMark(f.outcome)
		default:
			f.addMark(markOf(name, value))
		}
	})
	if !ok {
		return factsOf(l.Data)
	}
	f.marks[f.n] = beginsMark
	f.n++
	return f, true
}

// walkMembers calls f with the members of a canonical JSON object that are strings or numbers. It
// is much faster than a decoder.
func walkMembers(data []byte, f func(name, value []byte)) bool {
	if len(data) < 2 || data[0] != '{' {
		return false
	}
	for data[0] != '}' {
		name, rest, ok := parseString(data[1:])
		if !ok || len(rest) < 2 || rest[0] != ':' {
			return false
		}
		if data = rest[1:]; data[0] == '"' {
			var value []byte
			if value, data, ok = parseString(data); !ok {
				return false
			}
			f(name, value)
		} else {
			from := data
			if data, ok = skipValue(data); !ok {
				return false
			}
			if from[0] != '{' {
				f(name, from[:len(from)-len(data)])
			}
		}
		if len(data) == 0 || data[0] != ',' && data[0] != '}' {
			return false
		}
	}
	return len(data) == 1
}

// parseString decodes the string at the beginning of data, and returns the remaining bytes.
func parseString(data []byte) (value, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	end := 1
	for {
		i := bytes.IndexByte(data[end:], '"')
		if i < 0 {
			return nil, nil, false
		}
		end += i
		back := end
		for data[back-1] == '\\' {
			back--
		}
		if (end-back)%2 == 0 {
			break
		}
		end++
	}
	value, rest = data[1:end], data[end+1:]
	if bytes.IndexByte(value, '\\') >= 0 {
		var s string
		if json.Unmarshal(data[:end+1], &s) != nil {
			return nil, nil, false
		}
		value = []byte(s)
	}
	return value, rest, true
}

// skipValue skips a number or an object.
func skipValue(data []byte) (rest []byte, ok bool) {
	for depth := 0; len(data) > 0; {
		switch c := data[0]; {
		case c == '"':
			if _, data, ok = parseString(data); !ok {
				return nil, false
			}
			continue
		case c == '{':
			depth++
		case depth == 0 && (c == ',' || c == '}'):
			return data, true
		case c == '}':
			if depth--; depth == 0 {
				return data[1:], true
			}
		}
		data = data[1:]
	}
	return nil, false
}

const (
	insertSpan = `INSERT OR REPLACE INTO audit_span (first, low, high, since, until, marks, ends) VALUES (?, ?, ?, ` +
		`?, ?, ?, ?)`
	selectSpan = `SELECT seq, leaf, packed FROM audit_leaf WHERE seq >= ? AND seq < ? + 256 ORDER BY seq`
	// 5 is packedEvent. Events of older versions are not packed.
	selectPlace = `SELECT r.ended, substr(l.packed, 1, 1) IS x'05' OR ` +
		`coalesce(CASE WHEN json_valid(l.leaf) THEN l.leaf ->> 'part' = 'event' END, 0) ` +
		`FROM audit_record r LEFT JOIN audit_leaf l ON l.seq = r.seq WHERE r.record = ?`
	// The leaf of a half of a record, plus one. For ended, see recordRow.
	selectHalf = `SELECT iif(?2, ` + endOf + `, x.seq) + 1 FROM audit_record x ` +
		`WHERE x.record = ?1 AND iif(?2, x.ended >= 1, ` + begins + `)`
	// Conditions and values of a row x of audit_record: see recordRow.
	begins = `(x.ended = 0 OR x.ended > 1)`
	endOf  = `iif(x.ended = 1, x.seq, x.seq + x.ended - 1)`
)

// markLeaf adds a leaf to the current span, and writes the span when it is full.
func (e *Edge) markLeaf(ctx context.Context, tx Tx, seq int64, data []byte) error {
	e.span.addLeaf(seq, data)
	if (seq+1)%spanLeaves != 0 {
		return nil
	}
	err := putSpan(ctx, tx, e.span)
	if err == nil && (seq+1)%runLeaves == 0 {
		err = putRun(ctx, tx, seq+1-runLeaves)
	}
	e.greatest = max(e.greatest, e.span.high)
	e.span = newSpan(seq + 1)
	return err
}

// putSpan writes a span, and where its records are.
func putSpan(ctx context.Context, tx Tx, s *span) error {
	if err := putPlaces(ctx, tx, s.pairPlaces()); err != nil {
		return err
	}
	return putSpanRow(ctx, tx, s)
}

// pairPlaces returns the rows of audit_record for a span, sorted. A record whose halves are both in
// the span has one row.
func (s *span) pairPlaces() []recordRow {
	rows := make([]recordRow, 0, len(s.places))
	for p, seq := range s.places {
		first, begins := s.places[place{p.record, false}]
		last, ends := s.places[place{p.record, true}]
		paired := begins && ends && last > first
		switch {
		case !paired:
			rows = append(rows, p.rowAt(seq))
		case !p.ended:
			rows = append(rows, recordRow{1 + last - first, first, []byte(p.record)})
		}
	}
	slices.SortFunc(rows, func(a, b recordRow) int {
		return cmp.Or(bytes.Compare(a.record, b.record), cmp.Compare(a.ended, b.ended))
	})
	return rows
}

// putPlaces writes rows of audit_record.
func putPlaces(ctx context.Context, tx Tx, rows []recordRow) error {
	const row, atOnce = `, (?, ?, ?)`, 16 // so that few statements are prepared
	for some := range slices.Chunk(rows, atOnce) {
		var args []any
		for _, r := range some {
			args = append(args, string(r.record), r.ended, r.seq)
		}
		if _, err := tx.Statement(ctx, `INSERT OR REPLACE INTO audit_record (record, ended, seq) VALUES `+
			strings.Repeat(row, len(some))[2:], args...); err != nil {
			return err
		}
	}
	return nil
}

func putSpanRow(ctx context.Context, tx Tx, s *span) error {
	_, err := tx.Statement(ctx, insertSpan, s.first, s.low, s.high, s.since, s.until, s.encodeMarks(), s.endsBytes())
	return err
}

// putAgain is like putSpan for leaves that were added before: usually their rows in audit_record
// exist already.
func putAgain(ctx context.Context, tx Tx, s *span) error {
	var missing []recordRow
	for p, seq := range s.places {
		var there int64
		if err := fault.ScanOne(tx.QueryRowContext(ctx, selectHalf, p.record, p.ended), &there); err != nil {
			return err
		}
		if there != seq+1 {
			missing = append(missing, p.rowAt(seq))
		}
	}
	if len(missing) == len(s.places) {
		return putSpan(ctx, tx, s)
	}
	if err := putPlaces(ctx, tx, missing); err != nil {
		return err
	}
	return putSpanRow(ctx, tx, s)
}

// checkPlace checks whether a half of a record may be added: each half only once, an end only after
// its beginning, and no end for an event. The newest halves are in the current span. A record
// greater than all those in earlier spans is in none of them.
func (e *Edge) checkPlace(ctx context.Context, tx Tx, add *audit.Addition) error {
	begun := add.Part != audit.PartEnded
	_, first := e.span.places[place{add.Record, false}]
	_, last := e.span.places[place{add.Record, true}]
	event := e.span.events[add.Record]
	if add.Record <= e.greatest && !first {
		rows, err := tx.QueryContext(ctx, selectPlace, add.Record)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var ended int64
			var isEvent bool
			if err := rows.Scan(&ended, &isEvent); err != nil {
				return err
			}
			first, last, event = first || ended != 1, last || ended != 0, event || isEvent && ended == 0
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	switch {
	case begun && first, !begun && last:
		return fault.Refuse(errTwice)
	case !begun && (!first || event):
		return fault.Refuse(errNotBegun)
	}
	return nil
}

// PlaceOf returns the first leaf of a record.
func (e *Edge) PlaceOf(ctx context.Context, tx Tx, key *secret.Key, record string) (seq int64, err error) {
	if err := e.LoadTree(ctx, tx, key); err != nil {
		return 0, err
	}
	if seq, ok := e.span.places[place{record, false}]; ok {
		return seq, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT x.seq FROM audit_record x WHERE x.record = ? AND `+begins, record)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, errors.Join(rows.Err(), fault.Refuse(errNotBegun))
	}
	return seq, rows.Scan(&seq)
}

// loadSpan rebuilds the span that begins with leaf first.
func loadSpan(ctx context.Context, q Querier, first int64) (*span, error) {
	rows, err := q.QueryContext(ctx, selectSpan, first, first)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := newSpan(first)
	for rows.Next() {
		var r leafRow
		if err := rows.Scan(&r.seq, &r.leaf, &r.packed); err != nil {
			return nil, err
		}
		data, err := UnpackLeaf(r.leaf, r.packed)
		if err != nil { // the row was changed: it has no marks
			data = nil
		}
		s.addLeaf(r.seq, data)
	}
	return s, rows.Err()
}

// FirstWithoutSpan returns the first leaf of the first span that isn't written, and the number of
// leaves. In the record of an older version, spans may be missing.
func FirstWithoutSpan(ctx context.Context, q Querier) (first, size int64, err error) {
	const next = `SELECT coalesce((SELECT max(first) + 256 FROM audit_span), 0), (SELECT coalesce(max(seq), -1) + 1 ` +
		`FROM audit_leaf)`
	if err := q.QueryRowContext(ctx, next).Scan(&first, &size); err != nil {
		return 0, 0, fault.TranslateRead(ctx, err)
	}
	return first, size, nil
}

// FillsSpan reports whether the leaves up to size fill the span that begins with first.
func FillsSpan(first, size int64) bool { return first+spanLeaves <= size }

// WriteSpans writes missing spans from first on, up to 64 of them.
func WriteSpans(ctx context.Context, tx Tx, first, size int64) error {
	for end := min(size, first+64*spanLeaves); FillsSpan(first, end); first += spanLeaves {
		s, err := loadSpan(ctx, tx, first)
		if err != nil {
			return err
		}
		if err := putAgain(ctx, tx, s); err != nil {
			return err
		}
		if next := first + spanLeaves; next%runLeaves == 0 {
			if err := putRun(ctx, tx, next-runLeaves); err != nil {
				return err
			}
		}
	}
	return nil
}
