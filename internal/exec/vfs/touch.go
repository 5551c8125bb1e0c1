package vfs

import "strings"

// A Touch is one file or directory whose content an operation reads, creates, changes, moves or
// removes.
type Touch struct {
	Path  string // clean, below the root: "workspace/a/b.csv"
	Write bool
}

// Touches returns the files that an operation of the guest protocol would read or write, whether or
// not it will succeed, for an access check. A rename reads and writes the source and writes the
// target, with everything below. Otherwise a file that must not be read could be read under another
// name. Names and sizes are not content: list and stat touch nothing.
func (f *FS) Touches(op, path, to string) []Touch {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, e := f.locate(op, path)
	if e != nil || src.area == root {
		return nil // the operation itself returns the error
	}
	switch op {
	case "read":
		return []Touch{{src.clean(), false}}
	case "write", "truncate", "mkdir":
		return []Touch{{src.clean(), true}}
	case "rm", "rmdir":
		var all []Touch
		for _, p := range f.below(src) {
			all = append(all, Touch{p, true})
		}
		return all
	case "rename", "copy":
		dst, e := f.locate(op, to)
		if e != nil || dst.area == root {
			return nil
		}
		from, there := src.clean(), dst.clean()
		if op == "copy" {
			return []Touch{{from, false}, {there, true}}
		}
		var all []Touch
		for _, p := range f.below(src) {
			all = append(all, Touch{p, false}, Touch{p, true}, Touch{there + strings.TrimPrefix(p, from), true})
		}
		return all
	}
	return nil
}

// clean returns the external path of a place.
func (p place) clean() string {
	area := map[area]string{toolsArea: "tools", workspaceArea: "workspace", skillsArea: "skills"}[p.area]
	return strings.Join(append([]string{area}, p.names...), "/")
}

// below returns the path of a place, and those of everything in it. f.mu is held.
func (f *FS) below(p place) []string {
	all := []string{p.clean()}
	n, e := f.look(p)
	if e != nil || !n.dir {
		return all
	}
	walk(n, "", func(path string, _ Entry) bool {
		all = append(all, all[0]+"/"+path)
		return true
	})
	return all
}

// RefusalError returns the error of an operation that an access check refused, with the reason.
func RefusalError(op, path, why string, err error) *Error {
	e := fail("EACCES", map[string]string{"read": "open", "write": "open", "copy": "copyfile"}[op], path, why)
	if e.Op == "" {
		e.Op = printable(op)
	}
	e.Err = err
	return e
}
