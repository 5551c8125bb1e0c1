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

// TestExecutionLists compares every combination of filters, page by page, with a filter of all
// executions. Each list names its index, so it fails if the index doesn't serve it.
func TestExecutionLists(t *testing.T) {
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	e, began := s.Executions(key), time.Now().Add(-time.Hour)
	principals, sessions := []string{"ann", "bob"}, []string{"", "work", "play"}
	states := []journal.State{journal.Running, journal.Waiting, journal.Done, journal.Failed}
	var all []journal.Record // newest first
	for i := range 60 {
		r := journal.Record{ID: fmt.Sprintf("ex_%02d", (i*37)%60), Principal: principals[i%2], Session: sessions[i/2%3],
			State: states[i/3%4], Started: began.Add(time.Duration(i/2) * time.Second)}
		if p := e.Write(&journal.Write{ID: r.ID, Record: &r, New: true}); errors.Join(p.Sync(), p.Wait()) != nil {
			t.Fatalf("p.Wait() = %v, want errors.Join(p.Sync(), p.Wait()) == nil", p.Wait())
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b journal.Record) int {
		if a.Started.Equal(b.Started) {
			return -slices.Compare([]byte(a.ID), []byte(b.ID))
		}
		return b.Started.Compare(a.Started)
	})
	for _, principal := range append(principals, "", "eve") {
		for _, session := range append(sessions, "none") {
			for _, in := range [][]journal.State{nil, states[:1], states[2:], {journal.Interrupted}} {
				var want, got []string
				for _, r := range all {
					if (principal == "" || r.Principal == principal) && (session == "" || r.Session == session) &&
						(len(in) == 0 || slices.Contains(in, r.State)) {
						want = append(want, r.ID)
					}
				}
				q := journal.Query{Principal: principal, Session: session, States: in, Limit: 7}
				for {
					page, err := e.List(t.Context(), q)
					if err != nil {
						t.Fatalf("q = %+v, err = %v, want nil", q, err)
					}
					for _, r := range page {
						got = append(got, r.ID)
					}
					if len(page) < q.Limit || len(got) > len(all) {
						break
					}
					q.Before = page[len(page)-1].ID
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v lists %v, want %v", q, got, want)
				}
			}
		}
	}
}
