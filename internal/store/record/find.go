package record

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/biplane-dev/biplane/internal/audit"
)

// A pair is the leaves of a record, and its id.
type pair struct {
	record string
	audit.Pair
}

const (
	pairColumns = `SELECT r.record, b.seq, b.hashes, b.leaf, e.seq, e.hashes, e.leaf FROM `
	// ?1 is where ends are that are in no span yet, by record.
	pairLeaves = ` JOIN audit_leaf b ON b.seq = r.seq LEFT JOIN audit_leaf e
		ON e.seq = coalesce((SELECT x.seq FROM audit_record x WHERE x.record = r.record AND x.ended = 1), ?1 ->> r.record) WHERE `
	// By the order of records, and of leaves that are known.
	selectPairs = pairColumns + `audit_record r` + pairLeaves + `r.ended = 0`
	selectOf    = pairColumns + `(SELECT l.leaf ->> 'record' AS record, l.seq AS seq FROM json_each(?2) j CROSS JOIN audit_leaf l ON l.seq = j.value) r` + pairLeaves + `1`
)

// Records gives what q picks, in its order: by the spans where these say where it is, else by going through all; and of the leaves that
// are in no span yet, by looking at them.
func (v *View) Records(q audit.Query) ([]audit.Pair, error) {
	s, err := v.newSearch(conditions(q), q.Max())
	if err != nil {
		return nil, err
	}
	if len(s.c.marks) == 0 || q.ID != "" {
		query := selectPairs + s.c.where + " ORDER BY r.record " + s.c.order + " LIMIT ?"
		s.found, err = v.pairs(query, slices.Concat([]any{s.ends}, s.c.args, []any{q.Max()})...)
	} else {
		err = s.spans()
	}
	if err == nil {
		err = s.look()
	}
	if err != nil {
		return nil, err
	}
	out := make([]audit.Pair, 0, len(s.found))
	for _, p := range s.found {
		out = append(out, p.Pair)
	}
	return out, nil
}

func (v *View) pairs(query string, args ...any) (out []pair, err error) {
	err = v.rows(query, func(scan func(...any) error) error {
		var p pair
		var begun, ended []byte
		var seq sql.NullInt64
		if err := scan(&p.record, &p.Begun.Seq, &begun, &p.Begun.Data, &seq, &ended, &p.Ended.Data); err != nil {
			return v.fail(err)
		}
		p.Begun.Hashes = splitHashes(begun)
		if seq.Valid {
			p.Ended.Seq, p.Ended.Hashes = seq.Int64, splitHashes(ended)
		}
		out = append(out, p)
		return nil
	}, args...)
	return out, err
}

// atOnce is how many leaves a search looks at in one step.
const atOnce = 512

// errEnough ends a search.
var errEnough = errors.New("enough was found")

// A search is a query under way.
type search struct {
	v     *View
	c     *query
	most  int     // records that are asked for
	ends  string  // where ends are that are in no span yet: an object, by record
	at    []int64 // leaves that are yet to be looked at
	found []pair  // in order
}

// newSearch makes a search with the leaves that are in no span yet.
func (v *View) newSearch(c *query, most int) (*search, error) {
	s := &search{v: v, c: c, most: most}
	first := int64(0)
	err := v.rows(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`, func(scan func(...any) error) error { return scan(&first) })
	if err != nil {
		return nil, v.fail(err)
	}
	ends := map[string]int64{}
	err = v.rows(`SELECT seq, leaf FROM audit_leaf WHERE seq >= ?`, func(scan func(...any) error) error {
		var seq int64
		var data sql.RawBytes
		if err := scan(&seq, &data); err != nil {
			return v.fail(err)
		}
		switch f, ok := factsOf(data); {
		case !ok:
		case f.ended:
			ends[f.record] = seq
		case !slices.ContainsFunc(c.marks, func(m uint32) bool { return !slices.Contains(f.marks[:f.n], m) }):
			s.at = append(s.at, seq)
		}
		return nil
	}, first)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(ends)
	s.ends = string(list)
	return s, err
}

// order compares records.
func (s *search) order(a, b string) int {
	if s.c.order == "DESC" {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// look looks at the leaves at, and keeps what is asked for of what is found.
func (s *search) look() error {
	if len(s.at) == 0 {
		return nil
	}
	list, err := json.Marshal(s.at)
	if err != nil {
		return err
	}
	s.at = s.at[:0]
	some, err := s.v.pairs(selectOf+s.c.where, slices.Concat([]any{s.ends, string(list)}, s.c.args)...)
	s.found = append(s.found, some...)
	slices.SortFunc(s.found, func(a, b pair) int { return s.order(a.record, b.record) })
	s.found = s.found[:min(len(s.found), s.most)]
	return err
}

// spans takes the spans in which records may be that are asked for, in the order of these, and ends where none that is left can have one
// that comes before those that it has.
func (s *search) spans() error {
	q := `SELECT first, low, marks FROM audit_span WHERE low > '' AND high >= ? AND (?2 = '' OR low < ?2) ORDER BY low`
	if s.c.order == "DESC" {
		q = `SELECT first, high, marks FROM audit_span WHERE low > '' AND high >= ? AND (?2 = '' OR low < ?2) ORDER BY high DESC`
	}
	err := s.v.rows(q, func(scan func(...any) error) error {
		var first int64
		var bound string
		var marks []byte
		if err := scan(&first, &bound, &marks); err != nil {
			return s.v.fail(err)
		}
		if len(s.at) >= atOnce {
			if err := s.look(); err != nil {
				return err
			}
		}
		if len(s.found) == s.most && s.order(s.found[s.most-1].record, bound) < 0 {
			return errEnough
		}
		for _, n := range find(marks, s.c.marks) {
			s.at = append(s.at, first+int64(n))
		}
		return nil
	}, s.c.low, s.c.high)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// A query is an audit.Query for the database.
type query struct {
	marks     []uint32
	where     string
	args      []any
	order     string
	low, high string // bounds of the records
}

func (c *query) and(cond string, arg any) {
	c.where += " AND " + cond
	c.args = append(c.args, arg)
}

// conditions makes the conditions of a query. Ids are in the order of time, so that a span of time is one of ids; times are
// compared besides, since a clock may have been set back.
func conditions(q audit.Query) *query {
	c := &query{order: "DESC", high: q.Before}
	if q.ID != "" {
		c.and("r.record = ?", q.ID)
	}
	for _, f := range [][2]string{{"tool", q.Tool}, {"principal", q.Principal}, {"execution", q.Execution}, {"upstream", q.Upstream}} {
		if f[1] != "" {
			c.and("b.leaf ->> '"+f[0]+"' = ?", f[1])
			c.marks = append(c.marks, markOf(f[0], f[1]))
		}
	}
	if q.Kind != "" {
		c.and("b.leaf ->> 'kind' = ?", string(q.Kind))
	}
	if q.Kind != "" && q.Kind != audit.KindCall {
		c.marks = append(c.marks, markOf("kind", string(q.Kind)))
	}
	if q.Outcome != "" {
		c.and("coalesce(e.leaf ->> 'outcome', b.leaf ->> 'outcome') = ?", string(q.Outcome))
	}
	// One bound on each side: of two SQLite takes one to search by, and reads all up to the other, on every page anew.
	over := ">="
	if !q.Since.IsZero() {
		c.low = audit.FirstID(q.Since)
		c.and("b.leaf ->> 'time' >= ?", audit.Stamp(q.Since))
	}
	if !q.Until.IsZero() {
		if end := audit.FirstID(q.Until.Add(audit.ClockSlack)); c.high == "" || end < c.high {
			c.high = end
		}
		c.and("b.leaf ->> 'time' < ?", audit.Stamp(q.Until))
	}
	if q.After != "" {
		c.order = "ASC"
		if q.After >= c.low {
			c.low, over = q.After, ">"
		}
	}
	if c.low != "" {
		c.and("r.record "+over+" ?", c.low)
	}
	if c.high != "" {
		c.and("r.record < ?", c.high)
	}
	return c
}
