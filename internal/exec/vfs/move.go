package vfs

import (
	"slices"
	"strings"
)

// Rename moves a file, or a directory and its contents. It replaces an existing file or an empty
// directory.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, e := f.locate("rename", from)
	if e != nil {
		return e
	}
	dst, e := f.locate("rename", to)
	if e != nil {
		return e
	}
	n, e := f.look(src)
	if e != nil {
		return e
	}
	if e := f.change(src); e != nil {
		return e
	}
	if e := f.movable(n, src, dst); e != nil {
		return e
	}
	if src.area == dst.area && slices.Equal(src.names, dst.names) {
		return nil
	}
	workspace, skills := f.workspace, f.skills
	if e := f.drop(src); e != nil {
		return e
	}
	if src.area == dst.area { // the quota is not checked: its use doesn't grow
		top := f.area(dst.area)
		*top = top.with(dst.names, n, f.cfg.Clock.Now())
		return nil
	}
	if e := f.putNode(dst, n); e != nil {
		f.workspace, f.skills = workspace, skills
		return e
	}
	return nil
}

// holds reports whether q is below p.
func (p place) holds(q place) bool {
	return p.area == q.area && len(p.names) < len(q.names) && slices.Equal(p.names, q.names[:len(p.names)])
}

// movable returns an error if n, which is at src, can't be moved to dst.
func (f *FS) movable(n node, src, dst place) *Error {
	slash := dst.folder
	dst.folder = false
	there, missing := f.look(dst)
	if e := f.change(dst); e != nil {
		return e
	}
	same := src.area == dst.area && slices.Equal(src.names, dst.names)
	switch {
	case slash && !n.dir:
		return dst.fail("ENOTDIR", "")
	case n.dir && src.holds(dst):
		return dst.fail("EINVAL", "a directory can't be moved into itself")
	case dst.holds(src):
		return dst.fail("ENOTEMPTY", "")
	case missing != nil || same:
	case there.dir && !n.dir:
		return dst.fail("EISDIR", "it is a directory: name the file in it")
	case n.dir && !there.dir:
		return dst.fail("ENOTDIR", "")
	case there.entries != nil:
		return dst.fail("ENOTEMPTY", "")
	}
	switch {
	case n.dir && dst.area == skillsArea:
		return dst.fail("EPERM", "./skills has no directories")
	case n.size > f.limit(dst) && src.area != dst.area:
		return dst.fail("EFBIG", "a file may have "+sizeText(f.limit(dst)))
	}
	if below := n.totalsBelow(); below.count > 0 {
		if len(dst.names)+below.depth > f.cfg.Quota.Depth || len(strings.Join(dst.names, "/"))+1+
			below.long > maxPath-len("workspace/") {
			return dst.fail("ENAMETOOLONG", "the paths in the directory would be too long")
		}
	}
	return nil
}

// Copy copies a file. It replaces an existing one unless exclusive is set.
func (f *FS) Copy(from, to string, exclusive bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, e := f.locate("copyfile", from)
	if e != nil {
		return e
	}
	dst, e := f.locate("copyfile", to)
	if e != nil {
		return e
	}
	n, e := f.look(src)
	switch {
	case e != nil:
		return e
	case n.dir:
		return src.fail("EISDIR", "only files can be copied")
	}
	if _, e := f.writable(dst, false, exclusive); e != nil {
		return e
	}
	switch {
	case src.area == dst.area && slices.Equal(src.names, dst.names):
		return nil
	case n.size > f.limit(dst):
		return dst.fail("EFBIG", "a file may have "+sizeText(f.limit(dst)))
	}
	if n.file.owner == f.owner {
		n.file.owner = nil // it is now in two places: neither may change it in place
	}
	n.modified = f.cfg.Clock.Now()
	return asError(f.putNode(dst, n))
}
