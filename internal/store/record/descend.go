package record

import (
	"database/sql"
	"encoding/json"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

const (
	// mostRuns is the maximum number of runs expanded at once.
	mostRuns = 64
	// mostCandidates is the number of candidates after which load reads no further span.
	mostCandidates = 1024
)

// searchSpans searches runs and spans in the order of the query, until enough is found.
func (s *search) searchSpans() error {
	for {
		if !s.sorted {
			slices.SortStableFunc(s.spans,
				func(a, b *spanAt) int { return s.compareNames(s.firstWithin(a.bounds), s.firstWithin(b.bounds)) })
			s.sorted = true
		}
		bound, run := "", false // of the unread part
		if len(s.spans) > 0 {
			bound = s.firstWithin(s.spans[0].bounds)
		}
		if len(s.runs) > 0 {
			if next := s.firstWithin(s.runs[0].bounds); len(s.spans) == 0 || s.compareNames(next, bound) <= 0 {
				bound, run = next, true
			}
		}
		last := len(s.spans)+len(s.runs) == 0
		if err := s.settleCandidates(bound, last); err != nil || last || s.countLeft() == 0 {
			return err
		}
		var err error
		if run {
			err = s.expandRuns()
		} else {
			err = s.loadSpans()
		}
		if err != nil {
			return err
		}
	}
}

// addCandidate adds a candidate to the pool if it is on the requested page.
func (s *search) addCandidate(c candidate) {
	if s.onPage(c.record) {
		s.pool = append(s.pool, c)
	}
}

// settleCandidates removes candidates from the pool in order, until enough is found. Nothing read
// later comes before bound. last means that nothing is read later.
func (s *search) settleCandidates(bound string, last bool) error {
	slices.SortStableFunc(s.pool, func(a, b candidate) int { return s.compareNames(a.record, b.record) })
	n := len(s.pool)
	if !last {
		n, _ = slices.BinarySearchFunc(s.pool, bound,
			func(c candidate, bound string) int { return s.compareNames(c.record, bound) })
	}
	for n > 0 && s.countLeft() > 0 {
		some := s.pool[:min(n, s.countLeft())]
		if err := s.readEnds(some); err != nil {
			return err
		}
		s.pool, n = s.pool[len(some):], n-len(some)
	}
	return nil
}

// readEnds reads the ends of candidates, and adds the matching records to those found.
func (s *search) readEnds(some []candidate) error {
	ends, err := s.endsOf(some)
	if err != nil {
		return err
	}
	for _, c := range some {
		p := audit.Pair{Record: c.record, Begun: c.begun}
		p.Ended, p.Ends = ends[c.half]
		if c.newest && c.half != "" && s.bad != "" && !p.Ends {
			if f, _ := factsOf(c.begun.Data); !f.event {
				p.Doubt = s.bad + ": it may be the end of this record"
			}
		}
		if s.q.MatchesPair(&p) {
			s.found = append(s.found, p)
		}
	}
	return nil
}

// endsOf returns the ends of candidates, by record. If the leaf of an end is missing, only its
// index is set.
func (s *search) endsOf(some []candidate) (map[string]audit.Leaf, error) {
	out := map[string]audit.Leaf{}
	halves := make([]string, 0, len(some))
	for _, c := range some {
		if l, ok := s.ends[c.half]; ok {
			out[c.half] = l
		} else if c.half != "" {
			halves = append(halves, c.half)
		}
	}
	if len(halves) == 0 {
		return out, nil
	}
	list, err := json.Marshal(halves)
	if err != nil {
		return nil, err
	}
	const query = `SELECT x.record, ` + endOf + `, l.hashes, l.leaf, l.packed FROM json_each(?) j ` +
		`CROSS JOIN audit_record x ON x.record = j.value AND x.ended >= 1 LEFT JOIN audit_leaf l ON l.seq = ` + endOf
	err = s.v.eachRow(query, func(scan func(...any) error) error {
		var record string
		var r leafRow
		if err := scan(&record, &r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
			return s.v.translateError(err)
		}
		out[record] = s.v.keepLeaf(&r)
		return nil
	}, string(list))
	return out, err
}

// loadSpans reads spans until there are enough candidates, or until a run comes before the next
// span.
func (s *search) loadSpans() error {
	var at []int64
	var within []bounds
	for len(s.spans) > 0 && (len(at) == 0 || len(at) < min(s.countLeft()-len(s.pool), mostCandidates)) {
		n := s.spans[0]
		if len(at) > 0 && len(s.runs) > 0 &&
			s.compareNames(s.firstWithin(s.runs[0].bounds), s.firstWithin(n.bounds)) <= 0 {
			break
		}
		s.spans = s.spans[1:]
		for _, d := range n.at {
			at, within = append(at, n.first+int64(d)), append(within, n.bounds)
		}
	}
	leaves, err := s.v.leavesAt(at)
	if err != nil {
		return err
	}
	for i, l := range leaves {
		f, _ := factsOf(l.Data)
		c := candidate{record: f.record, half: f.record, begun: l}
		if f.record == "" || f.record < within[i].low || f.record > within[i].high {
			c.record = oddName(within[i].high, l.Seq)
		} else if matchesHash(&l, &f) && !s.mayMatch(bounds{f.record, f.record, f.time, f.time}) {
			continue // its time is outside the query, so its end isn't needed
		}
		s.addCandidate(c)
	}
	return nil
}

// matchesHash reports whether a leaf matches the hash stored with it and its index.
func matchesHash(l *audit.Leaf, f *facts) bool {
	return f.seq == l.Seq && len(l.Hashes) > 0 && l.Hashes[0] == tlog.RecordHash(l.Data)
}

// expandRuns finds the spans with matches in the next runs. It expands more runs each time, because
// for marks that many records have, the first run is enough.
func (s *search) expandRuns() error {
	runs := s.runs[:min(s.ahead, len(s.runs))]
	s.runs, s.ahead = s.runs[len(runs):], min(2*s.ahead, mostRuns)
	at := make([]int64, 0, len(runs))
	for _, r := range runs {
		at = append(at, r.first)
	}
	sets, err := s.loadPostings(at)
	if err != nil {
		return err
	}
	spans := map[int64]*spanAt{}
	var firsts []int64
	for i, first := range at {
		sets[i].eachSpan(func(n int64, at []byte) {
			n = first + n*spanLeaves
			spans[n], firsts = &spanAt{first: n, at: at}, append(firsts, n)
		})
	}
	if len(firsts) == 0 {
		return nil
	}
	list, err := json.Marshal(firsts)
	if err != nil {
		return err
	}
	return s.v.eachRow(`SELECT p.first, p.low, p.high, p.since, p.until FROM json_each(?) j CROSS JOIN audit_span p `+
		`ON p.first = j.value`, func(scan func(...any) error) error {
		var first int64
		var b bounds
		if err := scan(&first, &b.low, &b.high, &b.since, &b.until); err != nil {
			return s.v.translateError(err)
		}
		if n := spans[first]; n != nil && s.mayMatch(b) {
			n.bounds = b
			s.spans, s.sorted = append(s.spans, n), false
		}
		return nil
	}, string(list))
}

// loadPostings returns, for each run, the leaves that have all marks of the query, or nil if there
// are none.
func (s *search) loadPostings(runs []int64) ([]*bitmap, error) {
	marks := s.marks
	if s.outcome != 0 {
		marks = append(slices.Clone(marks), s.outcome)
		if marks[0] == beginsMark {
			marks = marks[1:]
		}
	}
	out := make([]*bitmap, len(runs))
	for i := range out {
		out[i] = newBitmap()
	}
	// Read the first mark on its own: where no leaf has it, the others needn't be read.
	for _, some := range [][]uint32{marks[:1], marks[1:]} {
		if err := s.intersectSets(out, runs, some); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// intersectSets removes the leaves that lack one of the marks from the sets of some runs. It skips
// runs whose set is nil.
func (s *search) intersectSets(sets []*bitmap, runs []int64, marks []uint32) error {
	type posting struct {
		run  int
		mark uint32
	}
	var wanted []posting
	var keys []int64
	for i, b := range sets {
		for _, m := range marks {
			if b != nil {
				wanted, keys = append(wanted, posting{i, m}), append(keys, postingKey(runs[i], m))
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	late, err := s.findLateEnds(runs, slices.Contains(marks, s.outcome))
	if err != nil {
		return err
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	const query = `SELECT j.key, (SELECT p.data FROM audit_posting p WHERE p.key >= j.value >> 32 << 32 AND p.key <= ` +
		`j.value ORDER BY p.key DESC LIMIT 1) FROM json_each(?) j`
	err = s.v.eachRow(query, func(scan func(...any) error) error {
		var n int
		var data sql.RawBytes
		if err := scan(&n, &data); err != nil {
			return s.v.translateError(err)
		}
		if n < 0 || n >= len(wanted) {
			return nil
		}
		w := wanted[n]
		have := bitmap{}
		have.addPostings(data, w.mark)
		if w.mark == s.outcome {
			for _, seq := range late[runs[w.run]] {
				have.setBit(seq - runs[w.run])
			}
		}
		if sets[w.run] != nil && !sets[w.run].intersect(&have) {
			sets[w.run] = nil
		}
		return nil
	}, string(list))
	return err
}

// findLateEnds returns the calls in some runs that ended later with the requested outcome, by the
// first leaf of their run.
func (s *search) findLateEnds(runs []int64, wanted bool) (map[int64][]int64, error) {
	if !wanted || s.outcome == 0 {
		return nil, nil
	}
	out := map[int64][]int64{}
	for first, ended := range s.ended {
		run := first &^ (runLeaves - 1)
		if !slices.Contains(runs, run) {
			continue
		}
		for n := range int64(spanLeaves) {
			if ended[n>>6]>>(n&63)&1 == 1 {
				out[run] = append(out[run], first+n)
			}
		}
	}
	list, err := json.Marshal(runs)
	if err != nil {
		return nil, err
	}
	const query = `SELECT x.seq FROM json_each(?) j CROSS JOIN audit_late x ON x.seq >= j.value AND x.seq < j.value ` +
		`+ 65536 WHERE x.mark = ?`
	err = s.v.eachRow(query, func(scan func(...any) error) error {
		var seq int64
		if err := scan(&seq); err != nil {
			return s.v.translateError(err)
		}
		run := seq &^ (runLeaves - 1)
		out[run] = append(out[run], seq)
		return nil
	}, string(list), int64(s.outcome))
	return out, err
}

// leavesAt reads leaves. Of a missing leaf only the index is set.
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
	const query = `SELECT j.key, l.hashes, l.leaf, l.packed FROM json_each(?) j CROSS JOIN audit_leaf l ON ` +
		`l.seq = j.value`
	err = v.eachRow(query, func(scan func(...any) error) error {
		var i int
		var r leafRow
		if err := scan(&i, &r.hashes, &r.leaf, &r.packed); err != nil {
			return v.translateError(err)
		}
		if i >= 0 && i < len(out) {
			r.seq = out[i].Seq
			out[i] = v.keepLeaf(&r)
		}
		return nil
	}, string(list))
	return out, err
}
