package vfs

import (
	"fmt"
	"strings"
)

// change checks that a place may be created or modified: its directory exists, and it is neither
// the root nor one of its folders. f.mu is held.
func (f *FS) change(p place) *Error {
	switch {
	case p.whole() && p.area == root:
		return p.fail("EBUSY", "the root always exists")
	case p.whole():
		return p.fail("EBUSY", "it always exists: change its contents")
	case p.area == toolsArea:
		return p.fail("EROFS", "./tools is generated from the tools: write files to ./workspace")
	case p.area == skillsArea && (len(p.names) > 1 || !isSkill(p.names[0])):
		return p.fail("EPERM", "skills are single files ./skills/<name>.ts, .js, .py or .md, with names of letters, "+
			"digits and _: write other files to ./workspace")
	case f.throughFile(p):
		return p.fail("ENOTDIR", "")
	}
	above := p.names[:len(p.names)-1]
	if _, ok := f.top(p.area).find(above); !ok {
		if f.temporary(p) {
			return nil
		}
		return p.fail("ENOENT", f.missing(p))
	}
	return nil
}

// temporary reports whether a place is directly in tmp, the folder that is created by the first
// write.
func (f *FS) temporary(p place) bool {
	return p.area == workspaceArea && len(p.names) == 2 && p.names[0] == "tmp"
}

// area returns the node of one of the two writable folders.
func (f *FS) area(a area) *node {
	if a == skillsArea {
		return &f.skills
	}
	return &f.workspace
}

// putNode stores n at a place, within the quota.
func (f *FS) putNode(p place, n node) *Error {
	top, quota := f.area(p.area), f.cfg.Quota
	if p.area == skillsArea {
		quota = f.cfg.Skill
	}
	next := top.with(p.names, n, f.cfg.Clock.Now())
	was, now := top.totalsBelow(), next.totalsBelow()
	switch {
	case now.bytes > quota.Bytes && now.bytes > was.bytes:
		return p.fail("ENOSPC",
			fmt.Sprintf("the quota is %s, of which %s are used: remove files that are no longer needed",
				sizeText(quota.Bytes), sizeText(was.bytes)))
	case now.count > quota.Files && now.count > was.count:
		return p.fail("EDQUOT",
			fmt.Sprintf("the quota of %d files and directories is used up: remove files that are no longer needed",
				quota.Files))
	}
	*top = next
	return nil
}

// limit returns the maximum size of a file at a place.
func (f *FS) limit(p place) int64 {
	if p.area == skillsArea {
		return f.cfg.Skill.FileBytes
	}
	return f.cfg.Quota.FileBytes
}

// Write writes data to a file. flag is as in fopen: "w" (and "") replaces or creates the file, and
// "a" appends to it or creates it. Both with "x" ("wx", "ax") fail if it exists. "r+" writes at off
// into the file, which must exist, and fills a gap between its end and off with zeros. A "+" after
// "w" or "a" changes nothing. Write keeps no reference to data.
func (f *FS) Write(path string, data []byte, flag string, off int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("open", path)
	if e != nil {
		return e
	}
	mode, exclusive, ok := parseFlag(flag)
	if !ok {
		return p.fail("EINVAL", fmt.Sprintf("invalid flag %q: use w, wx, a, ax or r+ for writing", printable(flag)))
	}
	old, e := f.writable(p, mode == 'r', exclusive)
	if e != nil {
		return e
	}
	p.op = "write"
	switch mode {
	case 'w':
		old.size, off = 0, 0
	case 'a':
		off = old.size
	}
	limit := f.limit(p)
	switch {
	case off < 0:
		return p.fail("EINVAL", "the offset is negative")
	case len(data) == 0 && mode == 'r': // writes nothing, at any offset
		return nil
	case int64(len(data)) > limit || off > limit-int64(len(data)):
		return p.fail("EFBIG", "a file may have "+sizeText(limit))
	}
	return asError(f.store(p, old, off, data, max(old.size, off+int64(len(data)))))
}

func parseFlag(flag string) (mode byte, exclusive, ok bool) {
	switch strings.TrimSuffix(flag, "+") {
	case "", "w":
		return 'w', false, true
	case "wx", "xw":
		return 'w', true, true
	case "a":
		return 'a', false, true
	case "ax", "xa":
		return 'a', true, true
	case "r":
		return 'r', false, flag == "r+"
	}
	return 0, false, false
}

// writable returns the file to be written, or an empty one if it doesn't exist and needn't.
func (f *FS) writable(p place, exists, exclusive bool) (node, *Error) {
	n, missing := f.look(p)
	if p.folder && !exists && !p.whole() {
		if e := f.change(p); e != nil {
			return n, e
		}
		return n, p.fail("EISDIR", "the name of a file can't end in /")
	}
	switch {
	case missing == nil && exclusive:
		return n, p.fail("EEXIST", "")
	case missing == nil && n.dir:
		return n, p.fail("EISDIR", "it is a directory: write to a file in it")
	}
	if e := f.change(p); e != nil {
		return n, e
	}
	switch {
	case missing == nil:
		return n, nil
	case missing.Code != "ENOENT":
		return n, missing
	case exists:
		return n, missing
	}
	return node{file: &file{}}, nil
}

// store writes data over the content of old, at off, and stores the result with the given size. It
// returns an error if the quota doesn't allow it.
func (f *FS) store(p place, old node, off int64, data []byte, size int64) *Error {
	n := node{size: size, modified: f.cfg.Clock.Now(), file: &file{owner: f.owner}}
	own := old.file.owner == f.owner
	if own { // no one else sees its bytes: they may be changed in place
		n.file = &file{owner: f.owner, data: old.file.data[:old.size]}
	} else if old.size > 0 {
		was, e := contents(p, old)
		if e != nil {
			return e
		}
		n.file.data = was[:old.size:old.size]
	}
	if e := f.putNode(p, n); e != nil {
		return e
	}
	n.file.data = patchBytes(n.file.data, own, off, data, size)
	return nil
}

// patchBytes returns b with data at off, padded with zeros to size; if own is set, b itself may be
// changed.
func patchBytes(b []byte, own bool, off int64, data []byte, size int64) []byte {
	if more := size - int64(len(b)); own && len(b) > 0 {
		b = append(b, make([]byte, more)...) // in amortized time
	} else {
		b = append(make([]byte, 0, size), b...)[:size]
	}
	copy(b[off:], data)
	return b
}

// Truncate cuts a file to size bytes, or pads it with zeros.
func (f *FS) Truncate(path string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("truncate", path)
	switch {
	case e != nil:
		return e
	case size < 0:
		return p.fail("EINVAL", "the size is negative")
	}
	old, e := f.writable(p, true, false)
	switch {
	case e != nil:
		return e
	case size > f.limit(p):
		return p.fail("EFBIG", "a file may have "+sizeText(f.limit(p)))
	}
	if size < old.size { // the bytes beyond must not come back
		old, e = f.head(p, old, size)
		if e != nil {
			return e
		}
	}
	return asError(f.store(p, old, 0, nil, size))
}

// head returns the first bytes of a file as a file without an owner.
func (f *FS) head(p place, n node, size int64) (node, *Error) {
	data, e := contents(p, n)
	if e != nil {
		return n, e
	}
	return node{file: &file{data: data[:size:size]}, size: size}, nil
}

// Mkdir creates a directory; with recursive also its missing parents, and an existing directory is
// no error.
func (f *FS) Mkdir(path string, recursive bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("mkdir", path)
	if e != nil {
		return e
	}
	p.folder = false
	if n, missing := f.look(p); missing == nil {
		if recursive && n.dir {
			return nil
		}
		return p.fail("EEXIST", "")
	}
	if e := f.change(p); e != nil && !(recursive && e.Code == "ENOENT") {
		return e
	}
	if p.area == skillsArea {
		return p.fail("EPERM", "./skills has no directories")
	}
	return asError(f.putNode(p, node{dir: true, modified: f.cfg.Clock.Now()}))
}

// Remove removes a file, or with recursive a directory and its contents. With force a missing path
// is not an error.
func (f *FS) Remove(path string, recursive, force bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("rm", path)
	if e != nil {
		return e
	}
	n, e := f.look(p)
	switch {
	case e != nil && e.Code == "ENOENT" && force:
		return nil
	case e != nil:
		return e
	}
	if n.dir && !recursive {
		return p.fail("EISDIR", "it is a directory: remove it with recursive")
	}
	return asError(f.drop(p))
}

// asError keeps a nil *Error from becoming an error.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, e := f.locate("rmdir", path)
	if e != nil {
		return e
	}
	n, e := f.look(p)
	switch {
	case e != nil:
		return e
	case !n.dir:
		return p.fail("ENOTDIR", "")
	case n.entries != nil && !p.whole() && p.area != toolsArea:
		return p.fail("ENOTEMPTY", "")
	}
	return asError(f.drop(p))
}

// drop removes an existing file or directory.
func (f *FS) drop(p place) *Error {
	if e := f.change(p); e != nil {
		return e
	}
	top := f.area(p.area)
	if _, own := top.find(p.names); !own {
		return p.fail("EROFS", "another user shares this skill: only that user can remove it")
	}
	*top = top.without(p.names, f.cfg.Clock.Now())
	return nil
}

// sizeText formats a number of bytes for users.
func sizeText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
}
