package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a folder.
const (
	maxEntries = 20_000 // files and directories, without node_modules
	maxFiles   = 500    // files with tools
	maxLevels  = 8      // nesting of directories
	maxSegment = 64     // characters of a part of a tool's name
)

// A found is the result of scanning a folder.
type found struct {
	state  string            // a digest of all names, sizes and times
	err    error             // why the folder has no tools
	files  []string          // paths of the files with tools, sorted
	stamps map[string]string // size and time of each file, by path
	broken map[string]string // the reasons why files have no tools, by path
	more   int               // files over the limit
	root   *os.Root          // nil if the folder can't be opened
}

func (s *found) closeRoot() {
	if s.root != nil {
		_ = s.root.Close() // it was only read
	}
}

// manifestEnding is the end of the names of files that describe executables.
const manifestEnding = ".tool.yaml"

// scanFolder looks at the files of a folder. It follows no links.
func scanFolder(dir string, l Loader) *found {
	s := &found{stamps: map[string]string{}, broken: map[string]string{}}
	sum := sha256.New()
	if s.root, s.err = os.OpenRoot(dir); s.err == nil {
		entries := 0
		s.err = fs.WalkDir(s.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if entries++; entries > maxEntries {
				return tool.Errorf(tool.Limit, "the folder has over %s files: choose one that has tools alone",
					text.Group(maxEntries))
			}
			if err != nil {
				s.broken[name] = "it can't be read: " + rootError(err).Error()
				if name == "." {
					return rootError(err)
				}
				return nil
			}
			return s.addEntry(name, d, l)
		})
	}
	s.dropExecutables()
	if s.err != nil {
		s.err = rootError(s.err)
		fmt.Fprintf(sum, "error %s", s.err)
	}
	for _, name := range s.files {
		fmt.Fprintf(sum, "file %q\n", name)
	}
	for _, name := range sortedKeys(s.stamps) {
		fmt.Fprintf(sum, "%q %s\n", name, s.stamps[name])
	}
	for _, name := range sortedKeys(s.broken) {
		fmt.Fprintf(sum, "broken %q %s\n", name, s.broken[name])
	}
	s.state = hex.EncodeToString(sum.Sum(nil))
	return s
}

// dropExecutables removes the files that a manifest beside them describes, such as scripts in
// Python.
func (s *found) dropExecutables() {
	described := map[string]bool{}
	for _, name := range s.files {
		if stem, ok := strings.CutSuffix(name, manifestEnding); ok {
			described[stem] = true
		}
	}
	s.files = slices.DeleteFunc(s.files, func(name string) bool {
		return !strings.HasSuffix(name, manifestEnding) && described[strings.TrimSuffix(name, path.Ext(name))]
	})
}

// rootError returns an error of the file system without the path, which is the host's.
func rootError(err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tool.Errorf(tool.NotFound, "the folder does not exist: create it, or correct its path")
	case errors.As(err, &p):
		return tool.Errorf(tool.Unavailable, "the folder can't be read: %w", p.Err)
	}
	return err
}

// addEntry adds a file or directory.
func (s *found) addEntry(name string, d fs.DirEntry, l Loader) error {
	base := path.Base(name)
	hidden := strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
	switch {
	case name == ".":
		return nil
	case d.IsDir():
		return s.addDirectory(name, base)
	case d.Type()&fs.ModeSymlink != 0:
		if !hidden && l.AcceptsName(base) {
			s.broken[name] = "it is a link: copy the file into the folder"
		}
		return nil
	case !d.Type().IsRegular():
		return nil
	}
	info, err := d.Info()
	if err != nil {
		return nil // it has just been removed
	}
	s.stamps[name] = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	switch {
	case hidden || isTest(base):
	case !l.AcceptsName(base):
	case len(s.files) >= maxFiles:
		s.more++
		s.broken["..."] = fmt.Sprintf("%d files are left out, since the folder has more than %d with tools: begin the "+
			"names of files without tools with _, or make several folders", s.more, maxFiles)
	default:
		s.files = append(s.files, name)
	}
	return nil
}

// addDirectory returns fs.SkipDir for directories that have no tools.
func (s *found) addDirectory(name, base string) error {
	switch {
	case base == "node_modules" || base == "__pycache__" || base == "testdata" || strings.HasPrefix(base, "."):
		return fs.SkipDir
	case strings.Count(name, "/")+1 > maxLevels:
		s.broken[name] = fmt.Sprintf("its files are more than %d directories deep", maxLevels)
		return fs.SkipDir
	}
	return nil
}

// isTest reports whether a file tests another one.
func isTest(base string) bool {
	stem := strings.TrimSuffix(base, path.Ext(base))
	return strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, ".spec") || strings.HasSuffix(stem, "_test") ||
		strings.HasPrefix(base, "test_") || base == "conftest.py"
}
