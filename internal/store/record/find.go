package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// A search is a running query. It looks in the leaves that are in no span yet, then in the spans
// that are in no run yet and in the runs. It reads these in the order of their records, until
// enough is found. For each record found in the index, the leaves are read, checked and compared
// with the query. Leaves that fail the check are returned, too.
type search struct {
	v       *View
	q       audit.Query
	asc     bool
	marks   []uint32 // required marks of a beginning, the rarest first; at least one
	outcome uint32   // required outcome of a call; 0: any
	since   string
	until   string

	ends map[string]audit.Leaf // ends in no span yet, by record
	// calls with that outcome whose ends are in no run yet: one bit for each beginning, by the
	// first leaf of its span
	ended  map[int64]*[4]uint64
	runs   []*runAt     // still to be searched, in order
	ahead  int          // how many runs to expand next
	spans  []*spanAt    // still to be searched, in order if sorted
	sorted bool         // whether spans is sorted
	pool   []candidate  // read and not taken yet
	found  []audit.Pair // in order
	bad    string       // what is wrong with the leaves that are in no span yet; empty: nothing
}

// A candidate is a leaf that begins a possibly matching record.
type candidate struct {
	record string // name of the record
	half   string // record whose end belongs to it; empty: none
	begun  audit.Leaf
	newest bool // in no span yet
}

// A runAt is a run that may contain matches.
type runAt struct {
	first int64
	bounds
}

// A spanAt is a span that contains matches. at holds their offsets from the first leaf.
type spanAt struct {
	first int64
	bounds
	at []byte
}

// Records returns the records that match q, in its order.
func (v *View) Records(q audit.Query) ([]audit.Pair, error) {
	s := newSearch(v, q)
	err := s.searchTail()
	switch {
	case err != nil:
	case q.ID != "", s.marks[0] == beginsMark && s.outcome == 0 && s.since == "" && s.until == "":
		err = s.searchByName()
	default:
		if err = s.findLayers(); err == nil {
			err = s.searchSpans()
		}
	}
	slices.SortStableFunc(s.found, func(a, b audit.Pair) int { return s.compareNames(a.Record, b.Record) })
	return s.found, err
}

func newSearch(v *View, q audit.Query) *search {
	s := &search{v: v, q: q, asc: q.After != "", ends: map[string]audit.Leaf{}, ended: map[int64]*[4]uint64{}, ahead: 1}
	var often []uint32 // marks that most records have
	for _, f := range [][2]string{{"execution", q.Execution}, {"principal", q.Principal}, {"tool", q.Tool},
		{"upstream", q.Upstream}, {"effect", q.Effect}, {"kind", string(q.Kind)}} {
		switch f[1] {
		case "":
		case "allow", string(audit.KindCall):
			often = append(often, markOf(f[0], f[1]))
		default:
			s.marks = append(s.marks, markOf(f[0], f[1]))
		}
	}
	// all leaves that begin a record have beginsMark, too
	if s.marks = append(s.marks, often...); len(s.marks) == 0 {
		s.marks = append(s.marks, beginsMark)
	}
	if q.Outcome != "" {
		s.outcome = markOf("outcome", string(q.Outcome))
	}
	if !q.Since.IsZero() {
		s.since = audit.FormatTime(q.Since)
	}
	if !q.Until.IsZero() {
		s.until = audit.FormatTime(q.Until)
	}
	return s
}

// compareNames compares records in the order of the query.
func (s *search) compareNames(a, b string) int {
	if s.asc {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// firstWithin returns the first record, in the order of the query, that may begin within bounds.
func (s *search) firstWithin(b bounds) string {
	if s.asc {
		return b.low
	}
	return b.high
}

// mayMatch reports whether a matching record may begin within bounds.
func (s *search) mayMatch(b bounds) bool {
	return b.low != "" && (s.since == "" || b.until >= s.since) && (s.until == "" || b.since < s.until) &&
		(s.q.Before == "" || b.low < s.q.Before) && b.high > s.q.After
}

// onPage reports whether a record is on the requested page.
func (s *search) onPage(record string) bool {
	return (s.q.ID == "" || record == s.q.ID) && (s.q.Before == "" || record < s.q.Before) && record > s.q.After
}

// countLeft returns how many of the requested records are still to be found.
func (s *search) countLeft() int { return s.q.Max() - len(s.found) }

// oddName returns a name for a leaf without a valid record name. It sorts after near, the name of a
// neighboring record, and is no record's name.
func oddName(near string, seq int64) string { return fmt.Sprintf("%s+%d", near, seq) }

// searchTail searches the leaves that are in no span yet. It always includes leaves that were
// changed or are missing, whatever the query.
func (s *search) searchTail() error {
	u := &unspanned{s: s, near: "0", matching: map[string]bool{}, unsure: map[string]bool{}}
	err := s.v.eachRow(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`,
		func(scan func(...any) error) error { return scan(&u.next) })
	if err != nil {
		return s.v.translateError(err)
	}
	err = s.v.eachRow(`SELECT seq, hashes, leaf, packed FROM audit_leaf WHERE seq >= ? ORDER BY seq`, u.addRow, u.next)
	if err != nil {
		return err
	}
	if len(u.broken) > 0 {
		p := audit.Pair{Begun: u.broken[0]}
		s.bad = p.Check()
	}
	s.pool = slices.DeleteFunc(s.pool, func(c candidate) bool { return u.unsure[c.half] && !u.matching[c.half] })
	return nil
}

// unspanned is the state of a search of the leaves that are in no span.
type unspanned struct {
	s        *search
	next     int64           // index of the next leaf
	near     string          // name of the last record
	broken   []audit.Leaf    // leaves that were changed or are missing
	matching map[string]bool // records that ended as the query requires
	unsure   map[string]bool // records that match only if they ended so
}

// addRow adds the leaf in a row, and those missing before it.
func (u *unspanned) addRow(scan func(...any) error) error {
	var r leafRow
	if err := scan(&r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
		return u.s.v.translateError(err)
	}
	seq, hashes, data := r.seq, r.hashes, u.s.v.unpackRow(&r)
	for ; u.next < seq && len(u.broken) < u.s.q.Max(); u.next++ {
		u.addBroken(oddName(u.near, u.next), audit.Leaf{Seq: u.next})
	}
	u.next = seq + 1
	f, ok := factsOf(data)
	h := tlog.RecordHash(data)
	switch {
	case !ok || f.record == "" || f.seq != seq || len(hashes) < len(h) || tlog.Hash(hashes[:len(h)]) != h:
		name := oddName(u.near, seq)
		if len(f.record) == len(audit.FirstID(time.Time{})) { // its own name is as good as any
			name = f.record
		}
		u.addBroken(name, leafOf(seq, hashes, data))
	case f.ended:
		u.s.ends[f.record] = leafOf(seq, hashes, data)
		if f.outcome == u.s.outcome {
			u.matching[f.record] = true
			u.s.endedAt(f.begun)
		}
	default:
		u.near = f.record
		if !u.s.matchesBeginning(&f) {
			break
		}
		if u.s.outcome != 0 && !slices.Contains(f.marks[:f.n], u.s.outcome) {
			u.unsure[f.record] = true
		}
		u.s.addCandidate(candidate{record: f.record, half: f.record, begun: leafOf(seq, hashes, data), newest: true})
	}
	return nil
}

// addBroken adds a leaf that was changed or is missing, under a name for its record.
func (u *unspanned) addBroken(name string, l audit.Leaf) {
	u.broken = append(u.broken, l)
	u.s.addCandidate(candidate{record: name, begun: l, newest: true})
}

// leafOf returns the leaf of a row.
func leafOf(seq int64, hashes, data []byte) audit.Leaf {
	return audit.Leaf{Seq: seq, Data: slices.Clone(data), Hashes: splitHashes(hashes)}
}

// endedAt records that a call ended with the requested outcome, by the leaf of its beginning.
func (s *search) endedAt(begun int64) {
	first := begun &^ (spanLeaves - 1)
	if s.ended[first] == nil {
		s.ended[first] = &[4]uint64{}
	}
	s.ended[first][(begun-first)>>6] |= 1 << (begun & 63)
}

// matchesBeginning reports whether a leaf that begins a record matches the query, regardless of the
// record's end.
func (s *search) matchesBeginning(f *facts) bool {
	return (s.q.ID == "" || f.record == s.q.ID) && s.mayMatch(bounds{f.record, f.record, f.time, f.time}) &&
		!slices.ContainsFunc(s.marks, func(m uint32) bool { return !slices.Contains(f.marks[:f.n], m) })
}

// searchByName finds records in order through the index of records.
func (s *search) searchByName() error {
	low, high, order := s.q.After, s.q.Before, "DESC"
	if s.asc {
		order = "ASC"
	}
	if high == "" {
		high = "~" // sorts after all ids
	}
	query, args := `SELECT x.record, x.seq FROM audit_record x WHERE `+begins+` AND x.record > ? AND x.record < ?
		ORDER BY x.record `+order+` LIMIT ?`, []any{low, high, s.q.Max()}
	if s.q.ID != "" {
		query, args = `SELECT x.record, x.seq FROM audit_record x WHERE `+begins+` AND x.record = ?`, []any{s.q.ID}
	}
	var names []string
	var at []int64
	err := s.v.eachRow(query, func(scan func(...any) error) error {
		var record string
		var seq int64
		if err := scan(&record, &seq); err != nil {
			return s.v.translateError(err)
		}
		names, at = append(names, record), append(at, seq)
		return nil
	}, args...)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if err := s.settleCandidates(names[0], false); err != nil {
			return err
		}
	}
	leaves, err := s.v.leavesAt(at[:min(len(at), s.countLeft())])
	if err != nil {
		return err
	}
	for i, l := range leaves {
		s.addCandidate(candidate{record: names[i], half: names[i], begun: l})
	}
	return s.settleCandidates("", true)
}

// findLayers finds the runs, and the spans that are in no run yet, that may contain matches.
func (s *search) findLayers() error {
	from := int64(0)
	err := s.v.eachRow(`SELECT first, low, high, since, until FROM audit_run ORDER BY first`,
		func(scan func(...any) error) error {
			r := &runAt{}
			if err := scan(&r.first, &r.low, &r.high, &r.since, &r.until); err != nil {
				return s.v.translateError(err)
			}
			if from = r.first + runLeaves; s.mayMatch(r.bounds) {
				s.runs = append(s.runs, r)
			}
			return nil
		})
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.runs,
		func(a, b *runAt) int { return s.compareNames(s.firstWithin(a.bounds), s.firstWithin(b.bounds)) })
	rows, err := loadSpans(s.v.ctx, s.v.tx, from, all)
	if err != nil {
		return s.v.translateError(err)
	}
	if s.outcome != 0 {
		for _, r := range rows {
			eachEnd(r.first, r.ends, func(begun int64, m uint32) {
				if m == s.outcome {
					s.endedAt(begun)
				}
			})
		}
	}
	for _, r := range rows {
		if !s.mayMatch(r.bounds) {
			continue
		}
		at := findMarks(r.marks, s.marks)
		if s.outcome != 0 {
			events, ended := findMarks(r.marks, append(slices.Clone(s.marks), s.outcome)), s.ended[r.first]
			at = slices.DeleteFunc(at, func(n byte) bool {
				return (ended == nil || ended[n>>6]>>(n&63)&1 == 0) && !slices.Contains(events, n)
			})
		}
		if len(at) > 0 {
			s.spans = append(s.spans, &spanAt{r.first, r.bounds, at})
		}
	}
	return nil
}
