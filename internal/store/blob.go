package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Blobs from this size on are files of their own, in the folder sessions of the data folder: the
// database would hold them twice while they are written.
const fileSize = 256 << 10

// blobFolder is the name of the folder.
const blobFolder = "sessions"

// path is where a blob is that is a file. Names are random, made by us: letters and digits only.
func (k *Sessions) path(id string) string { return filepath.Join(k.dir, id) }

// put seals a blob, writes it where it is to be a file, and gives the step that makes it known.
func (k *Sessions) put(b session.Blob) (step, error) {
	const insert = `INSERT INTO session_blob (id, data) VALUES (?, ?)`
	sealed := k.key.Seal(blobPurpose, b.Data, []byte(b.ID))
	if len(b.Data) < fileSize {
		return step{insert, []any{b.ID, sealed}}, nil
	}
	if err := writeFile(k.path(b.ID), sealed); err != nil {
		return step{}, tool.Errorf(tool.Unavailable, "store: write a blob: %w", err)
	}
	return step{insert, []any{b.ID, nil}}, nil
}

// writeFile makes a file that is whole, and on the disk, whenever it can be seen.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(dir)
}

// Blob gives the bytes of a blob.
func (k *Sessions) Blob(ctx context.Context, id string) ([]byte, error) {
	var sealed []byte
	err := k.s.read.QueryRowContext(ctx, `SELECT data FROM session_blob WHERE id = ?`, id).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, tool.Errorf(tool.Conflict, "a part of the session is missing in the store")
	case err != nil:
		return nil, fault.Reading(ctx, err)
	}
	if sealed == nil {
		sealed, err = os.ReadFile(k.path(id))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, tool.Errorf(tool.Conflict, "a part of the session is missing in the folder %s: %w", blobFolder, err)
		case err != nil:
			return nil, tool.Errorf(tool.Unavailable, "store: read a blob: %w", err)
		}
	}
	data, err := k.key.Unseal(blobPurpose, sealed, []byte(id))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "a part of the session was changed in the store, or sealed with another key: %w", err)
	}
	return data, nil
}

// Spool keeps a blob that nothing refers to, as a file that no row knows: the next sweep takes what
// is left behind.
func (k *Sessions) Spool(ctx context.Context, b session.Blob) error {
	s, err := k.put(b)
	if err != nil {
		return err
	}
	return k.s.writer.all(ctx, false, []step{s})
}

// Discard deletes a blob that nothing refers to.
func (k *Sessions) Discard(ctx context.Context, id string) error {
	if err := k.s.writer.do(ctx, false, dropBlob, id); err != nil {
		return err
	}
	k.removeUnless(ctx, []string{id})
	return nil
}

// anyFile reports whether one of the blobs is, or was, a file.
func (k *Sessions) anyFile(ids []string) bool {
	for _, id := range ids {
		if _, err := os.Lstat(k.path(id)); err == nil {
			return true
		}
	}
	return false
}

// remove deletes the files of blobs that came to nothing. What can't be deleted is swept later.
func (k *Sessions) remove(ids []string) {
	for _, id := range ids {
		_ = os.Remove(k.path(id))
	}
}

// removeUnless deletes the files of blobs that are gone from the database.
func (k *Sessions) removeUnless(ctx context.Context, ids []string) {
	for _, id := range ids {
		if _, err := os.Lstat(k.path(id)); err != nil {
			continue
		}
		var n int
		err := k.s.read.QueryRowContext(ctx, `SELECT count(*) FROM session_blob WHERE id = ?`, id).Scan(&n)
		if err == nil && n == 0 {
			_ = os.Remove(k.path(id))
		}
	}
}

// sweep deletes what an earlier process left halfway: blobs that no session refers to, and files
// that no row knows.
func (k *Sessions) sweep(ctx context.Context) error {
	const loose = ` FROM session_blob WHERE NOT EXISTS (SELECT 1 FROM session_ref WHERE blob = session_blob.id)`
	var some bool // hardly ever, and each start asks
	if err := k.s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1`+loose+`)`).Scan(&some); err != nil {
		return fault.Reading(ctx, err)
	}
	if some {
		if err := k.s.writer.do(ctx, false, `DELETE`+loose); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(k.dir)
	if errors.Is(err, fs.ErrNotExist) || len(entries) == 0 && err == nil {
		return nil
	} else if err != nil {
		return tool.Errorf(tool.Unavailable, "store: folder %s: %w", blobFolder, err)
	}
	known, err := k.strings(ctx, `SELECT id FROM session_blob WHERE data IS NULL`)
	if err != nil {
		return err
	}
	is := map[string]bool{}
	for _, id := range known {
		is[id] = true
	}
	for _, e := range entries {
		if name := e.Name(); !is[name] && (strings.HasPrefix(name, ".new-") || !strings.Contains(name, ".")) {
			if err := os.Remove(filepath.Join(k.dir, name)); err != nil {
				k.s.log.Warn("remove what a session left", "file", name, "error", err)
			}
		}
	}
	return nil
}

// syncFolder makes the names in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && runtime.GOOS != "windows" { // where folders can't be synced
		return err
	}
	return nil
}
