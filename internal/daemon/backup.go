package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/store/backup"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Backup is the result of WriteBackup and of RestoreBackup.
type Backup struct {
	Created time.Time        `json:"created"`          // when the copy was made
	Version string           `json:"version"`          // of the Biplane that made it
	Files   int              `json:"files"`            // in the archive
	Bytes   int64            `json:"bytes"`            // of these files
	Report  *api.AuditReport `json:"record,omitempty"` // on the restored record; nil for WriteBackup
}

func newBackup(m *backup.Manifest) *Backup {
	b := &Backup{Created: m.Created, Version: m.Version, Files: len(m.Files)}
	for _, f := range m.Files {
		b.Bytes += f.Size
	}
	return b
}

// WriteBackup writes an encrypted copy of a data folder, which a process may use, to a new file.
// The copy has at least the record that checkpoint covers.
func WriteBackup(ctx context.Context, folder, file, version, checkpoint string, to ...age.Recipient) (_ *Backup,
	err error) {
	if fileExists(file) {
		return nil, tool.Errorf(tool.Conflict, "%s exists already: choose another name", file)
	}
	dir := filepath.Dir(file)
	staging, err := os.MkdirTemp(folder, "backup-")
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "backup: %w", err)
	}
	defer os.RemoveAll(staging)
	m := &backup.Manifest{Version: version, Created: time.Now().UTC().Truncate(time.Second), Checkpoint: checkpoint}
	whole := filepath.Join(staging, "data")
	if err := backup.CopyFolder(ctx, folder, whole); err != nil {
		return nil, err
	}
	out, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*")
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "backup: %w", err)
	}
	defer os.Remove(out.Name())
	err = backup.WriteArchive(whole, m, out, to...)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close(), ctx.Err()); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "backup: %w", err)
	}
	if err := os.Link(out.Name(), file); err != nil { // unlike a rename, it replaces nothing
		return nil, tool.Errorf(tool.Unavailable, "backup: %w", err)
	}
	if err := atomicfile.SyncFolder(dir); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "backup: %w", err)
	}
	return newBackup(m), nil
}

// RestoreBackup creates the data folder of c from a backup. The folder must be missing or empty. It
// appears, complete, only after its record was verified against the checkpoint in the backup.
func RestoreBackup(ctx context.Context, c Config, file string, with ...age.Identity) (*Backup, error) {
	if files, err := os.ReadDir(c.DataDir); len(files) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Conflict, "the data folder %s is not empty: move it away, or choose another one "+
			"with --data-dir", c.DataDir)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "restore: %w", err)
	}
	defer in.Close()
	parent := filepath.Dir(c.DataDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "restore: %w", err)
	}
	staging, err := os.MkdirTemp(parent, ".biplane-restore-")
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "restore: %w", err)
	}
	defer os.RemoveAll(staging)
	m, err := backup.ReadArchive(in, staging, with...)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteFile(filepath.Join(staging, backup.RestoredFile), nil, 0o600); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "restore: %w", err)
	}
	out := newBackup(m)
	target := c.DataDir
	c.DataDir = staging
	if out.Report, err = verifyFolder(ctx, c, m.Checkpoint); err != nil {
		return nil, err
	}
	if err := atomicfile.SyncTree(staging); err != nil { // so that a power failure can't leave a part behind the rename
		return nil, tool.Errorf(tool.Unavailable, "restore: %w", err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Conflict, "restore: %w", err)
	}
	if err := os.Rename(staging, target); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "restore: %w", err)
	}
	return out, atomicfile.SyncFolder(parent)
}

// verifyFolder verifies the record of a folder that no process uses, also against a checkpoint from
// outside.
func verifyFolder(ctx context.Context, c Config, checkpoint string) (_ *api.AuditReport, err error) {
	at, err := Attach(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	report, err := at.Client.Audit().Verify(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	damaged := func(f api.AuditFault) bool { return f.What != "archive" } // a segment may be kept elsewhere
	if !report.OK && (len(report.Faults) == 0 || slices.ContainsFunc(report.Faults, damaged)) ||
		len(report.Outside) != 1 || !report.Outside[0].OK {
		why := "it lacks entries that its checkpoint covers"
		if len(report.Faults) > 0 {
			why = report.Faults[max(slices.IndexFunc(report.Faults, damaged), 0)].Message
		}
		return nil, tool.Errorf(tool.Conflict, "the record in the backup is not intact, so nothing was restored: %s",
			why)
	}
	return report, nil
}

// isRestored reports whether a data folder was restored, and has not been used since.
func isRestored(folder string) bool { return fileExists(filepath.Join(folder, backup.RestoredFile)) }

// endRestoration notes that the executions of a restored folder were ended.
func endRestoration(folder string) error {
	err := os.Remove(filepath.Join(folder, backup.RestoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
