package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An archived is a record of which a part is archived.
type archived struct {
	dir   string
	key   *secret.Key
	clock *wallclock.Clock
	store *store.Store
	log   *audit.Log
	early *proof.Checkpoint // of the leaves that are archived
	first string            // the first record, which is archived
	last  string            // the newest record, which is not
	files []string          // of the segments
}

// newArchived returns a record with two segments of 768 and 512 leaves.
func newArchived(t *testing.T) *archived {
	t.Helper()
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	a := &archived{dir: t.TempDir(), key: key,
		clock: wallclock.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	a.open(t)
	for _, n := range []int{400, 300, 300} {
		for i := range n {
			a.clock.Set(a.clock.Now().Add(time.Second))
			e, err := a.log.Begin(t.Context(), &tool.Call{Path: fmt.Sprintf("crm.t%d", i%7),
				Principal: tool.Principal{ID: "local:ann"}, Arguments: fmt.Appendf(nil, `{"n":%d}`, i)}, allow)
			if err == nil {
				err = e.End(t.Context(), tool.Text(false, "fine"), nil)
			}
			if err != nil {
				t.Fatalf("record a call: %v", err)
			}
			if a.last = e.Record(); a.first == "" {
				a.first = a.last
			}
		}
		if a.early == nil {
			if a.early, err = a.log.Checkpoint(t.Context()); err != nil {
				t.Fatalf("Checkpoint: %v", err)
			}
		}
		a.clock.Set(a.clock.Now().Add(24 * time.Hour))
	}
	for _, age := range []time.Duration{60 * time.Hour, 36 * time.Hour} {
		for {
			h, err := a.log.ArchiveNext(t.Context(), a.clock.Now().Add(-age))
			if err != nil {
				t.Fatalf("ArchiveNext: %v", err)
			}
			if h == nil {
				break
			}
			a.files = append(a.files, filepath.Join(a.dir, segment.Folder, h.FileName()))
		}
	}
	if len(a.files) != 2 {
		t.Fatalf("there are %d segments, %v, want 2", len(a.files), a.files)
	}
	return a
}

func (a *archived) open(t *testing.T) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: a.dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	in, err := s.Audit(t.Context(), a.key)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	signer, err := in.Signer(t.Context(), "")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	a.store, a.log = s, audit.New(audit.Config{Store: in, Key: a.key, Signer: signer, Clock: a.clock})
}

// reopen closes the store and opens it again.
func (a *archived) reopen(t *testing.T) {
	t.Helper()
	if err := a.store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	a.open(t)
}

// countCalls returns the number of records of calls, read in pages with a filter.
func (a *archived) countCalls(t *testing.T) (n, absent int) {
	t.Helper()
	q := audit.Query{Kind: audit.KindCall, Principal: "local:ann", Limit: 100}
	for {
		page, err := a.log.Records(t.Context(), q)
		if err != nil {
			t.Fatalf("Records: %v", err)
		}
		for _, r := range page {
			switch {
			case r.Absent != "":
				absent++
			case r.Problem != "":
				t.Errorf("record %s has the problem %s", r.ID, r.Problem)
			}
		}
		if n += len(page); len(page) < q.Limit {
			return n, absent
		}
		q.Before = page[len(page)-1].ID
	}
}

// TestArchive archives leaves in two steps. The record, its lists and its proofs are the same as
// before, also after the next start.
func TestArchive(t *testing.T) {
	a := newArchived(t)
	for range 2 {
		r := sound(t, a.log)
		if r.Segments != 2 || r.Absent != 0 || r.Records < 1000 {
			t.Errorf("verify reports %+v, want 2 segments and 1,000 records", r)
		}
		if n, absent := a.countCalls(t); n != 1000 || absent > 0 {
			t.Errorf("%d calls are listed, %d of them absent, want all 1,000", n, absent)
		}
		first, err := a.log.Record(t.Context(), a.first)
		if err != nil || first.Subject.Tool != "crm.t0" || first.End.Outcome != audit.OK {
			t.Errorf("the first record is %+v, %v", first, err)
		}
		text, err := a.log.Prove(t.Context(), a.first, a.early.Text)
		if err != nil {
			t.Fatalf("Prove: %v", err)
		}
		if got, err := proof.CheckInclusion(text, a.log.Public()); err != nil || len(got) != 2 {
			t.Errorf("the proof has %d leaves, %v, want 2", len(got), err)
		}
		if _, err := a.log.ProveConsistency(t.Context(), a.early.Text); err != nil {
			t.Errorf("ProveConsistency: %v", err)
		}
		a.reopen(t)
	}
	for _, f := range a.files {
		if _, err := segment.CheckFile(f, a.log.Public()); err != nil {
			t.Errorf("CheckFile: %v", err)
		}
	}
	if n, err := a.log.CountOld(t.Context(), a.clock.Now()); err != nil || n == 0 {
		t.Errorf("%d leaves can be archived, %v, want some, since the last 300 calls are in the database", n, err)
	}
}

// TestMissingSegment removes the file of a segment. Verification names it, and verifies everything
// else. Calls are still made. When the file is back, all is well.
func TestMissingSegment(t *testing.T) {
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			a := newArchived(t)
			away := filepath.Join(t.TempDir(), "away")
			if err := os.Rename(a.files[i], away); err != nil {
				t.Fatalf("Rename: %v", err)
			}
			a.reopen(t)
			r := verified(t, a.log)
			if len(r.Faults) != 1 || r.Faults[0].What != "archive" || !r.LacksOnlySegments() || r.Segments != 1 ||
				r.Absent != r.Faults[0].Last-r.Faults[0].Seq+1 {
				t.Fatalf("verify reports %+v, want one missing segment", r)
			}
			n, absent := a.countCalls(t)
			if n != 1000 || absent == 0 || absent == n {
				t.Errorf("%d calls are listed, %d of them absent, want 1,000, some of them absent", n, absent)
			}
			_, err := a.log.Prove(t.Context(), a.first, "")
			if missing := tool.AsError(err); (i == 0) != (err != nil && missing.Kind == tool.NotFound) {
				t.Errorf("the proof of the first record, with segment %d missing: %v", i, err)
			}
			if _, err := a.log.ProveConsistency(t.Context(), a.early.Text); err != nil {
				t.Errorf("ProveConsistency: %v", err)
			}
			if err := a.log.Inspect(t.Context()); err != nil || a.log.Found() != nil {
				t.Errorf("calls stop: %v, %v", err, a.log.Found())
			}
			if err := os.Rename(away, a.files[i]); err != nil {
				t.Fatalf("Rename: %v", err)
			}
			sound(t, a.log)
		})
	}
}

// TestTamperedSegment changes what is archived without the key.
func TestTamperedSegment(t *testing.T) {
	flip := func(t *testing.T, path string, at int) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("ReadFile: %v", err)
		}
		b[(at+len(b))%len(b)] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
	}
	for name, change := range map[string]func(*testing.T, *archived){
		"a byte of the leaves": func(t *testing.T, a *archived) { flip(t, a.files[0], -100) },
		"a byte of the header": func(t *testing.T, a *archived) { flip(t, a.files[0], 60) },
		"another file": func(t *testing.T, a *archived) {
			b, err := os.ReadFile(a.files[1])
			if err == nil {
				err = os.WriteFile(a.files[0], b, 0o600)
			}
			if err != nil {
				t.Fatalf("copy a segment: %v", err)
			}
		},
		"something appended": func(t *testing.T, a *archived) {
			f, err := os.OpenFile(a.files[1], os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("more")
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatalf("append to a segment: %v", err)
			}
		},
		"a segment without a row": func(t *testing.T, a *archived) {
			db := raw(t, a.dir)
			defer db.Close()
			do(t, db, `DROP TRIGGER audit_segment_delete`)
			do(t, db, `DELETE FROM audit_segment WHERE first = 0`)
		},
		"the header in the database": func(t *testing.T, a *archived) {
			db := raw(t, a.dir)
			defer db.Close()
			do(t, db, `DROP TRIGGER audit_segment_update`)
			do(t, db, `UPDATE audit_segment SET note = replace(note, '2026', '2025')`)
		},
		"leaves that were never archived": func(t *testing.T, a *archived) {
			db := raw(t, a.dir)
			defer db.Close()
			do(t, db, `UPDATE audit_leaf SET leaf = '', packed = x'02' WHERE seq = 1500`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchived(t)
			if err := a.store.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			change(t, a)
			a.open(t)
			if r := verified(t, a.log); r.OK() || r.LacksOnlySegments() || a.log.Found() == nil {
				t.Errorf("verify reports %+v, and calls go on: %v", r, a.log.Found())
			}
		})
	}
}

// TestForgedSegment blanks the newest leaves and adds a segment that they could be in. Without its
// signed header, they count as changed, and not as archived elsewhere.
func TestForgedSegment(t *testing.T) {
	a := newArchived(t)
	if err := a.store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db := raw(t, a.dir)
	do(t, db, `INSERT INTO audit_segment (first, last, note) SELECT 1536, 2047, note FROM audit_segment LIMIT 1`)
	do(t, db, `UPDATE audit_leaf SET leaf = '', packed = x'02' WHERE seq >= 1536`)
	db.Close()
	a.open(t)
	page, err := a.log.Records(t.Context(), audit.Query{Before: a.last, Limit: 200})
	if err != nil || len(page) == 0 || a.log.Found() == nil {
		t.Errorf("%d records, %v, want some, after which no calls are made: %v", len(page), err, a.log.Found())
	}
	for _, r := range page {
		if r.Absent != "" || r.Problem == "" && r.Seq >= 1536 {
			t.Fatalf("the record %+v, want one that was changed, not archived", r)
		}
	}
	a.reopen(t)
	if err := a.log.Inspect(t.Context()); err == nil {
		t.Error("Inspect found nothing, want a changed leaf")
	}
}

// TestArchiveRefusesChangedLeaves checks that a changed leaf is not moved to a segment, which would
// be signed.
func TestArchiveRefusesChangedLeaves(t *testing.T) {
	a := newArchived(t)
	if err := a.store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db := raw(t, a.dir)
	do(t, db, `UPDATE audit_leaf SET leaf = replace(leaf, 'crm.', 'cRm.') WHERE seq = 1400`)
	db.Close()
	a.open(t)
	if h, err := a.log.ArchiveNext(t.Context(), a.clock.Now()); err == nil || a.log.Found() == nil {
		t.Errorf("ArchiveNext returned %+v, want an error, after which no calls are made", h)
	}
}

// TestUnfinishedMove adds the row of a segment whose leaves are in the database, as if a move to it
// had been interrupted. Without the file that was signed for it, they stay there.
func TestUnfinishedMove(t *testing.T) {
	for name, c := range map[string]struct {
		copied bool // the file of another segment has its name
		kind   tool.Kind
	}{"without its file": {false, tool.NotFound}, "with another file": {true, tool.Conflict}} {
		t.Run(name, func(t *testing.T) {
			a := newArchived(t)
			if err := a.store.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			db := raw(t, a.dir)
			defer db.Close()
			do(t, db, `INSERT INTO audit_segment (first, last, note)
				SELECT 1280, 1535, note FROM audit_segment LIMIT 1`)
			if c.copied {
				name := filepath.Join(a.dir, segment.Folder, segment.FileName(1280, 1535))
				b, err := os.ReadFile(a.files[0])
				if err == nil {
					err = os.WriteFile(name, b, 0o600)
				}
				if err != nil {
					t.Fatalf("copy a segment: %v", err)
				}
			}
			a.open(t)
			h, err := a.log.ArchiveNext(t.Context(), a.clock.Now())
			if e := tool.AsError(err); e == nil || e.Kind != c.kind || (a.log.Found() != nil) != c.copied {
				t.Errorf("ArchiveNext: %+v, %v; the record is doubted: %v; want an error of kind %s", h, err,
					a.log.Found(), c.kind)
			}
			var kept int
			if err := db.QueryRow(`SELECT count(*) FROM audit_leaf WHERE seq BETWEEN 1280 AND 1535
				AND packed IS NOT x'02'`).Scan(&kept); err != nil || kept != 256 {
				t.Errorf("the database has %d of the leaves, %v, want all 256", kept, err)
			}
		})
	}
}
