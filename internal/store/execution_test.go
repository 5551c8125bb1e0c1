package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A journal that was changed in the database is not read, whatever was changed. One that has lost a
// part accepts no more parts.
func TestExecutionParts(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	open := func() (*store.Store, *store.Executions) {
		t.Helper()
		s, err := store.Open(ctx, store.Config{Path: dir})
		if err != nil {
			t.Fatalf("store.Open: %v", err)
		}
		return s, s.Executions(key)
	}
	s, e := open()
	rec := &journal.Record{ID: "ex_1", Principal: "p", State: journal.Running, Started: time.Now()}
	write := func(w *journal.Write) error {
		p := e.Write(w)
		return errors.Join(p.Sync(), p.Wait())
	}
	if err := write(&journal.Write{ID: "ex_1", Record: rec, New: true, Seq: 1, Part: []byte("one")}); err != nil {
		t.Fatalf("write: %v", err)
	}
	wrong := *rec
	wrong.State = journal.Failed
	if err := write(&journal.Write{ID: "ex_1", Record: &wrong, Seq: 3, Part: []byte("three")}); tool.AsError(
		err) == nil || tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("a part after one that is missing: %v", err)
	}
	if got, err := e.Get(ctx, "ex_1"); err != nil || got.State != journal.Running {
		t.Errorf("half of a step was written: %+v, %v", got, err)
	}
	data := []byte("a large result")
	d := e.Digest(data)
	for range 2 {
		rec.State, rec.Ended = journal.Done, time.Now()
		if err := write(&journal.Write{ID: "ex_1", Record: rec,
			Results: []journal.Result{{Digest: d, Data: data}}}); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	if err := write(&journal.Write{ID: "ex_1", Seq: 2, Part: []byte("two")}); err != nil {
		t.Fatalf("write: %v", err)
	}
	parts, err := e.Parts(ctx, "ex_1")
	if err != nil || len(parts) != 2 || string(parts[1]) != "two" {
		t.Fatalf(`parts = %q, err = %v, want err == nil && len(parts) == 2 && string(parts[1]) == "two"`, parts, err)
	}
	if got, err := e.Result(ctx, d); err != nil || string(got) != string(data) {
		t.Errorf("got = %q, err = %v, want err == nil && string(got) == string(data)", got, err)
	}
	if got, err := e.Get(ctx, "ex_1"); err != nil || got.State != journal.Done ||
		got.Ended.UnixMicro() != rec.Ended.UnixMicro() {
		t.Errorf("got = %+v, err = %v, want err == nil && got.State == journal.Done && "+
			"got.Ended.UnixMicro() == rec.Ended.UnixMicro()", got, err)
	}
	for _, change := range []string{
		`UPDATE execution_part SET data = zeroblob(64) WHERE seq = 2`,
		`DELETE FROM execution_part WHERE seq = 1`,
		`UPDATE execution_part SET seq = 1`,
	} {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		hack(t, dir, change)
		if s, e = open(); true {
			if _, err := e.Parts(context.Background(), "ex_1"); tool.AsError(err) == nil ||
				tool.AsError(err).Kind != tool.Conflict {
				t.Errorf("change = %s, err = %v, want tool.AsError(err) != nil && "+
					"tool.AsError(err).Kind == tool.Conflict", change, err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// hack changes the database without the store.
func hack(t *testing.T, dir, change string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	if _, err := db.Exec(change); err != nil {
		t.Fatalf("Exec: %v", err)
	}
}

// The journals of one principal don't displace those of others, however many it has. A single
// principal may use all the space.
func TestTrimIsFair(t *testing.T) {
	ctx := t.Context()
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s, err := store.Open(ctx, store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	e, began := s.Executions(key), time.Now().Add(-time.Hour)
	add := func(who, id string, bytes int64) {
		t.Helper()
		began = began.Add(time.Second)
		rec := &journal.Record{ID: id, Principal: who, State: journal.Done, Started: began, Ended: began, Bytes: bytes}
		if p := e.Write(&journal.Write{ID: id, Record: rec, New: true}); errors.Join(p.Sync(), p.Wait()) != nil {
			t.Fatalf("p.Wait() = %v, want errors.Join(p.Sync(), p.Wait()) == nil", p.Wait())
		}
	}
	trim := func(want int, left ...string) {
		t.Helper()
		if n, err := e.Trim(ctx, time.Time{}, 1000); err != nil || n != want {
			t.Fatalf("%d deleted, want %d: %v", n, want, err)
		}
		for _, id := range left {
			if r, err := e.Get(ctx, id); err != nil || r == nil {
				t.Errorf("%s is gone: %v", id, err)
			}
		}
	}
	add("ann", "a1", 150)
	add("bob", "b1", 100)
	for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8"} {
		add("eve", id, 125)
	}
	trim(2, "a1", "b1", "e3", "e8") // 750 are left for eve
	add("bob", "b2", 300)           // 400, so eve has at most 450
	trim(3, "a1", "b1", "b2", "e6", "e8")
	trim(0)
}
