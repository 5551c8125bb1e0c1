package record

import (
	"bytes"
	"database/sql"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// CheckIntegrity runs SQLite's integrity check on the tables of the record: their pages and
// indexes. It compares the schema with the one that the migrations create, and the search index
// with the leaves.
func (v *View) CheckIntegrity() error {
	c := v.index
	if c == nil {
		c = newIndexCheck(v)
		c.checkTables()
		if err := v.Leaves(0, c.addLeaf); err != nil && c.tableErr == nil {
			return err
		}
		v.index = c
	}
	if c.tableErr != nil {
		return c.tableErr
	}
	if err := v.database.CheckSchema(v.ctx); err != nil {
		return err
	}
	return v.checkIndex(c)
}

// recordTables are the tables of the record whose pages and indexes are checked.
var recordTables = []string{"audit_leaf", "audit_record", "audit_span", "audit_run", "audit_posting", "audit_late",
	"audit_segment"}

// checkTables runs SQLite's integrity check on the tables of the record.
func (c *indexCheck) checkTables() {
	for _, table := range recordTables {
		problems, err := c.v.database.CheckTable(c.v.ctx, table, c.v.pauseWork)
		if err != nil {
			c.tableErr = c.v.translateError(err)
			return
		}
		if len(problems) > 0 {
			c.tableErr = tool.Errorf(tool.Conflict, "the database is damaged, or its indexes were changed: %s",
				strings.Join(problems[:min(len(problems), 5)], "; "))
			return
		}
	}
}

// checkIndex compares the rebuilt search index with the stored one.
func (v *View) checkIndex(c *indexCheck) error {
	if c.err != nil {
		return c.err
	}
	if c.bad >= 0 && c.found {
		return tool.Errorf(tool.Conflict,
			"the search index of the leaves %d to %d was changed", c.bad, c.bad+spanLeaves-1)
	}
	have, err := c.have, c.haveErr
	if len(c.absent) > 0 || have == nil && err == nil {
		have, err = v.sumIndex(c)
	}
	if err != nil {
		return err
	}
	want := c.want
	if len(c.absent) == 0 {
		want.addSum(&c.late)
	}
	if !have.isEqual(&want) {
		return tool.Errorf(tool.Conflict, "the index of records was changed: records may be missing from lists")
	}
	return nil
}

// sumIndex returns the sum of the stored index, without what is about absent leaves. Rows about
// these can't be rebuilt.
func (v *View) sumIndex(c *indexCheck) (*sum, error) {
	have := &sum{seeds: c.want.seeds}
	if err := v.sumRecords(c, have); err != nil {
		return have, err
	}
	const bounds = `low || ' ' || high || ' ' || since || ' ' || until`
	for _, t := range []struct{ name, leaf, query string }{
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
	// the query selectStored; nil: not prepared yet
	stored *sql.Stmt
	want   sum
	late   sum // of the rows of audit_late; part of want unless leaves are absent
	// the spans, and with -1 - first the runs, that have absent leaves
	absent map[int64]bool
	// the sum of the stored index, without regard to absent leaves, if sumTables was called
	have    *sum
	haveErr error
	// the result of checkTables
	tableErr error
	bad      int64 // the first span that is wrong
	found    bool  // bad is set
	err      error // a stored span couldn't be read
}

func newIndexCheck(v *View) *indexCheck {
	want := newSum()
	return &indexCheck{v: v, want: want, late: sum{seeds: want.seeds}, absent: map[int64]bool{}}
}

// sumTables sums up the stored index.
func (c *indexCheck) sumTables() {
	c.have, c.haveErr = c.v.sumIndex(&indexCheck{want: sum{seeds: c.want.seeds}})
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
	if f, ok := factsOfLeaf(&l); ok {
		c.span.addFacts(l.Seq, &f)
	}
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
		c.want.addRecord(p.rowAt(seq))
	}
	c.want.addBounds("audit_span", s.first, s.bounds)
	row := spanRow{s.first, s.bounds, s.encodeMarks(), s.endsBytes()}
	same, err := c.matchesRow(row)
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

// selectStored selects a span, and whether the run that it is in is complete.
const selectStored = `SELECT marks, ends, EXISTS (SELECT 1 FROM audit_leaf WHERE seq = ?2) FROM audit_span ` +
	`WHERE first = ?1`

// matchesRow reports whether a span is stored as it should be: with its marks, or without any if a
// run has them.
func (c *indexCheck) matchesRow(s spanRow) (same bool, err error) {
	if c.stored == nil {
		if c.stored, err = c.v.tx.PrepareContext(c.v.ctx, selectStored); err != nil { // closed with the transaction
			return false, c.v.translateError(err)
		}
	}
	err = c.v.eachRowOf(c.stored, func(scan func(...any) error) error {
		var marks, ends sql.RawBytes
		var inRun bool
		if err := scan(&marks, &ends, &inRun); err != nil {
			return c.v.translateError(err)
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
