// Package vfs is the file system that programs see. It is virtual: none of it is on the host's file
// system.
//
//	./tools       the generated types of the tools; read-only
//	./workspace   the session's own files, with a quota
//	./skills      the principal's saved modules: flat, .ts, .js, .py and .md only, with
//	              their own quota; shared modules of others are there too, read-only
//
// Any other path is in ./workspace, for reading and for writing: "data.csv", "./data.csv" and
// "/data.csv" are "workspace/data.csv". ("tmp" there is created by the first write into it.) So the
// root lists the contents of ./workspace, and also tools and skills. It doesn't list workspace, so
// that a walk doesn't visit every file twice. ".." at the root is the root, as in a chroot.
//
// An FS is the view of one program. It starts with Trees, which are immutable, and returns the
// Trees that result. If a program fails, its FS is dropped and nothing changes. Errors are those of
// POSIX, as *Error. There are no links, owners, permissions or open files: every operation names
// its path, and is atomic.
package vfs

import (
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
)

// Quota limits the files of one Tree. A zero field means its default.
type Quota struct {
	Bytes     int64 // of all files; default 64 MiB
	Files     int   // files and directories; default 10,000
	FileBytes int64 // of one file; default 16 MiB
	Depth     int   // names in a path below ./workspace; default and maximum 31
}

// Config configures an FS. The zero value makes an empty one.
type Config struct {
	// the read-only files, path ("tools/github/index.ts") to content; called once, when first
	// needed; the map must not change; may be nil
	Tools     func() map[string]string
	Workspace *Tree            // initial content of ./workspace
	Skills    *Tree            // initial content of ./skills
	Shared    *Tree            // skills of others: read-only, shadowed by Skills
	Quota     Quota            // of ./workspace
	Skill     Quota            // of ./skills; default 4 MiB, 500 files, 256 KiB
	Clock     *wallclock.Clock // for modification times; nil: the system's
}

// An ownerMark identifies the FS, and the period, in which a file's bytes may be changed in place.
type ownerMark struct{ _ byte } // not empty, so that each has its own address

// An FS is the files of one program. It is safe for concurrent use.
type FS struct {
	cfg    Config
	shared node

	mu        sync.Mutex // guards the fields below
	owner     *ownerMark
	workspace node
	skills    node
	tools     map[string]string // nil until first needed; shared, so never changed
	types     *node             // ./tools as a directory; nil until first needed
}

// New returns an FS.
func New(cfg Config) *FS {
	cfg.Quota = cfg.Quota.or(Quota{64 << 20, 10_000, 16 << 20, maxDepth - 1})
	cfg.Skill = cfg.Skill.or(Quota{4 << 20, 500, 256 << 10, 1})
	cfg.Skill.Depth = 1
	return &FS{cfg: cfg, owner: new(ownerMark), workspace: cfg.Workspace.node(), skills: cfg.Skills.node(),
		shared: cfg.Shared.node()}
}

func (q Quota) or(d Quota) Quota {
	if q.Bytes <= 0 {
		q.Bytes = d.Bytes
	}
	if q.Files <= 0 {
		q.Files = d.Files
	}
	if q.FileBytes <= 0 {
		q.FileBytes = d.FileBytes
	}
	q.FileBytes = min(q.FileBytes, q.Bytes)
	if q.Depth <= 0 || q.Depth > d.Depth {
		q.Depth = d.Depth
	}
	return q
}

// Workspace returns the current ./workspace.
func (f *FS) Workspace() *Tree {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner = new(ownerMark) // the current files are immutable from now on
	return &Tree{f.workspace}
}

// Skills returns the current ./skills, without those of others.
func (f *FS) Skills() *Tree {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner = new(ownerMark)
	return &Tree{f.skills}
}

// An area is one of the three folders of the root, or the root.
type area int

const (
	root area = iota
	toolsArea
	workspaceArea
	skillsArea
)

// A place is a parsed path.
type place struct {
	op, path string // as written by the program
	area     area
	names    []string // below the area
	folder   bool     // the path ended with a slash: it must be a directory
}

// locate parses a path.
func (f *FS) locate(op, path string) (place, *Error) {
	p := place{op: op, path: path}
	if code, hint := checkPath(path); code != "" {
		return p, p.fail(code, hint)
	}
	names := clean(path)
	p.folder = strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.")
	if len(names) == 0 {
		return p, nil
	}
	switch names[0] {
	case "tools":
		p.area, names = toolsArea, names[1:]
	case "skills":
		p.area, names = skillsArea, names[1:]
	case "workspace":
		p.area, names = workspaceArea, names[1:]
	default:
		p.area = workspaceArea
	}
	p.names = names
	depth := f.cfg.Quota.Depth
	if p.area != workspaceArea {
		depth = maxDepth - 1
	}
	if code, hint := checkNames(names, depth); code != "" {
		return p, p.fail(code, hint)
	}
	return p, nil
}

func (p place) fail(code, hint string) *Error { return fail(code, p.op, p.path, hint) }

// whole reports whether the place is the root or one of its folders, which always exist.
func (p place) whole() bool { return len(p.names) == 0 }

// top returns the directory of an area. f.mu is held.
func (f *FS) top(a area) node {
	switch a {
	case workspaceArea:
		return f.workspace
	case skillsArea:
		return f.skills
	case toolsArea:
		return f.typesTree()
	}
	folder := node{dir: true}
	return node{dir: true, entries: f.workspace.entries.without("workspace").with("skills",
		folder).with("tools", folder)}
}

// typesTree returns ./tools as a directory.
func (f *FS) typesTree() node {
	if f.types == nil {
		t := node{dir: true}
		for name, text := range f.toolFiles() {
			names := clean(name)
			if len(names) < 2 || names[0] != "tools" {
				continue
			}
			t = t.with(names[1:], textNode(text), always())
		}
		f.types = &t
	}
	return *f.types
}

func (f *FS) toolFiles() map[string]string {
	if f.tools == nil {
		if f.cfg.Tools != nil {
			f.tools = f.cfg.Tools()
		}
		if f.tools == nil {
			f.tools = map[string]string{}
		}
	}
	return f.tools
}

// always returns the modification time of the permanent folders.
func always() time.Time { return time.UnixMilli(0) }

func textNode(text string) node {
	return node{modified: always(), size: int64(len(text)), file: &file{load: func() ([]byte, error) {
		return []byte(text), nil
	}}}
}

// look returns the node at a place, or an error if there is none. f.mu is held.
func (f *FS) look(p place) (node, *Error) {
	if p.area == toolsArea && !p.whole() && !p.folder {
		if text, ok := f.toolFiles()["tools/"+strings.Join(p.names, "/")]; ok {
			return textNode(text), nil
		}
	}
	n, ok := f.top(p.area).find(p.names)
	if !ok && p.area == skillsArea {
		n, ok = f.shared.find(p.names)
	}
	switch {
	case !ok && f.throughFile(p):
		return node{}, p.fail("ENOTDIR", "")
	case !ok:
		return node{}, p.fail("ENOENT", f.missing(p))
	case p.folder && !n.dir:
		return node{}, p.fail("ENOTDIR", "")
	}
	if p.whole() {
		n.modified = always() // regardless of changes in it
	}
	return n, nil
}

// throughFile reports whether a path uses a file as a directory.
func (f *FS) throughFile(p place) bool {
	n := f.top(p.area)
	for _, name := range p.names {
		next, ok := n.entries.get(name)
		if !ok {
			return !n.dir
		}
		n = next
	}
	return false
}

// missing returns a hint where to look for something that doesn't exist.
func (f *FS) missing(p place) string {
	switch p.area {
	case toolsArea:
		return "the files are ./tools/<upstream>/<tool>.ts"
	case skillsArea:
		return "skills are listed by readdir of ./skills"
	}
	if strings.HasPrefix(p.path, "/") || len(p.names) > 1 {
		if parent, ok := f.workspace.find(p.names[:len(p.names)-1]); !ok || !parent.dir {
			return "files are written below ./workspace, where " +
				printable("./"+path.Dir(strings.Join(p.names, "/"))) + " is no directory"
		}
	}
	return ""
}

// An Info is the result of Stat.
type Info struct {
	Dir      bool
	Size     int64     // bytes; 0 for a directory
	Modified time.Time // the epoch for permanent folders
	ReadOnly bool
}

// Stat returns information about a file or directory.
func (f *FS) Stat(path string) (Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("stat", path)
	if e != nil {
		return Info{}, e
	}
	n, e := f.look(p)
	if e != nil {
		return Info{}, e
	}
	readOnly := p.area == toolsArea || p.area == root
	if p.area == skillsArea && !p.whole() {
		_, own := f.skills.find(p.names)
		readOnly = !own
	}
	return Info{n.dir, n.size, n.modified, readOnly}, nil
}

// An Item is an entry of a directory.
type Item struct {
	Name string
	Dir  bool
}

// List returns the entries of a directory, sorted by name.
func (f *FS) List(path string) ([]Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("scandir", path)
	if e != nil {
		return nil, e
	}
	n, e := f.look(p)
	if e != nil {
		return nil, e
	}
	if !n.dir {
		return nil, p.fail("ENOTDIR", "")
	}
	items := []Item{}
	add := func(name string, n node) bool {
		items = append(items, Item{name, n.dir})
		return true
	}
	n.entries.each(add)
	if p.area == skillsArea && p.whole() {
		f.shared.entries.each(add)
		slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
		items = slices.CompactFunc(items, func(a, b Item) bool { return a.Name == b.Name })
	}
	return items, nil
}

// Read returns n bytes of a file starting at off, or all the rest if n is negative; fewer at the
// end of the file. The caller must not modify the bytes.
func (f *FS) Read(path string, off, n int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("open", path)
	if e != nil {
		return nil, e
	}
	at, e := f.look(p)
	switch {
	case e != nil:
		return nil, e
	case at.dir:
		p.op = "read"
		return nil, p.fail("EISDIR", "it is a directory: list it")
	case off < 0:
		p.op = "read"
		return nil, p.fail("EINVAL", "the offset is negative")
	}
	data, e := contents(p, at)
	if e != nil {
		return nil, e
	}
	data = data[min(off, int64(len(data))):]
	if n >= 0 && n < int64(len(data)) {
		data = data[:n]
	}
	if at.file.owner != nil && at.file.owner == f.owner {
		return slices.Clone(data), nil // the file may be changed in place
	}
	return data[:len(data):len(data)], nil
}

// contents returns the content of a file.
func contents(p place, n node) ([]byte, *Error) {
	data, err := n.file.bytes()
	if err == nil && int64(len(data)) != n.size {
		err = fail("EIO", p.op, p.path, "the stored file has another size")
	}
	if err != nil {
		e := p.fail("EIO", "the file can't be read from the store")
		e.Err = err
		return nil, e
	}
	return data, nil
}
