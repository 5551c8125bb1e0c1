package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The kinds of entries of an ahead.
const (
	leafKind      = 'l' // a leaf of the record
	executionKind = 'x' // a step of the journal of an execution
)

// plainBytes is the maximum size, in bytes, of a leaf buffer that is reused.
const plainBytes = 64 << 10

var errEntry = errors.New("an entry has an unknown form")

// appendField appends a text preceded by its length.
func appendField[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// fields decodes what field encoded. bad is set if the data is malformed.
type fields struct {
	data []byte
	bad  bool
}

func (f *fields) nextField() []byte {
	n := f.nextNumber()
	if n > uint64(len(f.data)) {
		f.bad, f.data = true, nil
		return nil
	}
	text := f.data[:n:n]
	f.data = f.data[n:]
	return text
}

func (f *fields) nextNumber() uint64 {
	n, size := binary.Uvarint(f.data)
	if size <= 0 {
		f.bad, f.data = true, nil
		return 0
	}
	f.data = f.data[size:]
	return n
}

func (x *leaf) entryKind() byte { return leafKind }

// appendTo writes the leaf without its position in the log, which only the database assigns. The
// leaf is sealed for the record of that name. So no one without the key can add a leaf, nor one
// from another folder with the same key. A replayed leaf is rejected as a duplicate.
func (x *leaf) appendTo(b []byte) []byte {
	x.a.plain = x.appendText(x.a.plain[:0])
	if cap(x.a.plain) > plainBytes { // few leaves are large
		defer func() { x.a.plain = nil }()
	}
	return x.Key.AppendSeal(b, auditAheadPurpose, x.a.plain, []byte(x.a.origin))
}

// appendText writes the leaf's plaintext. The data kept beside it is sealed as it is in its own
// row.
func (x *leaf) appendText(b []byte) []byte {
	add := x.Add
	b = appendField(appendField(b, add.Record), add.Part)
	first := ""
	if add.First != nil {
		first = add.First.Record
	}
	b = binary.AppendUvarint(appendField(b, first), uint64(add.Time.UnixMicro()))
	b = appendField(b, add.Leaf)
	for _, k := range add.Keep {
		b = binary.AppendUvarint(appendField(b, k.Digest), uint64(secret.Overhead+len(k.Data)))
		b = record.SealInto(b, x.Key, k)
	}
	return b
}

// leafAgain decodes a leaf of the file into x and adds it. begun holds the positions of the leaves
// added before it, by record.
func (w *writer) leafAgain(ctx context.Context, x *leaf, text []byte, begun map[string]int64) error {
	text, err := x.Key.Unseal(auditAheadPurpose, text, []byte(w.edge.Origin()))
	if err != nil {
		return fault.Refuse(err)
	}
	f, add := &fields{data: text}, x.Add
	add.Record, add.Part = string(f.nextField()), string(f.nextField())
	first := string(f.nextField())
	add.Time, add.Leaf = time.UnixMicro(int64(f.nextNumber())), f.nextField()
	var kept []retention.Kept
	for len(f.data) > 0 && !f.bad {
		kept = append(kept, retention.Kept{Digest: string(f.nextField()), Data: f.nextField()})
	}
	if f.bad {
		return fault.Refuse(errEntry)
	}
	if first != "" {
		seq, ok := begun[first]
		if !ok {
			if seq, err = w.edge.PlaceOf(ctx, w.tx, x.Key, first); err != nil {
				return err
			}
		}
		add.First = &audit.Addition{Record: first, Seq: seq}
	}
	if err := w.addLeaf(ctx, x); err != nil {
		return err
	}
	begun[add.Record] = add.Seq
	for _, k := range kept {
		if err := w.edge.StoreKept(ctx, w.tx, k.Digest, add.Time, k.Data); err != nil {
			return err
		}
	}
	return nil
}

// An executionWrite is a sealed step of a journal.
type executionWrite struct {
	record  *journal.Record
	fresh   bool // record is the first of its execution
	id      string
	seq     int // of part; 0: no part
	part    []byte
	results []journal.Result
}

func (x *executionWrite) entryKind() byte { return executionKind }

func (x *executionWrite) appendTo(b []byte) []byte {
	var record []byte
	if x.record != nil {
		record, _ = tool.Marshal(x.record) // strings, numbers and times: it never fails
	}
	fresh := uint64(0)
	if x.fresh {
		fresh = 1
	}
	b = binary.AppendUvarint(appendField(b, record), fresh)
	b = binary.AppendUvarint(appendField(b, x.id), uint64(x.seq))
	b = appendField(b, x.part)
	for _, r := range x.results {
		b = appendField(appendField(b, r.Digest), r.Data)
	}
	return b
}

func readExecutionWrite(text []byte) (*executionWrite, error) {
	f, x := &fields{data: text}, &executionWrite{}
	record := f.nextField()
	x.fresh = f.nextNumber() == 1
	x.id, x.seq, x.part = string(f.nextField()), int(f.nextNumber()), f.nextField()
	for len(f.data) > 0 && !f.bad {
		x.results = append(x.results, journal.Result{Digest: string(f.nextField()), Data: f.nextField()})
	}
	if len(record) > 0 {
		x.record = &journal.Record{}
		if json.Unmarshal(record, x.record) != nil {
			return nil, errEntry
		}
	}
	if f.bad {
		return nil, errEntry
	}
	return x, nil
}
