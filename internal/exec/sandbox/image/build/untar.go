package build

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Bounds of what an archive may contain.
const (
	maxPath  = 4096 // bytes of a path
	maxDepth = 100  // elements of a path
	maxLinks = 40   // links that are followed to find a folder
	// bytes of all archives of a tree, with headers and what is left out
	maxArchives = 2 * image.MaxBytes
)

// An extractor writes archives to a tree. Archives are hostile: no entry is written, and no link is
// followed, outside of the tree. Owners, rights to change user, and devices are left out.
type extractor struct {
	root    *os.Root
	layers  bool // entries named .wh.* remove what earlier archives wrote
	merged  bool // /bin, /lib and so on are links to folders of /usr
	bytes   int64
	files   int
	read    int64           // bytes of archives
	written map[string]bool // paths of the current archive
}

// openExtractor returns an extractor for the tree at dir. The caller closes its root.
func openExtractor(dir string) (*extractor, error) {
	root, err := os.OpenRoot(dir)
	return &extractor{root: root}, err
}

// extractTar writes an archive to the tree.
func (x *extractor) extractTar(ctx context.Context, from io.Reader) error {
	x.written = map[string]bool{}
	in := tar.NewReader(&archiveReader{ctx, x, from})
	for {
		h, err := in.Next()
		switch {
		case err == io.EOF:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errArchives):
			return err
		case err != nil:
			return tool.Errorf(tool.Invalid, "read an archive: %w", err)
		}
		if err := x.extractEntry(h, in); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return tool.Errorf(tool.AsError(err).Kind, "archive entry %q: %w", text.Cut(h.Name, 200), err)
		}
	}
}

// errArchives is the error for more than maxArchives.
var errArchives = tool.Errorf(tool.Limit, "the image's archives have more than %s", text.Size(int64(maxArchives)))

// An archiveReader reads an archive until ctx is done, or more was read for a tree than there may
// be. A small compressed archive can have an entry that is skipped for days.
type archiveReader struct {
	ctx  context.Context
	x    *extractor
	from io.Reader
}

// Read reads from the archive.
func (r *archiveReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.from.Read(p)
	if r.x.read += int64(n); r.x.read > maxArchives {
		return 0, errArchives
	}
	return n, err
}

// extractEntry writes an entry of an archive to the tree.
func (x *extractor) extractEntry(h *tar.Header, content io.Reader) error {
	name, err := x.cleanPath(h.Name)
	if err != nil || name == "." {
		return err
	}
	if x.files++; x.files > image.MaxFiles {
		return tool.Errorf(tool.Limit, "the image has more than %d files and folders", image.MaxFiles)
	}
	folder, err := x.findFolder(path.Dir(name))
	if err != nil {
		return err
	}
	at := path.Join(folder, path.Base(name))
	if x.layers && strings.HasPrefix(path.Base(name), ".wh.") {
		return x.applyWhiteout(folder, path.Base(name))
	}
	x.written[at] = true
	if h.Typeflag == tar.TypeDir {
		return x.makeFolder(at)
	}
	write := x.writeFile
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink:
		write = x.writeLink
	case tar.TypeLink:
		write = x.linkFile
	default: // a device, for example
		return nil
	}
	if h.Typeflag != tar.TypeLink || !x.isSame(at, h.Linkname) {
		if err := x.root.RemoveAll(at); err != nil {
			return err
		}
	}
	return write(at, h, content)
}

// cleanPath returns the path of an entry in the tree.
func (x *extractor) cleanPath(name string) (string, error) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) || strings.Count(name, "/") > maxDepth {
		return "", tool.Errorf(tool.Invalid, "invalid path")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", tool.Errorf(tool.Invalid, "the path has .. in it")
		}
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if first, rest, _ := strings.Cut(name, "/"); x.merged && mergedFolders.Has(first) {
		name = path.Join("usr", first, rest)
	}
	if name == "" {
		return ".", nil
	}
	return name, nil
}

// mergedFolders are folders of the root that are links to folders of the same name in /usr.
var mergedFolders = lazily.Words(`bin sbin lib lib32 lib64 libx32`)

// findFolder returns the path of a folder without links, and creates it. Links are followed as in
// the sandbox: the tree is their root.
func (x *extractor) findFolder(name string) (string, error) { return x.enterFolder(name, true) }

// walkFolder is like findFolder, for a folder that must be there.
func (x *extractor) walkFolder(name string) (string, error) { return x.enterFolder(name, false) }

func (x *extractor) enterFolder(name string, create bool) (string, error) {
	at := "."
	todo := strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if strings.Count(next, "/") > maxDepth { // links lead deeper than paths
			return "", tool.Errorf(tool.Invalid, "it is nested more than %d deep", maxDepth)
		}
		info, err := x.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && create:
			err = x.root.Mkdir(next, 0o755)
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			var to string
			if to, err = x.root.Readlink(next); err != nil {
				return "", err
			}
			if links++; links > maxLinks || len(to) > maxPath {
				return "", tool.Errorf(tool.Invalid, "too many links on the way to it")
			}
			if path.IsAbs(to) {
				at = "."
			}
			todo = append(strings.Split(to, "/"), todo...)
			continue
		case err == nil && !info.IsDir() && !create:
			err = fs.ErrNotExist
		case err == nil && !info.IsDir():
			if err = x.root.Remove(next); err == nil {
				err = x.root.Mkdir(next, 0o755)
			}
		}
		if err != nil {
			return "", err
		}
		at = next
	}
	return at, nil
}

// makeFolder creates a folder. It replaces anything that isn't one.
func (x *extractor) makeFolder(at string) error {
	info, err := x.root.Lstat(at)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		if err := x.root.Remove(at); err != nil {
			return err
		}
	}
	return x.root.Mkdir(at, 0o755)
}

// writeFile writes a regular file.
func (x *extractor) writeFile(at string, h *tar.Header, content io.Reader) (err error) {
	if h.Size < 0 || h.Size > image.MaxBytes-x.bytes {
		return tool.Errorf(tool.Limit, "the image has more than %s", text.Size(int64(image.MaxBytes)))
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := x.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, io.LimitReader(content, h.Size))
	x.bytes += n
	return err
}

// writeLink writes a symbolic link. Its target is as it was written: it is resolved in the sandbox.
func (x *extractor) writeLink(at string, h *tar.Header, _ io.Reader) error {
	if h.Linkname == "" || len(h.Linkname) > maxPath || strings.ContainsRune(h.Linkname, 0) {
		return tool.Errorf(tool.Invalid, "invalid target of a link")
	}
	return x.root.Symlink(h.Linkname, at)
}

// findTarget returns the path of the file that a hard link refers to.
func (x *extractor) findTarget(name string) (string, error) {
	clean, err := x.cleanPath(name)
	if err != nil {
		return "", err
	}
	folder, err := x.findFolder(path.Dir(clean))
	return path.Join(folder, path.Base(clean)), err
}

// isSame reports whether a hard link refers to itself.
func (x *extractor) isSame(at, target string) bool {
	found, err := x.findTarget(target)
	return err == nil && found == at
}

// linkFile makes a hard link to a regular file of the tree.
func (x *extractor) linkFile(at string, h *tar.Header, _ io.Reader) error {
	target, err := x.findTarget(h.Linkname)
	if err != nil {
		return err
	}
	info, err := x.root.Lstat(target)
	switch {
	case err == nil && target == at:
		return nil
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		to, err := x.root.Readlink(target)
		if err != nil {
			return err
		}
		return x.root.Symlink(to, at)
	case err != nil || !info.Mode().IsRegular():
		return tool.Errorf(tool.Invalid, "it is a hard link to %q, which is no file of the image",
			text.Cut(h.Linkname, 200))
	}
	return x.root.Link(target, at)
}

// applyWhiteout removes what earlier archives wrote: a file or folder, or the content of a folder.
func (x *extractor) applyWhiteout(folder, name string) error {
	if name == ".wh..wh..opq" {
		return x.clearFolder(folder)
	}
	victim := strings.TrimPrefix(name, ".wh.")
	if victim == "" || victim == "." || victim == ".." || strings.HasPrefix(victim, ".wh.") {
		return nil // names for other purposes
	}
	if at := path.Join(folder, victim); !x.written[at] {
		return x.root.RemoveAll(at)
	}
	return nil
}

// clearFolder removes the content of a folder, except what the current archive wrote.
func (x *extractor) clearFolder(folder string) error {
	f, err := x.root.Open(folder)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if at := path.Join(folder, name); !x.written[at] {
			if err := x.root.RemoveAll(at); err != nil {
				return err
			}
		}
	}
	return nil
}
