package pin

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A File is a lock file. Other programs, such as git, may change it at any time. It is safe for
// concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	info fs.FileInfo // of the last version that was read; nil if there was no file
	lock *Lock       // its content; nil until it is read
}

// OpenFile returns the lock file at a path, which need not exist. It returns an error if the file
// exists and can't be read.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	_, err := f.ReadLock()
	return f, err
}

// FilePath returns the path of the file.
func (f *File) FilePath() string { return f.path }

// ReadLock returns the current content, which the caller must not change. A file that doesn't exist
// has no pins. One that has been removed since it was read is an error: without it, every
// definition is as good as accepted.
func (f *File) ReadLock() (*Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refreshLock()
}

// refreshLock reads the file if it has changed. The caller holds f.mu.
func (f *File) refreshLock() (*Lock, error) {
	file, err := os.Open(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.info == nil:
		f.lock = NewLock()
		return f.lock, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, f.explainFailure("has been removed while Biplane ran: restore it, or restart Biplane", nil)
	case err != nil:
		return nil, f.explainFailure("can't be read", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, f.explainFailure("can't be read", err)
	}
	if f.lock != nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) &&
		info.Size() == f.info.Size() {
		return f.lock, nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, f.explainFailure("can't be read", err)
	}
	if len(data) > maxFile {
		return nil, f.explainFailure("is too large", nil)
	}
	lock, err := ParseLock(data)
	if err != nil {
		return nil, f.explainFailure("is malformed: restore it, for example from git", err)
	}
	f.info, f.lock = info, lock
	return lock, nil
}

// explainFailure returns an error that names the file.
func (f *File) explainFailure(what string, err error) error {
	if err != nil {
		return tool.Errorf(tool.Invalid, "lock file %s %s: %w", f.path, what, err)
	}
	return tool.Errorf(tool.Invalid, "lock file %s %s", f.path, what)
}

// UpdateLock changes the content. A crash leaves the old file or the new one.
func (f *File) UpdateLock(change func(*Lock) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lock, err := f.refreshLock()
	if err != nil {
		return err
	}
	next := lock.cloneLock()
	if err := change(next); err != nil {
		return err
	}
	data, err := next.EncodeLock()
	if err == nil && len(data) > maxFile {
		err = errors.New("it would be too large")
	}
	if err == nil {
		err = f.replaceFile(data)
	}
	if err != nil {
		return f.explainFailure("can't be written", err)
	}
	f.lock = next
	return nil
}

// replaceFile replaces the file, or the target of the symbolic link that it is. The caller holds
// f.mu.
func (f *File) replaceFile(data []byte) error {
	path := f.path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	next, err := atomicfile.Create(path, mode)
	if err != nil {
		return err
	}
	defer next.Discard()
	if _, err := next.Write(data); err != nil {
		return err
	}
	info, err := next.Stat()
	if err != nil {
		return err
	}
	if err := next.Commit(); err != nil {
		return err
	}
	f.info = info
	return nil
}
