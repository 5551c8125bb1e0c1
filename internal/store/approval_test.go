package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An approvals is the approval store of a Store; closing it closes the whole Store.
type approvals struct {
	*store.Approvals
	s *store.Store
}

func (a approvals) Close() error { return a.s.Close() }

func TestApprovals(t *testing.T) {
	approvaltest.Run(t, func(t *testing.T) approvaltest.Store {
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Config{Path: dir})
		if err != nil {
			t.Fatalf("store.Open: %v", err)
		}
		key, err := secret.Open(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatalf("secret.Open: %v", err)
		}
		return approvals{s.Approvals(key), s}
	})
}

// Requests that ended are deleted after a while. Requests that are in force, or that a running
// execution may look for, are not.
func TestApprovalsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	k, now := s.Approvals(key), time.Now()
	for id, ended := range map[string]time.Time{"ex_open": {}, "ex_over": now} {
		if err := s.Executions(key).Write(&journal.Write{ID: id, New: true,
			Record: &journal.Record{ID: id, State: journal.Waiting, Started: now, Ended: ended}}).Wait(); err != nil {
			t.Fatalf("Wait: %v", err)
		}
	}
	for _, r := range []struct {
		id, execution string
		to            []approval.State
	}{
		{"apr_pending", "ex_over", nil}, {"apr_approved", "", []approval.State{approval.Approved}},
		{"apr_denied", "ex_over", []approval.State{approval.Denied}},
		{"apr_made", "", []approval.State{approval.Approved, approval.Made}},
		{"apr_withdrawn", "", []approval.State{approval.Withdrawn}},
		{"apr_open", "ex_open", []approval.State{approval.Denied}},
	} {
		if _, err := k.Open(t.Context(),
			&approval.Request{ID: r.id, Subject: r.id, Execution: r.execution, Arguments: []byte("{}")}); err != nil {
			t.Fatalf("Open: %v", err)
		}
		from := approval.Pending
		for _, to := range r.to {
			d := approval.Decision{}
			if to == approval.Denied || to == approval.Approved {
				d = approval.Decision{Decider: "ann", Time: now}
			}
			if moved, err := k.Move(t.Context(), r.id, from, to, d); err != nil || !moved {
				t.Fatalf("%s to %s: %t, %v", r.id, to, moved, err)
			}
			from = to
		}
	}
	left := func() (ids string) {
		t.Helper()
		all, err := k.List(t.Context(), approval.Query{})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, r := range all {
			ids += r.ID + " "
		}
		return ids
	}
	for _, c := range []struct {
		before time.Time
		want   string
	}{
		{now.Add(-time.Hour), "apr_open apr_withdrawn apr_made apr_denied apr_approved apr_pending "},
		{now.Add(time.Hour), "apr_open apr_approved apr_pending "},
	} {
		if err := s.ForgetApprovals(t.Context(), c.before); err != nil {
			t.Fatalf("ForgetApprovals: %v", err)
		}
		if got := left(); got != c.want {
			t.Errorf("left: %s\nwant: %s", got, c.want)
		}
	}
}

// BenchmarkWithdrawAll measures what the end of an execution that made no request costs, beside the
// query that it saves.
func BenchmarkWithdrawAll(b *testing.B) {
	dir := b.TempDir()
	s := openDatabase(b, dir)
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		b.Fatalf("open the folder's key: %v", err)
	}
	k := s.Approvals(key)
	g := approval.New(approval.Config{Store: k})
	b.Run("gate", func(b *testing.B) {
		for b.Loop() {
			if err := g.WithdrawAll(b.Context(), "ex_1"); err != nil {
				b.Fatalf("WithdrawAll: %v", err)
			}
		}
	})
	b.Run("query", func(b *testing.B) {
		q := approval.Query{States: []approval.State{approval.Pending, approval.Approved},
			Execution: "ex_1", Limit: 1000}
		for b.Loop() {
			if all, err := k.List(b.Context(), q); err != nil || len(all) > 0 {
				b.Fatalf("List(%+v) = %v, %v, want nothing", q, all, err)
			}
		}
	})
}

// Requests of a version without columns for the principal and the expiry time count, too.
func TestOldApprovalsCount(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	k, now := s.Approvals(key), time.Now().Truncate(time.Microsecond)
	open := func(n int, expires time.Time) error {
		_, err := k.Open(t.Context(), &approval.Request{ID: fmt.Sprint("apr_", n), Subject: fmt.Sprint(n),
			Principal: "key:ann", Arguments: []byte("{}"), Created: now, Expires: expires})
		return err
	}
	must(t, open(-1, now.Add(time.Minute)))
	for n := range approval.MaxWaiting - 1 {
		must(t, open(n, now.Add(time.Hour)))
	}
	must(t, s.Exec(t.Context(), `UPDATE approval SET principal = '', expires = 0`))
	if err := open(100, now.Add(time.Hour)); !isKind(err, tool.Limit) {
		t.Errorf("a request over the limit: %v, want an error of kind %s", err, tool.Limit)
	}
	all, err := k.List(t.Context(), approval.Query{Lapsed: now.Add(time.Minute)})
	if err != nil || len(all) != 1 || all[0].ID != "apr_-1" {
		t.Errorf("lapsed: %+v, %v, want apr_-1", all, err)
	}
	must(t, s.Exec(t.Context(), `UPDATE approval SET principal = '', expires = 0`))
	if all, err = k.List(t.Context(), approval.Query{Lapsed: now.Add(time.Minute)}); err != nil || len(all) != 1 {
		t.Errorf("lapsed, before another request: %+v, %v, want apr_-1", all, err)
	}
}
