// Package backup copies data folders, consistently even while a process uses them, and writes
// encrypted archives of them. An archive is a tar file in the format of age
// (age-encryption.org/v1). Its first entry lists the others with their digests.
package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Names in a data folder, as package store uses them: the database, and the folder of large parts
// of sessions.
const (
	databaseName = "biplane.db"
	blobFolder   = "sessions"
)

// RestoredFile is the name of the file that a restored data folder has until its first process has
// ended the executions that ran when the copy was made.
const RestoredFile = "biplane.restored"

// skipped lists files that belong to a running process, or that the copy of the database replaces.
var skipped = []string{"lock", RestoredFile, databaseName, databaseName + "-wal", databaseName + "-shm"}

// attempts is how often a copy is made if a part of a session was replaced meanwhile.
const attempts = 3

// CopyFolder copies a data folder, which a process may use, to a new folder. The copy is as of one
// moment. What the database refers to is copied before it and after it, and what only grows is
// copied before it.
func CopyFolder(ctx context.Context, from, to string) error {
	for try := 1; ; try++ {
		missing, err := copyOnce(ctx, from, to)
		if err != nil {
			return tool.Errorf(tool.Unavailable, "copy the data folder: %w", err)
		}
		if missing == "" {
			return nil
		}
		if try == attempts {
			return tool.Errorf(tool.Conflict, "the part %s of a session is missing in the folder %s", missing,
				blobFolder)
		}
		if err := os.RemoveAll(to); err != nil {
			return tool.Errorf(tool.Unavailable, "copy the data folder: %w", err)
		}
	}
}

// copyOnce makes a copy. missing is a part of a session that it lacks; empty: none.
func copyOnce(ctx context.Context, from, to string) (missing string, err error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.Type().IsRegular() && !slices.Contains(skipped, f.Name()) && !strings.HasSuffix(f.Name(), ".tmp") {
			if err := copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
				return "", err
			}
		}
	}
	if err := linkFiles(from, to, blobFolder); err != nil {
		return "", err
	}
	if err := copyDatabase(ctx, filepath.Join(from, databaseName), filepath.Join(to, databaseName)); err != nil {
		return "", err
	}
	// segments of the record are only ever added, before the database names them
	for _, folder := range []string{blobFolder, segment.Folder} {
		if err := linkFiles(from, to, folder); err != nil {
			return "", err
		}
	}
	return findMissing(ctx, to)
}

// copyFile copies a file. A file that is gone meanwhile was of no use.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// linkFiles adds the files of a folder that the copy doesn't have. They never change, so a link is
// enough. If the folder is on another file system, they are copied. Unfinished files are skipped.
func linkFiles(from, to, folder string) error {
	files, err := os.ReadDir(filepath.Join(from, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, folder), 0o700); err != nil {
		return err
	}
	for _, f := range files {
		source, target := filepath.Join(from, folder, f.Name()), filepath.Join(to, folder, f.Name())
		if _, err := os.Lstat(target); err == nil || !f.Type().IsRegular() || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		err := os.Link(source, target)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = copyFile(source, target)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// copyDatabase copies a database, as of one moment, with SQLite's online backup.
func copyDatabase(ctx context.Context, from, to string) error {
	db, err := openReadOnly(from)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error {
		source, ok := c.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("the database's driver can't make backups")
		}
		b, err := source.NewBackup((&url.URL{Scheme: "file", Path: to}).String())
		if err != nil {
			return err
		}
		_, err = b.Step(-1) // in one read transaction: writers continue, and the copy never restarts
		return errors.Join(err, b.Finish())
	})
}

func openReadOnly(path string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String())
}

// findMissing returns a blob that the copy's database refers to, and that the copy doesn't have.
func findMissing(ctx context.Context, folder string) (string, error) {
	db, err := openReadOnly(filepath.Join(folder, databaseName))
	if err != nil {
		return "", err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT id FROM session_blob WHERE data IS NULL`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return "", err
		}
		if !filepath.IsLocal(id) || strings.ContainsAny(id, `/\`) {
			return "", fmt.Errorf("the part %q of a session has an invalid name", id)
		}
		if _, err := os.Lstat(filepath.Join(folder, blobFolder, id)); err != nil {
			return id, nil
		}
	}
	return "", rows.Err()
}
