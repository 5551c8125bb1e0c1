package memo

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// The file: a mark (8 bytes) that names this form, the CRC-32C of what follows (4), the state of the database that it is of (stateBytes), and the
// answers to the end: how many starts ago the question was asked last, the query, how many arguments it has, and these; how many columns, and their names; how many rows, and their values. Numbers
// are unsigned varints; texts and bytes have their length before them, values their kind. Numbers of fixed length are little endian.

const fileMark = "bipmemo1"

// The kinds of values.
const (
	kindNil byte = iota
	kindInt
	kindFloat
	kindBool
	kindText
	kindBytes
)

// plain reports whether all values are of a kind that the file has.
func plain(values []driver.Value) bool {
	for _, v := range values {
		switch v.(type) {
		case nil, int64, float64, bool, string, []byte:
		default:
			return false
		}
	}
	return true
}

// sizeOf is about how many bytes values take.
func sizeOf(values []driver.Value) (n int) {
	for _, v := range values {
		n += 10
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// newQuestion makes a question; nil for what is none of a start.
func newQuestion(query string, named []driver.NamedValue) *question {
	q := &question{query: query}
	for _, n := range named {
		if n.Name != "" {
			return nil
		}
		q.args = append(q.args, n.Value)
	}
	if !plain(q.args) || sizeOf(q.args)+len(query) > 4<<10 {
		return nil
	}
	q.key = string(appendQuestion(nil, q))
	return q
}

func appendQuestion(b []byte, q *question) []byte {
	return appendValues(appendText(b, q.query), q.args)
}

func appendAnswer(b []byte, q *question, a *answer) []byte {
	b = appendQuestion(binary.AppendUvarint(b, uint64(q.idle)), q)
	b = binary.AppendUvarint(b, uint64(len(a.columns)))
	for _, c := range a.columns {
		b = appendText(b, c)
	}
	b = binary.AppendUvarint(b, uint64(len(a.rows)))
	for _, r := range a.rows {
		b = appendValues(b, r)
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendValues(b []byte, values []driver.Value) []byte {
	b = binary.AppendUvarint(b, uint64(len(values)))
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			b = binary.AppendVarint(append(b, kindInt), v)
		case float64:
			b = binary.LittleEndian.AppendUint64(append(b, kindFloat), math.Float64bits(v))
		case bool:
			b = append(b, kindBool, 0)
			if v {
				b[len(b)-1] = 1
			}
		case string:
			b = appendText(append(b, kindText), v)
		case []byte:
			b = appendText(append(b, kindBytes), v)
		default:
			b = append(b, kindNil)
		}
	}
	return b
}

// sealed gives the file.
func sealed(s *state, body []byte) []byte {
	b := append([]byte(fileMark), 0, 0, 0, 0)
	b = append(s.appendTo(b), body...)
	binary.LittleEndian.PutUint32(b[len(fileMark):], crc32.Checksum(b[len(fileMark)+4:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// load reads the file. Where it isn't of the database as it is, there are questions, and no answers.
func load(cfg Config) (answers map[string]*answer, asked []*question) {
	data := read(cfg.File)
	if len(data) < len(fileMark)+4+stateBytes || string(data[:len(fileMark)]) != fileMark {
		return nil, nil
	}
	data = data[len(fileMark):]
	if binary.LittleEndian.Uint32(data) != crc32.Checksum(data[4:], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, nil
	}
	of, body := data[4:4+stateBytes], data[4+stateBytes:]
	r := &reader{left: body}
	answers = map[string]*answer{}
	for len(r.left) > 0 && !r.bad {
		q, a := r.answer()
		if r.bad || len(asked) == most {
			return nil, nil
		}
		answers[q.key], asked = a, append(asked, q)
	}
	now := stateOf(cfg.Database)
	if r.bad || now == nil || !bytes.Equal(now.appendTo(nil), of) {
		return nil, asked
	}
	return answers, asked
}

// read reads the file; nil: it is none of ours.
func read(path string) []byte {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > mostAll {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil
	}
	return data
}

// A reader reads the file's answers. Once something is not as it should be, all is empty.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[size:]
	return n
}

// count reads how many there are of what takes a byte each at least.
func (r *reader) count() int {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) fail() { r.left, r.bad = nil, true }

func (r *reader) take(n int) []byte {
	if n > len(r.left) {
		r.fail()
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) text() string { return string(r.take(r.count())) }

func (r *reader) values() (out []driver.Value) {
	n := r.count()
	if n == 0 {
		return nil
	}
	out = make([]driver.Value, 0, n)
	for range n {
		out = append(out, r.value())
	}
	return out
}

func (r *reader) value() driver.Value {
	kind := r.take(1)
	if kind == nil {
		return nil
	}
	switch kind[0] {
	case kindNil:
		return nil
	case kindInt:
		n, size := binary.Varint(r.left)
		if size <= 0 {
			r.fail()
			return nil
		}
		r.left = r.left[size:]
		return n
	case kindFloat:
		if b := r.take(8); b != nil {
			return math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case kindBool:
		if b := r.take(1); b != nil {
			return b[0] != 0
		}
	case kindText:
		return r.text()
	case kindBytes:
		if b := r.take(r.count()); len(b) > 0 { // the driver gives none for empty ones
			return slices.Clone(b)
		}
		return []byte(nil)
	default:
		r.fail()
	}
	return nil
}

func (r *reader) answer() (*question, *answer) {
	idle, from := int(r.number()&0xff), r.left
	q, a := &question{query: r.text(), args: r.values(), idle: idle}, &answer{}
	q.key = string(from[:len(from)-len(r.left)])
	for range r.count() {
		a.columns = append(a.columns, r.text())
	}
	for range r.count() {
		row := r.values()
		if len(row) != len(a.columns) {
			r.fail()
			break
		}
		a.rows = append(a.rows, row)
	}
	return q, a
}
