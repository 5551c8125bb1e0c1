package store_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/shape"
	"github.com/biplane-dev/biplane/internal/store"
)

// TestShapes stores observations, and changes them without the key.
func TestShapes(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	shapes := s.OpenShapes(tokenKey(t, 1))
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var rows []shape.Row
	for i, name := range []string{"a", "b", "c", "d"} {
		rows = append(rows, shape.Row{Key: shape.Key{Upstream: "up", Tool: name}, Used: day.AddDate(0, 0, i),
			Data: []byte("of " + name)})
	}
	if err := shapes.SaveShapes(t.Context(), rows); err != nil {
		t.Fatalf("SaveShapes: %v", err)
	}
	rows[0].Data = []byte("of a, again")
	if err := shapes.SaveShapes(t.Context(), rows[:1]); err != nil {
		t.Fatalf("SaveShapes: %v", err)
	}
	if err := shapes.DropShapes(t.Context(), []shape.Key{rows[3].Key, {Upstream: "up", Tool: "unknown"}}); err != nil {
		t.Fatalf("DropShapes: %v", err)
	}
	load := func(h *store.Shapes, most int) (text string) {
		t.Helper()
		got, err := h.LoadShapes(t.Context(), most)
		if err != nil {
			t.Fatalf("LoadShapes: %v", err)
		}
		for _, r := range got {
			text += r.Upstream + "." + r.Tool + " " + r.Used.Format(time.DateOnly) + " " + string(r.Data) + "\n"
		}
		return text
	}
	const all = "up.c 2026-11-25 of c\nup.b 2026-11-24 of b\nup.a 2026-11-23 of a, again\n"
	if got, want := load(shapes, 10), all; got != want {
		t.Errorf("loaded\n%s, want\n%s", got, want)
	}
	if got, want := load(shapes, 1), "up.c 2026-11-25 of c\n"; got != want {
		t.Errorf("loaded\n%s, want\n%s", got, want)
	}
	if got := load(s.OpenShapes(tokenKey(t, 2)), 10); got != "" {
		t.Errorf("loaded\n%s with another key, want nothing", got)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "biplane.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	for _, q := range []string{`UPDATE tool_shape SET tool = 'x' WHERE tool = 'a'`,
		`UPDATE tool_shape SET used = used + 86400 WHERE tool = 'b'`,
		`INSERT INTO tool_shape SELECT 'up', 'large', 0, zeroblob(1000000)`} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if got, want := load(shapes, 10), "up.c 2026-11-25 of c\n"; got != want {
		t.Errorf("loaded\n%s after rows were changed, want\n%s", got, want)
	}
}
