// Package atomicfile writes files atomically: other programs, and the next start after a crash, see
// the old file or the complete new one.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// WriteFile replaces the file at path, or creates it. The folder must exist. A symbolic link at
// path is replaced too, not its target.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// A File is a new version of a file, in the same folder. It has another name until Commit.
type File struct {
	*os.File
	path string
	mode fs.FileMode
}

// Create creates the new version of the file at path. Before Commit, only the user can read it. The
// caller must call Commit or Discard.
func Create(path string, mode fs.FileMode) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // with mode 0600
	if err != nil {
		return nil, err
	}
	return &File{f, path, mode}, nil
}

// Commit flushes the new version to the disk, closes it, and replaces the file with it. If it
// returns an error, the old version may still be there; Discard then deletes the new one.
func (f *File) Commit() error {
	err := f.Chmod(f.mode)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(f.path))
}

// Discard deletes the new version. After Commit has succeeded, it does nothing.
func (f *File) Discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// SyncTree flushes all files and folders below a folder to the disk, and the folder.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return SyncFolder(path)
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// SyncFolder flushes a folder's entries to the disk, where the file system can do this.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
