package executor

import (
	"encoding/json"
	"path"
	"sort"
	"strings"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// file answers a request for a file. The files are a tree of ours, never the host's.
func (r *run) file(f *sandbox.File) error {
	return r.answerNow(f.ID, func() (json.RawMessage, error) {
		v, err := r.fileOp(f.Op, f.Path)
		if err != nil {
			return nil, err
		}
		return tool.Marshal(v)
	})
}

type fileStat struct {
	Dir  bool `json:"dir"`
	Size int  `json:"size"`
}

func (r *run) fileOp(op, name string) (any, error) {
	if r.files == nil {
		r.files = map[string]string{}
		if r.x.cfg.Files != nil {
			r.files = r.x.cfg.Files()
		}
	}
	at := strings.TrimPrefix(path.Clean("/"+name), "/") // .. ends at the root
	content, isFile := r.files[at]
	names := r.children(at)
	isDir := len(names) > 0 || at == ""
	switch {
	case !isFile && !isDir:
		return nil, tool.Errorf(tool.NotFound, "ENOENT: no such file or directory, %s '%s': the files are ./tools/<upstream>/<tool>.ts", verb(op), cut(name, 200))
	case op == "stat":
		return fileStat{Dir: isDir, Size: len(content)}, nil
	case op == "list" && !isDir:
		return nil, tool.Errorf(tool.Invalid, "ENOTDIR: not a directory, scandir '%s'", cut(name, 200))
	case op == "list":
		return names, nil
	case op == "read" && !isFile:
		return nil, tool.Errorf(tool.Invalid, "EISDIR: illegal operation on a directory, read '%s': use readdir", cut(name, 200))
	case op == "read":
		return content, nil
	}
	return nil, tool.Errorf(tool.Invalid, "files: unknown operation %q", op)
}

// children gives the names in a directory, sorted; none when there is no such directory.
func (r *run) children(dir string) []string {
	prefix := dir + "/"
	if dir == "" {
		prefix = ""
	}
	seen := map[string]bool{}
	for p := range r.files {
		if rest, ok := strings.CutPrefix(p, prefix); ok && rest != "" {
			first, _, _ := strings.Cut(rest, "/")
			seen[first] = true
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func verb(op string) string {
	switch op {
	case "read":
		return "open"
	case "list":
		return "scandir"
	}
	return "stat"
}
