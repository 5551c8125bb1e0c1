package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestStartOfTheSame starts as nearly always: nobody has touched the data folder since, and no connection is opened before something is written.
func TestStartOfTheSame(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing is kept on this system")
	}
	dir := t.TempDir()
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	start := func() *store.Store {
		s := open(t, dir)
		if _, err := s.Audit(store.Starting(t.Context()), testKey(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.APIKeys().Keys(store.Starting(t.Context())); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 2 { // the first one makes the database
		s := start()
		fill(t, auditLog(t, s), 3)
		if there("biplane.memo") || !there("biplane.db-wal") {
			t.Error("what a start asks is kept while something is written")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		s := start()
		if !there("biplane.memo") || there("biplane.db-wal") {
			t.Error("a start that finds all as it was opens the database")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := auditLog(t, start())
	fill(t, l, 3)
	sound(t, l)
}

// TestStrangeAfterStart puts a trigger into the database when the start has asked, which a connection that writes sees before it does.
func TestStrangeAfterStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		s := open(t, dir)
		fill(t, auditLog(t, s), 3)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := auditLog(t, open(t, dir))
	db := raw(t, dir)
	do(t, db, `CREATE TRIGGER quiet AFTER INSERT ON audit_leaf BEGIN UPDATE audit_log SET origin = 'x'; END`)
	db.Close()
	_, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update", Principal: tool.Principal{ID: "local:ann"}}, allow)
	if runtime.GOOS == "linux" && (err != nil && !strings.Contains(err.Error(), "biplane didn't make")) {
		t.Error(err)
	}
	if err := l.Seal(t.Context()); err == nil || !strings.Contains(err.Error(), "biplane didn't make") {
		t.Errorf("signed: %v", err)
	}
}
