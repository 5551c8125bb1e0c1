package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// checkpointed creates a folder with four checkpoints, the last two of the same entries, and closes
// it.
func checkpointed(t *testing.T, dir string) {
	t.Helper()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	for _, n := range []int{5, 5, 5, 0} {
		fill(t, l, n)
		_, err := l.Checkpoint(t.Context())
		must(t, err)
	}
	if r := sound(t, l); r.Checkpoints != 4 {
		t.Fatalf("r.Checkpoints = %v, want 4", r.Checkpoints)
	}
	must(t, s.Close())
}

// unchained checks that verify and Inspect report the checkpoints of a folder, and that calls stop.
func unchained(t *testing.T, dir, want string) {
	t.Helper()
	s := openDatabase(t, dir)
	defer s.Close()
	l := auditLog(t, s)
	said := ""
	for _, f := range verified(t, l).Faults {
		if f.What == "checkpoint" {
			said += f.Msg + "; "
		}
	}
	if !strings.Contains(said, want) {
		t.Errorf("verified: %q, want %q", said, want)
	}
	l = auditLog(t, s)
	if err := l.Inspect(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("inspected: %v", err)
	}
	if _, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update"}, allow); err == nil {
		t.Error("a call begins")
	}
}

// TestTamperedCheckpoints changes the stored checkpoints of a record, or their times, without the
// key.
func TestTamperedCheckpoints(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	checkpointed(t, base)
	for name, c := range map[string]struct{ query, want string }{
		"first removed": {`DELETE FROM audit_checkpoint WHERE id = (SELECT min(id) FROM audit_checkpoint)`,
			"checkpoints were removed"},
		"newest removed": {`DELETE FROM audit_checkpoint WHERE id = (SELECT max(id) FROM audit_checkpoint)`,
			"checkpoints were removed"},
		"all removed": {`DELETE FROM audit_checkpoint`, "checkpoints were removed"},
		"a time": {`UPDATE audit_checkpoint SET time = time - 1 WHERE id = (SELECT min(id) + 1 FROM ` +
			`audit_checkpoint)`, "their times changed"},
		"all times": {`UPDATE audit_checkpoint SET time = time - 86400000000`, "their times changed"},
		"one put in": {`INSERT INTO audit_checkpoint (time, text) SELECT time, text FROM audit_checkpoint ORDER ` +
			`BY id DESC LIMIT 1`, "checkpoints were inserted"},
		"one replaced": {`UPDATE audit_checkpoint SET text = (SELECT text FROM audit_checkpoint ORDER BY id LIMIT ` +
			`1) WHERE id = (SELECT min(id) + 1 FROM audit_checkpoint)`, "checkpoints were replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(base)))
			db := raw(t, dir)
			do(t, db, c.query)
			must(t, db.Close())
			unchained(t, dir, c.want)
		})
	}
}

// TestOlderCheckpoints restores an older copy of the database that has all entries, and lacks a
// checkpoint that the witness has.
func TestOlderCheckpoints(t *testing.T) {
	t.Parallel()
	dir, older := t.TempDir(), t.TempDir()
	checkpointed(t, dir)
	must(t, os.CopyFS(older, os.DirFS(dir)))
	s := openDatabase(t, dir)
	_, err := auditLog(t, s).Checkpoint(t.Context())
	must(t, err, s.Close())
	data, err := os.ReadFile(filepath.Join(older, store.File))
	must(t, err, os.WriteFile(filepath.Join(dir, store.File), data, 0o600))
	unchained(t, dir, "5 are in its witness: checkpoints were removed")
}

// TestChainOfOlderFolder opens a folder whose checkpoints were not chained. They are accepted as
// they are, and missed if removed later.
func TestChainOfOlderFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	checkpointed(t, dir)
	s := openDatabase(t, dir)
	must(t, store.Unchain(t.Context(), stored(t, s)), s.Close())
	for range 2 {
		s = openDatabase(t, dir)
		l := auditLog(t, s)
		sound(t, l)
		fill(t, l, 8)
		sound(t, l)
		must(t, s.Close())
	}
	db := raw(t, dir)
	do(t, db, `DELETE FROM audit_checkpoint WHERE id = (SELECT min(id) FROM audit_checkpoint)`)
	must(t, db.Close())
	unchained(t, dir, "checkpoints were removed")
}

// TestChainMeanwhile verifies a record while a checkpoint is added to it.
func TestChainMeanwhile(t *testing.T) {
	t.Parallel()
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	fill(t, l, 8)
	err := stored(t, s).View(t.Context(), func(v audit.View) error {
		if _, err := v.Head(); err != nil { // the view is a snapshot of now
			return err
		}
		if _, err := l.Checkpoint(t.Context()); err != nil {
			return err
		}
		return v.CheckChain()
	})
	must(t, err)
	sound(t, l)
}

// execute stores an execution that began at a time.
func execute(t *testing.T, s *store.Store, id string, at time.Time) {
	t.Helper()
	r := &journal.Record{ID: id, Principal: "local:ann", Language: "typescript", State: journal.Done, Started: at,
		Ended: at.Add(time.Second)}
	must(t, s.Executions(testKey(t)).Write(&journal.Write{ID: id, New: true, Record: r}).Wait())
}

// TestExecutionsWithoutRecord removes the record and everything that refers to it, and keeps the
// executions. It also inserts an execution that is older than the record.
func TestExecutionsWithoutRecord(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 5)
	execute(t, s, "ex_1", time.Now())
	sound(t, l)
	must(t, s.Close())
	db := raw(t, dir)
	for q := range strings.SplitSeq(emptyRecord, ";") {
		do(t, db, q)
	}
	do(t, db, `UPDATE tail SET grants = NULL`)
	do(t, db, `DELETE FROM grant_list`)
	must(t, db.Close(), os.Remove(filepath.Join(dir, store.WitnessFile)),
		os.RemoveAll(filepath.Join(dir, "biplane.sealed")), os.RemoveAll(filepath.Join(dir, "biplane.ahead")))
	s = openDatabase(t, dir)
	if _, err := stored(t, s).Signer(t.Context(), ""); !isKind(err, tool.Conflict) ||
		!strings.Contains(err.Error(), "executions, but no record") {
		t.Errorf("err = %v, want isKind(err, tool.Conflict) && strings.Contains(err.Error(), "+
			"\"executions, but no record\")", err)
	}
	must(t, s.Close())

	s = openDatabase(t, other)
	l = auditLog(t, s)
	fill(t, l, 5)
	execute(t, s, "ex_0", time.Now())
	sound(t, l)
	execute(t, s, "ex_1", time.Now().Add(-time.Hour))
	unrecorded(t, s)
}

// unrecorded checks that verify and Inspect report executions that are older than the record.
func unrecorded(t *testing.T, s *store.Store) {
	t.Helper()
	l := auditLog(t, s)
	if r := verified(t, l); len(r.Faults) != 1 || r.Faults[0].What != "execution" ||
		!strings.Contains(r.Faults[0].Msg, "ex_1") {
		t.Errorf("r.Faults = %+v, want len(r.Faults) == 1 && r.Faults[0].What == \"execution\" && "+
			"strings.Contains(r.Faults[0].Msg, \"ex_1\")", r.Faults)
	}
	l = auditLog(t, s)
	if err := l.Inspect(t.Context()); err == nil || !strings.Contains(err.Error(), "execution ex_1 began") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "execution ex_1 began")`, err)
	}
	if _, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update"}, allow); err == nil {
		t.Error("a call begins")
	}
}

// TestForeseen opens databases without a record: they are new only if the folder has a witness.
func TestForeseen(t *testing.T) {
	t.Parallel()
	for _, foreseen := range []bool{true, false} {
		dir := t.TempDir()
		prepare := func() error {
			if !foreseen {
				return nil
			}
			return store.CreateWitness(dir, testKey(t))
		}
		s, err := store.Open(t.Context(), store.Config{Path: dir, Prepare: prepare})
		must(t, err)
		if _, err = stored(t, s).Signer(t.Context(), ""); foreseen != (err == nil) ||
			err != nil && !isKind(err, tool.Conflict) {
			t.Errorf("foreseen %t: %v", foreseen, err)
		}
		must(t, s.Close())
	}
}
