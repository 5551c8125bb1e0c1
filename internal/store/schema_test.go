package store

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
)

// TestTriggerSum checks that the expected hash of the triggers and views is that of a data folder
// in use.
func TestTriggerSum(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	if _, err := s.Audit(t.Context(), key); err != nil {
		t.Fatalf("Audit: %v", err)
	}
	found, sum, err := listTriggers(t.Context(), s.read)
	if err != nil || len(found) == 0 {
		t.Fatalf("found = %v, err = %v, want err == nil && len(found) != 0", found, err)
	}
	if sum != triggerSum {
		t.Errorf("the hash of the triggers and views is %s, want %s", sum, triggerSum)
	}
}

// TestStrangeKinds checks that a trigger is recognized, however its type is written in the schema.
func TestStrangeKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"trigger", "TRIGGER", "Trigger"} {
		dir := t.TempDir()
		s, err := Open(t.Context(), Config{Path: dir})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, File))
		if err != nil {
			t.Fatalf("sql.Open: %v", err)
		}
		db.SetMaxOpenConns(1)
		for _, query := range []string{`PRAGMA writable_schema = ON`,
			`INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
			VALUES ('` + kind + `', 'odd', 'audit_leaf', 0, 'CREATE TRIGGER odd BEFORE INSERT ON audit_leaf BEGIN SELECT RAISE(IGNORE); END')`} {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatalf("ExecContext: %v", err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if s, err = Open(t.Context(), Config{Path: dir}); err != nil {
			t.Fatalf("Open: %v", err)
		}
		if err := rejectTriggers(t.Context(), s.read); err == nil || !strings.Contains(err.Error(), `"odd"`) {
			t.Errorf("kind = %s, err = %v, want err != nil && strings.Contains(err.Error(), `\"odd\"`)", kind, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}
