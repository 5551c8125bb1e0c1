package store_test

import (
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/store"
)

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	open := func() *store.Store {
		s, err := store.Open(t.Context(), store.Config{Path: dir})
		if err != nil {
			t.Fatalf("store.Open: %v", err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := open()
	for _, times := range []map[string]time.Time{
		{"a": now.Add(time.Second), "b": now}, {"a": now.Add(2 * time.Second), "c": now.Add(time.Microsecond)},
	} {
		if err := s.Limits(tokenKey(t, 1)).Save(t.Context(), times); err != nil {
			t.Fatalf("Save: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	got, _, err := open().Limits(tokenKey(t, 1)).Load(t.Context(), now)
	if err != nil || len(got) != 2 || !got["a"].Equal(now.Add(2*time.Second)) ||
		!got["c"].Equal(now.Add(time.Microsecond)) {
		t.Errorf("loaded %v, %v", got, err)
	}
}
