package record

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// CheckIntegrity runs SQLite's integrity check on the tables of the record: their pages and
// indexes. It compares the schema with the one that the migrations create, and the search index
// with the leaves.
func (v *View) CheckIntegrity() error {
	for _, table := range []string{"audit_leaf", "audit_record", "audit_span", "audit_run", "audit_posting",
		"audit_late", "audit_segment"} {
		said, err := v.queryLines(`PRAGMA integrity_check('` + table + `')`)
		if err != nil {
			return err
		}
		if len(said) != 1 || said[0] != "ok" {
			return tool.Errorf(tool.Conflict, "the database is damaged, or its indexes were changed: %s",
				strings.Join(said[:min(len(said), 5)], "; "))
		}
	}
	if err := v.database.CheckSchema(v.ctx); err != nil {
		return err
	}
	return v.checkIndex()
}

// checkIndex rebuilds the search index from the leaves, and compares it with the stored one.
func (v *View) checkIndex() error {
	if v.index == nil {
		c := newIndexCheck(v)
		if err := v.Leaves(0, c.addLeaf); err != nil {
			return err
		}
		v.index = c
	}
	c := v.index
	if c.err != nil {
		return c.err
	}
	if c.bad >= 0 && c.found {
		return tool.Errorf(tool.Conflict,
			"the search index of the leaves %d to %d was changed", c.bad, c.bad+spanLeaves-1)
	}
	have, err := v.sumIndex(c)
	if err != nil {
		return err
	}
	want := c.want
	if len(c.absent) == 0 {
		want.addSum(c.late)
	}
	if have != want {
		return tool.Errorf(tool.Conflict, "the index of records was changed: records may be missing from lists")
	}
	return nil
}

// sumIndex returns the sum of the stored index, without what is about absent leaves. Rows about
// these can't be rebuilt.
func (v *View) sumIndex(c *indexCheck) (sum, error) {
	have := sum{seeds: c.want.seeds}
	const bounds = `low || ' ' || high || ' ' || since || ' ' || until`
	for _, t := range []struct{ name, leaf, query string }{
		{"audit_record", "seq", `record, ended, seq`},
		{"audit_span", "first", `first, ` + bounds + `, x''`},
		{"audit_run", "first", `first, ` + bounds + `, x''`},
		{"audit_posting", "(key >> 32) * 65536", `key, '', data`},
		{"audit_late", "seq", `seq, mark, x''`},
	} {
		wholeRuns := t.name == "audit_run" || t.name == "audit_posting"
		if len(c.absent) > 0 && t.name == "audit_late" {
			continue
		}
		err := v.eachRow(`SELECT `+t.query+`, `+t.leaf+` FROM `+t.name, func(scan func(...any) error) error {
			var x, y, z sql.RawBytes
			var leaf int64
			if err := scan(&x, &y, &z, &leaf); err != nil {
				return v.translateError(err)
			}
			if len(c.absent) == 0 || !c.isAbsent(leaf, wholeRuns) {
				have.addRow(t.name, string(x), string(y), string(z))
			}
			return nil
		})
		if err != nil {
			return have, err
		}
	}
	return have, nil
}

// An indexCheck rebuilds the index from the leaves, and compares it with the stored one.
type indexCheck struct {
	v     *View
	span  *span
	spans []spanRow // of the current run
	want  sum
	late  sum // of the rows of audit_late; part of want unless leaves are absent
	// the spans, and with -1 - first the runs, that have absent leaves
	absent map[int64]bool
	bad    int64 // the first span that is wrong
	found  bool  // bad is set
	err    error // a stored span couldn't be read
}

func newIndexCheck(v *View) *indexCheck {
	want := newSum()
	return &indexCheck{v: v, want: want, late: sum{seeds: want.seeds}, absent: map[int64]bool{}}
}

// isAbsent reports whether the span or the run of a leaf has absent leaves.
func (c *indexCheck) isAbsent(seq int64, run bool) bool {
	if run {
		return c.absent[-1-seq/runLeaves*runLeaves]
	}
	return c.absent[seq/spanLeaves*spanLeaves]
}

// addLeaf adds a leaf to the rebuilt index. It returns nil; errors are kept in c.
func (c *indexCheck) addLeaf(l audit.Leaf) error {
	if l.Seq < 0 || c.err != nil {
		return nil
	}
	if first := l.Seq / spanLeaves * spanLeaves; c.span == nil || first != c.span.first {
		c.span = newSpan(first)
	}
	c.span.addLeaf(l.Seq, l.Data)
	if l.Absent != "" {
		c.absent[c.span.first], c.absent[-1-l.Seq/runLeaves*runLeaves] = true, true
	}
	if (l.Seq+1)%spanLeaves != 0 {
		return nil
	}
	c.addSpan((l.Seq+1)%runLeaves == 0)
	return nil
}

// addSpan adds the complete span, which may be the last one of a run. It skips absent ones.
func (c *indexCheck) addSpan(last bool) {
	s := c.span
	if c.isAbsent(s.first, false) {
		if last {
			c.spans = c.spans[:0]
		}
		return
	}
	for p, seq := range s.places {
		ended := "0"
		if p.ended {
			ended = "1"
		}
		c.want.addRow("audit_record", p.record, ended, strconv.FormatInt(seq, 10))
	}
	c.want.addBounds("audit_span", s.first, s.bounds)
	row := spanRow{s.first, s.bounds, s.encodeMarks(), s.endsBytes()}
	same, err := c.v.spanIs(row)
	if err != nil {
		c.err = err
		return
	}
	c.spans = append(c.spans, row)
	if last {
		if !c.isAbsent(s.first, true) {
			c.addRun()
		}
		c.spans = c.spans[:0]
	}
	if !same && !c.found {
		c.bad, c.found = s.first, true
	}
}

// addRun adds the complete run.
func (c *indexCheck) addRun() {
	r := newRun(c.spans)
	c.want.addBounds("audit_run", r.first, r.bounds)
	for _, row := range r.encodeRows() {
		c.want.addRow("audit_posting", strconv.FormatInt(row.key, 10), "", string(row.data))
	}
	for seq, m := range r.late {
		c.late.addRow("audit_late", strconv.FormatInt(seq, 10), strconv.FormatInt(int64(m), 10), "")
	}
}

// spanIs reports whether a span is stored as it should be: with its marks, or without any if a run
// has them.
func (v *View) spanIs(s spanRow) (same bool, err error) {
	const query = `SELECT marks, ends, EXISTS (SELECT 1 FROM audit_leaf WHERE seq = ?2) FROM audit_span WHERE first = ?1`
	err = v.eachRow(query, func(scan func(...any) error) error {
		var marks, ends []byte
		var inRun bool
		if err := scan(&marks, &ends, &inRun); err != nil {
			return v.translateError(err)
		}
		if inRun {
			same = len(marks)+len(ends) == 0
		} else {
			same = bytes.Equal(marks, s.marks) && bytes.Equal(ends, s.ends)
		}
		return nil
	}, s.first, s.first/runLeaves*runLeaves+runLeaves-1)
	return same, err
}

// A sum is a hash of a set, independent of order. Equal sets have equal sums. Different sets have
// different ones, except with negligible probability, because no one can predict the seeds.
type sum struct {
	seeds [2]maphash.Seed
	sums  [2]uint64
}

func newSum() sum { return sum{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}} }

// addRow adds a row of a table.
func (s *sum) addRow(table string, cells ...string) {
	b := append(make([]byte, 0, 128), table...)
	for _, c := range cells {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(c))), c...)
	}
	for i := range s.seeds {
		s.sums[i] += maphash.Bytes(s.seeds[i], b)
	}
}

// addSum adds the rows of a sum with the same seeds.
func (s *sum) addSum(o sum) {
	for i := range s.sums {
		s.sums[i] += o.sums[i]
	}
}

func (s *sum) addBounds(table string, first int64, b bounds) {
	s.addRow(table, strconv.FormatInt(first, 10), b.low+" "+b.high+" "+b.since+" "+b.until, "")
}

// queryLines returns the rows of a query with a single column.
func (v *View) queryLines(query string) ([]string, error) {
	var out []string
	err := v.eachRow(query, func(scan func(...any) error) error {
		var line string
		if err := scan(&line); err != nil {
			return v.translateError(err)
		}
		out = append(out, line)
		return nil
	})
	return out, err
}
