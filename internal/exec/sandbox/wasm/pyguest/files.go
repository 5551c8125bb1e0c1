package pyguest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// The table of open files is in the guest's memory: maxFiles slots of slotSize bytes. The first
// slotHead bytes hold a kind, flags, the position and the length of the path, which follows. The
// guest may overwrite it: a slot grants nothing that the guest couldn't request anyway.
const (
	maxFiles = 64
	slotSize = 1024
	slotHead = 24
	maxPath  = slotSize - slotHead

	root      = 3 // the descriptor of the root directory, which is always open
	firstFile = 4
)

// Kinds of open files.
const (
	slotFree = iota
	hostFile
	hostDir
	libraryFileKind
	libraryDir
)

// Flags of open files.
const (
	canRead = 1 << iota
	canWrite
	appends
)

// A file is an open file.
type file struct {
	slot  uint32 // address; 0 for the root
	kind  uint32
	flags uint32
	pos   uint64
	path  string // as the program passed it; for the library: clean, without a leading '/'
}

func (f *file) dir() bool { return f.kind == hostDir || f.kind == libraryDir }

// file returns the open file fd.
func (i imports) file(fd uint32) (f file, found bool) {
	if fd == root {
		return file{kind: hostDir, flags: canRead, path: "."}, true
	}
	if fd < firstFile || fd >= firstFile+maxFiles {
		return file{}, false
	}
	f.slot = i.g.m.BpFiles() + (fd-firstFile)*slotSize
	f.kind, f.flags, f.pos = i.get32(f.slot), i.get32(f.slot+4), i.get64(f.slot+8)
	n := i.get32(f.slot + 16)
	if f.kind == slotFree || f.kind > libraryDir || n > maxPath || f.pos > 1<<62 {
		return file{}, false
	}
	f.path = string(i.bytes(f.slot+slotHead, n))
	return f, true
}

// seek sets f's position.
func (i imports) seek(f file, pos uint64) {
	if f.slot != 0 {
		i.put64(f.slot+8, pos)
	}
}

// open stores f in the first free slot and returns its descriptor.
func (i imports) open(f file) (fd, errno uint32) {
	if len(f.path) > maxPath {
		return 0, errName
	}
	for k := range uint32(maxFiles) {
		at := i.g.m.BpFiles() + k*slotSize
		if i.get32(at) != slotFree {
			continue
		}
		i.put32(at, f.kind)
		i.put32(at+4, f.flags)
		i.put64(at+8, f.pos)
		i.put32(at+16, uint32(len(f.path)))
		copy(i.bytes(at+slotHead, maxPath), f.path)
		return firstFile + k, ok
	}
	return 0, errMany
}

// resolve returns the path of name relative to the open directory fd, and its name in the library
// if it is there.
func (i imports) resolve(fd, at, n uint32) (name, library string, errno uint32) {
	f, found := i.file(fd)
	switch {
	case !found:
		return "", "", errBadFile
	case !f.dir():
		return "", "", errNotDir
	case n > 16<<10:
		return "", "", errName
	}
	name = string(i.bytes(at, n))
	if !utf8.ValidString(name) { // JSON can't represent it, and would map many names to one
		return "", "", errIllegal
	}
	if f.slot != 0 && !strings.HasPrefix(name, "/") {
		name = f.path + "/" + name
	}
	clean := path.Clean("/" + name)
	if clean == libraryRoot || strings.HasPrefix(clean, libraryRoot+"/") {
		return name, clean[1:], ok
	}
	if name == "" {
		return "", "", errNoEntry
	}
	return name, "", ok
}

// A stat is a file's metadata.
type stat struct {
	Dir      bool  `json:"dir"`
	Size     int64 `json:"size"`
	Mtime    int64 `json:"mtime"`
	ReadOnly bool  `json:"readonly"`
}

// ask requests a file operation from the host and returns its value, if any.
func (i imports) ask(f sandbox.File) (value json.RawMessage, errno uint32) {
	q, err := json.Marshal(sandbox.GuestMessage{File: &f})
	if err != nil {
		return nil, errInvalid
	}
	line, answered := i.g.host.Ask(q)
	if !answered {
		return nil, errNoSys
	}
	var m sandbox.HostMessage
	if err := json.Unmarshal(line, &m); err != nil || m.Answer == nil {
		return nil, errIO
	}
	if m.At > 0 {
		i.g.host.SetClock(m.At)
	}
	if e := m.Answer.Error; e != nil {
		if n, known := codes.Get()[e.Code]; known {
			return nil, n
		}
		return nil, errIO
	}
	return m.Answer.Value, ok
}

// stat requests the metadata of a path from the host.
func (i imports) stat(name string) (s stat, errno uint32) {
	v, e := i.ask(sandbox.File{Op: "stat", Path: name})
	if e == ok && json.Unmarshal(v, &s) != nil {
		return s, errIO
	}
	return s, e
}

// readFile requests at most n bytes of a file from the host.
func (i imports) readFile(name string, pos uint64, n int64) ([]byte, uint32) {
	v, e := i.ask(sandbox.File{Op: "read", Path: name, Base64: true, Offset: int64(pos), Length: &n})
	if e != ok {
		return nil, e
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return nil, errIO
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || int64(len(b)) > n {
		return nil, errIO
	}
	return b, ok
}

// Types of files.
const (
	typeUnknown = 0
	typeDir     = 3
	typeFile    = 4
)

// putStat writes a filestat.
func (i imports) putStat(to uint32, name string, s stat) {
	b := i.bytes(to, 64)
	clear(b)
	h := fnv.New64a()
	_, _ = h.Write([]byte(path.Clean("/" + name))) // never fails
	binary.LittleEndian.PutUint64(b[0:], 1)
	binary.LittleEndian.PutUint64(b[8:], h.Sum64())
	b[16] = typeFile
	if s.Dir {
		b[16] = typeDir
	}
	binary.LittleEndian.PutUint64(b[24:], 1)
	binary.LittleEndian.PutUint64(b[32:], uint64(s.Size))
	for _, at := range []int{40, 48, 56} {
		binary.LittleEndian.PutUint64(b[at:], uint64(s.Mtime)*1e6)
	}
}

// slots returns the parts of the guest's memory named by a list of n buffers at at, at most max
// bytes in total.
func (i imports) slots(at, n uint32, max uint32) [][]byte {
	var all [][]byte
	for k := uint32(0); k < min(n, 1024) && max > 0; k++ {
		p, l := i.get32(at+8*k), i.get32(at+8*k+4)
		l = min(l, max)
		max -= l
		if l > 0 {
			all = append(all, i.bytes(p, l))
		}
	}
	return all
}
