package pyguest

import (
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// The functions of WASI on paths. Functions that only read also search the library. Functions that
// change something rely on the host to refuse read-only paths.

// WasiSnapshotPreview1PathFilestatGet returns the metadata of a path.
func (i imports) WasiSnapshotPreview1PathFilestatGet(_ *py.Module, fd, flags, at, n, to uint32) uint32 {
	s, name, e := i.statAt(fd, at, n)
	if e == ok {
		i.putStat(to, name, s)
	}
	return e
}

// statAt returns the metadata of a path, and its name.
func (i imports) statAt(fd, at, n uint32) (s stat, name string, errno uint32) {
	name, library, e := i.resolve(fd, at, n)
	if e != ok {
		return s, name, e
	}
	if library == "" {
		s, e = i.stat(name)
		return s, name, e
	}
	dir, size, found := i.g.library.stat(library)
	if !found {
		return s, library, errNoEntry
	}
	return stat{Dir: dir, Size: size}, library, ok
}

// Flags of path_open.
const (
	openCreate = 1 << iota
	openDirectory
	openExclusive
	openTruncate

	rightRead  = 1 << 1
	rightWrite = 1 << 6
	fdAppend   = 1
)

// WasiSnapshotPreview1PathOpen opens the file or directory at a path.
func (i imports) WasiSnapshotPreview1PathOpen(_ *py.Module, dir, follow, at, n, how uint32, rights, inherit uint64,
	flags, to uint32) uint32 {
	name, library, e := i.resolve(dir, at, n)
	if e != ok {
		return e
	}
	f := file{path: name}
	if rights&rightRead != 0 {
		f.flags |= canRead
	}
	if rights&rightWrite != 0 {
		f.flags |= canWrite
	}
	if flags&fdAppend != 0 {
		f.flags |= appends
	}
	if library != "" {
		f.path = library
		f.kind, e = i.openLibrary(f, how)
	} else {
		f.kind, e = i.openHost(f, how)
	}
	if e != ok {
		return e
	}
	fd, e := i.open(f)
	if e == ok {
		i.put32(to, fd)
	}
	return e
}

func (i imports) openLibrary(f file, how uint32) (kind, errno uint32) {
	isDir, _, found := i.g.library.stat(f.path)
	switch {
	case f.flags&canWrite != 0 || how&openTruncate != 0 || !found && how&openCreate != 0:
		return 0, errReadOnly
	case !found:
		return 0, errNoEntry
	case how&openExclusive != 0:
		return 0, errExist
	case isDir:
		return libraryDir, ok
	case how&openDirectory != 0:
		return 0, errNotDir
	}
	return libraryFileKind, ok
}

// openHost creates or truncates the file as the flags require, in one host operation if possible,
// and returns its kind.
func (i imports) openHost(f file, how uint32) (kind, errno uint32) {
	if how&openDirectory == 0 && f.flags&canWrite != 0 && how&openCreate != 0 {
		flag := ""
		switch {
		case how&openExclusive != 0:
			flag = "wx"
		case how&openTruncate != 0:
			flag = "w"
		case f.flags&appends != 0:
			flag = "a"
		}
		if flag != "" {
			_, e := i.ask(sandbox.File{Op: "write", Path: f.path, Flag: flag})
			return hostFile, e
		}
	}
	s, e := i.stat(f.path)
	switch {
	case e == errNoEntry && how&openCreate != 0:
		_, e := i.ask(sandbox.File{Op: "write", Path: f.path, Flag: "wx"})
		return hostFile, e
	case e != ok:
		return 0, e
	case how&(openCreate|openExclusive) == openCreate|openExclusive:
		return 0, errExist
	case s.Dir && (f.flags&canWrite != 0 || how&openTruncate != 0):
		return 0, errIsDir
	case s.Dir:
		return hostDir, ok
	case how&openDirectory != 0:
		return 0, errNotDir
	case s.ReadOnly && (f.flags&canWrite != 0 || how&openTruncate != 0):
		return 0, errReadOnly
	case how&openTruncate != 0:
		_, e := i.ask(sandbox.File{Op: "write", Path: f.path, Flag: "w"})
		return hostFile, e
	}
	return hostFile, ok
}

// change requests a modification of a path from the host.
func (i imports) change(op string, dir, at, n uint32) uint32 {
	name, library, e := i.resolve(dir, at, n)
	switch {
	case e != ok:
		return e
	case library != "":
		return errReadOnly
	}
	_, e = i.ask(sandbox.File{Op: op, Path: name})
	return e
}

// WasiSnapshotPreview1PathCreateDirectory creates a directory.
func (i imports) WasiSnapshotPreview1PathCreateDirectory(_ *py.Module, dir, at, n uint32) uint32 {
	return i.change("mkdir", dir, at, n)
}

// WasiSnapshotPreview1PathRemoveDirectory removes an empty directory.
func (i imports) WasiSnapshotPreview1PathRemoveDirectory(_ *py.Module, dir, at, n uint32) uint32 {
	return i.change("rmdir", dir, at, n)
}

// WasiSnapshotPreview1PathUnlinkFile removes a file.
func (i imports) WasiSnapshotPreview1PathUnlinkFile(_ *py.Module, dir, at, n uint32) uint32 {
	return i.change("rm", dir, at, n)
}

// WasiSnapshotPreview1PathRename moves a file or directory.
func (i imports) WasiSnapshotPreview1PathRename(_ *py.Module, dir, at, n, toDir, toAt, toN uint32) uint32 {
	from, library, e := i.resolve(dir, at, n)
	if e != ok {
		return e
	}
	to, toLibrary, e := i.resolve(toDir, toAt, toN)
	switch {
	case e != ok:
		return e
	case library != "" || toLibrary != "":
		return errReadOnly
	}
	_, e = i.ask(sandbox.File{Op: "rename", Path: from, To: to})
	return e
}

// WasiSnapshotPreview1PathFilestatSetTimes changes nothing, because the host keeps the times; the
// path must exist.
func (i imports) WasiSnapshotPreview1PathFilestatSetTimes(_ *py.Module, fd, _, at, n uint32, _, _ uint64,
	_ uint32) uint32 {
	_, _, e := i.statAt(fd, at, n)
	return e
}

// There are no links.

// WasiSnapshotPreview1PathLink always fails.
func (imports) WasiSnapshotPreview1PathLink(*py.Module, uint32, uint32, uint32, uint32, uint32, uint32, uint32) uint32 {
	return errNotSup
}

// WasiSnapshotPreview1PathSymlink always fails.
func (imports) WasiSnapshotPreview1PathSymlink(*py.Module, uint32, uint32, uint32, uint32, uint32) uint32 {
	return errNotSup
}

// WasiSnapshotPreview1PathReadlink reports that the path is not a link.
func (i imports) WasiSnapshotPreview1PathReadlink(_ *py.Module, dir, at, n, to, size, got uint32) uint32 {
	if _, _, e := i.resolve(dir, at, n); e != ok {
		return e
	}
	return errInvalid
}
