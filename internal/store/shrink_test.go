package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
)

// fillExecutions writes n ended executions with a part of size bytes each, one second apart, the
// last one at the end.
func fillExecutions(t testing.TB, e *store.Executions, n, size int, end time.Time) {
	t.Helper()
	var last journal.Pending
	for i := range n {
		began := end.Add(time.Duration(i+1-n) * time.Second)
		id := fmt.Sprintf("ex_%06d", i)
		rec := &journal.Record{ID: id, Principal: fmt.Sprint("local:", i%3), State: journal.Done, Started: began,
			Ended: began, Bytes: int64(size)}
		last = e.Write(&journal.Write{ID: id, New: true, Seq: 1, Part: makeNoise(i, size), Record: rec})
	}
	if err := last.Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
}

// TestTrimShrinksTheFile checks that old executions are deleted, that the others stay, and that the
// space of the old ones is returned to the file system.
func TestTrimShrinksTheFile(t *testing.T) {
	const n, left = 1500, 100
	dir := t.TempDir()
	s := openDatabase(t, dir)
	e, end := s.Executions(testKey(t)), time.Now()
	fillExecutions(t, e, n, 4000, end)
	trimmed, err := e.Trim(t.Context(), end.Add((1-left)*time.Second), 1<<40)
	if err != nil || trimmed != n-left {
		t.Fatalf("Trim = %d, %v, want %d", trimmed, err, n-left)
	}
	for i, want := range map[int]bool{0: false, n - left - 1: false, n - left: true, n - 1: true} {
		if r, err := e.Get(t.Context(), fmt.Sprintf("ex_%06d", i)); err != nil || (r != nil) != want {
			t.Errorf("execution %d is there: %v, %v, want %v", i, r != nil, err, want)
		}
	}
	parts, err := e.Parts(t.Context(), fmt.Sprintf("ex_%06d", n-1))
	if err != nil || len(parts) != 1 {
		t.Errorf("the last execution has %d parts, %v, want 1", len(parts), err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "biplane.db"))
	if err != nil || info.Size() > 3<<20 {
		t.Errorf("the database has %d bytes, %v, want less than half of the %d that were written", info.Size(), err,
			n*4000)
	}
}

// TestLongReadShrinksTheLog checks that SQLite's log, which grows while the record is verified, is
// short again afterwards.
func TestLongReadShrinksTheLog(t *testing.T) {
	const n, size = 10, 2 << 20
	dir := t.TempDir()
	s := openDatabase(t, dir)
	e, end := s.Executions(testKey(t)), time.Now()
	logSize := func() int64 {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, "biplane.db-wal"))
		if err != nil {
			t.Fatalf("Stat: %v", err)
		}
		return info.Size()
	}
	err := stored(t, s).ViewWhole(t.Context(), nil, func(v audit.View) error {
		if _, err := v.Head(); err != nil { // begins to read
			return err
		}
		fillExecutions(t, e, n, size, end)
		return nil
	})
	if err != nil {
		t.Fatalf("ViewWhole: %v", err)
	}
	if got := logSize(); got < n*size {
		t.Errorf("while the record is read, the log has %d bytes, want all %d that are written", got, n*size)
	}
	for i := range 3 { // one copies the log into the database, one begins it again
		id := fmt.Sprint("ex_later_", i)
		rec := &journal.Record{ID: id, Principal: "local:0", State: journal.Done, Started: end, Ended: end}
		if err := e.Write(&journal.Write{ID: id, New: true, Record: rec}).Wait(); err != nil {
			t.Fatalf("Wait: %v", err)
		}
	}
	if got := logSize(); got > 18<<20 {
		t.Errorf("afterwards the log has %d bytes, want at most 18 MB", got)
	}
}

// BenchmarkTrim deletes executions by age. It keeps as many as it deletes.
func BenchmarkTrim(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		b.StopTimer()
		s, err := store.Open(b.Context(), store.Config{Path: b.TempDir()})
		if err != nil {
			b.Fatalf("store.Open: %v", err)
		}
		e, end := s.Executions(testKey(b)), time.Now()
		fillExecutions(b, e, 2*n, 1500, end)
		b.StartTimer()
		trimmed, err := e.Trim(b.Context(), end.Add((1-n)*time.Second), 1<<40)
		if err != nil || trimmed != n {
			b.Fatalf("Trim = %d, %v, want %d", trimmed, err, n)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatalf("Close: %v", err)
		}
		b.StartTimer()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "executions/s")
}
