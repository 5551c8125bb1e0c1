package record

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// recordRows selects the next 512 rows of audit_record as one text. Each is its columns ended and
// seq, the length of record in bytes, and record. It has most of the rows of the index, and reading
// them one by one needs three times as long.
const recordRows = `SELECT group_concat(ended || ' ' || seq || ' ' || octet_length(record) || ' ' || record, '') ` +
	`FROM (SELECT record, ended, seq FROM audit_record WHERE (record, ended) > (?1, ?2) ORDER BY record, ended ` +
	`LIMIT 512)`

var errIndexRows = &tool.Error{Kind: tool.Conflict,
	Msg: "the index of records was changed: it has rows that can't be read"}

// A recordRow is a row of audit_record. It says where one half of a record is, or both. If ended is
// 0 or 1, leaf seq is the first or the second half. Otherwise it is the first, and the second one
// is the leaf seq + ended - 1.
type recordRow struct {
	ended, seq int64
	record     []byte
}

// splitHalves yields a row for each half that a row is about.
func (r recordRow) splitHalves() iter.Seq[recordRow] {
	return func(yield func(recordRow) bool) {
		if r.ended <= 1 {
			yield(r)
		} else if yield(recordRow{0, r.seq, r.record}) {
			yield(recordRow{1, r.seq + r.ended - 1, r.record})
		}
	}
}

// sumRecords adds the rows of audit_record to have, without those about absent leaves.
func (v *View) sumRecords(c *indexCheck, have *sum) error {
	last, ended := "", int64(math.MinInt64)
	for more := true; more; {
		v.pauseWork()
		more = false
		err := v.eachRow(recordRows, func(scan func(...any) error) error {
			var text sql.RawBytes
			if err := scan(&text); err != nil {
				return v.translateError(err)
			}
			for len(text) > 0 {
				r, rest, ok := cutRow(text)
				if !ok {
					return errIndexRows
				}
				if cmp.Or(cmp.Compare(string(r.record), last), cmp.Compare(r.ended, ended)) > 0 {
					last, ended, more = string(r.record), r.ended, true
				}
				for half := range r.splitHalves() {
					if len(c.absent) == 0 || !c.isAbsent(half.seq, false) {
						have.addRecord(half)
					}
				}
				text = rest
			}
			return nil
		}, last, ended)
		if err != nil {
			return err
		}
	}
	return nil
}

// cutRow cuts the first row from a text of recordRows.
func cutRow(text []byte) (r recordRow, rest []byte, ok bool) {
	var numbers [3]int64
	for i := range numbers {
		digits, after, found := bytes.Cut(text, []byte{' '})
		n, err := strconv.ParseInt(string(digits), 10, 64)
		if !found || err != nil {
			return r, nil, false
		}
		numbers[i], text = n, after
	}
	if numbers[2] < 0 || numbers[2] > int64(len(text)) {
		return r, nil, false
	}
	return recordRow{numbers[0], numbers[1], text[:numbers[2]]}, text[numbers[2]:], true
}

// A sum is a hash of a set, independent of order. Equal sets have equal sums. Different sets have
// different ones, except with negligible probability, because no one can predict the seeds.
type sum struct {
	seeds [2]maphash.Seed
	sums  [2]uint64
	row   []byte // buffer
}

func newSum() sum { return sum{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}} }

// isEqual reports whether two sums with the same seeds are equal.
func (s *sum) isEqual(o *sum) bool { return s.sums == o.sums }

// addRow adds a row of a table.
func (s *sum) addRow(table string, cells ...string) {
	b := append(s.row[:0], table...)
	for _, c := range cells {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(c))), c...)
	}
	s.addBytes(b)
}

// addRecord adds a row of audit_record.
func (s *sum) addRecord(r recordRow) {
	b := append(s.row[:0], "audit_record"...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.ended))
	b = binary.BigEndian.AppendUint64(b, uint64(r.seq))
	s.addBytes(append(b, r.record...))
}

func (s *sum) addBytes(b []byte) {
	s.row = b
	for i := range s.seeds {
		s.sums[i] += maphash.Bytes(s.seeds[i], b)
	}
}

// addSum adds the rows of a sum with the same seeds.
func (s *sum) addSum(o *sum) {
	for i := range s.sums {
		s.sums[i] += o.sums[i]
	}
}

func (s *sum) addBounds(table string, first int64, b bounds) {
	s.addRow(table, strconv.FormatInt(first, 10), b.low+" "+b.high+" "+b.since+" "+b.until, "")
}
