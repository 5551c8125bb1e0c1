package main

import (
	"database/sql"
	"encoding/base64"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // for tampering with the database directly

	leaves "github.com/biplane-dev/biplane/internal/store/record"
)

// tamper modifies protected data: tamper record DATABASE RECORD, tamper sql DATABASE STATEMENT...,
// or tamper leaf PROOF.
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 3 && args[0] == "record":
		tamperRecord(ts, ts.MkAbs(args[1]), args[2])
	case !neg && len(args) == 2 && args[0] == "leaf":
		tamperProof(ts, args[1])
	case !neg && len(args) > 2 && args[0] == "sql":
		tamperSQL(ts, ts.MkAbs(args[1]), args[2:])
	default:
		ts.Fatalf("usage: tamper record DATABASE RECORD, tamper sql DATABASE STATEMENT..., or tamper leaf PROOF")
	}
}

// tamperRecord changes the principal of a record. It removes the trigger that prevents this, and
// restores it afterwards.
func tamperRecord(ts *testscript.TestScript, file, record string) {
	db, err := sql.Open("sqlite", file)
	ts.Check(err)
	defer db.Close()
	var trigger string
	ts.Check(db.QueryRow(`SELECT sql FROM sqlite_master WHERE name = 'audit_leaf_update'`).Scan(&trigger))
	_, err = db.Exec(`DROP TRIGGER audit_leaf_update`)
	ts.Check(err)
	rows, err := db.Query(`SELECT seq, packed FROM audit_leaf WHERE packed IS NOT NULL`)
	ts.Check(err)
	defer rows.Close()
	changed := map[int64]string{}
	for rows.Next() {
		var seq int64
		var packed []byte
		ts.Check(rows.Scan(&seq, &packed))
		leaf, err := leaves.UnpackLeaf(nil, packed)
		ts.Check(err)
		if text := string(leaf); strings.Contains(text, `"part":"begun"`) &&
			strings.Contains(text, `"record":"`+record+`"`) {
			changed[seq] = strings.Replace(string(leaf), `"principal":"local:`, `"principal":"local:x`, 1)
		}
	}
	ts.Check(rows.Err())
	if len(changed) != 1 {
		ts.Fatalf("%d leaves begin record %s, want 1", len(changed), record)
	}
	for seq, leaf := range changed {
		_, err = db.Exec(`UPDATE audit_leaf SET leaf = ?, packed = NULL WHERE seq = ?`, leaf, seq)
		ts.Check(err)
	}
	_, err = db.Exec(trigger)
	ts.Check(err)
}

// tamperSQL runs statements without the triggers that protect the record, and restores them
// afterwards.
func tamperSQL(ts *testscript.TestScript, file string, statements []string) {
	db, err := sql.Open("sqlite", file)
	ts.Check(err)
	defer db.Close()
	var back []string
	for _, name := range []string{"audit_leaf_insert", "audit_leaf_update", "audit_leaf_delete",
		"audit_checkpoint_delete"} {
		var trigger string
		ts.Check(db.QueryRow(`SELECT sql FROM sqlite_master WHERE name = ?`, name).Scan(&trigger))
		back = append(back, trigger)
		statements = append([]string{"DROP TRIGGER " + name}, statements...)
	}
	for _, s := range append(statements, back...) {
		_, err := db.Exec(s)
		ts.Check(err)
	}
}

// tamperProof changes the leaf in a proof.
func tamperProof(ts *testscript.TestScript, file string) {
	lines := strings.Split(ts.ReadFile(file), "\n")
	leaf, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	ts.Check(err)
	lines[1] = "extra " + base64.StdEncoding.EncodeToString(
		[]byte(strings.Replace(string(leaf), "local:", "local:x", 1)))
	ts.Check(os.WriteFile(ts.MkAbs(file), []byte(strings.Join(lines, "\n")), 0o600))
}
