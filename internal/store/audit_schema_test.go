package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	rows, err := s.read.QueryContext(t.Context(), `SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name`)
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
