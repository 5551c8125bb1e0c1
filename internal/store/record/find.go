package record

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/audit"
)

// atOnce is how many records a search reads in one step.
const atOnce = 64

// A search is a query under way. It looks in the leaves that are in no span yet, then in the spans that are in no run yet and in the runs, in the order of the
// records in them, until it has what is asked for. Where the index says that a record is, its leaves are read, checked and compared with the query: what fails its check is
// found, too.
type search struct {
	v       *View
	q       audit.Query
	asc     bool
	marks   []uint32 // that a beginning must have
	outcome uint32   // that a call must have ended with; 0: any
	since   string
	until   string

	ends   map[string]int64 // leaves of ends that are in no span yet, by record
	ended  map[int64]bool   // beginnings of calls with that outcome, whose ends are in no run yet
	runs   []*runAt         // that are to be searched, the next one first
	spans  []*spanAt        // the same
	sorted bool             // spans is
	found  []audit.Pair     // in order
	bad    string           // what is wrong with the leaves that are in no span yet; empty: nothing
}

// A runAt is a run that may have something.
type runAt struct {
	first int64
	bounds
}

// A spanAt is a span that has something: at are leaves, as distances from the first.
type spanAt struct {
	first int64
	bounds
	at []byte
}

// Records returns what q picks, in its order.
func (v *View) Records(q audit.Query) ([]audit.Pair, error) {
	s := newSearch(v, q)
	err := s.newest()
	switch {
	case err != nil:
	case q.ID != "", len(s.marks) == 1 && s.outcome == 0 && s.since == "" && s.until == "":
		err = s.listed()
	default:
		if err = s.layers(); err == nil {
			err = s.descend()
		}
	}
	return s.found, err
}

func newSearch(v *View, q audit.Query) *search {
	s := &search{v: v, q: q, asc: q.After != "", marks: []uint32{beginsMark}, ends: map[string]int64{}, ended: map[int64]bool{}}
	for _, f := range [][2]string{{"tool", q.Tool}, {"principal", q.Principal}, {"execution", q.Execution}, {"upstream", q.Upstream}, {"kind", string(q.Kind)}, {"effect", q.Effect}} {
		if f[1] != "" {
			s.marks = append(s.marks, markOf(f[0], f[1]))
		}
	}
	if q.Outcome != "" {
		s.outcome = markOf("outcome", string(q.Outcome))
	}
	if !q.Since.IsZero() {
		s.since = audit.Stamp(q.Since)
	}
	if !q.Until.IsZero() {
		s.until = audit.Stamp(q.Until)
	}
	return s
}

// order compares records by the order of the query.
func (s *search) order(a, b string) int {
	if s.asc {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// next returns the first record, in the order of the query, that may begin within bounds.
func (s *search) next(b bounds) string {
	if s.asc {
		return b.low
	}
	return b.high
}

// may reports whether something that is asked for may begin within bounds.
func (s *search) may(b bounds) bool {
	return b.low != "" && (s.since == "" || b.until >= s.since) && (s.until == "" || b.since < s.until) &&
		(s.q.Before == "" || b.low < s.q.Before) && b.high > s.q.After
}

// take adds what is asked for of pairs to what was found.
func (s *search) take(pairs []audit.Pair) {
	for _, p := range pairs {
		switch {
		case s.q.ID != "" && p.Record != s.q.ID, s.q.Before != "" && p.Record >= s.q.Before, p.Record <= s.q.After:
		case s.q.Picks(&p):
			s.found = append(s.found, p)
		}
	}
	slices.SortStableFunc(s.found, func(a, b audit.Pair) int { return s.order(a.Record, b.Record) })
	s.found = s.found[:min(len(s.found), s.q.Max())]
}

// full reports whether enough was found, and nothing that begins at bound or after it comes before that.
func (s *search) full(bound string) bool {
	return len(s.found) == s.q.Max() && s.order(s.found[len(s.found)-1].Record, bound) < 0
}

// odd names what stands at a leaf that doesn't tell its record: the name is found near the records beside it, and is no record's.
func odd(near string, seq int64) string { return fmt.Sprintf("%s+%d", near, seq) }

// newest looks at the leaves that are in no span yet. What of them was changed or is missing is found, whatever is asked for.
func (s *search) newest() error {
	next := int64(0)
	err := s.v.rows(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`, func(scan func(...any) error) error { return scan(&next) })
	if err != nil {
		return s.v.fail(err)
	}
	near := "0"
	var bad []audit.Pair
	var some []begin
	ended := map[string]bool{}
	err = s.v.rows(`SELECT seq, hashes, leaf FROM audit_leaf WHERE seq >= ? ORDER BY seq`, func(scan func(...any) error) error {
		var seq int64
		var hashes, data sql.RawBytes
		if err := scan(&seq, &hashes, &data); err != nil {
			return s.v.fail(err)
		}
		for ; next < seq && len(bad) < s.q.Max(); next++ {
			bad = append(bad, audit.Pair{Record: odd(near, next), Begun: audit.Leaf{Seq: next}})
		}
		next = seq + 1
		f, ok := factsOf(data)
		h := tlog.RecordHash(data)
		switch {
		case !ok || f.record == "" || f.seq != seq || len(hashes) < len(h) || tlog.Hash(hashes[:len(h)]) != h:
			name := odd(near, seq)
			if len(f.record) == len(audit.FirstID(time.Time{})) { // what it says is as good as any
				name = f.record
			}
			bad = append(bad, audit.Pair{Record: name, Begun: audit.Leaf{Seq: seq, Data: slices.Clone(data), Hashes: splitHashes(hashes)}})
		case f.ended:
			s.ends[f.record] = seq
			if f.outcome == s.outcome {
				ended[f.record], s.ended[f.begun] = true, true
			}
		default:
			near = f.record
			if s.wants(&f) {
				some = append(some, begin{f.record, seq, s.outcome == 0 || slices.Contains(f.marks[:f.n], s.outcome)})
			}
		}
		return nil
	}, next)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		s.bad = bad[0].Check()
	}
	s.take(bad)
	some = slices.DeleteFunc(some, func(b begin) bool { return !b.sure && !ended[b.record] })
	slices.SortStableFunc(some, func(a, b begin) int { return s.order(a.record, b.record) })
	var at []int64
	for _, b := range some[:min(len(some), s.q.Max())] {
		at = append(at, b.seq)
	}
	return s.readAll(at, bounds{})
}

// A begin is a leaf that begins a record, in no span yet. sure: how it ended needs no look.
type begin struct {
	record string
	seq    int64
	sure   bool
}

// wants reports whether a leaf that begins a record may be asked for, whatever its end.
func (s *search) wants(f *facts) bool {
	return (s.q.ID == "" || f.record == s.q.ID) && s.may(bounds{f.record, f.record, f.time, f.time}) &&
		!slices.ContainsFunc(s.marks, func(m uint32) bool { return !slices.Contains(f.marks[:f.n], m) })
}

// readAll is read, some at a time.
func (s *search) readAll(at []int64, within bounds) error {
	for some := range slices.Chunk(at, atOnce) {
		if err := s.read(some, within); err != nil {
			return err
		}
	}
	return nil
}

// listed takes records in their order, as the table of their places has them.
func (s *search) listed() error {
	low, high, order := s.q.After, s.q.Before, "DESC"
	if s.asc {
		order = "ASC"
	}
	if high == "" {
		high = "~" // after all ids
	}
	query, args := `SELECT record, seq FROM audit_record WHERE ended = 0 AND record > ? AND record < ? ORDER BY record `+order+` LIMIT ?`, []any{low, high, s.q.Max()}
	if s.q.ID != "" {
		query, args = `SELECT record, seq FROM audit_record WHERE ended = 0 AND record = ?`, []any{s.q.ID}
	}
	var names []string
	var at []int64
	err := s.v.rows(query, func(scan func(...any) error) error {
		var record string
		var seq int64
		if err := scan(&record, &seq); err != nil {
			return s.v.fail(err)
		}
		names, at = append(names, record), append(at, seq)
		return nil
	}, args...)
	if err != nil {
		return err
	}
	pairs, err := s.pairs(at, names)
	if err == nil {
		s.take(pairs)
	}
	return err
}

// layers finds the runs, and the spans in no run yet, in which something may be that is asked for.
func (s *search) layers() error {
	from := int64(0)
	err := s.v.rows(`SELECT first, low, high, since, until FROM audit_run ORDER BY first`, func(scan func(...any) error) error {
		r := &runAt{}
		if err := scan(&r.first, &r.low, &r.high, &r.since, &r.until); err != nil {
			return s.v.fail(err)
		}
		if from = r.first + runLeaves; s.may(r.bounds) {
			s.runs = append(s.runs, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.runs, func(a, b *runAt) int { return s.order(s.next(a.bounds), s.next(b.bounds)) })
	rows, err := loadSpans(s.v.ctx, s.v.tx, from, all)
	if err != nil {
		return s.v.fail(err)
	}
	if s.outcome != 0 {
		for _, r := range rows {
			eachEnd(r.first, r.ends, func(begun int64, m uint32) {
				if m == s.outcome {
					s.ended[begun] = true
				}
			})
		}
	}
	for _, r := range rows {
		if !s.may(r.bounds) {
			continue
		}
		at := find(r.marks, s.marks)
		if s.outcome != 0 {
			events := find(r.marks, append(slices.Clone(s.marks), s.outcome))
			at = slices.DeleteFunc(at, func(n byte) bool { return !s.ended[r.first+int64(n)] && !slices.Contains(events, n) })
		}
		if len(at) > 0 {
			s.spans = append(s.spans, &spanAt{r.first, r.bounds, at})
		}
	}
	return nil
}

// descend reads what is in the layers, in the order of the query, until enough was found.
func (s *search) descend() error {
	for len(s.runs)+len(s.spans) > 0 {
		if !s.sorted {
			slices.SortStableFunc(s.spans, func(a, b *spanAt) int { return s.order(s.next(a.bounds), s.next(b.bounds)) })
			s.sorted = true
		}
		if len(s.spans) == 0 || len(s.runs) > 0 && s.order(s.next(s.runs[0].bounds), s.next(s.spans[0].bounds)) <= 0 {
			r := s.runs[0]
			if s.full(s.next(r.bounds)) {
				return nil
			}
			s.runs = s.runs[1:]
			if err := s.expand(r.first); err != nil {
				return err
			}
			continue
		}
		n := s.spans[0]
		if s.full(s.next(n.bounds)) {
			return nil
		}
		s.spans = s.spans[1:]
		at := make([]int64, 0, len(n.at))
		for _, d := range n.at {
			at = append(at, n.first+int64(d))
		}
		if err := s.readAll(at, n.bounds); err != nil {
			return err
		}
	}
	return nil
}

// expand finds the spans of a run that have something that is asked for.
func (s *search) expand(first int64) error {
	sum, err := s.postings(first)
	if err != nil || sum == nil {
		return err
	}
	var some []*spanAt
	for n := range int64(runLeaves / spanLeaves) {
		if at := sum.span(n); len(at) > 0 {
			some = append(some, &spanAt{first: first + n*spanLeaves, at: at})
		}
	}
	if len(some) == 0 {
		return nil
	}
	known := map[int64]bounds{}
	err = s.v.rows(`SELECT first, low, high, since, until FROM audit_span WHERE first >= ? AND first <= ?`, func(scan func(...any) error) error {
		var n int64
		var b bounds
		if err := scan(&n, &b.low, &b.high, &b.since, &b.until); err != nil {
			return s.v.fail(err)
		}
		known[n] = b
		return nil
	}, some[0].first, some[len(some)-1].first)
	if err != nil {
		return err
	}
	for _, n := range some {
		if n.bounds = known[n.first]; s.may(n.bounds) {
			s.spans, s.sorted = append(s.spans, n), false
		}
	}
	return nil
}

// postings returns the leaves of a run that have all that is asked for; nil: none has.
func (s *search) postings(first int64) (*bitmap, error) {
	marks := slices.Clone(s.marks)
	if s.outcome != 0 {
		marks = append(marks, s.outcome)
	}
	keys := make([][2]int64, 0, len(marks))
	for _, m := range marks {
		keys = append(keys, [2]int64{postingKey(first, 0), postingKey(first, m)})
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	const query = `SELECT j.key, (SELECT p.data FROM audit_posting p WHERE p.key >= j.value ->> 0 AND p.key <= j.value ->> 1 ORDER BY p.key DESC LIMIT 1) FROM json_each(?) j`
	each := make([]*bitmap, len(marks))
	err = s.v.rows(query, func(scan func(...any) error) error {
		var n int
		var data sql.RawBytes
		if err := scan(&n, &data); err != nil {
			return s.v.fail(err)
		}
		if n >= 0 && n < len(each) {
			each[n] = posting(data, marks[n])
		}
		return nil
	}, string(list))
	if err != nil {
		return nil, err
	}
	if s.outcome != 0 {
		if err := s.late(first, each[len(each)-1]); err != nil {
			return nil, err
		}
	}
	for _, b := range each[1:] {
		each[0].and(b)
	}
	return each[0], nil
}

// late adds the calls of a run that ended later with the outcome that is asked for.
func (s *search) late(first int64, to *bitmap) error {
	for begun := range s.ended {
		if begun >= first && begun < first+runLeaves {
			to.set(begun - first)
		}
	}
	return s.v.rows(`SELECT seq FROM audit_late WHERE seq >= ? AND seq < ? AND mark = ?`, func(scan func(...any) error) error {
		var seq int64
		if err := scan(&seq); err != nil {
			return s.v.fail(err)
		}
		to.set(seq - first)
		return nil
	}, first, first+runLeaves, int64(s.outcome))
}

// read reads the records that begin with leaves, which are within bounds, and takes what is asked for.
func (s *search) read(at []int64, within bounds) error {
	pairs, err := s.pairs(at, nil)
	if err != nil {
		return err
	}
	for i := range pairs {
		p := &pairs[i]
		f, _ := factsOf(p.Begun.Data)
		if within.low == "" && s.bad != "" && !f.event && !p.Ends {
			p.Doubt = s.bad + ": it may be the end of this record"
		}
		if p.Record = f.record; p.Record == "" || within.low != "" && (p.Record < within.low || p.Record > within.high) {
			p.Record = odd(within.high, p.Begun.Seq)
		}
	}
	s.take(pairs)
	return nil
}

// pairs reads the leaves of the records that begin with leaves. names are their ids, when they are known.
func (s *search) pairs(at []int64, names []string) ([]audit.Pair, error) {
	begun, err := s.v.leavesAt(at)
	if err != nil {
		return nil, err
	}
	out := make([]audit.Pair, len(at))
	records := make([]string, len(at))
	for i := range at {
		out[i].Begun = begun[i]
		if names != nil {
			out[i].Record = names[i]
		}
		if records[i] = out[i].Record; records[i] == "" {
			f, _ := factsOf(begun[i].Data)
			records[i] = f.record
		}
	}
	ends, err := s.endsOf(records)
	if err != nil {
		return nil, err
	}
	var has []int
	var seqs []int64
	for i := range out {
		if seq, ok := ends[records[i]]; ok {
			has, seqs = append(has, i), append(seqs, seq)
		}
	}
	ended, err := s.v.leavesAt(seqs)
	if err != nil {
		return nil, err
	}
	for k, i := range has {
		out[i].Ended, out[i].Ends = ended[k], true
	}
	return out, nil
}

// endsOf returns the leaves of the ends of records.
func (s *search) endsOf(records []string) (map[string]int64, error) {
	list, err := json.Marshal(records)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	err = s.v.rows(`SELECT x.record, x.seq FROM json_each(?) j CROSS JOIN audit_record x ON x.record = j.value AND x.ended = 1`, func(scan func(...any) error) error {
		var record string
		var seq int64
		if err := scan(&record, &seq); err != nil {
			return s.v.fail(err)
		}
		out[record] = seq
		return nil
	}, string(list))
	for _, record := range records {
		if seq, ok := s.ends[record]; ok {
			out[record] = seq
		}
	}
	return out, err
}

// leavesAt reads leaves; of one that isn't there only the index is set.
func (v *View) leavesAt(at []int64) ([]audit.Leaf, error) {
	out := make([]audit.Leaf, len(at))
	for i, seq := range at {
		out[i].Seq = seq
	}
	if len(at) == 0 {
		return out, nil
	}
	list, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	const query = `SELECT j.key, l.hashes, l.leaf FROM json_each(?) j CROSS JOIN audit_leaf l ON l.seq = j.value`
	err = v.rows(query, func(scan func(...any) error) error {
		var i int
		var hashes, data []byte
		if err := scan(&i, &hashes, &data); err != nil {
			return v.fail(err)
		}
		if i >= 0 && i < len(out) {
			out[i].Hashes, out[i].Data = splitHashes(hashes), data
		}
		return nil
	}, string(list))
	return out, err
}
