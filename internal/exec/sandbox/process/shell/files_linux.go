package shell

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxFiles = 10_000   // files and folders
	maxFile  = 32 << 20 // bytes of a file that is copied
)

// roots are the folders that are copied: below the root, here and at the host.
var roots = []string{"workspace", "skills"}

// errNoHost means that the host answers no questions.
var errNoHost = errors.New("the host has no files")

// A mark identifies the content of a file, or marks a folder.
type mark struct {
	folder bool
	time   time.Time
	size   int64
}

// files copies the host's files to the sandbox before a program runs, and changes back to the host
// when it has ended. In a session they stay there, so only what has changed is copied.
type files struct {
	host   fileHost
	known  map[string]mark // what is equal here and at the host, by path; nil: nothing was copied yet
	marks  map[string]mark // the same files, as the host describes them
	absent bool            // the host has no files
}

// A fileHost performs operations on the host's files.
type fileHost interface {
	performFile(*sandbox.File) (json.RawMessage, error)
}

// loadFiles copies the host's files that differ from those here, and removes what the host doesn't
// have. In a session, that undoes what a failed program did.
func (f *files) loadFiles() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy the files into the sandbox: %w", err)
		}
	}()
	there, err := f.surveyHost()
	if f.absent = errors.Is(err, errNoHost); f.absent || err != nil {
		f.known = map[string]mark{}
		if f.absent {
			err = nil
		}
		return err
	}
	here := map[string]mark{}
	if f.known == nil {
		f.known, f.marks = map[string]mark{}, map[string]mark{}
	} else if here, err = findFiles(); err != nil {
		return err
	}
	for path, m := range here {
		if t, ok := there[path]; !ok || t.folder != m.folder {
			if err := f.removeHere(path); err != nil {
				return err
			}
		}
	}
	for path := range f.known {
		if _, ok := there[path]; !ok {
			delete(f.known, path)
		}
	}
	for _, path := range sortedKeys(there) {
		if err := f.loadOne(path, there[path], here); err != nil {
			return err
		}
	}
	return nil
}

// loadOne copies a file or a folder of the host, unless the same is here.
func (f *files) loadOne(path string, there mark, here map[string]mark) error {
	m, ok := here[path]
	if ok && m.folder == there.folder && f.known[path] == m && f.marks[path] == there {
		return nil
	}
	if !ok || m.folder != there.folder {
		if err := f.removeHere(path); err != nil { // a link, for example
			return err
		}
	}
	f.marks[path] = there
	if there.folder {
		f.known[path] = there
		return os.MkdirAll("/"+path, 0o755)
	}
	return f.loadFile(path)
}

// removeHere removes what is at a path, if anything.
func (f *files) removeHere(path string) error {
	delete(f.known, path)
	return os.RemoveAll("/" + path)
}

// isForbidden reports whether a program may not see a file of the host.
func isForbidden(err error) bool {
	var e *tool.Error
	return errors.As(err, &e) && e.Kind == tool.NotFound
}

// surveyHost returns the host's files and folders, as the host describes them.
func (f *files) surveyHost() (map[string]mark, error) {
	found, todo := map[string]mark{}, slices.Clone(roots)
	for i := 0; i < len(todo); i++ {
		raw, err := f.host.performFile(&sandbox.File{Op: "list", Path: todo[i], Flag: "l"})
		if isForbidden(err) {
			continue
		}
		var items []struct {
			Name     string
			Dir      bool
			Size     int64
			Modified int64 `json:"mtime"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &items)
		}
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			path := todo[i] + "/" + item.Name
			if item.Dir {
				found[path] = mark{folder: true}
				todo = append(todo, path)
			} else {
				found[path] = mark{time: time.UnixMilli(item.Modified), size: item.Size}
			}
		}
	}
	return found, nil
}

func (f *files) loadFile(path string) error {
	raw, err := f.host.performFile(&sandbox.File{Op: "read", Path: path, Base64: true})
	if isForbidden(err) {
		return f.removeHere(path)
	}
	var data []byte // base64 in JSON
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	if err == nil {
		err = os.WriteFile("/"+path, data, 0o644)
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat("/" + path)
	if err == nil {
		f.known[path] = mark{time: info.ModTime(), size: info.Size()}
	}
	return err
}

// findFiles returns the files and folders of the program. Links and special files are left out,
// because the host has none.
func findFiles() (map[string]mark, error) {
	found := map[string]mark{}
	for _, root := range roots {
		err := filepath.WalkDir("/"+root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == "/"+root || !e.IsDir() && !e.Type().IsRegular() {
				return err
			}
			m := mark{folder: true}
			if !e.IsDir() {
				info, err := e.Info()
				if err != nil {
					return err
				}
				m = mark{time: info.ModTime(), size: info.Size()}
			}
			if found[path[1:]] = m; len(found) > maxFiles {
				return fmt.Errorf("the program left more than %d files in ./workspace", maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// storeChanges copies changed files to the host, and removes there what the program removed.
func (f *files) storeChanges() error {
	if f.absent {
		return nil
	}
	found, err := findFiles()
	if err != nil || maps.Equal(found, f.known) {
		return err
	}
	remove := func(path string) error {
		_, err := f.host.performFile(&sandbox.File{Op: "rm", Path: path, Recursive: true, Force: true})
		return err
	}
	for _, path := range slices.Backward(sortedKeys(f.known)) { // content before its folder
		old := f.known[path]
		if m, ok := found[path]; !ok || m.folder != old.folder {
			if err := remove(path); err != nil {
				return copyError(path, err)
			}
			delete(f.known, path)
		}
	}
	for _, path := range sortedKeys(found) {
		m := found[path]
		if old, ok := f.known[path]; ok && old == m {
			continue
		}
		if err := f.storeOne(path, m); err != nil {
			return copyError(path, err)
		}
		f.known[path] = m
	}
	f.marks, err = f.surveyHost()
	return err
}

func (f *files) storeOne(path string, m mark) error {
	if m.folder {
		_, err := f.host.performFile(&sandbox.File{Op: "mkdir", Path: path, Recursive: true})
		return err
	}
	if m.size > maxFile {
		return fmt.Errorf("it has %d bytes: the most is %d", m.size, maxFile)
	}
	data, err := os.ReadFile("/" + path)
	if err != nil {
		return err
	}
	_, err = f.host.performFile(&sandbox.File{Op: "write", Path: path, Data: base64.StdEncoding.EncodeToString(data),
		Base64: true, Flag: "w"})
	return err
}

// copyError returns the error of a file that can't be copied to the host.
func copyError(path string, err error) error {
	if strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("./%s can't be kept: %w", path, err)
}

// sortedKeys returns the paths in order, folders before their content.
func sortedKeys(m map[string]mark) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
