package pyguest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// The functions of WASI on open files.

// maxTransfer is the maximum number of bytes of one read or write.
const maxTransfer = 1 << 20

// WasiSnapshotPreview1FdAdvise ignores the advice.
func (imports) WasiSnapshotPreview1FdAdvise(*py.Module, uint32, uint64, uint64, uint32) uint32 {
	return ok
}

// WasiSnapshotPreview1FdClose closes a file.
func (i imports) WasiSnapshotPreview1FdClose(_ *py.Module, fd uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	if f.slot != 0 {
		i.put32(f.slot, slotFree)
	}
	return ok
}

// WasiSnapshotPreview1FdDatasync does nothing: writes take effect immediately.
func (imports) WasiSnapshotPreview1FdDatasync(*py.Module, uint32) uint32 { return ok }

// WasiSnapshotPreview1FdSync does nothing.
func (imports) WasiSnapshotPreview1FdSync(*py.Module, uint32) uint32 { return ok }

// WasiSnapshotPreview1FdFdstatGet returns the type and flags of an open file.
func (i imports) WasiSnapshotPreview1FdFdstatGet(_ *py.Module, fd, to uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	b := i.bytes(to, 24)
	clear(b)
	b[0] = typeFile
	if f.dir() {
		b[0] = typeDir
	}
	if f.flags&appends != 0 {
		b[2] = 1
	}
	const all = 1<<30 - 1
	binary.LittleEndian.PutUint64(b[8:], all)
	binary.LittleEndian.PutUint64(b[16:], all)
	return ok
}

// WasiSnapshotPreview1FdFdstatSetFlags changes whether writes append.
func (i imports) WasiSnapshotPreview1FdFdstatSetFlags(_ *py.Module, fd, flags uint32) uint32 {
	f, found := i.file(fd)
	if !found || f.slot == 0 {
		return errBadFile
	}
	f.flags &^= appends
	if flags&1 != 0 {
		f.flags |= appends
	}
	i.put32(f.slot+4, f.flags)
	return ok
}

// fileStat returns the current metadata of f.
func (i imports) fileStat(f file) (stat, uint32) {
	if f.kind == hostFile || f.kind == hostDir {
		return i.stat(f.path)
	}
	dir, size, found := i.g.library.stat(f.path)
	if !found {
		return stat{}, errNoEntry
	}
	return stat{Dir: dir, Size: size, ReadOnly: true}, ok
}

// WasiSnapshotPreview1FdFilestatGet returns the current metadata of an open file.
func (i imports) WasiSnapshotPreview1FdFilestatGet(_ *py.Module, fd, to uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	s, e := i.fileStat(f)
	if e == ok {
		i.putStat(to, f.path, s)
	}
	return e
}

// WasiSnapshotPreview1FdFilestatSetSize sets the length of an open file.
func (i imports) WasiSnapshotPreview1FdFilestatSetSize(_ *py.Module, fd uint32, size uint64) uint32 {
	f, found := i.file(fd)
	switch {
	case !found || f.kind != hostFile || f.flags&canWrite == 0:
		return errBadFile
	case size > 1<<53:
		return errInvalid
	}
	_, e := i.ask(sandbox.File{Op: "truncate", Path: f.path, Offset: int64(size)})
	return e
}

// WasiSnapshotPreview1FdFilestatSetTimes does nothing: the host keeps the times.
func (imports) WasiSnapshotPreview1FdFilestatSetTimes(*py.Module, uint32, uint64, uint64, uint32) uint32 {
	return ok
}

// read reads from f at pos into the buffers and returns the number of bytes.
func (i imports) read(f file, pos uint64, bufs, n uint32) (int, uint32) {
	switch {
	case f.dir():
		return 0, errIsDir
	case f.flags&canRead == 0:
		return 0, errBadFile
	}
	to := i.slots(bufs, n, maxTransfer)
	want := 0
	for _, b := range to {
		want += len(b)
	}
	if want == 0 {
		return 0, ok
	}
	var data []byte
	if f.kind == libraryFileKind {
		all, found := i.g.library.read(f.path)
		if !found {
			return 0, errIO
		}
		data = all[min(pos, uint64(len(all))):]
	} else {
		var e uint32
		if data, e = i.readFile(f.path, pos, int64(want)); e != ok {
			return 0, e
		}
	}
	got := 0
	for _, b := range to {
		got += copy(b, data[got:])
	}
	return got, ok
}

// WasiSnapshotPreview1FdRead reads and advances the position.
func (i imports) WasiSnapshotPreview1FdRead(_ *py.Module, fd, bufs, n, got uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	k, e := i.read(f, f.pos, bufs, n)
	if e == ok {
		i.seek(f, f.pos+uint64(k))
		i.put32(got, uint32(k))
	}
	return e
}

// at calls do to read or write at a position.
func (i imports) at(fd, bufs, n uint32, pos uint64, got uint32,
	do func(f file, pos uint64, bufs, n uint32) (int, uint32)) uint32 {
	f, found := i.file(fd)
	switch {
	case !found:
		return errBadFile
	case pos > 1<<53:
		return errInvalid
	}
	k, e := do(f, pos, bufs, n)
	if e == ok {
		i.put32(got, uint32(k))
	}
	return e
}

// WasiSnapshotPreview1FdPread reads at a position.
func (i imports) WasiSnapshotPreview1FdPread(_ *py.Module, fd, bufs, n uint32, pos uint64, got uint32) uint32 {
	return i.at(fd, bufs, n, pos, got, i.read)
}

// write writes the buffers to f at pos and returns the number of bytes.
func (i imports) write(f file, pos uint64, bufs, n uint32) (int, uint32) {
	if f.kind != hostFile || f.flags&canWrite == 0 {
		return 0, errBadFile
	}
	var data []byte
	for _, b := range i.slots(bufs, n, maxTransfer) {
		data = append(data, b...)
	}
	if len(data) == 0 {
		return 0, ok
	}
	q := sandbox.File{Op: "write", Path: f.path, Data: base64.StdEncoding.EncodeToString(data), Base64: true,
		Flag: "r+", Offset: int64(pos)}
	if f.flags&appends != 0 {
		q.Flag, q.Offset = "a", 0
	}
	if _, e := i.ask(q); e != ok {
		return 0, e
	}
	return len(data), ok
}

// WasiSnapshotPreview1FdWrite writes and advances the position. Output to the standard streams is
// logged.
func (i imports) WasiSnapshotPreview1FdWrite(_ *py.Module, fd, bufs, n, got uint32) uint32 {
	if fd == 1 || fd == 2 {
		i.put32(got, uint32(i.console(fd, bufs, n)))
		return ok
	}
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	k, e := i.write(f, f.pos, bufs, n)
	if e == ok {
		i.seek(f, f.pos+uint64(k))
		i.put32(got, uint32(k))
	}
	return e
}

// console logs output of the interpreter itself, below the runtime's own streams.
func (i imports) console(fd, bufs, n uint32) int {
	var text strings.Builder
	for _, b := range i.slots(bufs, n, 16<<10) {
		text.Write(b)
	}
	level := map[uint32]string{1: "log", 2: "error"}[fd]
	if s := strings.TrimRight(text.String(), "\n"); s != "" {
		if line, err := json.Marshal(
			sandbox.GuestMessage{Console: &sandbox.Console{Level: level, Text: s}}); err == nil {
			i.g.host.Write(append(line, '\n'))
		}
	}
	return text.Len()
}

// WasiSnapshotPreview1FdPwrite writes at a position.
func (i imports) WasiSnapshotPreview1FdPwrite(_ *py.Module, fd, bufs, n uint32, pos uint64, got uint32) uint32 {
	return i.at(fd, bufs, n, pos, got, i.write)
}

// WasiSnapshotPreview1FdPrestatGet reports that the root directory is open from the start.
func (i imports) WasiSnapshotPreview1FdPrestatGet(_ *py.Module, fd, to uint32) uint32 {
	if fd != root {
		return errBadFile
	}
	i.put32(to, 0)   // a directory
	i.put32(to+4, 1) // length of "/"
	return ok
}

// WasiSnapshotPreview1FdPrestatDirName returns the root directory's name.
func (i imports) WasiSnapshotPreview1FdPrestatDirName(_ *py.Module, fd, to, n uint32) uint32 {
	if fd != root {
		return errBadFile
	}
	copy(i.bytes(to, n), "/")
	return ok
}

// list returns the entries of an open directory.
func (i imports) list(f file) ([]entry, uint32) {
	if f.kind == libraryDir {
		return i.g.library.list(f.path), ok
	}
	v, e := i.ask(sandbox.File{Op: "list", Path: f.path})
	if e != ok {
		return nil, e
	}
	var all []entry
	if json.Unmarshal(v, &all) != nil {
		return nil, errIO
	}
	return all, ok
}

// WasiSnapshotPreview1FdReaddir returns as many entries of a directory as fit, starting with number
// from; the last one is cut.
func (i imports) WasiSnapshotPreview1FdReaddir(_ *py.Module, fd, to, n uint32, from uint64, got uint32) uint32 {
	f, found := i.file(fd)
	switch {
	case !found:
		return errBadFile
	case !f.dir():
		return errNotDir
	}
	all, e := i.list(f)
	if e != ok {
		return e
	}
	var b []byte
	for k := from; k < uint64(len(all)) && len(b) < int(n); k++ {
		b = binary.LittleEndian.AppendUint64(b, k+1)
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(all[k].Name)))
		kind := byte(typeFile)
		if all[k].Dir {
			kind = typeDir
		}
		b = append(append(b, kind, 0, 0, 0), all[k].Name...)
	}
	b = b[:min(len(b), int(n))]
	copy(i.bytes(to, n), b)
	i.put32(got, uint32(len(b)))
	return ok
}

// WasiSnapshotPreview1FdSeek moves the position.
func (i imports) WasiSnapshotPreview1FdSeek(_ *py.Module, fd uint32, offset uint64, whence, to uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	if f.dir() {
		return errIsDir
	}
	pos := int64(offset)
	switch whence {
	case 0:
	case 1:
		pos += int64(f.pos)
	case 2:
		s, e := i.fileStat(f)
		if e != ok {
			return e
		}
		pos += s.Size
	default:
		return errInvalid
	}
	if pos < 0 || pos > 1<<53 {
		return errInvalid
	}
	i.seek(f, uint64(pos))
	i.put64(to, uint64(pos))
	return ok
}

// WasiSnapshotPreview1FdTell returns the position.
func (i imports) WasiSnapshotPreview1FdTell(_ *py.Module, fd, to uint32) uint32 {
	f, found := i.file(fd)
	if !found {
		return errBadFile
	}
	i.put64(to, f.pos)
	return ok
}
