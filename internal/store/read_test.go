package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTamperedReads changes the record of a stopped store in each way that a row can be changed.
// Every query that returns the changed record reports it, and no call begins after that.
func TestTamperedReads(t *testing.T) {
	t.Parallel()
	const old, young = 20, 296 // first leaves of calls: in a span, and in none yet
	set := func(seq int, expr string) string {
		return fmt.Sprintf("UPDATE audit_leaf SET %s WHERE seq = %d", expr, seq)
	}
	member := func(seq int, from, to string) string {
		return set(seq, fmt.Sprintf(`leaf = replace(leaf, '%s', '%s')`, from, to))
	}
	type way struct {
		name, query string
		seq         int
		index       bool // a table of the index was changed: what that hides is left to verify
	}
	var ways []way
	for _, seq := range []int{old, young} {
		for _, m := range [][2]string{
			{"local:ann", "local:eve"}, {`"tool":"crm.update"`, `"tool":"crm.delete"`},
			{`"upstream":"crm"`, `"upstream":"cmr"`}, {`"execution":"ex_`, `"execution":"ey_`},
			{`"effect":"allow"`, `"effect":"deny"`}, {`"kind":"call"`, `"kind":"read"`},
			{`"reason":"why"`, `"reason":"not"`}, {`"policy":"open"`, `"policy":"shut"`},
			{`"call":"c`, `"call":"d`}, {`"time":"2026`, `"time":"2025`}, {`"record":"0`, `"record":"1`},
			{`"part":"begun"`, `"part":"event"`}, {`"digest":"hmac`, `"digest":"hmad`}, {`"v":1`, `"v":2`},
			{`"client":"agent"`, `"client":"other"`}, {fmt.Sprintf(`"seq":%d`, seq), `"seq":7`},
		} {
			ways = append(ways, way{"begun " + m[0], member(seq, m[0], m[1]), seq, false})
		}
		for _, m := range [][2]string{{`"outcome":"ok"`, `"outcome":"failed"`}, {`"duration_us"`, `"duration_uz"`},
			{fmt.Sprintf(`"begun":%d`, seq), `"begun":0`}, {`"result":`, `"resulz":`}} {
			ways = append(ways, way{"ended " + m[0], member(seq+1, m[0], m[1]), seq, false})
		}
		ways = append(ways,
			way{"no JSON", set(seq, `leaf = 'x'`), seq, false}, way{"empty", set(seq, `leaf = ''`), seq, false},
			way{"an end that is no JSON", set(seq+1, `leaf = '{'`), seq, false},
			way{"its hash", set(seq, `hashes = zeroblob(length(hashes))`), seq, false},
			way{"no hashes", set(seq, `hashes = x''`), seq, false},
			way{"another leaf with its hashes",
				fmt.Sprintf(`UPDATE audit_leaf SET (leaf, hashes) = (SELECT leaf, hashes FROM audit_leaf WHERE seq = `+
					`4) WHERE seq = %d`, seq), seq, false},
			way{"another end",
				fmt.Sprintf(`UPDATE audit_leaf SET (leaf, hashes) = (SELECT leaf, hashes FROM audit_leaf WHERE seq = `+
					`5) WHERE seq = %d`, seq+1), seq, false},
			way{"the packed leaf cut", set(seq, `packed = substr(packed, 1, 20)`), seq, false},
			way{"a packed leaf that is empty", set(seq, `packed = x''`), seq, false},
			way{"a packed leaf of another form", set(seq, `packed = CAST(x'02' || substr(packed, 2) AS BLOB)`), seq,
				false},
			way{"a packed leaf that is huge", set(seq, `packed = x'01ffffff7f00'`), seq, false},
			way{"a packed leaf that grows", set(seq, `packed = x'03ffffff7f00'`), seq, false},
			way{"a packed leaf of an older form", set(seq, `packed = CAST(x'01' || substr(packed, 2) AS BLOB)`), seq,
				false},
			way{"no packed leaf", set(seq, `packed = NULL`), seq, false},
			way{"both forms", set(seq, `leaf = '{}'`) + ` AND packed IS NOT NULL`, seq, false},
			way{"another packed end",
				fmt.Sprintf(`UPDATE audit_leaf SET (packed, hashes) = (SELECT packed, hashes FROM audit_leaf WHERE `+
					`seq = 5) WHERE seq = %d`, seq+1), seq, false},
			way{"removed", fmt.Sprintf(`DELETE FROM audit_leaf WHERE seq = %d`, seq), seq, false},
			way{"the end removed", fmt.Sprintf(`DELETE FROM audit_leaf WHERE seq = %d`, seq+1), seq, false},
		)
	}
	ways = append(ways,
		way{"where it begins", `UPDATE audit_record SET seq = 4 WHERE seq = 20`, old, true},
		way{"where it ends", `UPDATE audit_record SET ended = 4 WHERE seq = 20`, old, true},
		way{"a beginning that isn't there", `UPDATE audit_record SET seq = 9999 WHERE seq = 20`, old, true},
		way{"an end that isn't there", `UPDATE audit_record SET ended = 9999 WHERE seq = 20`, old, true},
	)
	base := t.TempDir()
	ids := recordCalls(t, base, 150)
	for _, w := range ways {
		t.Run(fmt.Sprintf("%d %s", w.seq, w.name), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatalf("os.CopyFS: %v", err)
			}
			tampered(t, dir, w.query)
			id := ids[w.seq/2]
			l := audit.New(audit.Config{Store: stored(t, openDatabase(t, dir)), Key: testKey(t)})
			for _, q := range []audit.Query{
				{}, {Tool: "crm.update"}, {Principal: "local:ann"}, {Upstream: "crm"},
				{Execution: fmt.Sprintf("ex_%d", w.seq/2)}, {Kind: audit.KindCall}, {Effect: "allow"},
				{Outcome: audit.OK},
				{Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
				{Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}, {ID: id}, {After: audit.FirstID(time.Unix(0, 0))},
				{Tool: "crm.update", Principal: "local:ann", Outcome: audit.OK, Effect: "allow"},
			} {
				if w.index && q.ID == "" &&
					(q.Tool+q.Principal+q.Upstream+q.Execution+q.Effect+string(q.Kind)+string(q.Outcome) != "" ||
						!q.Since.IsZero() || !q.Until.IsZero()) && strings.Contains(w.name, "begin") {
					continue // the marks still find it
				}
				q.Limit = 1000
				found, err := l.Records(t.Context(), q)
				bad := err != nil
				for i := range found {
					bad = bad || found[i].Problem != ""
				}
				// A leaf that is missing under the requested id is not found. Only the index could
				// tell that it existed.
				if hidden := q.ID != "" && len(found) == 0; !bad && !hidden {
					t.Errorf("%+v: nothing is said of it in %d records", q, len(found))
				}
			}
			if _, err := l.Begin(t.Context(), &tool.Call{Path: "crm.update"}, allow); err == nil ||
				tool.AsError(err).Kind != tool.Unavailable {
				t.Errorf("a call begins after that: %v", err)
			}
		})
	}
}

// recordCalls records n calls, each with a beginning and an end, and returns their ids.
func recordCalls(t *testing.T, dir string, n int) (ids []string) {
	s := openDatabase(t, dir)
	signer, err := stored(t, s).Signer(t.Context(), "")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	l := audit.New(audit.Config{Store: stored(t, s), Key: testKey(t), Signer: signer,
		Clock: wallclock.Stepping(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Millisecond)})
	yes := true
	update := &tool.Tool{Upstream: "crm", Name: "update", Annotations: tool.Annotations{ReadOnly: &yes}}
	for i := range n {
		e, err := l.Begin(t.Context(), &tool.Call{
			ID: fmt.Sprintf("c%d", i), By: &tool.Program{Execution: fmt.Sprintf("ex_%d", i)},
			Tool: update, Path: "crm.update", Principal: tool.Principal{ID: "local:ann", Client: "agent"},
			Arguments: fmt.Appendf(nil, `{"n":%d}`, i),
		}, audit.Decision{Effect: "allow", Policy: "open", Reason: "why"})
		if err == nil {
			err = e.End(t.Context(), tool.Text(false, "fine"), nil)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		ids = append(ids, e.Record())
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return ids
}

// tampered changes a database as an attacker with access to the file would. It restores the
// triggers afterwards.
func tampered(t *testing.T, dir, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+dir+"/biplane.db")
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	db.SetMaxOpenConns(1)
	rows, err := db.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`)
	if err != nil {
		t.Fatalf("Query: %v", err)
	}
	var drop, again []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatalf("Scan: %v", err)
		}
		drop, again = append(drop, "DROP TRIGGER "+name), append(again, text)
	}
	for _, q := range drop {
		do(t, db, q)
	}
	if !strings.Contains(query, "packed") {
		unpackAll(t, db)
	}
	for _, q := range append([]string{query}, again...) {
		do(t, db, q)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}
