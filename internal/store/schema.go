package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// rejectTriggers refuses a database with triggers or views that the migrations don't create,
// because they could change what any writer writes. It runs at each start, so it only searches for
// their texts. Check compares the whole schema.
func rejectTriggers(ctx context.Context, q record.Querier) error {
	found, sum, err := listTriggers(ctx, q)
	if err != nil {
		return fault.TranslateRead(ctx, err)
	}
	if sum == triggerSum { // nearly always
		return nil
	}
	made, err := migrationTexts()
	if err != nil {
		return err
	}
	for _, a := range found {
		if a.text == "" || !strings.Contains(made, a.text) {
			return tool.Errorf(tool.Conflict, "the database in the data folder has a %s %.80q that biplane didn't "+
				"create; it may change or discard records, so nothing is recorded: "+
				"keep a copy of the folder, remove it (sqlite3 %s 'DROP %s ...'), and run biplane audit verify", a.kind,
				a.name, File, strings.ToUpper(a.kind))
		}
	}
	return nil
}

// An activeObject is a schema object that acts on its own, such as a trigger.
type activeObject struct {
	object
	text string
}

// listTriggers returns the triggers and views in the database, and their hash.
func listTriggers(ctx context.Context, q record.Querier) (found []activeObject, sum string, err error) {
	// SQLite also recognizes a trigger by its type in capitals, which anyone who writes to the
	// schema table can create.
	rows, err := q.QueryContext(ctx, `SELECT coalesce(type, ''), coalesce(name, ''), coalesce(sql, '') FROM `+
		`sqlite_schema WHERE coalesce(type, '') NOT IN ('table', 'index') ORDER BY name`)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	h := sha256.New()
	for rows.Next() {
		var a activeObject
		if err := rows.Scan(&a.kind, &a.name, &a.text); err != nil {
			return nil, "", err
		}
		fmt.Fprintf(h, "%q %q %q\n", a.kind, a.name, a.text)
		found = append(found, a)
	}
	return found, hex.EncodeToString(h.Sum(nil)), rows.Err()
}

// triggerSum is the hash of the triggers and views that the migrations leave once UpgradeRecord has
// dropped the tables of an older form. It saves reading all migrations at each start.
const triggerSum = "1765115ff7f4d635fa247efe2bae4d3edfc8e5c6154b7f502fa9720d6706a898"

func migrationTexts() (string, error) {
	var all strings.Builder
	err := fs.WalkDir(migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := migrations.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		return "", tool.Errorf(tool.Internal, "read the migrations: %w", err)
	}
	return all.String(), nil
}

// An object is a row of a database's schema.
type object struct{ kind, name string }

// schemaOf returns the objects in a database, with the table that each belongs to and its text.
func schemaOf(ctx context.Context, q record.Querier) (map[object]string, error) {
	// SQLite creates the statistics tables on its own.
	rows, err := q.QueryContext(ctx, `SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE type `+
		`<> 'table' OR name NOT LIKE 'sqlite\_stat_' ESCAPE '\'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[object]string{}
	for rows.Next() {
		var o object
		var table, text string
		if err := rows.Scan(&o.kind, &o.name, &table, &text); err != nil {
			return nil, err
		}
		text = table + ": " + strings.Join(strings.Fields(text), " ")
		if _, twice := out[o]; twice {
			text += "; and another"
		}
		out[o] = text
	}
	return out, rows.Err()
}

// expectedSchema returns the schema that the migrations create in an empty database.
func expectedSchema(ctx context.Context) (map[object]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection to :memory: has its own database
	if err := applyMigrations(ctx, db); err != nil {
		return nil, err
	}
	for _, table := range record.OldTables {
		if _, err := db.ExecContext(ctx, `DROP TABLE `+table); err != nil {
			return nil, err
		}
	}
	return schemaOf(ctx, db)
}

// compareSchema compares the database's schema with the one that the migrations create.
func compareSchema(ctx context.Context, q record.Querier) error {
	have, err := schemaOf(ctx, q)
	if err != nil {
		return fault.TranslateRead(ctx, err)
	}
	want, err := expectedSchema(ctx)
	if err != nil {
		return fault.TranslateRead(ctx, err)
	}
	all := maps.Clone(want)
	maps.Copy(all, have)
	var wrong []string
	for _, o := range slices.SortedFunc(maps.Keys(all), func(a, b object) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		is, there := have[o]
		should, known := want[o]
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("biplane didn't create the %s %.80q", o.kind, o.name))
		case !there:
			wrong = append(wrong, fmt.Sprintf("the %s %s was removed", o.kind, o.name))
		case is != should:
			wrong = append(wrong, fmt.Sprintf("the %s %s was changed", o.kind, o.name))
		}
	}
	if n := len(wrong); n > 10 {
		wrong = append(wrong[:10], fmt.Sprintf("and %d more", n-10))
	}
	if len(wrong) > 0 {
		return tool.Errorf(tool.Conflict, "the database's schema was changed: %s", strings.Join(wrong, "; "))
	}
	return nil
}
