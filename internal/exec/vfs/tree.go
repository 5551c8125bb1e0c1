package vfs

import (
	"crypto/sha256"
	"iter"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Digest is the SHA-256 of a file's bytes.
type Digest [sha256.Size]byte

// A file is the content of a file. Only the FS with the same mark may change it. A file
// without a mark is immutable.
type file struct {
	owner *ownerMark

	mu     sync.Mutex // guards the fields below, which are loaded lazily
	data   []byte
	load   func() ([]byte, error) // returns data; nil once loaded
	digest *Digest
}

// bytes returns the content, which the caller must not modify.
func (f *file) bytes() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.load == nil {
		return f.data, nil
	}
	data, err := f.load()
	if err != nil {
		return nil, err
	}
	if f.digest != nil && sha256.Sum256(data) != *f.digest {
		return nil, tool.Errorf(tool.Internal, "the stored bytes of a file were changed")
	}
	f.data, f.load = data, nil
	return data, nil
}

func (f *file) sum() (Digest, error) {
	data, err := f.bytes()
	if err != nil {
		return Digest{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.digest == nil {
		d := Digest(sha256.Sum256(data))
		f.digest = &d
	}
	return *f.digest, nil
}

// An Entry is a file or a directory. Use File, Stored or Folder to create one.
type Entry struct {
	Dir      bool
	Size     int64 // bytes; 0 for a directory
	Modified time.Time
	file     *file
}

// File returns an Entry for a file. It keeps data, which must not change.
func File(data []byte, modified time.Time) Entry {
	return Entry{Size: int64(len(data)), Modified: modified, file: &file{data: data}}
}

// StoredEntry returns an Entry for a file whose content is stored elsewhere. load is called on
// first use, and returns size bytes with the given digest.
func StoredEntry(size int64, digest Digest, modified time.Time, load func() ([]byte, error)) Entry {
	return Entry{Size: size, Modified: modified, file: &file{load: load, digest: &digest}}
}

// Folder returns an Entry for a directory.
func Folder(modified time.Time) Entry { return Entry{Dir: true, Modified: modified} }

// Data returns the content of a file, which the caller must not modify. It fails only for a Stored
// file.
func (e Entry) Data() ([]byte, error) {
	if e.file == nil {
		return nil, nil
	}
	return e.file.bytes()
}

// Digest returns the digest of a file. It is computed once; that of a Stored file is known.
func (e Entry) Digest() (Digest, error) {
	if e.file == nil {
		return Digest{}, nil
	}
	e.file.mu.Lock()
	d := e.file.digest
	e.file.mu.Unlock()
	if d != nil {
		return *d, nil
	}
	return e.file.sum()
}

func (n node) entry() Entry {
	return Entry{Dir: n.dir, Size: n.size, Modified: n.modified, file: n.file}
}

// A Tree is a set of files and directories by path ("out/data.csv": clean, relative, with slashes).
// It is immutable, and shares structure with the Trees that it was derived from. nil is the empty
// Tree.
type Tree struct{ root node }

func (t *Tree) node() node {
	if t == nil {
		return node{dir: true}
	}
	n := t.root
	n.dir = true
	return n
}

// Len returns the number of files and directories.
func (t *Tree) Len() int { return t.node().totalsBelow().count }

// Size returns the total size of all files, in bytes.
func (t *Tree) Size() int64 { return t.node().totalsBelow().bytes }

// Get returns the entry at path.
func (t *Tree) Get(path string) (Entry, bool) {
	names, err := treePath(path)
	if err != nil || len(names) == 0 {
		return Entry{}, false
	}
	n, ok := t.node().find(names)
	return n.entry(), ok
}

// With returns a Tree that has e at path, and creates missing directories. If e is a directory, one
// at path keeps its contents. With fails if path is invalid, or leads through a file.
func (t *Tree) With(path string, e Entry) (*Tree, error) {
	names, err := treePath(path)
	if err != nil {
		return nil, err
	}
	root := t.node()
	if len(names) == 0 {
		return nil, tool.Errorf(tool.Invalid, "the root of a tree is always there")
	}
	for i := range names[1:] {
		if n, ok := root.find(names[:i+1]); ok && !n.dir {
			return nil, tool.Errorf(tool.Invalid, "%q leads through a file", path)
		}
	}
	n := node{dir: e.Dir, file: e.file, size: e.Size, modified: e.Modified}
	if !e.Dir && n.file == nil {
		n.file, n.size = &file{}, 0
	}
	if old, ok := root.find(names); ok && old.dir && e.Dir {
		n.entries = old.entries
	}
	return &Tree{root.replaceKeepingTimes(names, n)}, nil
}

// replaceKeepingTimes is like with, but leaves the times of parent directories unchanged.
func (n node) replaceKeepingTimes(names []string, m node) node {
	if len(names) == 0 {
		return m
	}
	child, found := n.entries.get(names[0])
	if !found {
		child = node{dir: true, modified: m.modified}
	}
	n.entries = n.entries.with(names[0], child.replaceKeepingTimes(names[1:], m))
	return n
}

// Without returns a Tree without path and everything below it.
func (t *Tree) Without(path string) *Tree {
	names, err := treePath(path)
	if err != nil || len(names) == 0 {
		return t
	}
	root := t.node()
	if _, ok := root.find(names); !ok {
		return t
	}
	return &Tree{root.removeKeepingTimes(names)}
}

// removeKeepingTimes is like without, but leaves the times of parent directories unchanged.
func (n node) removeKeepingTimes(names []string) node {
	if len(names) == 1 {
		n.entries = n.entries.without(names[0])
		return n
	}
	child, _ := n.entries.get(names[0])
	n.entries = n.entries.with(names[0], child.removeKeepingTimes(names[1:]))
	return n
}

// All returns the entries ordered by name, each directory before its contents.
func (t *Tree) All() iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) { walk(t.node(), "", yield) }
}

func walk(n node, prefix string, yield func(string, Entry) bool) bool {
	return n.entries.each(func(name string, n node) bool {
		return yield(prefix+name, n.entry()) && walk(n, prefix+name+"/", yield)
	})
}

// A Change is a path at which two Trees differ.
type Change struct {
	Path  string
	Entry Entry // the new entry
	Gone  bool  // the path is gone, and there is no Entry
}

// Changes returns the differences from old to t; applied to old they yield t. The time is
// proportional to the difference. A removed directory has a Change for each path in it. Removals
// come last, deepest first.
func (t *Tree) Changes(old *Tree) []Change {
	var c changes
	c.between(old.node().entries, t.node().entries, "")
	for i := len(c.gone) - 1; i >= 0; i-- {
		c.now = append(c.now, c.gone[i])
	}
	return c.now
}

type changes struct{ now, gone []Change }

func (c *changes) between(old, now *order, prefix string) {
	switch {
	case old == now:
		return
	case now == nil:
		old.each(func(name string, n node) bool {
			c.gone = append(c.gone, Change{Path: prefix + name, Gone: true})
			c.between(n.entries, nil, prefix+name+"/")
			return true
		})
		return
	}
	before, was, found, after := old.split(now.name)
	c.between(before, now.left, prefix)
	path := prefix + now.name
	if n := now.node; !found || was.dir != n.dir || was.file != n.file || was.size != n.size ||
		!was.modified.Equal(n.modified) {
		c.now = append(c.now, Change{Path: path, Entry: n.entry()})
	}
	c.between(was.entries, now.node.entries, path+"/")
	c.between(after, now.right, prefix)
}
