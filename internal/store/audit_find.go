package store

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
	pairEnds    = ` LEFT JOIN audit_record x ON x.record = r.record AND x.ended = 1 LEFT JOIN audit_leaf e ON e.seq = x.seq WHERE `
	// By the order of records, and of leaves that are known.
	selectPairs = pairColumns + `audit_record r JOIN audit_leaf b ON b.seq = r.seq` + pairEnds + `r.ended = 0`
	selectOf    = pairColumns + `json_each(?) j CROSS JOIN audit_leaf b ON b.seq = j.value
		CROSS JOIN audit_record r ON r.record = b.leaf ->> 'record' AND r.ended = 0 AND r.seq = b.seq` + pairEnds + `1`
)

// Records gives what q picks, in its order: by the spans where these say where it is, else by going through all.
func (v *auditView) Records(q audit.Query) ([]audit.Pair, error) {
	var found []pair
	var err error
	c := conditions(q)
	if len(c.marks) == 0 || q.ID != "" {
		query := selectPairs + c.where + " ORDER BY r.record " + c.order + " LIMIT ?"
		found, err = v.pairs(query, append(c.args, q.Max())...)
	} else {
		found, err = v.search(c, q.Max())
	}
	if err != nil {
		return nil, err
	}
	out := make([]audit.Pair, 0, len(found))
	for _, p := range found {
		out = append(out, p.Pair)
	}
	return out, nil
}

func (v *auditView) pairs(query string, args ...any) (out []pair, err error) {
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

// search gives at most so many records that the spans lead to. It takes the spans in the order of the records that may be in them, and ends
// where none that is left can have one that comes before those that it has.
func (v *auditView) search(c *query, most int) (found []pair, err error) {
	newer := c.order == "DESC"
	order := func(a, b string) int {
		if newer {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	}
	var look []int64 // leaves to look at
	more := func() error {
		if len(look) == 0 {
			return nil
		}
		list, err := json.Marshal(look)
		if err != nil {
			return err
		}
		look = look[:0]
		some, err := v.pairs(selectOf+c.where, append([]any{string(list)}, c.args...)...)
		found = append(found, some...)
		slices.SortFunc(found, func(a, b pair) int { return order(a.record, b.record) })
		found = found[:min(len(found), most)]
		return err
	}
	if look, err = v.tail(c.marks); err != nil {
		return nil, err
	}
	err = v.spans(c, func(first int64, bound string, marks []byte) error {
		if len(look) >= atOnce {
			if err := more(); err != nil {
				return err
			}
		}
		if len(found) >= most && order(found[most-1].record, bound) < 0 {
			return errEnough
		}
		for _, n := range find(marks, c.marks) {
			look = append(look, first+int64(n))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return found, more()
}

// tail gives the leaves with all marks that are in no span yet.
func (v *auditView) tail(marks []uint32) (out []int64, err error) {
	first := int64(0)
	err = v.rows(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`, func(scan func(...any) error) error { return scan(&first) })
	if err != nil {
		return nil, v.fail(err)
	}
	err = v.rows(`SELECT seq, leaf FROM audit_leaf WHERE seq >= ?`, func(scan func(...any) error) error {
		var seq int64
		var data sql.RawBytes
		if err := scan(&seq, &data); err != nil {
			return v.fail(err)
		}
		if f, ok := factsOf(data); ok && !f.ended && !slices.ContainsFunc(marks, func(m uint32) bool { return !slices.Contains(f.marks[:f.n], m) }) {
			out = append(out, seq)
		}
		return nil
	}, first)
	return out, err
}

// spans calls f with the spans in which records may be that c picks, and which of these would come first.
func (v *auditView) spans(c *query, f func(first int64, bound string, marks []byte) error) error {
	q, by := `SELECT first, low, marks FROM audit_span WHERE low > '' AND high >= ? AND (?2 = '' OR low < ?2) ORDER BY low`, ""
	if c.order == "DESC" {
		q = `SELECT first, high, marks FROM audit_span WHERE low > '' AND high >= ? AND (?2 = '' OR low < ?2) ORDER BY high DESC`
	}
	return v.rows(q, func(scan func(...any) error) error {
		var first int64
		var marks []byte
		if err := scan(&first, &by, &marks); err != nil {
			return v.fail(err)
		}
		return f(first, by, marks)
	}, c.low, c.high)
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
