package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/store"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	key, err := secret.NewKey(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	open := func() *store.Store {
		s, err := store.Open(t.Context(), store.Config{Path: dir})
		if err != nil {
			t.Fatalf("store.Open: %v", err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	u := s.Usage(key)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ann := usage.Subject{Principal: "https://login.example.com#1", Person: "ann@example.com", Client: "claude/1"}
	row := func(start time.Time, who usage.Subject, tool string, n int64) usage.Row {
		return usage.Row{Key: usage.Key{Subject: who, Upstream: "crm", Tool: tool}, Start: start,
			Counts: usage.Counts{Calls: n, Kept: 10 * n, Estimated: n}}
	}
	for range 2 { // the same hour twice: added up
		if err := u.Add(t.Context(), []usage.Row{
			row(at, ann, "list", 1), row(at, ann,
				"put", 2), row(at.Add(time.Hour), ann, "list", 4), row(at, usage.Subject{Principal: "bob"}, "list", 8),
			row(at.AddDate(0, 0, 1),
				ann, "list", 16), row(at.AddDate(0, 0, -9), usage.Subject{Principal: "eve"}, "list", 32),
		}); err != nil {
			t.Fatalf("Add: %v", err)
		}
	}
	sum := func(u *store.Usage, sel usage.Selection) (out []usage.Row) {
		t.Helper()
		if sel.From.IsZero() {
			sel.From, sel.To = at.AddDate(0, 0, -1), at.AddDate(0, 0, 2)
		}
		if err := u.Sum(t.Context(), sel, func(r usage.Row) error { out = append(out, r); return nil }); err != nil {
			t.Fatalf("Sum: %v", err)
		}
		return out
	}
	calls := func(rows []usage.Row) (n []int64) {
		for _, r := range rows {
			n = append(n, r.Calls)
			if r.Kept != 10*r.Calls || r.Estimated != r.Calls {
				t.Errorf("r = %+v, want r.Kept == 10*r.Calls && r.Estimated == r.Calls", r)
			}
		}
		return n
	}
	check := func(when string, u *store.Usage, sel usage.Selection, want ...int64) {
		t.Helper()
		if got := calls(sum(u, sel)); !slices.Equal(got, want) {
			t.Errorf("%s, %+v: %v, want %v", when, sel, got, want)
		}
	}
	check("at first", u, usage.Selection{}, 46, 16)
	check("at first", u, usage.Selection{Tools: true}, 42, 4, 16)
	check("at first", u, usage.Selection{Days: true}, 14, 16, 32)
	check("at first", u, usage.Selection{Hours: true}, 6, 16, 8, 32)
	check("at first", u, usage.Selection{From: at, To: at.Add(time.Hour)}, 6, 16)
	if rows := sum(u, usage.Selection{}); rows[0].Subject != ann || rows[1].Principal != "bob" {
		t.Errorf(`rows = %+v, want rows[0].Subject == ann && rows[1].Principal == "bob"`, rows)
	}

	day := at.Truncate(24 * time.Hour)
	for range 2 {
		if err := u.Compact(t.Context(), day.AddDate(0, 0, 1), day.AddDate(0, 0, -5)); err != nil {
			t.Fatalf("Compact: %v", err)
		}
	}
	check("of days", u, usage.Selection{Tools: true}, 42, 4, 16)
	check("of days", u, usage.Selection{Hours: true}, 14, 16, 32)
	check("dropped", u, usage.Selection{From: at.AddDate(0, 0, -20), To: at.AddDate(0, 0, 2)}, 46, 16)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	check("after a restart", open().Usage(key), usage.Selection{}, 46, 16)

	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte("ann@example.com")) {
			t.Errorf("%s has who it was in the clear", f)
		}
	}
	other, _ := secret.NewKey(bytes.Repeat([]byte{8}, secret.KeySize))
	if err := open2(t, dir).Usage(other).Sum(t.Context(), usage.Selection{From: at, To: at.Add(time.Hour)},
		func(usage.Row) error { return nil }); err == nil {
		t.Error("another key reads it")
	}
}

// open2 opens a copy of a store's folder, so that no other process has it open.
func open2(t *testing.T, dir string) *store.Store {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatalf("os.CopyFS: %v", err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: copied})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
