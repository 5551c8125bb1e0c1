package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/store"
)

// TestAuditPages reads the record in pages, in both directions, and within a period.
func TestAuditPages(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	sqlite, err := s.Audit(t.Context(), key)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	for name, in := range map[string]audit.Store{"sqlite": sqlite, "memory": audittest.NewMemory()} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
			clock := wallclock.At(begin)
			log := audit.New(audit.Config{Store: in, Key: key, Clock: clock})
			for i := range 40 {
				clock.Set(begin.Add(time.Duration(i) * time.Hour))
				if _, err := log.Event(t.Context(),
					audit.Event{Kind: audit.KindSession, Subject: audit.Subject{Name: fmt.Sprint(i)}}); err != nil {
					t.Fatalf("Event: %v", err)
				}
			}
			q := audit.Query{Since: begin.Add(5 * time.Hour), Until: begin.Add(32 * time.Hour), Limit: 10}
			pages := func(next func(*audit.Query, string)) (names []string) {
				q := q
				for {
					page, err := log.Records(t.Context(), q)
					if err != nil {
						t.Fatalf("Records: %v", err)
					}
					for _, r := range page {
						names = append(names, r.Subject.Name)
					}
					if len(page) < q.Limit {
						return names
					}
					next(&q, page[len(page)-1].ID)
				}
			}
			var want []string
			for i := 5; i < 32; i++ {
				want = append(want, fmt.Sprint(i))
			}
			back := pages(func(q *audit.Query, id string) { q.Before = id })
			q.After = audit.FirstID(begin) // before the requested period
			forth := pages(func(q *audit.Query, id string) { q.After = id })
			if !slices.Equal(forth, want) {
				t.Errorf("oldest first: %q", forth)
			}
			slices.Reverse(want)
			if !slices.Equal(back, want) {
				t.Errorf("newest first: %q", back)
			}
		})
	}
}
