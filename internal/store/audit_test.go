package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/store"
	leaves "github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

var allow = audit.Decision{Effect: "allow", Policy: "open"}

// fill records calls, every third without an end, and events, and signs the log in between.
func fill(t *testing.T, l *audit.Log, n int) {
	t.Helper()
	for i := range n {
		e, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update", Principal: tool.Principal{ID: "local:ann"},
			Arguments: fmt.Appendf(nil, `{"n":%d,"text":%q}`, i, rand.Text())}, allow) // they compress little
		if err == nil && i%3 != 0 {
			err = e.End(t.Context(), tool.Text(false, "fine"), nil)
		}
		if err == nil && i%4 == 0 {
			_, err = l.Event(t.Context(), audit.Event{Kind: audit.KindRead, Principal: tool.Principal{ID: "local:bob"}})
		}
		if err == nil && i%8 == 7 {
			_, err = l.Checkpoint(t.Context())
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
}

func verified(t *testing.T, l *audit.Log, outside ...string) *audit.Report {
	t.Helper()
	r, err := l.Verify(t.Context(), outside...)
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return r
}

func sound(t *testing.T, l *audit.Log) *audit.Report {
	t.Helper()
	r := verified(t, l)
	if !r.OK() {
		t.Fatalf("r.Faults = %+v, want r.OK()", r.Faults)
	}
	if err := l.Inspect(t.Context()); err != nil || l.Broken() != nil {
		t.Fatalf("err = %v, want err == nil && l.Broken() == nil", err)
	}
	return r
}

// raw opens the database of a folder as an attacker with access to the file would, without the
// triggers.
func raw(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	for _, name := range recordTriggers {
		if _, err := db.Exec("DROP TRIGGER " + name); err != nil {
			t.Fatalf("Exec: %v", err)
		}
	}
	unpackAll(t, db)
	return db
}

// recordTriggers are the triggers that raw drops.
var recordTriggers = []string{"audit_leaf_insert", "audit_leaf_update", "audit_leaf_delete", "audit_checkpoint_insert",
	"audit_checkpoint_update", "audit_checkpoint_delete"}

// rawWithTriggers is raw. restore creates the triggers again, whose absence is a fault itself.
func rawWithTriggers(t *testing.T, dir string) (db *sql.DB, restore func()) {
	t.Helper()
	before, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer before.Close()
	texts := make([]string, len(recordTriggers))
	for i, name := range recordTriggers {
		if err := before.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&texts[i]); err != nil {
			t.Fatalf("read the trigger %s: %v", name, err)
		}
	}
	db = raw(t, dir)
	return db, func() {
		for _, text := range texts {
			do(t, db, text)
		}
	}
}

// unpackAll stores all leaves unpacked, so that statements can change their texts.
func unpackAll(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT seq, packed FROM audit_leaf WHERE packed <> x'02'`)
	if err != nil {
		t.Fatalf("read the packed leaves: %v", err)
	}
	defer rows.Close()
	texts := map[int64]string{}
	for rows.Next() {
		var seq int64
		var packed []byte
		if err := rows.Scan(&seq, &packed); err != nil {
			t.Fatalf("read a packed leaf: %v", err)
		}
		leaf, err := leaves.UnpackLeaf(nil, packed)
		if err != nil {
			t.Fatalf("unpack leaf %d: %v", seq, err)
		}
		texts[seq] = string(leaf)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("read the packed leaves: %v", err)
	}
	for seq, text := range texts {
		do(t, db, `UPDATE audit_leaf SET leaf = ?, packed = NULL WHERE seq = ?`, text, seq)
	}
}

func do(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("query = %s, err = %v, want nil", query, err)
	}
}

// TestTamperedDatabase changes the file of a stopped store. Each change is found and named.
func TestTamperedDatabase(t *testing.T) {
	base := t.TempDir()
	s := openDatabase(t, base)
	l := auditLog(t, s)
	fill(t, l, 140) // more than a span
	sound(t, l)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	change := func(seq int, from, to string) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_leaf SET leaf = replace(leaf, ?, ?) WHERE seq = ?`, from, to, seq)
		}
	}
	for _, tt := range []struct {
		name  string
		do    func(t *testing.T, db *sql.DB)
		what  string
		seq   int64
		quick bool // Inspect finds it, too
	}{
		{"nothing", func(*testing.T, *sql.DB) {}, "", 0, false},
		{"a principal", change(2, "local:ann", "local:eve"), "changed", 2, false},
		{"a recent principal", change(255, "local:ann", "local:eve"), "changed", 255, true},
		{"a stored hash", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_leaf SET hashes = zeroblob(length(hashes)) WHERE seq = 10`)
		}, "hash", 10, false},
		{"a row removed", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_leaf WHERE seq = 20`)
		}, "missing", 20, false},
		{"rows renumbered", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_leaf WHERE seq = 20`)
			do(t, db, `UPDATE audit_leaf SET seq = -seq WHERE seq > 20`)
			do(t, db, `UPDATE audit_leaf SET seq = -seq - 1 WHERE seq < -20`)
		}, "missing", 20, true},
		{"rows swapped", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_leaf SET seq = -20 WHERE seq = 20`)
			do(t, db, `UPDATE audit_leaf SET seq = 20 WHERE seq = 31`)
			do(t, db, `UPDATE audit_leaf SET seq = 31 WHERE seq = -20`)
		}, "moved", 20, false},
		{"a row before the first", func(t *testing.T, db *sql.DB) {
			do(t, db, `INSERT INTO audit_leaf SELECT -1, hashes, replace(leaf, '"record":"', '"record":"x'), NULL `+
				`FROM audit_leaf WHERE seq = 0`)
		}, "inserted", -1, false},
		{"the end cut off", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_leaf WHERE seq > 60`)
		}, "truncated", 61, true},
		{"all removed", func(t *testing.T, db *sql.DB) { do(t, db, `DELETE FROM audit_leaf`) }, "truncated", 0, true},
		{"a checkpoint", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_checkpoint SET text = replace(text, 'biplane/', 'biplane.') WHERE id = (SELECT `+
				`max(id) FROM audit_checkpoint)`)
		}, "checkpoint", -1, true},
		{"what is kept", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_kept SET data = (SELECT data FROM audit_kept ORDER BY first DESC LIMIT 1) WHERE `+
				`first = (SELECT min(first) FROM audit_kept)`)
		}, "payload", -1, false},
		{"what is kept, taken away", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_kept WHERE first = 0`)
		}, "gone", 0, false},
		{"an index", func(t *testing.T, db *sql.DB) { // it may disagree with its table
			do(t, db, `CREATE INDEX audit_span_low ON audit_span (low)`)
		}, "store", -1, false},
		{"where a record is found", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_record WHERE seq = (SELECT min(seq) FROM audit_record WHERE seq >= 20)`)
		}, "store", -1, false},
		{"a record without a name", func(t *testing.T, db *sql.DB) {
			do(t, db, `INSERT INTO audit_record (record, ended, seq) VALUES ('', -2, 0)`)
		}, "store", -1, false},
		{"the last leaf of a span", change(255, "local:ann", "local:eve"), "changed", 255, true},
		{"the first leaf of a span", change(256, `"time":"20`, `"time":"19`), "changed", 256, true},
		{"the last leaf", change(267, `"time":"20`, `"time":"19`), "changed", 267, true},
		{"the hash of the last leaf", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_leaf SET hashes = zeroblob(length(hashes)) WHERE seq = 267`)
		}, "changed", 267, true},
		{"the end of a span removed", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_leaf WHERE seq = 255`)
		}, "missing", 255, true},
		{"where the last record is found", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM audit_record WHERE seq = (SELECT max(seq) FROM audit_record)`)
		}, "store", -1, false},
		{"a record found twice", func(t *testing.T, db *sql.DB) {
			do(t, db, `INSERT INTO audit_record (record, ended, seq) SELECT record || 'z', ended, seq FROM `+
				`audit_record WHERE seq = 0`)
		}, "store", -1, false},
		{"where an end is found", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_record SET ended = ended + 1 WHERE seq = (SELECT max(seq) FROM audit_record WHERE `+
				`ended > 1)`)
		}, "store", -1, false},
		{"an end that is not found", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_record SET ended = 0 WHERE seq = (SELECT max(seq) FROM audit_record WHERE `+
				`ended > 1)`)
		}, "store", -1, false},
		{"what a list searches by", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE audit_span SET marks = zeroblob(length(marks)) WHERE first = 0`)
		}, "store", -1, false},
		// the newest records, which lists no longer find
		{"a span of leaves that are in none", func(t *testing.T, db *sql.DB) {
			do(t, db, `INSERT INTO audit_span SELECT first + 256, low, high, since, until, marks, ends FROM `+
				`audit_span WHERE first = 0`)
		}, "store", -1, false},
		{"all written anew", func(t *testing.T, db *sql.DB) { forge(t, db) }, "fork", 0, true},
		{"all written anew, without checkpoints", func(t *testing.T, db *sql.DB) {
			forge(t, db)
			do(t, db, `DELETE FROM audit_checkpoint`)
		}, "fork", 0, true},
		{"one put at the end", func(t *testing.T, db *sql.DB) { // a replayed call
			do(t, db, `INSERT INTO audit_leaf SELECT 268, hashes, replace(replace(leaf, '"seq":267,', '"seq":268,'), `+
				`'"record":"0', '"record":"1'), NULL FROM audit_leaf WHERE seq = 267`)
			rehash(t, db)
		}, "forged", 268, true},
		{"the seal taken away", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE tail SET head = NULL`)
		}, "seal", -1, true},
		{"the seal changed", func(t *testing.T, db *sql.DB) {
			do(t, db, `UPDATE tail SET head = randomblob(length(head))`)
		}, "seal", -1, true},
		{"the seal and the end cut off", func(t *testing.T, db *sql.DB) {
			do(t, db, `DELETE FROM tail`)
			do(t, db, `DELETE FROM audit_leaf`)
			do(t, db, `DELETE FROM audit_checkpoint`)
			do(t, db, `DELETE FROM audit_record`)
			do(t, db, `DELETE FROM audit_span`)
		}, "seal", -1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := copied(t, base)
			db, restore := rawWithTriggers(t, dir)
			tt.do(t, db)
			restore()
			if err := db.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			l := auditLog(t, openDatabase(t, dir))
			r := verified(t, l)
			if tt.what == "" {
				if !r.OK() {
					t.Errorf("faults: %v", r.Faults)
				}
				return
			}
			found := false
			for _, f := range r.Faults {
				t.Log(f.What, f.Msg)
				found = found || f.What == tt.what && f.Seq == tt.seq
			}
			if !found {
				t.Errorf("no fault %q at %d", tt.what, tt.seq)
			}
			if err := l.Inspect(t.Context()); tt.quick && err == nil || (err == nil) != (l.Broken() == nil) {
				t.Errorf("inspected: %v, %v", err, l.Broken())
			} else if err != nil &&
				(tool.AsError(err).Kind != tool.Conflict || !strings.Contains(err.Error(), "biplane audit verify")) {
				t.Errorf("inspected: %v", err)
			}
		})
	}
}

// TestInspectLater inspects a record after a leaf was changed and more were added than are usually
// inspected.
func TestInspectLater(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	fill(t, auditLog(t, s), 40)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db := raw(t, dir)
	do(t, db, `UPDATE audit_leaf SET leaf = replace(leaf, 'local:', 'ghost:') WHERE seq = (SELECT max(seq) FROM `+
		`audit_leaf)`)
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	l := auditLog(t, openDatabase(t, dir))
	fill(t, l, 100)
	if err := l.Inspect(t.Context()); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("inspected: %v", err)
	}
}

// TestRefusedAtOnce opens a truncated record. Even the leaf of a read, which no one waits for, is
// refused before its call is made.
func TestRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	fill(t, auditLog(t, s), 5)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db := raw(t, dir)
	do(t, db, `DELETE FROM audit_leaf WHERE seq = (SELECT max(seq) FROM audit_leaf)`)
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	late := func(err error) { t.Errorf("told late: %v", err) }
	err := stored(t, openDatabase(t, dir)).Append(t.Context(),
		&audit.Addition{Record: audit.FirstID(time.Now()), Part: audit.PartBegun, Leaf: []byte(`{"seq":0}`),
			Failed: late})
	if err == nil || tool.AsError(err).Kind != tool.Unavailable ||
		!strings.Contains(err.Error(), "was removed from its end") {
		t.Errorf("a read's leaf: %v", err)
	}
}

// TestBrokenSeal opens a record that was changed without the key. Nothing is added to it, and the
// error names the problem and the remedy.
func TestBrokenSeal(t *testing.T) {
	base := t.TempDir()
	s := openDatabase(t, base)
	fill(t, auditLog(t, s), 12)
	if err := s.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	if n := s.Leaves(t.Context()); n != 23 {
		t.Fatalf("n = %v, want 23", n)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for name, tt := range map[string]struct{ query, want string }{
		"forged": {`INSERT INTO audit_leaf SELECT 23, hashes, replace(leaf, '"seq":21,', '"seq":23,'), NULL ` +
			`FROM audit_leaf WHERE seq = 21`, "did not record the leaves 23"},
		"truncated": {`DELETE FROM audit_leaf WHERE seq > 19`, "the leaves 20 to 22 were removed from its end"},
		"rewritten": {`UPDATE audit_leaf SET leaf = replace(leaf, 'local:ann', 'local:eve') WHERE seq = 6`,
			"of the leaves 0 to 22 were rewritten"},
		"sealless": {`UPDATE tail SET head = NULL`, "is missing"},
		"tailless": {`DELETE FROM tail`, "is missing"},
		"resealed": {`UPDATE tail SET head = zeroblob(length(head))`, "sealed with another key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copied(t, base)
			db := raw(t, dir)
			do(t, db, `DELETE FROM audit_checkpoint`)
			do(t, db, tt.query)
			rehash(t, db)
			if err := db.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			for range 2 { // opening it doesn't change anything
				s := openDatabase(t, dir)
				l := auditLog(t, s)
				if err := l.Inspect(t.Context()); err == nil || l.Broken() == nil {
					t.Error("it was not noticed")
				}
				before := s.Leaves(t.Context())
				for range 2 {
					_, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update"}, allow)
					if err == nil || tool.AsError(err).Kind != tool.Unavailable ||
						!strings.Contains(err.Error(), tt.want) ||
						!strings.Contains(err.Error(), "biplane audit verify") {
						t.Errorf("a call was begun: %v", err)
					}
				}
				if _, err := l.Checkpoint(t.Context()); err == nil {
					t.Error("it was signed")
				}
				if r := verified(t, l); r.OK() || s.Leaves(t.Context()) != before {
					t.Errorf("r = %+v, want !r.OK() && s.Leaves(t.Context()) == before", r)
				}
				s.Close()
			}
		})
	}
}

// TestSealedWhenCopied checks that the record matches its seal at whatever moment the process dies:
// no leaf is unsealed.
func TestSealedWhenCopied(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	for n := range 5 {
		fill(t, l, 3)
		copied := t.TempDir()
		if err := os.Chmod(copied, 0o700); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		for _, name := range []string{"biplane.db", "biplane.db-wal"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(copied, name), b, 0o600)
			}
			if err != nil {
				t.Fatalf("err = %v, want nil", err)
			}
		}
		db := raw(t, copied)
		do(t, db, `INSERT INTO audit_leaf SELECT seq + 1, hashes, replace(leaf, '"seq":' || seq || ',', '"seq":' || `+
			`(seq + 1) || ','), NULL FROM audit_leaf WHERE seq = (SELECT max(seq) FROM audit_leaf)`)
		rehash(t, db)
		size := 0
		if err := db.QueryRow(`SELECT count(*) FROM audit_leaf`).Scan(&size); err != nil {
			t.Fatalf("Scan: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		found := auditLog(t, openDatabase(t, copied)).Inspect(t.Context())
		if want := fmt.Sprintf("did not record the leaves %d", size-1); found == nil ||
			!strings.Contains(found.Error(), want) {
			t.Errorf("after %d: %v, want %s", n, found, want)
		}
	}
}

// TestUnsealedRecord opens a record from a version that sealed none. It is sealed from then on.
func TestUnsealedRecord(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	a := stored(t, s)
	signer, err := a.Signer(t.Context(), "example.com/log")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	fill(t, auditLog(t, s), 5)
	if err := store.Unseal(t.Context(), a); err != nil {
		t.Fatalf("store.Unseal: %v", err)
	}
	s.Close()
	s = openDatabase(t, dir)
	a = stored(t, s)
	again, err := a.Signer(t.Context(), "")
	if err != nil || again.Public() != signer.Public() {
		t.Fatalf("again = %v, err = %v, want err == nil && again.Public() == signer.Public()", again, err)
	}
	sound(t, auditLog(t, s))
	if err := s.Exec(t.Context(), `DELETE FROM tail`); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	s.Close()
	if r := verified(t, auditLog(t, openDatabase(t, dir))); r.OK() {
		t.Error("it is sealed without its key once more")
	}
}

// forge changes leaf 13 and recomputes all hashes after it.
func forge(t *testing.T, db *sql.DB) {
	t.Helper()
	do(t, db, `UPDATE audit_leaf SET leaf = replace(leaf, '"time":"20', '"time":"19') WHERE seq = 13`)
	rehash(t, db)
}

// rehash recomputes all hashes.
func rehash(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT leaf FROM audit_leaf ORDER BY seq`)
	if err != nil {
		t.Fatalf("Query: %v", err)
	}
	var all []tlog.Hash
	var stored [][]byte
	for n := int64(0); rows.Next(); n++ {
		var leaf []byte
		if err := rows.Scan(&leaf); err != nil {
			t.Fatalf("Scan: %v", err)
		}
		hashes, err := tlog.StoredHashes(n, leaf,
			tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
				for _, i := range indexes {
					out = append(out, all[i])
				}
				return out, nil
			}))
		if err != nil {
			t.Fatalf("tlog.StoredHashes: %v", err)
		}
		var b []byte
		for _, h := range hashes {
			b = append(b, h[:]...)
		}
		all, stored = append(all, hashes...), append(stored, b)
	}
	rows.Close()
	for n, b := range stored {
		do(t, db, `UPDATE audit_leaf SET hashes = ? WHERE seq = ?`, b, n)
	}
}

// TestPatchedFile changes bytes in the database file.
func TestPatchedFile(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 60)
	want, err := l.Records(t.Context(), audit.Query{Limit: 1000})
	if err != nil {
		t.Fatalf("Records: %v", err)
	}
	target := want[len(want)/2]
	leaf := s.PackedLeaf(t.Context(), target.Seq)
	s.Close()
	path := filepath.Join(dir, "biplane.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	i := bytes.Index(b, leaf)
	if i < 0 || len(leaf) == 0 {
		t.Fatal("the leaf is not in the file")
	}
	for _, patch := range []struct {
		name string
		do   func(b []byte) []byte
	}{
		{"a byte of a leaf", func(b []byte) []byte { b[i+12] ^= 1; return b }},
		{"a page", func(b []byte) []byte { copy(b[i&^4095:], make([]byte, 4096)); return b }},
		{"the end cut off", func(b []byte) []byte { return b[:len(b)/2] }},
	} {
		t.Run(patch.name, func(t *testing.T) {
			if err := os.WriteFile(path, patch.do(bytes.Clone(b)), 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
			s, err := store.Open(t.Context(), store.Config{Path: dir})
			if err != nil {
				t.Log(err) // it doesn't open, and the error says why
				return
			}
			defer s.Close()
			a, err := s.Audit(t.Context(), testKey(t))
			if err != nil {
				t.Log(err)
				return
			}
			signer, err := a.Signer(t.Context(), "")
			if err != nil {
				t.Log(err)
				return
			}
			r, err := audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer}).Verify(t.Context())
			if err != nil {
				t.Fatalf("Verify: %v", err)
			}
			for _, f := range r.Faults {
				t.Log(f.What, f.Msg)
			}
			if r.OK() {
				t.Error("nothing was found")
			}
			if patch.name == "a byte of a leaf" && (r.Faults[0].What != "changed" || r.Faults[0].Seq != target.Seq) {
				t.Errorf("leaf %d is not named", target.Seq)
			}
		})
	}
}

// TestTornLog truncates the log at various places, as a power failure may. The rest verifies.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	early := t.TempDir() // the cuts below are after this state
	copyWitness(t, dir, early)
	fill(t, l, 30)
	var files []string
	for _, name := range []string{"biplane.db", "biplane.db-wal"} {
		files = append(files, filepath.Join(dir, name))
	}
	db, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	wal, err := os.ReadFile(files[1])
	if err != nil || len(wal) < 100_000 {
		t.Fatalf("len(wal) = %v, err = %v, want err == nil && len(wal) >= 100_000", len(wal), err)
	}
	last := int64(-1)
	for _, cut := range []int{len(wal), len(wal) - 1, len(wal) - 4097, len(wal)*3/4 + 2000, len(wal) * 3 / 4,
		len(wal) / 2} {
		torn := t.TempDir()
		for name, b := range map[string][]byte{"biplane.db": db,
			"biplane.db-wal": append(bytes.Clone(wal[:cut]), bytes.Repeat([]byte{0xaa}, 5000)...)} {
			if err := os.WriteFile(filepath.Join(torn, name), b, 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
		}
		if err := os.Chmod(torn, 0o700); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		copyWitness(t, early, torn)
		l := auditLog(t, openDatabase(t, torn))
		r := sound(t, l)
		if last >= 0 && r.Size > last {
			t.Errorf("cut at %d there are %d leaves, with more of it %d", cut, r.Size, last)
		}
		last = r.Size
		fill(t, l, 9)
		if after := sound(t, l); after.Size <= r.Size {
			t.Errorf("nothing was added to %d leaves", r.Size)
		}
	}
}

// A store that can't be written refuses calls, and accepts them again when it can be.
func TestReadOnlyStore(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	fill(t, l, 5)
	before := sound(t, l).Size
	if err := s.Pragma(t.Context(), "query_only = 1"); err != nil {
		t.Fatalf("Pragma: %v", err)
	}
	// Until it is known that the database can't be written, writes are recorded in the write-ahead
	// file. Then there are no more of them.
	begun := int64(0)
	for ; ; begun++ {
		if _, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, allow); err != nil {
			if tool.AsError(err).Kind != tool.Unavailable {
				t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Unavailable", err)
			}
			break
		}
		if begun == 1000 {
			t.Fatal("calls are made, and nothing is recorded")
		}
	}
	if _, err := l.Checkpoint(t.Context()); err == nil {
		t.Error("a checkpoint that is nowhere")
	}
	// A program's reads don't wait for their records. Reads that were running when the store failed
	// were made; later ones are refused.
	for n := 0; ; n++ {
		_, err := l.Begin(t.Context(), readInside(), allow)
		if err != nil {
			if tool.AsError(err).Kind != tool.Unavailable {
				t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Unavailable", err)
			}
			break
		}
		if n == 1000 {
			t.Fatal("a program reads on, and nothing is recorded")
		}
		if _, err := l.Records(t.Context(), audit.Query{}); err == nil && n > 0 {
			t.Error("what is queued was lost, and nobody was told")
		}
	}
	if err := s.Pragma(t.Context(), "query_only = 0"); err != nil {
		t.Fatalf("Pragma: %v", err)
	}
	fill(t, l, 5)
	if after := sound(t, l).Size; after < before+begun+5 {
		t.Errorf("%d leaves after %d, and %d calls", after, before, begun)
	}
}

// readInside returns a call made by a program, of a tool that only reads.
func readInside() *tool.Call {
	yes := true
	return &tool.Call{Path: "a.b", By: &tool.Program{Execution: "ex_1"},
		Tool: &tool.Tool{Upstream: "a", Name: "b", Annotations: tool.Annotations{ReadOnly: &yes}}}
}

// Many reads of programs, which no one waits for, are followed by the end of an outside call. Once
// End returns, the folder of a killed process has all of them.
func TestReadsInside(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	outer, err := l.Begin(t.Context(),
		&tool.Call{Path: "biplane.execute", Tool: &tool.Tool{Upstream: "biplane", Name: "execute"}}, allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				e, err := l.Begin(t.Context(), readInside(), allow)
				if err == nil {
					err = e.End(t.Context(), tool.Text(false, "fine"), nil)
				}
				if err != nil {
					t.Errorf("err = %v, want nil", err)
					return
				}
			}
		})
	}
	wg.Wait()
	left := killed(t, s, dir, func() {
		if err := outer.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
			t.Fatalf("End: %v", err)
		}
	})
	for _, l := range []*audit.Log{l, auditLog(t, openDatabase(t, left))} {
		if r := sound(t, l); r.Records != 401 || r.Unfinished != 0 || r.Size != 802 {
			t.Errorf("r = %+v, want r.Records == 401 && r.Unfinished == 0 && r.Size == 802", r)
		}
	}
}

// Leaves of calls that were made and couldn't be recorded are written when possible, before
// anything new begins.
func TestMissedLeaves(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	outer, err := l.Begin(t.Context(),
		&tool.Call{Path: "biplane.execute", Tool: &tool.Tool{Upstream: "biplane", Name: "execute"}}, allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	before, err := l.Begin(t.Context(), readInside(), allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if _, err := l.Records(t.Context(), audit.Query{}); err != nil { // both are written
		t.Fatalf("Records: %v", err)
	}
	if err := s.Pragma(t.Context(), "query_only = 1"); err != nil {
		t.Fatalf("Pragma: %v", err)
	}
	inside, err := l.Begin(t.Context(), readInside(), allow)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if _, err := l.Records(t.Context(), audit.Query{}); err == nil { // it is retried
		t.Fatal("it could be written")
	}
	for _, e := range []*audit.Entry{before, inside} {
		if err := e.End(t.Context(), tool.Text(false, "fine"), nil); err == nil {
			t.Error("its end is nowhere")
		}
	}
	if _, err := l.Begin(t.Context(), readInside(), allow); err == nil {
		t.Error("a call is begun while another is not on record")
	}
	if err := s.Pragma(t.Context(), "query_only = 0"); err != nil {
		t.Fatalf("Pragma: %v", err)
	}
	if err := outer.End(t.Context(), tool.Text(false, "done"), nil); err != nil {
		t.Fatalf("End: %v", err)
	}
	if r := sound(t, l); r.Records != 3 || r.Unfinished != 0 {
		t.Errorf("r = %+v, want r.Records == 3 && r.Unfinished == 0", r)
	}
}

// A log keeps its name and its key.
func TestSigner(t *testing.T) {
	dir := t.TempDir()
	a := stored(t, openDatabase(t, dir))
	one, err := a.Signer(t.Context(), "example.com/log")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	for _, origin := range []string{"", "example.com/log"} {
		if two, err := a.Signer(t.Context(), origin); err != nil || two.Public() != one.Public() {
			t.Errorf("asked again: %v, %v", two, err)
		}
	}
	if _, err := a.Signer(t.Context(), "example.com/other"); tool.AsError(err).Kind != tool.Conflict ||
		!strings.Contains(err.Error(), "example.com/log") {
		t.Errorf("another name: %v", err)
	}
	if _, err := a.Signer(t.Context(), "no name"); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("a bad name: %v", err)
	}
	random, err := stored(t, openDatabase(t, t.TempDir())).Signer(t.Context(), "")
	if err != nil || !strings.HasPrefix(random.Origin(), "biplane/") || random.Public() == one.Public() {
		t.Errorf("a random name: %v %v", random, err)
	}
	other, _ := secret.NewKey(bytes.Repeat([]byte{1}, secret.KeySize))
	s := openDatabase(t, t.TempDir())
	if _, err := stored(t, s).Signer(t.Context(), ""); err != nil {
		t.Fatalf("Signer: %v", err)
	}
	b, err := s.Audit(t.Context(), other)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	if _, err := b.Signer(t.Context(), ""); tool.AsError(err).Kind != tool.Conflict ||
		!strings.Contains(err.Error(), "BIPLANE_KEY") {
		t.Errorf("another key of the folder: %v", err)
	}
}

// The record of an older version is moved into the tree, without losing anything.
func TestOlderRecord(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	sum := sha256.Sum256([]byte(`{"password":"x"}`))
	digest := hex.EncodeToString(sum[:])
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456000, time.UTC)
	for i := range 50 {
		id := audit.FirstID(at.Add(time.Duration(i)*time.Second)) + fmt.Sprint(i)
		err := s.Exec(t.Context(),
			fmt.Sprintf(`INSERT INTO audit_begun VALUES ('%s', 'call%d', 'ex', %d, 'crm.update', 'local:ann', `+
				`'agent/1', '%s', '{"password":"x"}', 16, 'allow', 1)`,
				id, i, at.Add(time.Duration(i)*time.Second).UnixMicro(), digest))
		if err == nil && i%5 != 0 {
			outcome, kind, text := "ok", "", ""
			if i%7 == 0 {
				outcome, kind, text = "failed", "timeout", "no answer"
			}
			err = s.Exec(t.Context(),
				fmt.Sprintf(`INSERT INTO audit_ended VALUES ('%s', %d, '%s', '%s', '%s', '', %d, 1500000)`, id,
					at.Add(time.Duration(i+3)*time.Second).UnixMicro(), outcome, kind, text, i))
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	l := auditLog(t, s)
	r := sound(t, l)
	if r.Size != 90 || r.Records != 50 || r.Unfinished != 10 {
		t.Errorf("moved: %+v", r)
	}
	got, err := l.Records(t.Context(), audit.Query{Limit: 100})
	if err != nil || len(got) != 50 {
		t.Fatalf("len(got) = %v, err = %v, want err == nil && len(got) == 50", len(got), err)
	}
	one := got[1] // the 49th
	if one.Subject != (audit.Subject{Tool: "crm.update", Upstream: "crm", Execution: "ex", Call: "call48"}) ||
		one.Arguments.Digest != "sha256:"+digest || one.Arguments.Size != 16 ||
		!one.Time.Equal(at.Add(48*time.Second)) || one.End.Outcome != audit.OK ||
		one.End.Duration != 1500*time.Microsecond || one.Decision.Effect != "allow" {
		t.Errorf("one = %+v", one)
	}
	if args, err := l.Kept(t.Context(), one.Seq, one.Arguments.Kept); err != nil ||
		string(args) != `{"password":"[redacted]"}` {
		t.Errorf("arguments %q, %v", args, err)
	}
	if text, err := l.Kept(t.Context(), got[0].End.Seq, got[0].End.Error.Kept); err != nil ||
		string(text) != "no answer" || got[0].End.ErrorKind != tool.Timeout {
		t.Errorf("the error's text %q, %v", text, err)
	}
	fill(t, l, 5)
	s.Close()
	l = auditLog(t, openDatabase(t, dir))
	if r := sound(t, l); r.Records < 55 {
		t.Errorf("opened again: %+v", r)
	}
}

// Readers don't block writers, and see a snapshot.
func TestViewIsOneMoment(t *testing.T) {
	l := auditLog(t, openDatabase(t, t.TempDir()))
	fill(t, l, 5)
	s := openDatabase(t, t.TempDir())
	l = auditLog(t, s)
	fill(t, l, 3)
	err := stored(t, s).View(t.Context(), func(v audit.View) error {
		before, err := v.Head()
		if err != nil {
			return err
		}
		fill(t, l, 3)
		after, err := v.Head()
		if err != nil || before != after {
			t.Errorf("%+v became %+v, %v", before, after, err)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Verify(ctx); tool.AsError(err).Kind != tool.Canceled {
		t.Errorf("verify after the end of ctx: %v", err)
	}
}

// Missing spans, as in the record of an older version, are rebuilt, and find matches anywhere.
func TestSpans(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	var long *audit.Entry // ends in a later span than it begins in
	for i := range 700 {
		c := readInside()
		c.By, c.Principal.ID = &tool.Program{Execution: fmt.Sprintf("ex_%d", i/10)}, fmt.Sprintf("local:p%d", i%300)
		e, err := l.Begin(t.Context(), c, allow)
		switch {
		case err != nil:
		case i == 100:
			long = e
		case i == 600:
			err = errors.Join(long.End(t.Context(), nil, tool.Errorf(tool.Timeout, "no answer")),
				e.End(t.Context(), tool.Text(false, "fine"), nil))
		default:
			err = e.End(t.Context(), tool.Text(false, "fine"), nil)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	look := func(l *audit.Log) {
		t.Helper()
		for _, tt := range []struct {
			q    audit.Query
			want int
		}{
			{audit.Query{Execution: "ex_0"}, 10}, {audit.Query{Execution: "ex_31"}, 10},
			{audit.Query{Execution: "ex_69"}, 10}, {audit.Query{Execution: "ex_7"}, 10},
			{audit.Query{Principal: "local:p99"}, 3}, {audit.Query{Principal: "local:p100"}, 2},
			{audit.Query{Principal: "local:p9"}, 3},
			{audit.Query{Tool: "a.b", Limit: 1000}, 700}, {audit.Query{Tool: "a.b", Limit: 650}, 650},
			{audit.Query{Upstream: "a", Execution: "ex_12", Principal: "local:p123"}, 1},
			{audit.Query{Principal: "local:p99", Limit: 2}, 2},
			{audit.Query{Execution: "ex_10", Outcome: audit.Failed}, 1}, {audit.Query{Outcome: audit.Failed}, 1},
			{audit.Query{Execution: "ex_70"}, 0}, {audit.Query{Kind: audit.KindCall, Limit: 1000}, 700},
			{audit.Query{Kind: audit.KindRead}, 0},
		} {
			got, err := l.Records(t.Context(), tt.q)
			if err != nil || len(got) != tt.want {
				t.Errorf("%+v: %d records, want %d, %v", tt.q, len(got), tt.want, err)
			}
			for i := range got[min(len(got), 1):] {
				if got[i].ID <= got[i+1].ID {
					t.Errorf("%+v: %s comes before %s", tt.q, got[i].ID, got[i+1].ID)
				}
			}
			tt.q.After = audit.FirstID(time.Unix(0, 0))
			back, err := l.Records(t.Context(), tt.q)
			if err != nil || len(back) != tt.want ||
				tt.want > 0 && tt.q.Limit != 650 && tt.q.Limit != 2 && back[0].ID != got[len(got)-1].ID {
				t.Errorf("%+v, oldest first: %d records, %v", tt.q, len(back), err)
			}
		}
		if r, err := l.Record(t.Context(), long.Record()); err != nil || r.End.ErrorKind != tool.Timeout {
			t.Errorf("r = %+v, err = %v, want err == nil && r.End.ErrorKind == tool.Timeout", r, err)
		}
	}
	look(l)
	s.Close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	do(t, db, `DELETE FROM audit_span`)
	do(t, db, `DELETE FROM audit_record`)
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s = openDatabase(t, dir)
	l = auditLog(t, s)
	look(l)
	if r := sound(t, l); r.Size != 1400 {
		t.Errorf("%d leaves", r.Size)
	}
	for _, part := range []string{audit.PartBegun, audit.PartEnded} {
		err := stored(t, s).Append(t.Context(),
			&audit.Addition{Record: long.Record(), Part: part, Leaf: []byte(`{"seq":0}`)})
		if tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("%s again: %v", part, err)
		}
	}
}

// TestVanishing makes the database drop the record's rows silently, as a trigger can. Then nothing
// is reported as recorded.
func TestVanishing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDatabase(t, dir)
	l := auditLog(t, s)
	fill(t, l, 3)
	if err := s.Exec(t.Context(),
		`CREATE TRIGGER quiet BEFORE INSERT ON audit_leaf BEGIN SELECT RAISE(IGNORE); END`); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	for range 2 { // not only the first one
		_, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update", Principal: tool.Principal{ID: "local:ann"}},
			allow)
		if err == nil || tool.AsError(err).Kind != tool.Unavailable {
			t.Errorf("begun: %v", err)
		}
	}
	if _, err := l.Event(t.Context(), audit.Event{Kind: audit.KindRead}); err == nil {
		t.Error("an event that is not there was recorded")
	}
}

// TestStrangeSchema adds foreign objects to the database, or removes Biplane's own. Verify names
// them, and the store doesn't open with objects that could change what is written.
func TestStrangeSchema(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query, want string
		starts      bool
	}{
		{`CREATE TRIGGER quiet AFTER INSERT ON execution_part BEGIN DELETE FROM audit_kept; END`,
			`biplane didn't create the trigger "quiet"`, false},
		{`CREATE VIEW seen AS SELECT 1`, `biplane didn't create the view "seen"`, false},
		{`DROP TRIGGER audit_leaf_update`, `the trigger audit_leaf_update was removed`, true},
		{`DROP INDEX execution_open`, `the index execution_open was removed`, true},
		{`ALTER TABLE limit_use ADD COLUMN more TEXT`, `the table limit_use was changed`, true},
		{`CREATE TABLE notes (x)`, `biplane didn't create the table "notes"`, true},
	} {
		dir := t.TempDir()
		s := openDatabase(t, dir)
		l := auditLog(t, s)
		fill(t, l, 3)
		sound(t, l)
		if err := s.Exec(t.Context(), tt.query); err != nil {
			t.Fatalf("Exec: %v", err)
		}
		if r := verified(t, l); len(r.Faults) != 1 || r.Faults[0].What != "store" ||
			!strings.Contains(r.Faults[0].Msg, tt.want) {
			t.Errorf("tt.query = %s, r.Faults = %+v, want len(r.Faults) == 1 && r.Faults[0].What == "+
				"\"store\" && strings.Contains(r.Faults[0].Msg, tt.want)", tt.query, r.Faults)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		_, err := openDatabase(t, dir).Audit(t.Context(), testKey(t))
		if (err == nil) != tt.starts || err != nil && (tool.AsError(err).Kind != tool.Conflict ||
			!strings.Contains(err.Error(), "biplane audit verify")) {
			t.Errorf("%s: at the next start: %v", tt.query, err)
		}
	}
}

// TestGone deletes kept data. Data deleted by retention isn't missed, anything else is reported.
func TestGone(t *testing.T) {
	t.Parallel()
	s := openDatabase(t, t.TempDir())
	a := stored(t, s)
	signer, err := a.Signer(t.Context(), "")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	clock := wallclock.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	l := audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer, Clock: clock,
		Retention: retention.Policy{Results: retention.KeepFull, For: 30 * 24 * time.Hour}})
	call := func(text string) {
		t.Helper()
		e, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update", Arguments: fmt.Appendf(nil, `{"text":%q}`, text)},
			allow)
		if err == nil {
			err = e.End(t.Context(), &tool.Result{Raw: []byte(strings.Repeat(text, 5000))}, nil)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	for _, text := range []string{"a", "b", "c"} {
		call(text)
		clock.Advance(20 * 24 * time.Hour)
	}
	if r := verified(t, l); !r.OK() || r.Payloads != 6 {
		t.Fatalf("r = %+v, want r.OK() && r.Payloads == 6", r)
	}
	if err := l.Prune(t.Context()); err != nil {
		t.Fatalf("Prune: %v", err)
	}
	r := verified(t, l)
	if !r.OK() || r.Payloads != 2 {
		t.Fatalf("after retention: %+v", r)
	}
	found, err := l.Records(t.Context(), audit.Query{Kind: audit.KindRecord})
	if err != nil || len(found) != 1 || found[0].Detail["before"] == "" || found[0].Detail["payloads"] != "4" {
		t.Fatalf("found = %v, err = %v, want err == nil && len(found) == 1 && "+
			"found[0].Detail[\"before\"] != \"\" && found[0].Detail[\"payloads\"] == \"4\"", found, err)
	}
	for _, tt := range []struct{ query, want string }{
		{`DELETE FROM audit_payload`, "the stored copy of the result of record"},
		{`DELETE FROM audit_kept`, "the stored copy of the arguments of record"},
	} {
		if err := s.Exec(t.Context(), tt.query); err != nil {
			t.Fatalf("Exec: %v", err)
		}
		r := verified(t, l)
		for _, f := range r.Faults {
			if f.What != "gone" || f.Record == "" || f.Seq < 4 {
				t.Errorf(`f = %+v, want f.What == "gone" && f.Record != "" && f.Seq >= 4`, f)
			}
		}
		if len(r.Faults) == 0 || !strings.Contains(r.Faults[0].Msg, tt.want) {
			t.Errorf("tt.query = %s, r.Faults = %+v, want len(r.Faults) != 0 && "+
				"strings.Contains(r.Faults[0].Msg, tt.want)", tt.query, r.Faults)
		}
	}
}

// TestNameless removes the log's name and key, with or without everything that they signed. No new
// key is created for the existing log.
func TestNameless(t *testing.T) {
	t.Parallel()
	for _, also := range []string{"", `DELETE FROM audit_checkpoint`, `INSERT INTO audit_log VALUES (1, '', x'00')`} {
		dir := t.TempDir()
		s := openDatabase(t, dir)
		fill(t, auditLog(t, s), 8)
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		db := raw(t, dir)
		do(t, db, `DELETE FROM audit_log`)
		if also != "" {
			do(t, db, also)
		}
		if err := db.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if _, err := stored(t, openDatabase(t, dir)).Signer(t.Context(), ""); err == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("also = %q, err = %v, want err != nil && tool.AsError(err).Kind == tool.Conflict", also, err)
		}
	}
}

// TestWholeView holds a view of the whole record and as many others as there are connections for
// readers, but one. The next reader doesn't wait for any of them.
func TestWholeView(t *testing.T) {
	t.Parallel()
	s := openDatabase(t, t.TempDir())
	a := stored(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without it, the failure is a deadlock
	defer cancel()
	open, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	hold := func(view func(f func(audit.View) error) error) {
		wg.Go(func() {
			err := view(func(v audit.View) error {
				open <- struct{}{}
				<-done
				return v.CheckIntegrity()
			})
			if err != nil {
				t.Errorf("view: %v", err)
			}
		})
		<-open
	}
	hold(func(f func(audit.View) error) error { return a.ViewWhole(ctx, noPause{}, f) })
	for range 3 {
		hold(func(f func(audit.View) error) error {
			return a.View(ctx, func(v audit.View) error { _ = f(noCheck{v}); return nil })
		})
	}
	if err := a.View(ctx, func(v audit.View) error { _, err := v.Head(); return err }); err != nil {
		t.Errorf("a reader beside a view of the whole record and three others: %v", err)
	}
	close(done)
	wg.Wait()
}

// noPause never pauses.
type noPause struct{}

func (noPause) PauseWork(context.Context) {}

// noCheck is a view that uses only its own connection.
type noCheck struct{ audit.View }

func (noCheck) CheckIntegrity() error { return nil }
