package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A disk is what remains of a store if the power fails at the worst moment: the database as of the
// last transaction that waited for the disk, and the write-ahead file as it is.
type disk struct {
	t    *testing.T
	s    *store.Store
	dir  string
	seen int64 // number of transactions that waited
	db   map[string][]byte
}

// look copies the database if a transaction has waited for the disk since. Nothing else may be
// written at the same time.
func (d *disk) look() {
	d.t.Helper()
	n := d.s.Waited(d.t.Context())
	if n == d.seen && d.db != nil {
		return
	}
	d.seen, d.db = n, map[string][]byte{}
	for _, name := range []string{"biplane.db", "biplane.db-wal"} {
		b, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			d.t.Fatalf("os.ReadFile: %v", err)
		}
		d.db[name] = b
	}
}

// fail returns the folder after a power failure.
func (d *disk) fail() string {
	d.t.Helper()
	left := d.t.TempDir()
	if err := os.Chmod(left, 0o700); err != nil {
		d.t.Fatalf("os.Chmod: %v", err)
	}
	ahead, err := os.ReadFile(filepath.Join(d.dir, "biplane.ahead"))
	if err != nil {
		d.t.Fatalf("os.ReadFile: %v", err)
	}
	for name, b := range d.db {
		if err := os.WriteFile(filepath.Join(left, name), b, 0o600); err != nil {
			d.t.Fatalf("os.WriteFile: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(left, "biplane.ahead"), ahead, 0o600); err != nil {
		d.t.Fatalf("os.WriteFile: %v", err)
	}
	copyWitness(d.t, d.dir, left)
	return left
}

// Whenever the power fails, the record of each call that was made and may write survives. So does
// its intent, with everything that its execution received before. That holds even if the
// write-ahead file was overwritten in the meantime, and something else was written to the database.
func TestPower(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l, e := auditLog(t, s), s.Executions(testKey(t))
	d := &disk{t: t, s: s, dir: dir}
	rec := journal.Record{ID: "ex_1", Principal: "local:ann", State: journal.Running, Started: time.Now()}
	if err := e.Write(&journal.Write{ID: rec.ID, Record: &rec, New: true, Seq: 1,
		Part: []byte("heard")}).Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	k, err := s.Sessions(t.Context(), testKey(t))
	if err != nil {
		t.Fatalf("Sessions: %v", err)
	}
	part := bytes.Repeat([]byte("x"), 60<<10) // so that the file is overwritten now and then
	seq, checked, labels := 1, 0, 0
	var begun []string
	for i := range 160 {
		if i%40 == 7 { // the file doesn't have this, and the call comes after it
			if err := k.Label(t.Context(), "local:ann", "s", []string{fmt.Sprintf("l%02d", labels)}, time.Now(),
				time.Time{}); err != nil {
				t.Fatalf("Label: %v", err)
			}
			labels++
		}
		e.Write(&journal.Write{ID: rec.ID, Seq: seq + 1, Part: part})
		if i%5 == 0 { // the database has it before a caller asks for it to be safe
			if err := s.Settle(t.Context()); err != nil {
				t.Fatalf("Settle: %v", err)
			}
		}
		intent := e.Write(&journal.Write{ID: rec.ID, Seq: seq + 2, Part: fmt.Appendf(nil, "intent %d", i)})
		seq += 2
		x, err := l.Begin(t.Context(), &tool.Call{Path: "a.b",
			By: &tool.Program{Execution: rec.ID}, Arguments: fmt.Appendf(nil, `{"n":%d}`, i)}, allow)
		if err == nil {
			err = intent.Sync()
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		begun = append(begun, x.Record())
		if i%3 == 0 {
			if err := x.End(t.Context(), tool.Text(false, "fine"), nil); err != nil {
				t.Fatalf("End: %v", err)
			}
		}
		if err := s.Settle(t.Context()); err != nil { // so that nothing is being written while the database is copied
			t.Fatalf("Settle: %v", err)
		}
		before := d.seen
		if d.look(); i > 0 && before != d.seen || i%23 == 0 && i > 0 {
			survived(t, d.fail(), begun, seq, labels, part)
			checked++
		}
	}
	if d.seen > 40 {
		t.Errorf("%d transactions waited for the disk, of 160 calls", d.seen)
	}
	if checked < 10 {
		t.Errorf("looked %d times", checked)
	}
	if r := sound(t, l); r.Records != 160 {
		t.Errorf("r = %+v, want r.Records == 160", r)
	}
}

// survived checks that a folder has what was promised.
func survived(t *testing.T, dir string, begun []string, seq, labels int, part []byte) {
	t.Helper()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	if r := sound(t, l); r.Records < int64(len(begun)) {
		t.Errorf("%d records of %d calls: %+v", r.Records, len(begun), r)
	}
	for _, id := range []string{begun[0], begun[len(begun)/2], begun[len(begun)-1]} {
		if _, err := l.Record(t.Context(), id); err != nil {
			t.Errorf("Record: %v", err)
		}
	}
	parts, err := s.Executions(testKey(t)).Parts(t.Context(), "ex_1")
	if err != nil || len(parts) != seq || !bytes.Equal(parts[seq-2], part) {
		t.Errorf("%d parts of %d, %v", len(parts), seq, err)
	}
	k, err := s.Sessions(t.Context(), testKey(t))
	if err != nil {
		t.Fatalf("Sessions: %v", err)
	}
	if have, err := k.Labels(t.Context(), "local:ann", "s"); err != nil || len(have) != labels {
		t.Errorf("%d labels of %d, %v", len(have), labels, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Many concurrent callers that wait for the disk share its flushes. Each has what it was promised,
// and the file stays small.
func TestPowerAmongMany(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	d := &disk{t: t, s: s, dir: dir}
	const each = 200
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range each {
				x, err := l.Begin(context.Background(), &tool.Call{Path: "a.b", Arguments: []byte(`{"n":1}`)}, allow)
				if err == nil {
					err = x.End(context.Background(), tool.Text(false, "fine"), nil)
				}
				if err != nil {
					t.Errorf("err = %v, want nil", err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	if n := s.Waited(t.Context()); n > 100 {
		t.Errorf("%d transactions waited for the disk, of %d calls", n, 8*each)
	}
	if fi, err := os.Stat(filepath.Join(dir, "biplane.ahead")); err != nil || fi.Size() > 16<<20 {
		t.Errorf("the file has %d bytes, %v", fi.Size(), err)
	}
	d.look() // all transactions so far, because look was not called before
	if r := sound(t, auditLog(t, openDatabase(t, d.fail()))); r.Records != 8*each || r.Unfinished != 0 {
		t.Errorf("r = %+v, want r.Records == 8*each && r.Unfinished == 0", r)
	}
}

// The record of a write that was made is not lost if the database can't be written any more, even
// if the process then dies.
func TestWriteRecordedBeside(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 3)
	before := sound(t, l).Unfinished
	var began []string
	left := killed(t, s, dir, func() {
		for range 3 {
			x, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, allow)
			if err != nil {
				t.Fatalf("Begin: %v", err)
			}
			began = append(began, x.Record())
		}
	})
	l = auditLog(t, openDatabase(t, left))
	for _, id := range began {
		if r, err := l.Record(t.Context(), id); err != nil || r.End.Outcome != audit.Unfinished {
			t.Errorf("r = %+v, err = %v, want err == nil && r.End.Outcome == audit.Unfinished", r, err)
		}
	}
	if r := sound(t, l); r.Unfinished != before+3 {
		t.Errorf("r = %+v, want r.Unfinished == before+3", r)
	}
}

// makeNoise returns n bytes that can't be compressed, always the same.
func makeNoise(seed, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// A frame left by a power failure behind an incomplete one is not mistaken for one of a later
// process, which writes in front of it. That holds for steps of a journal and for leaves, whatever
// the length of the new frames.
func TestPowerTornThenAgain(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l, e := auditLog(t, s), s.Executions(testKey(t))
	fill(t, l, 3)
	rec := journal.Record{ID: "ex_1", Principal: "local:ann", State: journal.Running, Started: time.Now()}
	if err := e.Write(&journal.Write{ID: rec.ID, Record: &rec, New: true, Seq: 1,
		Part: []byte("one")}).Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	var ends []int // of the frames
	part := func(seq, n int) func() {
		return func() {
			if err := e.Write(&journal.Write{ID: rec.ID, Seq: seq,
				Part: makeNoise(seq, n)}).Safe(); err != nil {
				t.Fatalf("Safe: %v", err)
			}
		}
	}
	left := killed(t, s, dir, func() {
		for _, do := range []func(){func() {
			if _, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, allow); err != nil {
				t.Fatalf("Begin: %v", err)
			}
		}, part(2, 200), part(3, 200)} {
			do()
			b, err := os.ReadFile(filepath.Join(dir, "biplane.ahead"))
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			ends = append(ends, store.End(b))
		}
	})
	file := filepath.Join(left, "biplane.ahead")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	b[ends[1]-9] ^= 1 // the page of the third frame is on the disk, the page of the second is not
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	s = openDatabase(t, left)
	auditLog(t, s)
	e = s.Executions(testKey(t))
	left = killed(t, s, left, part(2, 200+ends[0])) // as long as the data before the third one
	if b, err = os.ReadFile(filepath.Join(left, "biplane.ahead")); err != nil || store.End(b) < ends[1] {
		t.Fatalf("the frame ends at %d, not %d, %v", store.End(b), ends[1], err)
	}
	s = openDatabase(t, left)
	if parts, err := s.Executions(testKey(t)).Parts(t.Context(), rec.ID); err != nil || len(parts) != 2 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	sound(t, auditLog(t, s))
}
