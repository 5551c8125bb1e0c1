package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxCopyDepth is the maximum nesting of folders of packages. Each level needs open files.
const maxCopyDepth = 64

// A copier copies files of a sandbox to an image. It follows no link, and opens only files and
// folders, which must be in the file system of the sandbox's folder.
type copier struct {
	x     *extractor
	from  *Source
	bytes int64
	files int
	left  int // links that lead elsewhere, devices, pipes and sockets, which are left out
}

// copyPackages copies the packages that were installed in the home of a sandbox.
func (j *job) copyPackages(ctx context.Context, from *Source) error {
	home, err := openFolder(unix.AT_FDCWD, from.Folder, 0)
	if err != nil {
		return fmt.Errorf("open the files of the sandbox: %w", err)
	}
	defer home.Close()
	c := &copier{x: j.x, from: from}
	versions, err := c.listNames(home, ".local/lib")
	if err != nil {
		return err
	}
	for _, p := range j.listParts(versions) {
		if err := c.copyPart(ctx, home, &p); err != nil {
			return err
		}
	}
	if c.files == 0 {
		return errNoPackages
	}
	j.progress("copied files and folders of the sandbox: " + text.Group(c.files-c.left))
	if c.left > 0 {
		j.progress("left out links that lead elsewhere, devices, pipes and sockets: " + text.Group(c.left))
	}
	return nil
}

// resolveBeneath keeps the kernel from following links or leaving the file system of the folder.
const resolveBeneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS |
	unix.RESOLVE_NO_XDEV

// openEntry opens what is at a path below an open folder.
func openEntry(dir int, name string, flags int, resolve uint64) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, name, how)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

func openFolder(dir int, name string, resolve uint64) (*os.File, error) {
	return openEntry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, resolve)
}

// openPart opens a folder of the home. It returns nil if there is none.
func openPart(home *os.File, name string) (*os.File, error) {
	f, err := openFolder(int(home.Fd()), name, resolveBeneath)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV):
		return nil, tool.Errorf(tool.Invalid, "%s of the sandbox is not an ordinary folder, or a link leads to it: "+
			"remove it, and install the packages again", name)
	}
	return f, err
}

// listNames returns the names of the entries of a folder of the home.
func (c *copier) listNames(home *os.File, name string) ([]string, error) {
	dir, err := openPart(home, name)
	if dir == nil {
		return nil, err
	}
	defer dir.Close()
	const most = 100
	names, err := dir.Readdirnames(most)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(names) == most {
		return nil, tool.Errorf(tool.Limit, "%s of the sandbox has too many entries: remove some", name)
	}
	return names, nil
}

// copyPart copies the packages of a folder of the home.
func (c *copier) copyPart(ctx context.Context, home *os.File, p *part) error {
	dir, err := openPart(home, p.from)
	if dir == nil {
		return err
	}
	defer dir.Close()
	to, err := c.x.findFolder(p.to)
	if err != nil {
		return err
	}
	return c.copyFolder(ctx, dir, place{part: p, from: p.from, to: to})
}

// A place has the source and the destination of a file.
type place struct {
	part  *part
	from  string // in the home
	to    string // in the image
	depth int    // below the part
}

// enterFolder returns the place of an entry of a folder.
func (p place) enterFolder(name string) place {
	return place{p.part, path.Join(p.from, name), path.Join(p.to, name), p.depth + 1}
}

// isPackage reports whether the entry is an npm package, which may have a scope.
func (p place) isPackage() bool {
	name, above := path.Base(p.from), path.Base(path.Dir(p.from))
	switch {
	case !p.part.npm || strings.HasPrefix(name, "."):
		return false
	case p.depth == 1:
		return !strings.HasPrefix(name, "@")
	}
	return p.depth == 2 && strings.HasPrefix(above, "@")
}

// copyFolder copies the content of an open folder.
func (c *copier) copyFolder(ctx context.Context, dir *os.File, at place) error {
	if at.depth > maxCopyDepth {
		return tool.Errorf(tool.Limit, "the folders of the sandbox are nested too deep: %s", text.Clip(at.from, 200))
	}
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := c.copyEntry(ctx, dir, name, at.enterFolder(name)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyEntry copies an entry of an open folder. It looks at what the entry is before it opens it: a
// pipe would block, and a device may act.
func (c *copier) copyEntry(ctx context.Context, dir *os.File, name string, at place) error {
	if c.files++; c.files > c.from.MaxFiles {
		return tool.Errorf(tool.Limit, "the packages of the sandbox have more than %d files and folders",
			c.from.MaxFiles)
	}
	f, err := openEntry(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW, resolveBeneath)
	if err != nil {
		return fmt.Errorf("%s of the sandbox: %w", text.Clip(at.from, 200), err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = c.enterEntry(ctx, f, at)
	case unix.S_IFREG:
		err = c.copyFile(f, &st, at)
	case unix.S_IFLNK:
		err = c.copyLink(f, at)
	default:
		c.left++
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = tool.Errorf(tool.Invalid, "%s of the sandbox can't be copied: %w (chmod u+rX, or remove it)",
			text.Clip(at.from, 200), failed.Err)
	}
	return err
}

// enterEntry copies the folder that f refers to.
func (c *copier) enterEntry(ctx context.Context, f *os.File, at place) error {
	dir, err := openFolder(int(f.Fd()), ".", resolveBeneath)
	if err != nil {
		return err
	}
	defer dir.Close()
	if at.isPackage() { // it replaces the one of the base image
		if err := c.x.root.RemoveAll(at.to); err != nil {
			return err
		}
	}
	c.x.files++
	if err := c.x.makeFolder(at.to); err != nil {
		return err
	}
	return c.copyFolder(ctx, dir, at)
}

// copyFile copies the regular file that f refers to. Only its content and its right to be executed
// are kept.
func (c *copier) copyFile(f *os.File, st *unix.Stat_t, at place) (err error) {
	room := c.from.MaxBytes - c.bytes
	if st.Size > room {
		return c.sizeLimit(at)
	}
	from, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY, 0) // the file itself
	if err != nil {
		return err
	}
	defer from.Close()
	mode := fs.FileMode(0o644)
	if st.Mode&0o111 != 0 {
		mode = 0o755
	}
	if err := c.x.root.RemoveAll(at.to); err != nil { // never written to: other images may have it
		return err
	}
	to, err := c.x.root.OpenFile(at.to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	n, err := io.Copy(to, io.LimitReader(from, room+1))
	c.x.files++
	c.x.bytes, c.bytes = c.x.bytes+n, c.bytes+n
	if n > room {
		return c.sizeLimit(at)
	}
	return err
}

// sizeLimit returns the error for a file that exceeds the size of all packages together.
func (c *copier) sizeLimit(at place) error {
	return tool.Errorf(tool.Limit, "the packages of the sandbox have more than %s: %s is too large for what is left of it",
		text.Size(c.from.MaxBytes), text.Clip(at.from, 200))
}

// copyLink copies the symbolic link that f refers to, if it leads to another file of the packages.
func (c *copier) copyLink(f *os.File, at place) error {
	buffer := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(int(f.Fd()), "", buffer)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: at.from, Err: err}
	}
	to := string(buffer[:n])
	target := path.Join(path.Dir(at.from), to)
	if n == 0 || n > maxPath || path.IsAbs(to) || !strings.HasPrefix(target+"/", at.part.within+"/") {
		c.left++
		return nil
	}
	if err := c.x.root.RemoveAll(at.to); err != nil {
		return err
	}
	c.x.files++
	return c.x.root.Symlink(to, at.to)
}
