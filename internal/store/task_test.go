package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
)

// TestTasks checks that tasks are listed page by page, only for their principal and profile, until
// they expire or their execution is deleted.
func TestTasks(t *testing.T) {
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	e, now := s.Executions(key), time.Now().Truncate(time.Microsecond)
	add := func(id string, owner, profile string, ended time.Time, ttl, grace time.Duration) {
		t.Helper()
		r := journal.Record{ID: id, Principal: owner, State: journal.Running, Started: now.Add(-time.Hour)}
		if !ended.IsZero() {
			r.State, r.Ended = journal.Done, ended
		}
		if p := e.Write(&journal.Write{ID: id, Record: &r, New: true}); errors.Join(p.Sync(), p.Wait()) != nil {
			t.Fatalf("Write: %v", p.Wait())
		}
		if err := e.SaveTask(t.Context(), &journal.Task{ID: id, Principal: owner, Profile: profile,
			Created: now.Add(-time.Hour), TTL: ttl, Grace: grace}); err != nil {
			t.Fatalf("SaveTask: %v", err)
		}
	}
	list := func(owner, profile string) (ids []string) {
		t.Helper()
		q := journal.TaskQuery{Principal: owner, Profile: profile, Limit: 2}
		for {
			page, err := e.ListTasks(t.Context(), q)
			if err != nil || len(page) > 2 {
				t.Fatalf("ListTasks: %v, %v, want at most 2 tasks", page, err)
			}
			for _, x := range page {
				ids, q.After, q.AfterID = append(ids, x.ID), x.Created, x.ID
			}
			if len(page) < 2 {
				return ids
			}
		}
	}
	old := now.Add(-50 * time.Minute)
	add("ex_expired", "ann", "", old, time.Minute, time.Minute)
	for i := range 3 {
		add(fmt.Sprintf("ex_%d", i), "ann", "", time.Time{}, time.Minute, time.Minute)
	}
	add("ex_ttl", "ann", "", old, 2*time.Hour, 0)
	add("ex_grace", "ann", "", old, 0, time.Hour)
	add("ex_profile", "ann", "work", old, 2*time.Hour, 0)
	add("ex_eve", "eve", "", time.Time{}, 0, 0)
	for _, c := range []struct {
		owner, profile string
		want           []string
	}{
		{"ann", "", []string{"ex_0", "ex_1", "ex_2", "ex_grace", "ex_ttl"}},
		{"ann", "work", []string{"ex_profile"}}, {"eve", "", []string{"ex_eve"}}, {"eve", "work", nil},
	} {
		if got := list(c.owner, c.profile); !slices.Equal(got, c.want) {
			t.Errorf("tasks of %s, profile %q: got %q, want %q", c.owner, c.profile, got, c.want)
		}
	}
	for id, found := range map[string]bool{"ex_ttl": true, "ex_expired": false, "ex_profile": false, "ex_eve": false} {
		if got, err := e.LoadTask(t.Context(), "ann", "", id); err != nil || (got != nil) != found {
			t.Errorf("LoadTask %s: got %v, %v, want a task: %v", id, got, err, found)
		}
	}
	// No principal can replace the task of another one.
	if err := e.SaveTask(t.Context(), &journal.Task{ID: "ex_eve", Principal: "ann", Created: now}); err != nil {
		t.Fatalf("SaveTask: %v", err)
	}
	if got := list("eve", ""); !slices.Equal(got, []string{"ex_eve"}) {
		t.Errorf("tasks of eve: got %q, want ex_eve", got)
	}
	if _, err := e.Trim(t.Context(), now.Add(-30*time.Minute), 1<<30); err != nil {
		t.Fatalf("Trim: %v", err)
	}
	if got, want := list("ann", ""), []string{"ex_0", "ex_1", "ex_2"}; !slices.Equal(got, want) {
		t.Errorf("tasks after their executions were deleted: got %q, want %q", got, want)
	}
}
