package store_test

import (
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// refused is the state of something that grants nothing.
const refused = "refused"

// A granted is what a folder grants: the state of each object, by name.
type granted map[string]string

// A vault is a data folder with every kind of grant.
type vault struct {
	dir   string
	rings []string // rows that the store reported, with their tables
}

var vaultTime = time.UnixMicro(1_700_000_000_000_000).UTC()

// RecordTampering keeps what the store reports.
func (v *vault) RecordTampering(table, row string, err error) {
	v.rings = append(v.rings, table+" "+row)
}

func (v *vault) open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: v.dir, Tampered: v})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func vaultKey(name string) *identity.Key {
	return &identity.Key{Name: name, ID: "id_" + name, Hash: []byte("hash of " + name), Old: []byte("old"),
		OldEnds: vaultTime, Roles: []string{"user"}, Scopes: []string{"mcp"},
		Tools: []string{"a.*"}, Groups: []string{"g"}, Person: "ann", Created: vaultTime,
		Expires: vaultTime.Add(time.Hour), Rotated: vaultTime}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
}

// newVault creates a folder, and closes it.
func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{dir: filepath.Join(t.TempDir(), "data")}
	s, ctx := v.open(t), t.Context()
	fill(t, auditLog(t, s), 3)
	keys, requests, k := s.APIKeys(testKey(t)), s.Approvals(testKey(t)), sessionsOf(t, s)
	revoked := vaultKey("revoked")
	revoked.Revoked = vaultTime
	must(t, keys.SaveKey(ctx, vaultKey("one")), keys.SaveKey(ctx, vaultKey("two")), keys.SaveKey(ctx, revoked))
	for id, to := range map[string][]approval.State{
		"pending": nil, "approved": {approval.Approved}, "approved2": {approval.Approved},
		"made": {approval.Approved, approval.Made}, "denied": {approval.Denied}, "withdrawn": {approval.Withdrawn},
	} {
		_, err := requests.Open(ctx, &approval.Request{ID: id, Subject: "ex_1/" + id, Execution: "ex_1", Tool: "a.b",
			Arguments: []byte(`{}`), Principal: "key:one", Created: vaultTime, Expires: vaultTime.Add(time.Hour),
			State: approval.Pending})
		must(t, err)
		from := approval.Pending
		for _, state := range to {
			_, err := requests.Move(ctx, id, from, state,
				approval.Decision{Decider: "key:boss", Time: vaultTime, Note: "fine"})
			must(t, err)
			from = state
		}
	}
	must(t, k.Save(ctx, &session.Change{Record: record("work", 1)}),
		k.Label(ctx, "ann", "work", []string{"pii", "untrusted"}, vaultTime, time.Time{}),
		k.Label(ctx, "bob", "other", []string{"pii"}, vaultTime, time.Time{}))
	must(t, k.Save(ctx, &session.Change{Owner: "ann",
		Skills: []session.SkillChange{{Name: "mine.ts", Source: []byte("mine"), Modified: vaultTime},
			{Name: "ours.ts", Source: []byte("ours"), Modified: vaultTime}}}))
	must(t, k.Save(ctx, &session.Change{Owner: "bob",
		Skills: []session.SkillChange{{Name: "ours.ts", Source: []byte("bob's"), Modified: vaultTime}}}))
	for _, owner := range []string{"ann", "bob"} {
		_, err := k.Share(ctx, owner, "ours.ts", true)
		must(t, err)
	}
	for _, up := range []string{"crm", "erp"} {
		_, err := s.Tokens(testKey(t)).Save(ctx, up, "https://x", []byte("secret of "+up), "")
		must(t, err)
		_, err = s.Tokens(testKey(t)).ForOwner("ann").Save(ctx, up, "https://x", []byte("ann's secret of "+up), "")
		must(t, err)
	}
	must(t, s.Hints(testKey(t)).Save(ctx, "crm", []byte("hints of crm")),
		s.Hints(testKey(t)).Save(ctx, "erp", []byte("hints of erp")))
	for _, owner := range []string{"", "ann"} {
		must(t, s.OpenSecrets(testKey(t)).SaveSecret(ctx, owner, "API", "value for "+owner))
	}
	must(t, s.Limits(testKey(t)).Save(ctx,
		map[string]time.Time{"calls|ann": vaultTime.Add(time.Hour), "calls|bob": vaultTime.Add(time.Hour)}), s.Close())
	return v
}

func sessionsOf(t *testing.T, s *store.Store) *store.Sessions {
	t.Helper()
	k, err := s.Sessions(t.Context(), testKey(t))
	must(t, err)
	return k
}

// copy copies the folder.
func (v *vault) copy(t *testing.T) *vault {
	t.Helper()
	c := &vault{dir: filepath.Join(t.TempDir(), "data")}
	must(t, os.CopyFS(c.dir, os.DirFS(v.dir)), os.Chmod(c.dir, 0o700))
	return c
}

// attack runs statements without the key, in a database whose triggers were dropped.
func (v *vault) attack(t *testing.T, queries ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(v.dir, "biplane.db"))
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, trigger := range []string{"approval_update", "api_key_delete", "api_key_update", "upstream_token_insert",
		"upstream_token_update"} {
		_, err := db.Exec(`DROP TRIGGER IF EXISTS ` + trigger)
		must(t, err)
	}
	for _, q := range queries {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("q = %s, err = %v, want nil", q, err)
		}
	}
}

// grants opens the folder and returns what it grants.
func (v *vault) grants(t *testing.T) granted {
	t.Helper()
	s, ctx, out := v.open(t), t.Context(), granted{}
	defer s.Close()
	auditLog(t, s)
	keys, err := s.APIKeys(testKey(t)).Keys(ctx)
	must(t, err)
	for _, k := range keys {
		k.Used = time.Time{}
		if out["api_key "+k.Name] = refused; !k.Changed {
			out["api_key "+k.Name] = fmt.Sprintf("%+v", k)
		}
	}
	requests, listed := s.Approvals(testKey(t)), map[string]string{}
	all, err := requests.List(ctx, approval.Query{})
	must(t, err)
	for _, r := range all {
		listed[r.ID] = fmt.Sprintf("%+v", r)
	}
	for _, id := range []string{"pending", "approved", "approved2", "made", "denied", "withdrawn"} {
		r, err := requests.Get(ctx, id)
		switch {
		case err == nil && r != nil:
			r.Subject = ""
			out["approval "+id] = fmt.Sprintf("%+v", *r)
			if listed[id] != out["approval "+id] {
				t.Errorf("listed as %s, is %s", listed[id], out["approval "+id])
			}
		case err == nil, isKind(err, tool.Conflict) && listed[id] == "":
			out["approval "+id] = refused
		default:
			t.Errorf("%s: %v, listed as %s", id, err, listed[id])
		}
	}
	k := sessionsOf(t, s)
	for _, at := range [][2]string{{"ann", "work"}, {"bob", "other"}, {"eve", "none"}} {
		labels, err := k.Labels(ctx, at[0], at[1])
		if out["session_label "+at[0]] = fmt.Sprint(labels); err != nil {
			out["session_label "+at[0]] = refused
		}
	}
	_, shared, err := k.Skills(ctx, "eve")
	must(t, err)
	for _, id := range [][2]string{{"ann", "ours.ts"}, {"bob", "ours.ts"}, {"ann", "mine.ts"}} {
		source, err := k.Skill(ctx, id[0], id[1], true)
		out["skill "+id[0]+" "+id[1]] = fmt.Sprintf("%s %v", source,
			slices.ContainsFunc(shared, func(s session.Skill) bool { return s.Owner == id[0] && s.Name == id[1] }))
		if err != nil {
			out["skill "+id[0]+" "+id[1]] = refused
		}
	}
	for _, up := range []string{"crm", "erp"} {
		text, revision, err := s.Tokens(testKey(t)).Load(ctx, up, "https://x")
		if out["upstream_token "+up] = string(text) + revision; err != nil || text == nil {
			out["upstream_token "+up] = refused
		}
		text, revision, err = s.Tokens(testKey(t)).ForOwner("ann").Load(ctx, up, "https://x")
		if out["upstream_token ann "+up] = string(text) + revision; err != nil || text == nil {
			out["upstream_token ann "+up] = refused
		}
	}
	for _, up := range []string{"crm", "erp"} {
		text, err := s.Hints(testKey(t)).Load(ctx, up)
		switch out["tool_hint "+up] = string(text); {
		case isKind(err, tool.Conflict):
			out["tool_hint "+up] = refused
		case err == nil && text == nil:
			out["tool_hint "+up] = "never seen"
		}
	}
	for _, owner := range []string{"", "ann"} {
		value, found, err := s.OpenSecrets(testKey(t)).LoadSecret(ctx, owner, "API")
		if out["stored_secret "+owner] = value; err != nil || !found {
			out["stored_secret "+owner] = refused
		}
	}
	times, doubt, err := s.Limits(testKey(t)).Load(ctx, vaultTime)
	must(t, err)
	if out["limit_use"] = fmt.Sprint(times); !doubt.IsZero() {
		out["limit_use"] = refused
	}
	return out
}

// want reports grants that differ from before. The named ones must be refused, and no others.
func (g granted) want(t *testing.T, before granted, refusals ...string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		want := before[name]
		if slices.Contains(refusals, name) {
			want = refused
		}
		if g[name] != want {
			t.Errorf("%s is %s, want %s", name, g[name], want)
		}
	}
}

// Columns that grant nothing, or are themselves sealed.
var harmless = map[string]bool{
	"api_key.used": true, "approval.seq": true, "skill.modified": true, "skill.changed": true, "skill.source": true,
	"upstream_token.previous": true, "upstream_token.changed": true,
}

// Each column of each row that grants something is changed. Then the row grants nothing and is
// reported, and all others are unaffected.
func TestTamperedColumns(t *testing.T) {
	v := newVault(t)
	before := v.copy(t).grants(t)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] == refused != (name == "skill ann mine.ts") {
			t.Errorf("%s is %s", name, before[name])
		}
	}
	rows := map[string][][2]string{ // condition for a row, and its grant
		"api_key":       {{"name = 'one'", "api_key one"}, {"name = 'revoked'", "api_key revoked"}},
		"session_label": {{"owner = 'ann' AND label = 'pii'", "session_label ann"}},
		"skill":         {{"owner = 'ann' AND name = 'ours.ts'", "skill ann ours.ts"}},
		"upstream_token": {{"upstream = 'crm' AND owner = '' AND resource = 'https://x'", "upstream_token crm"},
			{"upstream = 'crm' AND owner = 'ann' AND resource = 'https://x'", "upstream_token ann crm"}},
		"tool_hint":     {{"upstream = 'crm'", "tool_hint crm"}},
		"stored_secret": {{"owner = 'ann'", "stored_secret ann"}, {"owner = ''", "stored_secret "}},
		"limit_use":     {{"key = 'calls|ann'", "limit_use"}},
	}
	for _, id := range []string{"pending", "approved", "made", "denied", "withdrawn"} {
		rows["approval"] = append(rows["approval"], [2]string{"id = '" + id + "'", "approval " + id})
	}
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		columns := v.columns(t, table)
		for _, row := range rows[table] {
			for _, c := range columns {
				if harmless[table+"."+c.name] {
					continue
				}
				for _, value := range c.values(table) {
					t.Run(fmt.Sprintf("%s/%s/%s", row[1], c.name, value), func(t *testing.T) {
						a := v.copy(t)
						a.attack(t, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE %s AND %[2]s IS NOT %[3]s`, table, c.name,
							value, row[0]))
						now := a.grants(t)
						if maps.Equal(now, before) && len(a.rings) == 0 && a.same(t, v, table) {
							t.Skip("it had that value")
						}
						now.want(t, before, row[1])
						if !slices.ContainsFunc(a.rings, func(r string) bool {
							return strings.HasPrefix(r, table+" ")
						}) && !(table == "upstream_token" && a.gone(t, table, row[0])) {
							t.Errorf("nobody was told: %v", a.rings)
						}
					})
				}
			}
		}
	}
}

type column struct{ name, kind string }

func (v *vault) columns(t *testing.T, table string) (out []column) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(v.dir, "biplane.db"))
	must(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT name, type FROM pragma_table_info(?)`, table)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var c column
		must(t, rows.Scan(&c.name, &c.kind))
		out = append(out, c)
	}
	return out
}

// values returns values, as SQL, that an attacker may put into a column.
func (c *column) values(table string) []string {
	switch {
	case table == "approval" && c.name == "state":
		return []string{"'pending'", "'approved'", "'made'", "'denied'", "'withdrawn'"}
	case c.kind == "INTEGER":
		return []string{"0", c.name + " + 1"}
	case c.kind == "BLOB":
		return []string{"CAST('x' || hex(" + c.name + ") AS BLOB)"}
	case table == "api_key" && c.name == "roles":
		return []string{`'["admin"]'`, "'not json'"}
	}
	return []string{c.name + " || 'x'"}
}

// same reports whether a table has the same rows as in another folder.
func (v *vault) same(t *testing.T, other *vault, table string) bool {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(v.dir, "biplane.db"))
	must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`ATTACH ? AS other`, filepath.Join(other.dir, "biplane.db"))
	must(t, err)
	var n int
	must(t, db.QueryRow(fmt.Sprintf(`SELECT (SELECT count(*) FROM (SELECT * FROM %s EXCEPT SELECT * FROM other.%[1]s))`,
		table)).Scan(&n))
	return n == 0
}

// gone reports whether a table's row no longer exists, so that there is nothing to refuse.
func (v *vault) gone(t *testing.T, table, where string) bool {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(v.dir, "biplane.db"))
	must(t, err)
	defer db.Close()
	var n int
	must(t, db.QueryRow(fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s`, table, where)).Scan(&n))
	return n == 0
}

// Rows are copied, removed and inserted.
func TestTamperedRows(t *testing.T) {
	v := newVault(t)
	before := v.copy(t).grants(t)
	for name, c := range map[string]struct {
		attack   []string
		refusals []string
	}{
		"key copied": {[]string{`UPDATE api_key SET (hash, roles, expires, revoked) = (SELECT hash, roles,` +
			` expires, revoked FROM api_key WHERE name = 'two') WHERE name = 'revoked'`}, []string{"api_key revoked"}},
		"key added": {[]string{`INSERT INTO api_key SELECT 'eve', 'id_eve', hash, old, old_ends, person, ` +
			`'["admin"]', scopes, tools, created, expires, rotated, used, revoked, groups FROM api_key WHERE name = 'one'`}, nil},
		"key removed": {[]string{`DELETE FROM api_key WHERE name = 'revoked'`}, []string{"api_key revoked"}},
		"seal copied": {[]string{`UPDATE approval SET (state, decider, decided, ended, note, seal) = ` +
			`(SELECT state, decider, decided, ended, note, seal FROM approval WHERE id = 'approved') WHERE id = ` +
			`'pending'`}, []string{"approval pending"}},
		"seal removed": {[]string{`UPDATE approval SET state = 'approved', decider = 'key:boss', seal = ` +
			`NULL WHERE id = 'pending'`}, []string{"approval pending"}},
		"approval removed": {[]string{`DELETE FROM approval WHERE id IN ('approved', 'denied')`},
			[]string{"approval approved", "approval denied"}},
		"label removed": {[]string{`DELETE FROM session_label WHERE label = 'untrusted'`},
			[]string{"session_label ann"}},
		"labels removed": {[]string{`DELETE FROM session_label`},
			[]string{"session_label ann", "session_label bob"}},
		"labels added": {[]string{`INSERT INTO session_label VALUES ('eve', 'none', 'pii', 1)`},
			[]string{"session_label eve"}},
		"skill shared": {[]string{`UPDATE skill SET shared = source WHERE name = 'mine.ts'`}, nil},
		"skill of another": {[]string{`UPDATE skill SET shared = (SELECT shared FROM skill WHERE owner = 'bob') ` +
			`WHERE owner = 'ann'`}, []string{"skill ann ours.ts"}},
		"skill is the own one": {[]string{`UPDATE skill SET shared = source WHERE name = 'ours.ts'`},
			[]string{"skill ann ours.ts", "skill bob ours.ts"}},
		"token of another": {[]string{`UPDATE upstream_token SET (sealed, revision) = (SELECT sealed, revision ` +
			`FROM upstream_token WHERE upstream = 'erp' AND owner = '') WHERE upstream = 'crm' AND owner = ''`},
			[]string{"upstream_token crm"}},
		"token of another owner": {[]string{`UPDATE upstream_token SET (sealed, revision) = (SELECT sealed, revision ` +
			`FROM upstream_token WHERE upstream = 'crm' AND owner = 'ann') WHERE upstream = 'crm' AND owner = ''`},
			[]string{"upstream_token crm"}},
		"owners swapped": {[]string{`UPDATE upstream_token SET owner = 'x' WHERE owner = ''`,
			`UPDATE upstream_token SET owner = '' WHERE owner = 'ann'`,
			`UPDATE upstream_token SET owner = 'ann' WHERE owner = 'x'`}, []string{"upstream_token crm",
			"upstream_token erp", "upstream_token ann crm", "upstream_token ann erp"}},
		"hints of another": {[]string{`UPDATE tool_hint SET sights = (SELECT sights FROM tool_hint WHERE ` +
			`upstream = 'erp') WHERE upstream = 'crm'`}, []string{"tool_hint crm"}},
		"hints removed": {[]string{`DELETE FROM tool_hint`}, []string{"tool_hint crm", "tool_hint erp"}},
		"hints emptied": {[]string{`UPDATE tool_hint SET sights = x'' WHERE upstream = 'crm'`},
			[]string{"tool_hint crm"}},
		"secret of another": {[]string{`UPDATE stored_secret SET sealed = (SELECT sealed FROM stored_secret WHERE ` +
			`owner = 'ann') WHERE owner = ''`}, []string{"stored_secret "}},
		"secrets removed": {[]string{`DELETE FROM stored_secret`}, []string{"stored_secret ", "stored_secret ann"}},
		"list of hints": {[]string{`DELETE FROM grant_list WHERE name = 'tool_hint'`, `DELETE FROM tool_hint`},
			[]string{"tool_hint crm", "tool_hint erp"}},
		"limit removed":  {[]string{`DELETE FROM limit_use WHERE key = 'calls|ann'`}, []string{"limit_use"}},
		"limits removed": {[]string{`DELETE FROM limit_use`}, []string{"limit_use"}},
		"limits swapped": {[]string{`UPDATE limit_use SET key = key || 'x'`}, []string{"limit_use"}},
		"list of keys removed": {[]string{`DELETE FROM grant_list WHERE name = 'api_key'`},
			[]string{"api_key one", "api_key two", "api_key revoked"}},
		"list of keys is other": {[]string{`UPDATE grant_list SET data = (SELECT data FROM grant_list WHERE name = ` +
			`'skill') WHERE name = 'api_key'`}, []string{"api_key one", "api_key two", "api_key revoked"}},
		"list of labels": {[]string{`DELETE FROM grant_list WHERE name = 'session_label'`,
			`DELETE FROM session_label`}, []string{"session_label ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := v.copy(t)
			a.attack(t, c.attack...)
			want := maps.Clone(before)
			if name == "list of labels" { // a session that was never saved leaves nothing behind
				delete(want, "session_label bob")
			}
			a.grants(t).want(t, want, c.refusals...)
			if len(a.rings) == 0 && name != "approval removed" {
				t.Error("nobody was told")
			}
			a.grants(t).want(t, want, c.refusals...) // and it stays that way
		})
	}
}

// All seals are removed, as if an older version had written the folder. No grant is valid any more,
// whatever the version of the schema is set to.
func TestUnsealedIsNotOld(t *testing.T) {
	v := newVault(t)
	before := v.copy(t).grants(t)
	var all []string
	for name := range before {
		if name != "session_label eve" && (!strings.HasPrefix(name, "approval ") || name == "approval approved" ||
			name == "approval approved2") {
			all = append(all, name)
		}
	}
	for name, c := range map[string]struct {
		attack []string
		bad    []string
	}{
		"seals":    {[]string{`UPDATE tail SET grants = NULL`}, all},
		"lists":    {[]string{`UPDATE tail SET grants = NULL`, `DELETE FROM grant_list`}, all},
		"changed":  {[]string{`UPDATE tail SET grants = CAST(hex(grants) AS BLOB)`}, all},
		"versions": {[]string{`UPDATE tail SET grants = (SELECT data FROM grant_list WHERE name = 'api_key')`}, all},
		"head":     {[]string{`UPDATE tail SET grants = NULL, head = NULL`}, all},
		"schema": {[]string{`UPDATE tail SET grants = NULL`, `DROP TABLE grant_list`,
			`ALTER TABLE tail DROP COLUMN grants`, `ALTER TABLE approval DROP COLUMN seal`,
			`CREATE TRIGGER approval_update BEFORE UPDATE ON approval BEGIN SELECT 1; END`,
			`DELETE FROM goose_db_version WHERE version_id >= 200`,
			// objects of later migrations
			`DROP TABLE audit_run`, `DROP TABLE audit_posting`, `DROP TABLE audit_late`, `DROP TABLE tool_hint`,
			`DROP TABLE stored_secret`, `DROP TABLE tool_shape`, `DROP TABLE kept_answer`,
			`DROP TABLE own_sandbox`, `DROP TRIGGER audit_leaf_insert`, `DROP TRIGGER audit_leaf_delete`,
			`DROP TABLE audit_segment`, `DROP TABLE execution_task`,
			`DROP INDEX execution_principal`, `DROP INDEX execution_session`,
			`DROP INDEX execution_state`, `DROP INDEX approval_principal`, `DROP INDEX approval_expires`,
			`DROP INDEX approval_program`, `DROP INDEX approval_execution`, `DROP INDEX approval_over`,
			`ALTER TABLE approval DROP COLUMN principal`, `ALTER TABLE approval DROP COLUMN expires`,
			`ALTER TABLE audit_leaf DROP COLUMN packed`, `ALTER TABLE api_key DROP COLUMN groups`,
			`CREATE TABLE token_before AS SELECT upstream, resource, revision, previous, sealed, changed FROM ` +
				`upstream_token WHERE owner = ''`,
			`DROP TABLE upstream_token`, `ALTER TABLE token_before RENAME TO upstream_token`,
			`UPDATE api_key SET roles = '["admin"]'`,
			`UPDATE approval SET state = 'approved', decider = 'key:boss'`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := v.copy(t)
			if a.attack(t, c.attack...); c.bad != nil {
				a.grants(t).want(t, before, c.bad...)
				a.grants(t).want(t, before, c.bad...)
				return
			}
			for name, is := range a.grants(t) {
				if is != refused && name != "session_label eve" {
					t.Errorf("%s is %s", name, is)
				}
			}
		})
	}
}

// Older rows are restored: a key from before it was revoked, an approval from before it was used,
// and so on.
func TestOlderRowsPutBack(t *testing.T) {
	v := newVault(t)
	old := v.copy(t)
	s, ctx := v.open(t), t.Context()
	l := auditLog(t, s)
	fill(t, l, 3)
	one := vaultKey("one")
	one.Revoked = vaultTime
	_, err := s.Approvals(testKey(t)).Move(ctx, "approved", approval.Approved, approval.Made, approval.Decision{})
	must(t, err, s.APIKeys(testKey(t)).SaveKey(ctx, one),
		sessionsOf(t, s).Label(ctx, "ann", "work", []string{"secret"}, vaultTime, time.Time{}))
	_, err = sessionsOf(t, s).Share(ctx, "ann", "ours.ts", false)
	must(t, err, s.Hints(testKey(t)).Save(ctx, "crm", []byte("stricter hints of crm")),
		s.Tokens(testKey(t)).Forget(ctx, "crm"),
		s.Limits(testKey(t)).Save(ctx, map[string]time.Time{"calls|ann": vaultTime.Add(2 * time.Hour)}), s.Close())
	before := v.copy(t).grants(t)
	tables := []string{"api_key", "approval", "session_label", "skill", "upstream_token", "tool_hint", "limit_use"}
	for name, c := range map[string]struct {
		tables   []string
		refusals []string
	}{
		"rows": {tables, []string{"api_key one", "approval approved", "session_label ann", "skill ann ours.ts",
			"upstream_token crm", "tool_hint crm", "limit_use"}},
		"rows, lists":   {append(tables, "grant_list"), nil},
		"all but heads": {append(tables, "grant_list", "grants"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := v.copy(t)
			q := []string{fmt.Sprintf(`ATTACH '%s' AS old`, filepath.Join(old.dir, "biplane.db"))}
			for _, table := range c.tables {
				if table == "grants" {
					q = append(q, `UPDATE tail SET grants = (SELECT grants FROM old.tail)`)
					continue
				}
				q = append(q, `DELETE FROM `+table, fmt.Sprintf(`INSERT INTO %s SELECT * FROM old.%[1]s`, table))
			}
			a.attack(t, q...)
			now := a.grants(t)
			if c.refusals != nil {
				now.want(t, before, c.refusals...)
			}
			for _, name := range []string{"api_key one", "approval approved", "session_label ann", "skill ann ours.ts",
				"upstream_token crm", "tool_hint crm", "limit_use"} {
				if now[name] != refused {
					t.Errorf("%s is %s", name, now[name])
				}
			}
			if len(a.rings) == 0 {
				t.Error("nobody was told")
			}
		})
	}
	// The record's leaves don't match: nothing is recorded, so no call is made.
	t.Run("with the head", func(t *testing.T) {
		a := v.copy(t)
		q := []string{fmt.Sprintf(`ATTACH '%s' AS old`, filepath.Join(old.dir, "biplane.db"))}
		for _, table := range append(tables, "grant_list", "tail") {
			q = append(q, `DELETE FROM `+table, fmt.Sprintf(`INSERT INTO %s SELECT * FROM old.%[1]s`, table))
		}
		a.attack(t, q...)
		if _, err := auditLog(t, a.open(t)).Begin(ctx, &tool.Call{Path: "a.b"},
			audit.Decision{Effect: "allow"}); err == nil {
			t.Error("a call is on the record")
		}
	})
}

// The rows of an older version are accepted as they are, once.
func TestOldFolderIsSealed(t *testing.T) {
	v := newVault(t)
	before := v.copy(t).grants(t)
	s := v.open(t)
	a := stored(t, s)
	must(t, store.Ungrant(t.Context(), a), s.Close(), os.Remove(filepath.Join(v.dir, "biplane.sealed")))
	// Older versions sealed shared skills as the owner's.
	v.attack(t, `UPDATE skill SET shared = source WHERE shared IS NOT NULL`, `DELETE FROM tool_hint`,
		`DELETE FROM stored_secret`)
	before["stored_secret "], before["stored_secret ann"] = refused, refused
	before["tool_hint crm"], before["tool_hint erp"] = "never seen", "never seen"
	now := v.grants(t)
	now.want(t, before)
	if len(v.rings) > 0 {
		t.Errorf("told of %v", v.rings)
	}
	v.attack(t, `UPDATE api_key SET roles = '["admin"]' WHERE name = 'one'`,
		`UPDATE approval SET state = 'approved' WHERE id = 'pending'`)
	v.grants(t).want(t, before, "api_key one", "approval pending")
}

// The database is replaced by a copy from before it was sealed, with other rows; or its record is
// emptied. Then no grant is valid.
func TestDatabaseFromBeforeSeals(t *testing.T) {
	v := newVault(t)
	before := v.copy(t).grants(t)
	t.Run("older", func(t *testing.T) {
		a := v.copy(t)
		s := a.open(t)
		must(t, store.Ungrant(t.Context(), stored(t, s)), s.Close())
		a.attack(t, `UPDATE api_key SET roles = '["admin"]' WHERE name = 'one'`,
			`UPDATE approval SET state = 'approved', decider = 'key:boss' WHERE id = 'pending'`)
		a.nothing(t, before)
	})
	t.Run("removed", func(t *testing.T) {
		a := v.copy(t)
		must(t, os.Remove(filepath.Join(a.dir, "biplane.db")), os.Remove(filepath.Join(a.dir, "biplane.ahead")))
		if s := a.open(t); len(a.rings) > 0 {
			t.Errorf("a.rings = %v, want len(a.rings) <= 0", a.rings)
		} else {
			_, doubt, err := s.Limits(testKey(t)).Load(t.Context(), vaultTime)
			must(t, err)
			if doubt.IsZero() || len(a.rings) == 0 {
				t.Error("what was used of limits is forgotten, and nobody was told")
			}
		}
	})
	t.Run("new", func(t *testing.T) { // a folder that was opened, and never written to
		a := &vault{dir: filepath.Join(t.TempDir(), "data")}
		for range 2 {
			s := a.open(t)
			_, err := s.APIKeys(testKey(t)).Keys(t.Context())
			must(t, err, s.Close())
		}
		a.grants(t)
		a.grants(t)
		if len(a.rings) > 0 {
			t.Errorf("a.rings = %v, want len(a.rings) <= 0", a.rings)
		}
	})
}

// nothing reports grants that are valid although none should be.
func (v *vault) nothing(t *testing.T, before granted) {
	t.Helper()
	for name, is := range v.grants(t) {
		if is != refused && name != "session_label eve" && before[name] != refused && before[name] != "" &&
			(!strings.HasPrefix(name, "approval ") || strings.Contains(name, "approved")) {
			t.Errorf("%s is %s", name, is)
		}
	}
	if len(v.rings) == 0 {
		t.Error("nobody was told")
	}
}
