package console

import "path"

// maxEntries is how many entries of a directory a page shows.
const maxEntries = 1000

// A folder is a directory of a session or of a sandbox, for the template "folder".
type folder struct {
	Page        string // the address of the page of the session or the sandbox
	Dir, Parent string
	Entries     []entry
	More        int
	Clipped     bool // there are more than were counted
	Bad         string
	MayChange   bool
}

// An entry is a file or a directory.
type entry struct {
	Name, Path string
	Dir, File  bool
	Target     string // of a link
	Size       *int64 // nil: unknown
}

// newFolder returns a directory without entries.
func newFolder(dir string, mayChange bool) *folder {
	f := &folder{Dir: dir, MayChange: mayChange}
	if dir != "/" {
		f.Parent = path.Dir(dir)
	}
	return f
}
