package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The most that an image may have.
const (
	MaxBytes = 16 << 30
	MaxFiles = 2_000_000
)

// A Draft is a tree that is being built. Discard removes it unless CommitTree has succeeded.
type Draft struct {
	Root  string // folder for the tree's files
	store *Store
	dir   string
	lock  *os.File
}

// NewDraft returns an empty tree. It first removes the remains of builds that died.
func (s *Store) NewDraft() (*Draft, error) {
	if err := os.MkdirAll(filepath.Join(s.folder, "trees"), 0o700); err != nil {
		return nil, err
	}
	s.removeRemains()
	dir, err := os.MkdirTemp(s.folder, draftPrefix)
	if err != nil {
		return nil, err
	}
	d := &Draft{Root: filepath.Join(dir, rootName), store: s, dir: dir}
	if err := errors.Join(os.Mkdir(d.Root, 0o755), os.WriteFile(filepath.Join(dir, lockName), nil, 0o600)); err != nil {
		return nil, errors.Join(err, removeTree(dir))
	}
	if d.lock, err = lockFile(filepath.Join(dir, lockName), shared); err != nil {
		return nil, errors.Join(err, removeTree(dir))
	}
	return d, nil
}

const draftPrefix = "new-"

// removeRemains removes trees that a dead process was building, and trees that no image has.
func (s *Store) removeRemains() {
	drafts, _ := filepath.Glob(filepath.Join(s.folder, draftPrefix+"*")) // the pattern is valid
	trees, _ := filepath.Glob(filepath.Join(s.folder, "trees", "*"))
	for _, dir := range append(drafts, trees...) {
		draft := strings.HasPrefix(filepath.Base(dir), draftPrefix)
		if !draft && s.mayHaveUse(filepath.Base(dir)) {
			continue
		}
		lock, err := lockFile(filepath.Join(dir, lockName), exclusive)
		if err != nil && (!errors.Is(err, fs.ErrNotExist) || draft) { // a draft may not have its lock yet
			continue
		}
		// A build that keeps a tree holds its lock until the image's manifest is there.
		if draft || !s.mayHaveUse(filepath.Base(dir)) {
			_ = removeTree(dir) // the next build tries again
		}
		_ = releaseLock(lock)
	}
}

// mayHaveUse reports whether an image has a tree, or that is unknown.
func (s *Store) mayHaveUse(digest string) bool {
	n, err := s.countUses(digest)
	return err != nil || n > 0
}

// MakeScratch returns a folder for files that don't belong to the tree.
func (d *Draft) MakeScratch() (string, error) {
	dir := filepath.Join(d.dir, "scratch")
	return dir, os.MkdirAll(dir, 0o700)
}

// CommitTree makes the tree an image. m needs no digest and sizes.
func (d *Draft) CommitTree(ctx context.Context, m Manifest) (Manifest, error) {
	var err error
	if err := removeTree(filepath.Join(d.dir, "scratch")); err != nil {
		return m, err
	}
	if m.Digest, m.Bytes, m.Files, err = digestTree(ctx, d.Root, m); err != nil {
		return m, err
	}
	if _, err := encodeManifest(m); err != nil { // before the tree is kept
		return m, err
	}
	before, _ := d.store.readManifest(m.Name) // empty if there is none
	to := d.store.treePath(m.Digest)
	if err := os.Rename(d.dir, to); err != nil {
		// The tree is there already. Its lock keeps others from removing it.
		lock, missing := lockFile(filepath.Join(to, lockName), shared)
		if missing == nil {
			defer releaseLock(lock)
			_, missing = os.Stat(filepath.Join(to, rootName))
		}
		if missing != nil {
			return m, fmt.Errorf("keep the tree of the image: %w; build it again", err)
		}
	} else {
		d.dir = ""
		if err := atomicfile.SyncFolder(filepath.Dir(to)); err != nil {
			return m, err
		}
	}
	if err := d.store.writeManifest(m); err != nil {
		return m, err
	}
	if err := errors.Join(d.DiscardTree()); err != nil {
		return m, err
	}
	if before.Digest != "" && before.Digest != m.Digest {
		d.store.removeRemains()
	}
	return m, nil
}

// DiscardTree removes the tree unless it was committed.
func (d *Draft) DiscardTree() error {
	var errs []error
	if d.dir != "" {
		errs = append(errs, removeTree(d.dir))
		d.dir = ""
	}
	if d.lock != nil {
		errs = append(errs, releaseLock(d.lock))
		d.lock = nil
	}
	return errors.Join(errs...)
}

// removeTree removes a folder with everything in it, also folders that can't be written. It refuses
// if something is mounted there, since that would be emptied.
func removeTree(dir string) error {
	at, err := findMount(dir)
	if err == nil && at != "" {
		err = tool.Errorf(tool.Conflict, "%s is not removed, because something is mounted at %s: unmount that first",
			dir, at)
	}
	if err != nil {
		return err
	}
	err = os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	}) // RemoveAll reports what is left
	return os.RemoveAll(dir)
}

// digestTree returns the digest of a tree, its size, and the number of its files and folders. It
// makes everything readable for all users, since the user in a sandbox is another, and removes the
// rights to change user.
func digestTree(ctx context.Context, root string, m Manifest) (digest string, bytes int64, files int, err error) {
	all := sha256.New()
	fmt.Fprintf(all, "host %t\n", m.Host)
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if files++; files > MaxFiles {
			return tool.Errorf(tool.Limit, "the image has more than %d files and folders", MaxFiles)
		}
		line, size, err := digestEntry(path, name, e)
		if bytes += size; bytes > MaxBytes {
			return tool.Errorf(tool.Limit, "the image has more than %s", text.Size(int64(MaxBytes)))
		}
		_, _ = io.WriteString(all, line) // a hash accepts everything
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), bytes, files - 1, err
}

// digestEntry returns the part of an entry in the digest of its tree, and its size.
func digestEntry(path, name string, e fs.DirEntry) (line string, size int64, err error) {
	info, err := e.Info()
	if err != nil {
		return "", 0, err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return fmt.Sprintf("l %q %q\n", name, to), 0, err
	case info.IsDir():
		return fmt.Sprintf("d %q\n", name), 0, os.Chmod(path, 0o755)
	case !info.Mode().IsRegular():
		return "", 0, tool.Errorf(tool.Invalid, "the image has %s, which is neither a file, a folder nor a link", name)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if err := os.Chmod(path, mode); err != nil {
		return "", 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return fmt.Sprintf("f %q %o %x\n", name, mode, sum.Sum(nil)), n, err
}
