// Package store holds all persistent state in SQLite, in a data folder that one process owns at a
// time. Each entity has its own file here, and implements the small Store interface of the package
// that owns its contract. The tables are created by the numbered migrations embedded in the
// package.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// File is the name of the database in the data folder.
const File = "biplane.db"

// Config configures Open.
type Config struct {
	Path  string       // the data folder; created with mode 0700 if missing
	Owner Owner        // the process that owns the folder while the Store is open; PID is filled in
	Log   *slog.Logger // nil: no logging
	// Prepare is called once the folder is locked, before the database is created or opened. It
	// prepares the key and, in a new folder, the witness. If Prepare is set, a new record is only
	// created in a folder with a witness. It may be nil.
	Prepare  func() error
	Tampered TamperRecorder // nil: tampering is not recorded
}

// A TamperRecorder records tampering with the database.
type TamperRecorder interface {
	// RecordTampering is called once for each table row that was changed without the folder's key.
	// An empty row means the whole table. It must not use the Store.
	RecordTampering(table, row string, err error)
}

// A Store is an open data folder with all its state. It is safe for concurrent use.
type Store struct {
	lock     *lock
	read     *sql.DB // query-only
	write    *sql.DB // one connection, held by the writer
	writer   *writer
	log      *slog.Logger
	dir      string // the data folder
	prepared bool   // see Config.Prepare
	blobs    string // folder of the blobs that are too large for the database
	close    sync.Once

	granted atomic.Pointer[grants] // nil: no key is known yet
	alarm   alarm
}

// Open locks the data folder and opens its store, migrated to the newest version. If another
// process owns the folder, the error is of kind tool.Conflict and wraps an *OwnedError.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := prepareFolder(c.Path); err != nil {
		return nil, err
	}
	s := &Store{log: log, dir: c.Path, blobs: filepath.Join(c.Path, blobFolder), alarm: alarm{to: c.Tampered}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.lock, err = lockFolder(ctx, c.Path, c.Owner); err != nil {
		return nil, err
	}
	if c.Prepare != nil {
		s.prepared = true
		if err := c.Prepare(); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(c.Path, File)
	if err := createFile(path); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store: %w", err)
	}
	// SQLite creates its other files with the mode of the database.
	if s.read, err = openDatabase(path, "on"); err != nil {
		return nil, err
	}
	s.read.SetMaxOpenConns(4)
	if s.write, err = openDatabase(path, ""); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	if !isCurrent(ctx, s.read) {
		if err := applyMigrations(ctx, s.write); err != nil {
			return nil, explainOpen(path, err)
		}
	}
	if s.writer, err = startWriter(ctx, s, filepath.Join(c.Path, aheadName)); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store %s: %w", path, err)
	}
	return s, nil
}

// prepareFolder creates the data folder. It refuses a folder that others can write to, because they
// could replace the database or the socket.
func prepareFolder(path string) error {
	if path == "" {
		return tool.Errorf(tool.Invalid, "open store: the data folder is empty")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return tool.Errorf(tool.Unavailable, "create the data folder: %w; choose another one with --data-dir", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "data folder: %w", err)
	}
	if !fi.IsDir() {
		return tool.Errorf(tool.Invalid, "data folder %s is not a folder: choose another one with --data-dir", path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return tool.Errorf(tool.Invalid, "data folder %s is writable by other users (mode %04o): run chmod go-w on "+
			"it, or choose another one with --data-dir", path, fi.Mode().Perm())
	}
	return nil
}

func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Mode() == 0o600 {
		return err
	}
	return f.Chmod(0o600)
}

func openDatabase(path, queryOnly string) (*sql.DB, error) {
	// fullfsync: without it, a flush on macOS leaves the data in the drive's cache, and the
	// write-ahead file is overwritten after a flush.
	pragmas := []string{"busy_timeout(5000)", "foreign_keys(1)", "recursive_triggers(1)", "journal_mode(wal)",
		"fullfsync(1)", "synchronous(full)"}
	if fi, err := os.Stat(path); err == nil && fi.Size() == 0 {
		// It can only be set before the first table. Setting it again would write to the database.
		pragmas = slices.Insert(pragmas, 0, "auto_vacuum(incremental)")
	}
	q := url.Values{"_pragma": pragmas}
	if queryOnly != "" {
		q.Set("_query_only", queryOnly)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store %s: %w", path, err)
	}
	return db, nil
}

// openReadOnly opens a database that another process may own. It never writes.
func openReadOnly(path string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs,
		RawQuery: url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store %s: %w", path, err)
	}
	return db, nil
}

func applyMigrations(ctx context.Context, db *sql.DB) error {
	all, err := listMigrations()
	if err != nil {
		return tool.Errorf(tool.Internal, "open store: read the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(all...), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	if have > want {
		return tool.Errorf(tool.Conflict, "open store: the data folder was written by a newer biplane (schema %d, "+
			"this one supports %d): use that one, or another folder with --data-dir", have, want)
	}
	if have == want {
		return nil
	}
	// Waiting for the disk after each migration is most of the first start. In WAL mode, a power
	// cut can then undo the last migrations, but not damage the database. The writer's first commit
	// makes them durable.
	if _, err := db.ExecContext(ctx, `PRAGMA synchronous = normal`); err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	_, err = p.Up(ctx)
	if _, syncErr := db.ExecContext(ctx, `PRAGMA synchronous = full`); err == nil {
		err = syncErr
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	return nil
}

// listMigrations returns the embedded migrations. SQLite separates the statements of each: the
// library's parser allocates megabytes for every line.
func listMigrations() (list []*goose.Migration, err error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		number, err := migrationNumber(f.Name())
		if err != nil {
			return nil, err
		}
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, goose.NewGoMigration(number, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, string(text))
				return err
			}}, nil))
	}
	return list, nil
}

// migrationNumber returns the number with which the name of a migration's file begins.
func migrationNumber(name string) (int64, error) {
	number, _, _ := strings.Cut(name, "_")
	return strconv.ParseInt(number, 10, 64)
}

// isCurrent reports whether the newest migration is the last one applied. That is the usual case,
// and every start checks it. A query is faster than the migration library, which decides if current
// returns false.
func isCurrent(ctx context.Context, db *sql.DB) bool {
	all, err := migrations.ReadDir("migrations") // in order
	if err != nil || len(all) == 0 {
		return false
	}
	want, err := migrationNumber(all[len(all)-1].Name())
	if err != nil {
		return false
	}
	var have int64
	err = db.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&have)
	return err == nil && have == want
}

// Settle waits until everything given to the store is in the database, including writes that no one
// waits for.
func (s *Store) Settle(ctx context.Context) error { return s.writer.takeAlong(ctx) }

// truncateAhead removes everything from the write-ahead file that is in the database.
func (s *Store) truncateAhead() error {
	err := s.writer.clearAhead(context.Background())
	if err == nil {
		err = s.writer.ahead.truncateTail()
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "store: %w", err)
	}
	return nil
}

// Close writes everything queued, stops the writer, closes the database and unlocks the data
// folder.
func (s *Store) Close() error {
	var errs []error
	s.close.Do(func() {
		if s.writer != nil {
			errs = append(errs, s.writer.stopWriter())
		}
		for _, db := range []*sql.DB{s.read, s.write} {
			if db != nil {
				errs = append(errs, db.Close())
			}
		}
		if s.lock != nil {
			errs = append(errs, s.lock.releaseLock())
		}
	})
	return errors.Join(errs...)
}

// explainOpen adds advice to the error about a database that can't be created or opened.
func explainOpen(path string, err error) error {
	switch fault.Code(err) & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return tool.Errorf(tool.Unavailable, "%s is damaged, or is not a database: move its whole folder away and "+
			"restore it from a backup, or choose another data folder with --data-dir: %w", path, err)
	case sqlite3.SQLITE_FULL:
		return fault.Translate(err)
	}
	return err
}

// collectRows reads the rows of a query with scan. It returns *tool.Errors from scan unchanged.
func collectRows[T any](ctx context.Context, rows *sql.Rows, err error,
	scan func(func(...any) error) (*T, error)) (out []T, _ error) {
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows.Scan)
		if known := (*tool.Error)(nil); errors.As(err, &known) {
			return nil, err
		}
		if err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		out = append(out, *v)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return out, nil
}
