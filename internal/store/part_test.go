package store_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/journal"
)

// TestPartsOfEarlierVersions opens a folder of a version that kept the parts of journals in another
// table and didn't compress them.
func TestPartsOfEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	rec := journal.Record{ID: "ex_1", Principal: "local:ann", State: journal.Running, Started: time.Now()}
	long := []byte(strings.Repeat(`{"call":{"id":1,"path":"srv.echo"}}`+"\n", 100))
	if err := s.Executions(testKey(t)).Write(&journal.Write{ID: rec.ID, Record: &rec, New: true, Seq: 1,
		Part: []byte("one")}).Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	sealed := testKey(t).Seal("execution-part", long, []byte("ex_1"), binary.BigEndian.AppendUint64(nil, 2))
	for _, q := range []string{
		`CREATE TABLE earlier (execution TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
			PRIMARY KEY (execution, seq)) STRICT, WITHOUT ROWID`,
		`INSERT INTO earlier SELECT execution, seq, data FROM execution_part`,
		`DROP TABLE execution_part`,
		`ALTER TABLE earlier RENAME TO execution_part`,
		`DELETE FROM goose_db_version WHERE version_id >= 260`,
		`DROP TABLE stored_secret`, `DROP TABLE tool_shape`, `DROP TABLE kept_answer`, `DROP TABLE own_sandbox`,
		`DROP TRIGGER audit_leaf_insert`, `DROP TRIGGER audit_leaf_delete`, `DROP TABLE audit_segment`,
		`DROP TABLE execution_task`,
		`DROP INDEX execution_principal`, `DROP INDEX execution_session`,
		`DROP INDEX execution_state`, `DROP INDEX approval_principal`, `DROP INDEX approval_expires`,
		`DROP INDEX approval_program`, `DROP INDEX approval_execution`, `DROP INDEX approval_over`,
		`ALTER TABLE approval DROP COLUMN principal`, `ALTER TABLE approval DROP COLUMN expires`,
		`ALTER TABLE audit_leaf DROP COLUMN packed`,
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("q = %s, err = %v, want nil", q, err)
		}
	}
	if _, err := db.Exec(`INSERT INTO execution_part VALUES ('ex_1', 2, ?)`, sealed); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	e := openDatabase(t, dir).Executions(testKey(t))
	if err := e.Write(&journal.Write{ID: rec.ID, Seq: 3, Part: long}).Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	parts, err := e.Parts(t.Context(), rec.ID)
	if err != nil || len(parts) != 3 || string(parts[0]) != "one" || !bytes.Equal(parts[1], long) ||
		!bytes.Equal(parts[2], long) {
		t.Errorf("Parts = %q, %v, want one part from before, a long one, and a new one", parts, err)
	}
}
