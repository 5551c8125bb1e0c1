package folder

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Each folder is opened in the one above it: without following a link, without waiting for the
// writer of a pipe that has taken a folder's place, and in a time and memory that don't grow with
// the length of the path.

// namesAtOnce is the number of names that are read from a folder at a time.
const namesAtOnce = 512

// openFolder opens a folder in another one.
func openFolder(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// addRights adds rights of the owner of a folder that are missing.
func addRights(parent int, name string, rights uint32) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&rights == rights {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), st.Mode&0o777|rights, 0)
}

// isGone reports whether an error says that a folder was removed or replaced meanwhile.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// eachName calls f with the names in an open folder, until f returns an error.
func eachName(dir *os.File, f func(name string) error) error {
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := f(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// measureTree measures the files below a folder.
func measureTree(dir string, m *measurement) error {
	top, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer top.Close()
	return m.measureFolder(top, 0)
}

// measureFolder measures the files in an open folder, which is so deep below the first one.
func (m *measurement) measureFolder(dir *os.File, depth int) error {
	fd := int(dir.Fd())
	return eachName(dir, func(name string) error {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
			return nil
		} else if err != nil {
			return &fs.PathError{Op: "stat", Path: name, Err: err}
		}
		kind := st.Mode & unix.S_IFMT
		bytes := int64(0)
		if kind == unix.S_IFREG {
			bytes = st.Blocks * 512 // also if it has holes
		}
		if err := m.addFile(bytes); err != nil || kind != unix.S_IFDIR {
			return err
		}
		if depth == MaxDepth {
			return ErrTooDeep
		}
		err := m.measureChild(fd, name, depth+1)
		if isGone(err) {
			return nil
		}
		return err
	})
}

// measureChild measures the files in a folder of an open one.
func (m *measurement) measureChild(parent int, name string, depth int) error {
	if err := addRights(parent, name, 0o500); err != nil { // or its files would not count
		return err
	}
	dir, err := openFolder(parent, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return m.measureFolder(dir, depth)
}

// removeTree removes a folder with everything in it. No program uses it any more.
func removeTree(dir string) error {
	err := addRights(unix.AT_FDCWD, dir, 0o700)
	if errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	top, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := removeFiles(top, top, 0); err != nil {
		return err
	}
	return os.Remove(dir)
}

// removeFiles removes the files in an open folder. It moves folders that are too deep to the top.
func removeFiles(top, dir *os.File, depth int) error {
	for {
		removed := 0
		err := eachName(dir, func(name string) error {
			removed++
			return removeFile(top, dir, name, depth)
		})
		if err != nil || removed == 0 {
			return err
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil { // names may have been left out
			return err
		}
	}
}

// removeFile removes a file in an open folder.
func removeFile(top, dir *os.File, name string, depth int) error {
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := unix.Unlinkat(fd, name, 0); err != nil {
			return &fs.PathError{Op: "remove", Path: name, Err: err}
		}
		return nil
	}
	if err := addRights(fd, name, 0o700); err != nil {
		return err
	}
	if depth == MaxDepth {
		return unix.Renameat(fd, name, int(top.Fd()), "moved-"+rand.Text())
	}
	child, err := openFolder(fd, name)
	if err != nil {
		return err
	}
	err = removeFiles(top, child, depth+1)
	if err := errors.Join(err, child.Close()); err != nil {
		return err
	}
	if err := unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
