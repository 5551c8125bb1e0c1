package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

const emptyRecord = `DELETE FROM audit_leaf; DELETE FROM audit_checkpoint; DELETE FROM audit_log; DELETE FROM audit_record; DELETE FROM audit_span; DELETE FROM audit_kept;
	DELETE FROM audit_payload; UPDATE tail SET head = NULL, kept = x'', kept_first = 0, kept_time = 0`

// TestWitness removes the record, or replaces it by an older one. The witness outside its tables
// reveals it.
func TestWitness(t *testing.T) {
	t.Parallel()
	base, older := t.TempDir(), t.TempDir()
	s := openDatabase(t, base)
	l := auditLog(t, s)
	fill(t, l, 8)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := os.CopyFS(older, os.DirFS(base)); err != nil {
		t.Fatalf("os.CopyFS: %v", err)
	}
	s = openDatabase(t, base)
	l = auditLog(t, s)
	fill(t, l, 8)
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	sound(t, l)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { removeFile(t, dir, name) }
	}
	for _, tt := range []struct {
		name   string
		do     func(t *testing.T, dir string)
		opens  bool // the record can be opened, and verify reports it
		phrase string
	}{
		{"all tables emptied", func(t *testing.T, dir string) { tampered(t, dir, emptyRecord) }, false, "is missing"},
		{"the database deleted", remove(store.File), false, "is missing"},
		{"the database of an older copy", func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(older, store.File))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, store.File), data, 0o600)
			}
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
		}, true, "were removed"},
		{"the witness deleted", remove(store.WitnessFile), true, "is missing"},
		{"the witness changed", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, store.WitnessFile), make([]byte, 8192), 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
		}, true, "was changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatalf("os.CopyFS: %v", err)
			}
			tt.do(t, dir)
			a := stored(t, openDatabase(t, dir))
			signer, err := a.Signer(t.Context(), "")
			if !tt.opens {
				if err == nil || tool.AsError(err).Kind != tool.Conflict || !strings.Contains(err.Error(), tt.phrase) {
					t.Errorf("err = %v, want err != nil && tool.AsError(err).Kind == tool.Conflict && "+
						"strings.Contains(err.Error(), tt.phrase)", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
			l := audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer})
			said := ""
			for _, f := range verified(t, l).Faults {
				said += f.What + ": " + f.Msg + "\n"
			}
			if !strings.Contains(said, tt.phrase) {
				t.Errorf("%q, want %q", said, tt.phrase)
			}
			again := audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer})
			if _, err := again.Begin(t.Context(), &tool.Call{Path: "crm.update"}, allow); err == nil {
				t.Error("a call begins")
			}
		})
	}
}

// removeFile removes a file, and SQLite's files beside it: a remaining WAL would restore the
// database.
func removeFile(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	for _, beside := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(dir, name+beside))
	}
}

// TestWitnessTorn truncates a slot of the witness, as a crash of the machine may. The other slot is
// valid, and the record continues to grow.
func TestWitnessTorn(t *testing.T) {
	t.Parallel()
	for slot := range 2 {
		dir := t.TempDir()
		s := openDatabase(t, dir)
		l := auditLog(t, s)
		for range 3 {
			fill(t, l, 3)
			if _, err := l.Checkpoint(t.Context()); err != nil {
				t.Fatalf("Checkpoint: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		f, err := os.OpenFile(filepath.Join(dir, store.WitnessFile), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt(make([]byte, 60), int64(slot)*4096+30)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		f.Close()
		l = auditLog(t, openDatabase(t, dir))
		fill(t, l, 3)
		sound(t, l)
	}
}

// copyWitness copies the witness, which is never ahead of the disk.
func copyWitness(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(from, store.WitnessFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, store.WitnessFile), b, 0o600)
	}
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
}

// TestWitnessOfOlderFolder opens a folder from an older version. It gets a witness, which is
// required from then on.
func TestWitnessOfOlderFolder(t *testing.T) {
	t.Parallel()
	for _, purpose := range []string{"audit-named", "audit-seed"} {
		dir := t.TempDir()
		s := openDatabase(t, dir)
		fill(t, auditLog(t, s), 5)
		if err := store.Unwitness(t.Context(), stored(t, s), purpose); err != nil {
			t.Fatalf("store.Unwitness: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		file := filepath.Join(dir, store.WitnessFile)
		if err := os.Remove(file); err != nil {
			t.Fatalf("os.Remove: %v", err)
		}
		s = openDatabase(t, dir)
		l := auditLog(t, s)
		sound(t, l)
		fill(t, l, 3)
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		s = openDatabase(t, dir)
		sound(t, auditLog(t, s))
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatalf("os.Remove: %v", err)
		}
		if r := verified(t, auditLog(t, openDatabase(t, dir))); len(r.Faults) != 1 ||
			r.Faults[0].What != "witness" {
			t.Errorf("purpose = %s, r.Faults = %+v, want len(r.Faults) == 1 && r.Faults[0].What == "+
				"\"witness\"", purpose, r.Faults)
		}
	}
}

// TestWitnessAfterBrokenStart recreates the state after a start that was killed between writing the
// witness and the record's name, with one of them not flushed. The next start succeeds.
func TestWitnessAfterBrokenStart(t *testing.T) {
	t.Parallel()
	other, dir := t.TempDir(), t.TempDir()
	s := openDatabase(t, other)
	auditLog(t, s)
	copyWitness(t, other, dir) // without entries, and with another name
	s = openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 3)
	if err := stored(t, s).Attest(t.Context()); err != nil {
		t.Fatalf("Attest: %v", err)
	}
	sound(t, l)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	removeFile(t, dir, store.File)
	if _, err := stored(t, openDatabase(t, dir)).Signer(t.Context(), ""); err == nil ||
		!strings.Contains(err.Error(), "is missing") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "is missing")`, err)
	}
}

// TestWitnessMeanwhile verifies a record while it grows and its witness is written.
func TestWitnessMeanwhile(t *testing.T) {
	t.Parallel()
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	fill(t, l, 8)
	a := stored(t, s)
	err := a.View(t.Context(), func(v audit.View) error {
		before, err := v.Head()
		if err != nil {
			return err
		}
		fill(t, l, 8)
		if _, err := l.Checkpoint(t.Context()); err != nil {
			return err
		}
		if h, err := v.WitnessHead(); err != nil || h != nil && h.Size > before.Size {
			t.Errorf("the view of %d leaves has a witness of %+v, %v", before.Size, h, err)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
}
