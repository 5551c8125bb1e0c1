package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestActors: the hash of what acts by itself in the database is that of what the migrations make.
func TestActors(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.read.QueryContext(t.Context(), selectActors)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sum, n := sha256.New(), 0
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%q %q %q\n", kind, name, text)
		n++
	}
	if err := rows.Err(); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != actors {
		t.Errorf("the migrations make other triggers: their hash is %s", got)
	}
}

// TestStrangeKinds: a trigger is one, however its kind is written in the schema.
func TestStrangeKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"trigger", "TRIGGER", "Trigger"} {
		dir := t.TempDir()
		s, err := Open(t.Context(), Config{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, File))
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		for _, query := range []string{`PRAGMA writable_schema = ON`, `INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
			VALUES ('` + kind + `', 'odd', 'audit_leaf', 0, 'CREATE TRIGGER odd BEFORE INSERT ON audit_leaf BEGIN SELECT RAISE(IGNORE); END')`} {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(t.Context(), Config{Path: dir}); err != nil {
			t.Fatal(err)
		}
		if err := strange(t.Context(), s.read); err == nil || !strings.Contains(err.Error(), `"odd"`) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
