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

// A file is the bytes of a file. Only the FS whose mark it bears may change it; without one, it never changes.
type file struct {
	owner *mark

	mu     sync.Mutex // guards what follows, which is found out late
	data   []byte
	load   func() ([]byte, error) // gives data; nil when it is there
	digest *Digest
}

// bytes gives the bytes of the file, which must not be changed.
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
		return nil, tool.Errorf(tool.Internal, "the stored bytes of a file are not those that were stored")
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

// An Entry is a file or a directory. File, Stored and Folder make one.
type Entry struct {
	Dir      bool
	Size     int64 // bytes; 0 for a directory
	Modified time.Time
	file     *file
}

// File makes the Entry of a file. It keeps data, which must not change.
func File(data []byte, modified time.Time) Entry {
	return Entry{Size: int64(len(data)), Modified: modified, file: &file{data: data}}
}

// Stored makes the Entry of a file whose bytes are elsewhere: load is called when they are first needed, and gives as
// many as size says, with that digest.
func Stored(size int64, digest Digest, modified time.Time, load func() ([]byte, error)) Entry {
	return Entry{Size: size, Modified: modified, file: &file{load: load, digest: &digest}}
}

// Folder makes the Entry of a directory.
func Folder(modified time.Time) Entry { return Entry{Dir: true, Modified: modified} }

// Data gives the bytes of a file, which must not be changed. Only those of a Stored one can fail.
func (e Entry) Data() ([]byte, error) {
	if e.file == nil {
		return nil, nil
	}
	return e.file.bytes()
}

// Digest gives the digest of a file. It is computed once; that of a Stored one is known.
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

// A Tree is files and directories by path ("out/data.csv": clean, relative, with slashes). It never changes, and shares
// what it has in common with the Trees it came of; nil is the empty one.
type Tree struct{ root node }

func (t *Tree) node() node {
	if t == nil {
		return node{dir: true}
	}
	n := t.root
	n.dir = true
	return n
}

// Len is the number of files and directories.
func (t *Tree) Len() int { return t.node().below().count }

// Size is the number of bytes of all files.
func (t *Tree) Size() int64 { return t.node().below().bytes }

// Get gives what is at path.
func (t *Tree) Get(path string) (Entry, bool) {
	names, err := treePath(path)
	if err != nil || len(names) == 0 {
		return Entry{}, false
	}
	n, ok := t.node().find(names)
	return n.entry(), ok
}

// With gives a Tree that has e at path, in directories that are made where they are missing. A directory at path keeps
// what is in it if e is one. It fails where path is no path of a Tree, or leads through a file.
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
	return &Tree{root.restored(names, n)}, nil
}

// restored is with, but leaves the times of the directories above alone.
func (n node) restored(names []string, m node) node {
	if len(names) == 0 {
		return m
	}
	child, found := n.entries.get(names[0])
	if !found {
		child = node{dir: true, modified: m.modified}
	}
	n.entries = n.entries.with(names[0], child.restored(names[1:], m))
	return n
}

// Without gives a Tree that has nothing at path or below it.
func (t *Tree) Without(path string) *Tree {
	names, err := treePath(path)
	if err != nil || len(names) == 0 {
		return t
	}
	root := t.node()
	if _, ok := root.find(names); !ok {
		return t
	}
	return &Tree{root.removed(names)}
}

// removed is without, but leaves the times of the directories above alone.
func (n node) removed(names []string) node {
	if len(names) == 1 {
		n.entries = n.entries.without(names[0])
		return n
	}
	child, _ := n.entries.get(names[0])
	n.entries = n.entries.with(names[0], child.removed(names[1:]))
	return n
}

// All gives the entries, each directory before what is in it, in the order of their names.
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
	Entry Entry // what is there now
	Gone  bool  // nothing is: there is no Entry
}

// Changes gives where t differs from old, in no more time than that takes: old with these changes is t. Where a
// directory is gone so is all in it, each with a Change; what is gone comes last, deepest first.
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
	if n := now.node; !found || was.dir != n.dir || was.file != n.file || was.size != n.size || !was.modified.Equal(n.modified) {
		c.now = append(c.now, Change{Path: path, Entry: n.entry()})
	}
	c.between(was.entries, now.node.entries, path+"/")
	c.between(after, now.right, prefix)
}
