//go:build !linux

package folder

import (
	"io/fs"
	"os"
	"path/filepath"
)

// measureTree measures the files below a folder. Sandboxes run on Linux only.
func measureTree(dir string, m *measurement) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return m.addFile(0)
		}
		return m.addFile(info.Size())
	})
}

// removeTree removes a folder with everything in it.
func removeTree(dir string) error { return os.RemoveAll(dir) }
