//go:build unix

package store_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// private returns a new data folder with mode 0700.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	return dir
}

// Something other than a regular file in place of the write-ahead file is refused, and not changed.
// A file that others can read becomes private.
func TestAheadInTheWay(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":   func(path string) error { return os.Symlink(precious, path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := private(t)
		if err := put(filepath.Join(dir, "biplane.ahead")); err != nil {
			t.Fatalf("put: %v", err)
		}
		if s, err := store.Open(t.Context(), store.Config{Path: dir}); err == nil ||
			!strings.Contains(err.Error(), "biplane.ahead was not written by biplane") {
			t.Errorf("%s, s = %v, err = %v, want err != nil && strings.Contains(err.Error(), "+
				"\"biplane.ahead was not written by biplane\")", name, s, err)
		}
	}
	if b, err := os.ReadFile(precious); string(b) != "precious" {
		t.Errorf("what the link names is %q, %v", b, err)
	}
	dir := private(t)
	path := filepath.Join(dir, "biplane.ahead")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	openDatabase(t, dir)
	if fi, err := os.Stat(path); err != nil || fi.Mode() != fs.FileMode(0o600) {
		t.Errorf("fi = %v, err = %v, want err == nil && fi.Mode() == fs.FileMode(0o600)", fi, err)
	}
}

// An entry number so large that none could follow is not accepted: the store still opens every
// time.
func TestAheadNumbers(t *testing.T) {
	for _, n := range []uint64{1 << 63, ^uint64(0)} {
		dir := private(t)
		entry := append(binary.LittleEndian.AppendUint64(nil, n), 1, 0, 0, 0, 'x', 0)
		frame := binary.LittleEndian.AppendUint32(nil, uint32(len(entry)))
		frame = binary.LittleEndian.AppendUint32(frame, crc32.Checksum(entry, crc32.MakeTable(crc32.Castagnoli)))
		if err := os.WriteFile(filepath.Join(dir, "biplane.ahead"), append(frame, entry...), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		for range 3 {
			s := openDatabase(t, dir)
			fill(t, auditLog(t, s), 1)
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
	}
}

// A process that starts with another key, by mistake, doesn't delete what was answered.
func TestOtherKeyAtFirst(t *testing.T) {
	dir, _ := scene(t)
	other, err := secret.NewKey(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s := openDatabase(t, dir)
	if a, err := s.Audit(t.Context(), other); err == nil {
		if _, err = a.Signer(t.Context(), ""); err == nil {
			t.Error("another key opens the record")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if r := sound(t, auditLog(t, openDatabase(t, dir))); r.Size != 22 || r.Unfinished != 0 {
		t.Errorf("r = %+v, want r.Size == 22 && r.Unfinished == 0", r)
	}
}

// An entry that was answered because it is in the write-ahead file is not lost with the transaction
// that should have written it to the database. The next transaction writes it, and after a kill the
// next process finds it.
func TestSafeThoughRefused(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l, e := auditLog(t, s), s.Executions(testKey(t))
	call, err := l.Begin(t.Context(), &tool.Call{Path: "a.b", Tool: readInside().Tool}, allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	rec := journal.Record{ID: "ex_1", Principal: "local:ann", State: journal.Done, Started: time.Now(),
		Ended: time.Now()}
	killed(t, s, dir, func() {
		if err := e.Write(&journal.Write{ID: rec.ID, Record: &rec, New: true, Seq: 1,
			Part: []byte("one")}).Safe(); err != nil {
			t.Fatalf("Safe: %v", err)
		}
		if err := call.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
			t.Fatalf("End: %v", err)
		}
		if err := s.Pragma(t.Context(), "busy_timeout=1"); err != nil { // after the first transaction has given up
			t.Fatalf("Pragma: %v", err)
		}
		for range 3 {
			if err := s.Settle(t.Context()); err == nil {
				t.Fatal("the database was not locked")
			}
		}
	})
	next := journal.Record{ID: "ex_2", Principal: "local:ann", State: journal.Running, Started: time.Now()}
	if err := e.Write(&journal.Write{ID: next.ID, Record: &next, New: true, Seq: 1,
		Part: []byte("one")}).Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	left := private(t)
	// as if another answer had overwritten the file's contents
	for _, name := range []string{"biplane.db", "biplane.db-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(left, name), b, 0o600)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	copyWitness(t, dir, left)
	s2 := openDatabase(t, left)
	if r := sound(t, auditLog(t, s2)); r.Records != 1 || r.Unfinished != 0 {
		t.Errorf("r = %+v, want r.Records == 1 && r.Unfinished == 0", r)
	}
	for _, id := range []string{rec.ID, next.ID} {
		if x, err := s2.Executions(testKey(t)).Get(t.Context(), id); err != nil || x == nil {
			t.Errorf("id = %s, x = %+v, err = %v, want err == nil && x != nil", id, x, err)
		}
	}
	if r := sound(t, l); r.Records != 1 || r.Unfinished != 0 {
		t.Errorf("r = %+v, want r.Records == 1 && r.Unfinished == 0", r)
	}
}

// Data that retention deletes is no longer in the write-ahead file, either.
func TestAheadForgets(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	e := s.Executions(testKey(t))
	rec := journal.Record{ID: "ex_1", State: journal.Done, Started: time.Now().Add(-time.Hour),
		Ended: time.Now().Add(-time.Hour)}
	if err := e.Write(&journal.Write{ID: rec.ID, Record: &rec, New: true, Seq: 1,
		Part: []byte("one")}).Safe(); err != nil {
		t.Fatalf("Safe: %v", err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	if n, err := e.Trim(t.Context(), time.Now(), 1<<30); n != 1 || err != nil {
		t.Fatalf("n = %v, err = %v, want n == 1 && err == nil", n, err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "biplane.ahead")); err != nil || fi.Size() > 0 {
		t.Errorf("%d bytes are left, %v", fi.Size(), err)
	}
}
