package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

func sessions(t *testing.T, s *store.Store, seed byte) *store.Sessions {
	t.Helper()
	key, err := secret.NewKey(bytes.Repeat([]byte{seed}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	k, err := s.Sessions(t.Context(), key)
	if err != nil {
		t.Fatalf("Sessions: %v", err)
	}
	return k
}

func record(name string, revision int64) *session.Record {
	now := time.UnixMicro(1_700_000_000_000_000)
	return &session.Record{ID: "ses_" + name, Owner: "ann", Name: name, Revision: revision, Created: now, Used: now,
		Languages: []string{"python", "typescript"}, State: []byte(`{"a":1}`)}
}

func isKind(err error, k tool.Kind) bool { return err != nil && tool.AsError(err).Kind == k }

func TestSessionsAreStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openDatabase(t, dir)
	k := sessions(t, s, 1)
	small, large := session.NewBlob([]byte("small and secret")),
		session.NewBlob(bytes.Repeat([]byte("large and secret"), 40_000))
	save := func(c *session.Change) {
		t.Helper()
		if err := k.Save(t.Context(), c); err != nil {
			t.Fatalf("Save: %v", err)
		}
	}
	save(&session.Change{Record: record("a", 1), Add: []session.Blob{small, large}, Append: []string{small.ID}})
	got, err := k.Load(t.Context(), "ann", "a")
	if err != nil || got.ID != "ses_a" || string(got.State) != `{"a":1}` || len(got.Languages) != 2 ||
		got.Created != record("a", 1).Created {
		t.Fatalf("got = %+v, err = %v", got, err)
	}
	for _, b := range []session.Blob{small, large} {
		if data, err := k.Blob(t.Context(), b.ID); err != nil || !bytes.Equal(data, b.Data) {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	}
	if err := k.Save(t.Context(),
		&session.Change{Record: &session.Record{ID: "other", Owner: "ann", Name: "a", Revision: 1}}); !isKind(err,
		tool.Conflict) {
		t.Errorf("a second one of the name: %v", err)
	}
	save(&session.Change{Record: record("b", 1), Refer: []string{large.ID}, Journal: "ses_a"})
	if parts, err := k.Journal(t.Context(), "ses_b"); err != nil || len(parts) != 1 || parts[0] != small.ID {
		t.Fatalf("parts = %v, err = %v, want err == nil && len(parts) == 1 && parts[0] == small.ID", parts, err)
	}
	save(&session.Change{Record: record("a", 2), Drop: []string{large.ID}, Forget: true})
	if _, err := k.Blob(t.Context(), large.ID); err != nil {
		t.Errorf("b refers to it still: %v", err)
	}
	if got, err := k.Load(t.Context(), "bob", "a"); got != nil || err != nil {
		t.Errorf("bob sees %+v, %v", got, err)
	}
	if n, err := k.Count(t.Context(), "ann"); err != nil || n != 2 {
		t.Errorf("ann has %d, %v", n, err)
	}
	if n, err := k.Count(t.Context(), "bob"); err != nil || n != 0 {
		t.Errorf("bob has %d, %v", n, err)
	}
	if all, err := k.List(t.Context(), ""); err != nil || len(all) != 2 || all[0].State != nil {
		t.Errorf("all = %+v, err = %v, want err == nil && len(all) == 2 && all[0].State == nil", all, err)
	}
	nothingIsInTheClear(t, dir)
	if err := k.End(t.Context(), record("b", 1)); err != nil {
		t.Fatalf("End: %v", err)
	}
	for _, b := range []session.Blob{small, large} {
		if _, err := k.Blob(t.Context(), b.ID); !isKind(err, tool.Conflict) {
			t.Errorf("it is still there: %v", err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "sessions")); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
	if _, err := sessions(t, s, 2).Load(t.Context(), "ann", "a"); !isKind(err, tool.Conflict) ||
		!errors.Is(err, secret.ErrUnseal) {
		t.Errorf("with another key: %v", err)
	}
}

func nothingIsInTheClear(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, fi.Mode(), err)
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("and secret")) {
			t.Errorf("%s holds it in the clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
}

// What an earlier process left incomplete is deleted: blobs that it spooled, and files without a
// row.
func TestSessionsAreSwept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openDatabase(t, dir)
	k := sessions(t, s, 1)
	kept, spooled := session.NewBlob(make([]byte, 300<<10)), session.NewBlob(make([]byte, 300<<10))
	if err := k.Save(t.Context(), &session.Change{Record: record("a", 1), Add: []session.Blob{kept}}); err != nil {
		t.Fatalf("Save: %v", err)
	}
	if err := k.Spool(t.Context(), spooled); err != nil {
		t.Fatalf("Spool: %v", err)
	}
	for _, name := range []string{"ORPHAN", ".new-123"} {
		if err := os.WriteFile(filepath.Join(dir, "sessions", name), nil, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	k = sessions(t, openDatabase(t, dir), 1)
	if left, err := os.ReadDir(filepath.Join(dir, "sessions")); err != nil || len(left) != 1 ||
		left[0].Name() != kept.ID {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := k.Blob(t.Context(), kept.ID); err != nil {
		t.Errorf("Blob: %v", err)
	}
	if _, err := k.Blob(t.Context(), spooled.ID); !isKind(err, tool.Conflict) {
		t.Errorf("spooled: %v", err)
	}
}
