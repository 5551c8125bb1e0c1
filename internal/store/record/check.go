package record

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"hash/maphash"
	"strings"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Check lets SQLite check the tables of the record: their pages, and whether indexes agree with them. It compares the tables, indexes and
// triggers with those that were made, and what lists search by with what the leaves give.
func (v *View) Check() error {
	for _, table := range []string{"audit_leaf", "audit_record", "audit_span"} {
		said, err := v.lines(`PRAGMA integrity_check('` + table + `')`)
		if err != nil {
			return err
		}
		if len(said) != 1 || said[0] != "ok" {
			return tool.Errorf(tool.Conflict, "the database is damaged, or its indexes were changed: %s", strings.Join(said[:min(len(said), 5)], "; "))
		}
	}
	if err := v.schema(); err != nil {
		return err
	}
	return v.index()
}

// index compares what lists search by with the leaves, of which it is made anew.
func (v *View) index() error {
	want := newSum()
	have := want
	bad := int64(-1)
	var s *span
	err := v.Leaves(0, func(l audit.Leaf) error {
		if first := l.Seq / spanLeaves * spanLeaves; s == nil || first != s.first {
			s = newSpan(first)
		}
		s.add(l.Seq, l.Data)
		if (l.Seq+1)%spanLeaves != 0 || bad >= 0 {
			return nil
		}
		for p, seq := range s.places {
			want.add(p.record, p.ended, seq)
		}
		same, err := v.spanIs(s)
		if !same {
			bad = s.first
		}
		return err
	})
	if err != nil {
		return err
	}
	if bad >= 0 {
		return tool.Errorf(tool.Conflict, "what lists search the leaves %d to %d by was changed", bad, bad+spanLeaves-1)
	}
	if err := v.spansEnd(); err != nil {
		return err
	}
	err = v.rows(`SELECT record, ended, seq FROM audit_record`, func(scan func(...any) error) error {
		var record sql.RawBytes
		var ended bool
		var seq int64
		if err := scan(&record, &ended, &seq); err != nil {
			return v.fail(err)
		}
		have.add(string(record), ended, seq)
		return nil
	})
	if err == nil && have != want {
		return tool.Errorf(tool.Conflict, "where the leaves of records are found was changed: records may be missing in lists")
	}
	return err
}

// spansEnd looks for spans of leaves that are in none yet: lists would not look at these leaves themselves.
func (v *View) spansEnd() error {
	const beyond = `SELECT first FROM audit_span WHERE first < 0 OR first % 256 <> 0 OR first + 256 > (SELECT coalesce(max(seq), -1) + 1 FROM audit_leaf) LIMIT 1`
	return v.rows(beyond, func(scan func(...any) error) error {
		var first int64
		if err := scan(&first); err != nil {
			return v.fail(err)
		}
		return tool.Errorf(tool.Conflict, "what lists search by has leaves from %d on that there are not: records may be missing in lists", first)
	})
}

// spanIs reports whether a span is kept as it is.
func (v *View) spanIs(s *span) (same bool, err error) {
	err = v.rows(`SELECT low, high, marks FROM audit_span WHERE first = ?`, func(scan func(...any) error) error {
		var low, high string
		var marks []byte
		if err := scan(&low, &high, &marks); err != nil {
			return v.fail(err)
		}
		same = low == s.low && high == s.high && bytes.Equal(marks, s.bytes())
		return nil
	}, s.first)
	return same, err
}

// A sum is of a set in any order: equal sets have equal sums, and others don't, since nobody can know the seeds beforehand.
type sum struct {
	seeds [2]maphash.Seed
	sums  [2]uint64
}

func newSum() sum { return sum{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}} }

func (s *sum) add(record string, ended bool, seq int64) {
	b := make([]byte, 0, 64)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	if ended {
		b = append(b, 1)
	}
	b = append(append(b, 0), record...)
	for i := range s.seeds {
		s.sums[i] += maphash.Bytes(s.seeds[i], b)
	}
}

// lines gives the one column of a query.
func (v *View) lines(query string) ([]string, error) {
	var out []string
	err := v.rows(query, func(scan func(...any) error) error {
		var line string
		if err := scan(&line); err != nil {
			return v.fail(err)
		}
		out = append(out, line)
		return nil
	})
	return out, err
}
