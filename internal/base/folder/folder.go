// Package folder measures and removes folders that programs in sandboxes write, and may change at
// the same time.
package folder

import (
	"errors"
	"fmt"
)

// MaxDepth is how many folders may be within each other. Each of them is open while those in it are
// measured or removed.
const MaxDepth = 250

// ErrTooDeep is the error for folders that are nested more deeply.
var ErrTooDeep = fmt.Errorf("folders are nested more than %d deep: remove some", MaxDepth)

// A Size is the number of files and folders, and the bytes that the files occupy on the disk.
type Size struct {
	Bytes int64
	Files int
}

// IsMoreThan reports whether a size exceeds another in files or bytes.
func (s Size) IsMoreThan(most Size) bool { return s.Bytes > most.Bytes || s.Files > most.Files }

// errTooMuch stops a measurement.
var errTooMuch = errors.New("more than the limit")

// A measurement adds up files until they exceed a size.
type measurement struct{ size, most Size }

// addFile adds a file or folder. It returns errTooMuch if they exceed the size.
func (m *measurement) addFile(bytes int64) error {
	m.size.Files++
	if m.size.Bytes += bytes; m.size.IsMoreThan(m.most) {
		return errTooMuch
	}
	return nil
}

// MeasureFiles measures the files below a folder. It stops when they exceed a size. Links can't
// lead it elsewhere. It adds the owner's rights that it needs and that are missing. If folders are
// nested too deeply, it returns what it has measured and ErrTooDeep.
func MeasureFiles(dir string, most Size) (Size, error) {
	m := measurement{most: most}
	err := measureTree(dir, &m)
	if errors.Is(err, errTooMuch) {
		err = nil
	}
	return m.size, err
}

// RemoveFolder removes a folder that no program uses any more, with everything in it: also folders
// that are protected against that, or nested too deeply.
func RemoveFolder(dir string) error { return removeTree(dir) }
