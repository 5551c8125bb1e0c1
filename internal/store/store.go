// Package store keeps all state: in SQLite, in a data folder that one process owns at a time. Each
// entity has a file of its own here, and implements the small Store interface of the package that
// owns its contract; the tables come from the numbered migrations embedded in the package.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
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

// Config is where and for whom a Store is opened.
type Config struct {
	Path  string       // the data folder; made if it isn't there, with mode 0700
	Owner Owner        // who owns the folder as long as the Store is open; PID is filled in
	Log   *slog.Logger // nil: none
	// Prepare is called when the folder is owned, before the database is made or opened. It sees to
	// the key and, in a new folder, to the witness: with it a record is begun only in a folder that
	// has a witness. Nil: nothing needs to be prepared.
	Prepare func() error
	// Tampered is called once for each row of a table that was changed without the folder's key.
	// Row is empty if it is about all of the table. It must not use the Store. It may be nil.
	Tampered func(table, row string, err error)
}

// A Store is all state, and the right to the data folder. It is safe for concurrent use.
type Store struct {
	lock     *lock
	read     *sql.DB // query-only
	write    *sql.DB // one connection, held by the writer
	writer   *writer
	log      *slog.Logger
	dir      string // the data folder
	prepared bool   // see Config.Prepare
	blobs    string // the folder of what is too large for the database
	close    sync.Once

	granted atomic.Pointer[grants] // nil: no key is known yet
	alarm   alarm
}

// Open takes the data folder and opens the store in it, migrated to the newest version. When
// another process owns the folder, the error is of kind tool.Conflict and wraps an *OwnedError.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := prepareFolder(c.Path); err != nil {
		return nil, err
	}
	s := &Store{log: log, dir: c.Path, blobs: filepath.Join(c.Path, blobFolder), alarm: alarm{tell: c.Tampered}}
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
	if err := touch(path); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store: %w", err)
	}
	// SQLite's own files beside the database take its mode.
	if s.read, err = open(path, "on"); err != nil {
		return nil, err
	}
	s.read.SetMaxOpenConns(4)
	if s.write, err = open(path, ""); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	if !current(ctx, s.read) {
		if err := migrate(ctx, s.write); err != nil {
			return nil, unopened(path, err)
		}
	}
	if s.writer, err = startWriter(ctx, s, filepath.Join(c.Path, aheadName)); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store %s: %w", path, err)
	}
	return s, nil
}

// prepareFolder makes the data folder. One that others may write to is refused: they could put
// another database, or another socket, in the place of ours.
func prepareFolder(path string) error {
	if path == "" {
		return tool.Errorf(tool.Invalid, "open store: no data folder given")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return tool.Errorf(tool.Unavailable, "make the data folder: %w; give another one with --data-dir", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "data folder: %w", err)
	}
	if !fi.IsDir() {
		return tool.Errorf(tool.Invalid, "data folder %s is not a folder: give another one with --data-dir", path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return tool.Errorf(tool.Invalid, "data folder %s may be written by others (mode %04o): run chmod go-w on it, or give another one with --data-dir", path, fi.Mode().Perm())
	}
	return nil
}

func touch(path string) error {
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

func open(path, queryOnly string) (*sql.DB, error) {
	// fullfsync: on macOS a flush leaves what it flushes in the drive's memory else, and the file
	// beside the database is written over after one
	q := url.Values{
		"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "recursive_triggers(1)", "journal_mode(wal)", "fullfsync(1)", "synchronous(full)"},
	}
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

// openReadOnly opens a database that another process may own. It writes nothing.
func openReadOnly(path string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "open store %s: %w", path, err)
	}
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	if have > want {
		return tool.Errorf(tool.Conflict, "open store: the data folder was written by a newer biplane (schema %d, this one knows %d): use that one, or another folder with --data-dir", have, want)
	}
	if have == want {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return tool.Errorf(tool.Unavailable, "open store: migrate: %w", err)
	}
	return nil
}

// current reports whether the newest of the migrations is the last that was applied. That is usual,
// and every start asks: a query says so sooner than the machinery that applies them, which has the
// last word where this isn't so.
func current(ctx context.Context, db *sql.DB) bool {
	all, err := migrations.ReadDir("migrations") // in order
	if err != nil || len(all) == 0 {
		return false
	}
	number, _, _ := strings.Cut(all[len(all)-1].Name(), "_")
	want, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return false
	}
	var have int64
	err = db.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&have)
	return err == nil && have == want
}

// Settle waits until all that was given to the store is in the database, also what nobody waits
// for.
func (s *Store) Settle(ctx context.Context) error { return s.writer.takeAlong(ctx) }

// wipe takes what the database has out of the file beside it.
func (s *Store) wipe() error {
	err := s.writer.clear(context.Background())
	if err == nil {
		err = s.writer.ahead.wipe()
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "store: %w", err)
	}
	return nil
}

// Close ends the writer, closes the database and gives the data folder back. What was queued is
// written before.
func (s *Store) Close() error {
	var errs []error
	s.close.Do(func() {
		if s.writer != nil {
			errs = append(errs, s.writer.stop())
		}
		for _, db := range []*sql.DB{s.read, s.write} {
			if db != nil {
				errs = append(errs, db.Close())
			}
		}
		if s.lock != nil {
			errs = append(errs, s.lock.release())
		}
	})
	return errors.Join(errs...)
}

// unopened says what to do about a database that can't be made or opened.
func unopened(path string, err error) error {
	switch fault.Code(err) & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return tool.Errorf(tool.Unavailable, "%s is damaged, or is no database: move it away with all of its folder and restore the folder from a backup, or give another data folder with --data-dir: %w", path, err)
	case sqlite3.SQLITE_FULL:
		return fault.Of(err)
	}
	return err
}

// collect reads the rows of a query, each with scan, whose *tool.Errors stay as they are.
func collect[T any](ctx context.Context, rows *sql.Rows, err error, scan func(func(...any) error) (*T, error)) (out []T, _ error) {
	if err != nil {
		return nil, fault.Reading(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows.Scan)
		if known := (*tool.Error)(nil); errors.As(err, &known) {
			return nil, err
		}
		if err != nil {
			return nil, fault.Reading(ctx, err)
		}
		out = append(out, *v)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.Reading(ctx, err)
	}
	return out, nil
}
