package store_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// killed returns a copy of a store's folder as a process killed after do would leave it. The
// database is locked, so nothing that do writes is in it.
func killed(t *testing.T, s *store.Store, dir string, do func()) (left string) {
	t.Helper()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	// lock the database again
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "biplane.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	do()
	left = t.TempDir()
	if err := os.Chmod(left, 0o700); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	for _, name := range []string{"biplane.db", "biplane.db-wal", "biplane.ahead"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if err := os.WriteFile(filepath.Join(left, name), b, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	copyWitness(t, dir, left)
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	return left
}

// scene returns the folder left by a killed process: a call of the agent, with a call inside, and
// the journal of its execution.
func scene(t *testing.T) (left, inner string) {
	t.Helper()
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	e := s.Executions(testKey(t))
	yes := true
	outer, err := l.Begin(t.Context(),
		&tool.Call{Path: "biplane.execute", Tool: &tool.Tool{Upstream: "biplane", Name: "execute"}}, allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	left = killed(t, s, dir, func() {
		rec := journal.Record{ID: "ex_1", Principal: "local:ann", State: journal.Running, Started: time.Now()}
		first := rec
		e.Write(&journal.Write{ID: rec.ID, Record: &first, New: true, Seq: 1, Part: []byte("one")})
		for i := range 10 {
			x, err := l.Begin(t.Context(), &tool.Call{
				Path: "crm.find", By: &tool.Program{Execution: rec.ID}, Arguments: fmt.Appendf(nil, `{"n":%d}`, i),
				Tool: &tool.Tool{Upstream: "crm", Name: "find", Annotations: tool.Annotations{ReadOnly: &yes}},
			}, allow)
			if err == nil {
				err = x.End(t.Context(), tool.Text(false, "fine"), nil)
			}
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
			inner = x.Record()
		}
		if err := e.Write(&journal.Write{ID: rec.ID, Seq: 2, Part: []byte("two"),
			Results: []journal.Result{{Digest: e.Digest([]byte("large")), Data: []byte("large")}}}).Safe(); err != nil {
			t.Fatalf("Safe: %v", err)
		}
		rec.State, rec.Ended = journal.Done, time.Now()
		e.Write(&journal.Write{ID: rec.ID, Record: &rec, Seq: 3, Part: []byte("three")})
		if err := outer.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
			t.Fatalf("End: %v", err)
		}
	})
	return left, inner
}

// Everything answered survives kill -9, even if the database didn't have it yet: records, the data
// kept for them, and journals. Each of it exists once.
func TestAnsweredAndKilled(t *testing.T) {
	dir, inner := scene(t)
	file := filepath.Join(dir, "biplane.ahead")
	ahead, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if n := store.Frames(ahead); n != 25 { // the database already has the first one
		t.Errorf("%d entries are in the file, want 25", n)
	}
	for _, clear := range []string{`{"n":7}`, "three", "large"} {
		if bytes.Contains(ahead, []byte(clear)) {
			t.Errorf("%q is in the file as it is", clear)
		}
	}
	for range 3 {
		s := openDatabase(t, dir)
		l := auditLog(t, s)
		if r := sound(t, l); r.Records != 11 || r.Unfinished != 0 || r.Size != 22 {
			t.Errorf("the log after the start: %+v, want 11 finished records in 22 leaves", r)
		}
		r, err := l.Record(t.Context(), inner)
		if err != nil {
			t.Fatalf("Record: %v", err)
		}
		if kept, err := l.Kept(t.Context(), r.Seq, r.Arguments.Kept); err != nil || string(kept) != `{"n":9}` {
			t.Errorf("kept: %q, %v", kept, err)
		}
		e := s.Executions(testKey(t))
		x, err := e.Get(t.Context(), "ex_1")
		if err != nil || x == nil || x.State != journal.Done || x.Ended.IsZero() {
			t.Fatalf("the execution after the start: %+v, %v, want it done, with the time of its end", x, err)
		}
		if parts, err := e.Parts(t.Context(), "ex_1"); err != nil || len(parts) != 3 || string(parts[2]) != "three" {
			t.Errorf("the parts of its journal: %q, %v, want three, the last of them \"three\"", parts, err)
		}
		if data, err := e.Result(t.Context(), e.Digest([]byte("large"))); err != nil || string(data) != "large" {
			t.Errorf("the stored result: %q, %v, want \"large\"", data, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if fi, err := os.Stat(file); err != nil || fi.Size() > 0 {
			t.Errorf("after a clean stop the file has %d bytes, %v", fi.Size(), err)
		}
		// as if the process had died after writing to the database
		if err := os.WriteFile(file, ahead, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
}

// From a truncated or changed file the complete frames are recovered, and the log verifies.
func TestTornAhead(t *testing.T) {
	from, _ := scene(t)
	ahead, err := os.ReadFile(filepath.Join(from, "biplane.ahead"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	flipped := bytes.Clone(ahead)
	flipped[len(flipped)-100] ^= 1
	stale := append(bytes.Clone(ahead), ahead...)
	for i, torn := range [][]byte{nil, ahead[:7], ahead[:8], ahead[:len(ahead)/2], ahead[:len(ahead)-1], flipped, stale,
		append(bytes.Clone(ahead), 1, 2, 3)} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		for _, name := range []string{"biplane.db", "biplane.db-wal"} {
			b, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "biplane.ahead"), torn, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		copyWitness(t, from, dir)
		l := auditLog(t, openDatabase(t, dir))
		r := sound(t, l)
		if whole := i > 5; whole != (r.Size == 22) {
			t.Errorf("%d: %d leaves", i, r.Size)
		}
		fill(t, l, 9)
		if after := sound(t, l); after.Size <= r.Size {
			t.Errorf("%d: nothing was added to %d leaves", i, r.Size)
		}
	}
}

// If the file can't be written, an answer waits for the database.
func TestNoAhead(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	if err := s.NoAhead(); err != nil {
		t.Fatalf("NoAhead: %v", err)
	}
	for n := range 5 {
		e, err := l.Begin(t.Context(), &tool.Call{Path: "a.b", Tool: readInside().Tool}, allow)
		if err == nil {
			err = e.End(t.Context(), tool.Text(false, "fine"), nil)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		if have := s.Leaves(t.Context()); have != 2*n+2 {
			t.Errorf("%d leaves are written when answer %d is given", have, n)
		}
	}
	x := s.Executions(testKey(t))
	rec := &journal.Record{ID: "ex_1", State: journal.Running, Started: time.Now()}
	if err := x.Write(&journal.Write{ID: rec.ID, Record: rec, New: true, Seq: 1,
		Part: []byte("one")}).Safe(); err != nil {
		t.Fatalf("Safe: %v", err)
	}
	if got, err := x.Get(t.Context(), rec.ID); err != nil || got == nil {
		t.Errorf("the execution in the database: %+v, %v, want it stored", got, err)
	}
}

// Leaves that have to be on the disk are, whichever transaction writes them.
func TestDurableAmongOthers(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	done := make(chan error)
	const each = 50
	for n := range 8 {
		go func() {
			var err error
			for range each {
				c := &tool.Call{Path: "a.b"}
				if n%2 == 0 {
					c = readInside()
				}
				var e *audit.Entry
				if e, err = l.Begin(t.Context(), c, allow); err == nil {
					err = e.End(t.Context(), tool.Text(false, "fine"), nil)
				}
				if err != nil {
					break
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	}
	if r := sound(t, l); r.Records != 8*each || r.Unfinished != 0 {
		t.Errorf("the log: %+v, want the records of all writers, finished", r)
	}
}

// FuzzFrames parses files that anyone may have written.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := store.Frames(data); n*13 > len(data) {
			t.Errorf("%d entries in %d bytes", n, len(data))
		}
	})
}

// Leaves from another folder are refused, even if it has the same key: write access to the folder
// doesn't allow adding one to the record through the file.
func TestForeignAhead(t *testing.T) {
	from, _ := scene(t)
	ahead, err := os.ReadFile(filepath.Join(from, "biplane.ahead"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	other, err := secret.NewKey(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	for _, key := range []*secret.Key{testKey(t), other} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "biplane.ahead"), ahead, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		s := openDatabase(t, dir)
		if _, err := s.Audit(t.Context(), key); err != nil {
			t.Fatalf("Audit: %v", err)
		}
		if n := s.Leaves(t.Context()); n > 0 {
			t.Errorf("%d leaves", n)
		}
	}
}
