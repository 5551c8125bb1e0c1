package entry

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A caller makes the system calls that turn a process into a sandbox, or records them for a
// starter. So both ways of entering a sandbox arm the same protections.
type caller struct {
	record *recorder // nil: the calls are made at once
}

// makeCall makes a system call. The arguments are integers, texts, memory ([]byte) and filters
// ([]unix.SockFilter).
func (c *caller) makeCall(number uintptr, args ...any) error {
	_, err := c.callUnless(0, number, args...)
	return err
}

// callUnless makes a system call, of which one error is ignored.
func (c *caller) callUnless(ignored unix.Errno, number uintptr, args ...any) (int, error) {
	if c.record != nil {
		return 0, c.record.addCall(anyResult, ignored, number, args)
	}
	var raw [6]uintptr
	pins := make([]any, 0, len(raw)) // what only raw refers to
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			raw[i] = uintptr(arg)
		case uintptr:
			raw[i] = arg
		case string:
			p, err := unix.BytePtrFromString(arg)
			if err != nil {
				return 0, err
			}
			raw[i], pins = uintptr(unsafe.Pointer(p)), append(pins, p)
		case []byte:
			raw[i] = uintptr(unsafe.Pointer(unsafe.SliceData(arg)))
		case []unix.SockFilter:
			p := &unix.SockFprog{Len: uint16(len(arg)), Filter: unsafe.SliceData(arg)}
			raw[i], pins = uintptr(unsafe.Pointer(p)), append(pins, p)
		default:
			return 0, fmt.Errorf("system call %d: argument %d has the type %T", number, i, arg)
		}
	}
	r, _, errno := unix.RawSyscall6(number, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5])
	runtime.KeepAlive(args)
	runtime.KeepAlive(pins)
	if errno != 0 && errno != ignored {
		return 0, errno
	}
	return int(r), nil
}

// openBy makes a system call that returns a new descriptor.
func (c *caller) openBy(number uintptr, args ...any) (fd int, err error) {
	if c.record != nil {
		return c.record.addOpen(number, args)
	}
	return c.callUnless(0, number, args...)
}

// closeFile closes a descriptor that openBy returned.
func (c *caller) closeFile(fd int) error {
	if c.record != nil {
		delete(c.record.opened, fd)
	}
	return c.makeCall(unix.SYS_CLOSE, fd)
}

// hasPath reports whether there is something at a path of the new root, be it a link.
func (c *caller) hasPath(path string) bool {
	if c.record != nil {
		return c.record.made[path]
	}
	_, err := os.Lstat(path)
	return err == nil
}

// isLink reports whether there is a symbolic link at a path of the new root. Where a starter mounts
// folders, there is none (canRecord).
func (c *caller) isLink(path string) bool {
	if c.record != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// makeFolder makes a folder.
func (c *caller) makeFolder(path string) error {
	return c.makePath(path, unix.SYS_MKDIRAT, unix.AT_FDCWD, path, 0o755)
}

// makeFolders makes a folder, and those above it that don't exist.
func (c *caller) makeFolders(path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' || c.hasPath(path[:i]) {
			continue
		}
		if err := c.makeFolder(path[:i]); err != nil {
			return err
		}
	}
	return nil
}

// makeLink makes a symbolic link.
func (c *caller) makeLink(to, path string) error {
	return c.makePath(path, unix.SYS_SYMLINKAT, to, unix.AT_FDCWD, path)
}

// makePath makes something at a path with a system call.
func (c *caller) makePath(path string, number uintptr, args ...any) error {
	if c.record != nil {
		c.record.made[path] = true
	}
	if err := c.makeCall(number, args...); err != nil {
		return &os.PathError{Op: "make", Path: path, Err: err}
	}
	return nil
}

// makeFile makes a file. It fails if there is something at its path.
func (c *caller) makeFile(path, content string, mode int) error {
	if c.record != nil {
		c.record.made[path] = true
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	fd, err := c.openBy(unix.SYS_OPENAT, unix.AT_FDCWD, path, flags, mode)
	if err == nil && content != "" {
		err = c.writeAll(fd, content)
	}
	if err == nil {
		err = c.closeFile(fd)
	}
	if err != nil {
		return &os.PathError{Op: "make", Path: path, Err: err}
	}
	return nil
}

// writeAll writes a text to a new file in memory. If not all of it fits, the file system is full.
func (c *caller) writeAll(fd int, text string) error {
	if c.record != nil {
		return c.record.addCall(uint64(len(text)), 0, unix.SYS_WRITE, []any{fd, text, len(text)})
	}
	n, err := c.callUnless(0, unix.SYS_WRITE, fd, text, len(text))
	if err == nil && n < len(text) {
		err = unix.ENOSPC
	}
	return err
}

// mountPath mounts a file system, or a file or folder at another path.
func (c *caller) mountPath(from, to, kind string, flags uintptr, options string) error {
	return c.makeCall(unix.SYS_MOUNT, from, to, kind, flags, options)
}

// restrictMount sets attributes of the mount at a path; with unix.AT_RECURSIVE also of those below.
func (c *caller) restrictMount(path string, attributes uint64, flags int) error {
	attr := &unix.MountAttr{Attr_set: attributes}
	return c.makeCall(unix.SYS_MOUNT_SETATTR, unix.AT_FDCWD, path, flags, memoryOf(attr), int(unsafe.Sizeof(*attr)))
}

// isSame returns an error unless a path refers to the file of a descriptor.
func (c *caller) isSame(path string, fd int) error {
	if c.record != nil {
		return c.record.addComparison(path, fd)
	}
	var there, here unix.Stat_t
	if err := unix.Stat(path, &there); err != nil {
		return err
	}
	if err := unix.Fstat(fd, &here); err != nil {
		return err
	}
	if there.Dev != here.Dev || there.Ino != here.Ino {
		return errReplaced
	}
	return nil
}

// limitResource sets a resource limit. Package syscall has to know of it, because otherwise it
// restores the limit of open files when it executes a program.
func (c *caller) limitResource(what int, most int64) error {
	limit := &unix.Rlimit{Cur: uint64(most), Max: uint64(most)}
	if c.record != nil {
		return c.makeCall(unix.SYS_PRLIMIT64, 0, what, memoryOf(limit), 0)
	}
	return syscall.Setrlimit(what, (*syscall.Rlimit)(unsafe.Pointer(limit)))
}

// memoryOf returns the memory of a value without pointers.
func memoryOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
