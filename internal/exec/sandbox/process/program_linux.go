package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/memfile"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm/pyguest"
)

// openAgentFiles returns the files of the agent for Python: its sources and, if they are known, its
// compiled modules.
func (d *Driver) openAgentFiles() ([]*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sources == nil {
		files := map[string][]byte{}
		err := errors.Join(addFiles(files, "", agentFiles()), addFiles(files, "_biplane/", pyguest.Runtime()))
		if err != nil {
			return nil, err
		}
		if d.sources, err = packFiles("sources", files); err != nil {
			return nil, err
		}
	}
	if d.bytecode == nil {
		return []*os.File{d.sources}, nil
	}
	return []*os.File{d.sources, d.bytecode}, nil
}

// addFiles adds all files of a file system to a map, by their paths with a prefix.
func addFiles(to map[string][]byte, prefix string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		to[prefix+path], err = fs.ReadFile(from, path)
		return err
	})
}

// packFiles returns a file in memory with files for the agent's folder.
func packFiles(name string, files map[string][]byte) (*os.File, error) {
	packed, err := entry.PackFiles(files)
	if err != nil {
		return nil, err
	}
	return sealFile(name, packed)
}

// A smallProgram is the program of package entry in a file in memory.
type smallProgram struct {
	once sync.Once
	file *os.File
}

// openFile returns the file, or nil if this whole program must enter sandboxes: it was built
// without the small one (entryProgram), it has another command, or the system executes no files in
// memory.
func (p *smallProgram) openFile(command []string) *os.File {
	if len(entryProgram) == 0 || !slices.Equal(command, []string{Command}) {
		return nil
	}
	p.once.Do(func() {
		f, err := sealFile("biplane", entryProgram)
		switch {
		case err != nil:
		case !canExecute(f): // vm.memfd_noexec of proc(5), or a security module
			_ = f.Close()
		default:
			p.file = f
		}
	})
	return p.file
}

// canExecute reports whether the system executes f, which is a program that refuses to run without
// arguments.
func canExecute(f *os.File) bool {
	var refused *exec.ExitError
	return errors.As(exec.Command(descriptorPath(int(f.Fd()))).Run(), &refused)
}

// descriptorPath returns a path of an open descriptor of this process.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// sealFile returns a file in memory with some content, which can't be changed. Programs of the same
// name can be executed from it.
func sealFile(name string, content []byte) (*os.File, error) {
	f, err := memfile.CreateFile(name)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = memfile.SealFile(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), f.Close())
	}
	return f, nil
}

// openProgram returns a descriptor of this program's file, and its path. If this process has the
// right to, it opens the file as a separate mount, because a sandbox's user may be unable to reach
// the path.
func openProgram() (f *os.File, path string, isMount bool, err error) {
	if path, err = os.Executable(); err != nil {
		return nil, "", false, err
	}
	if f, isMount, err = openMount("/proc/self/exe"); err != nil {
		return nil, "", false, fmt.Errorf("open this program: %w", err)
	}
	return f, path, isMount, nil
}

// openMount returns a descriptor of a file or folder. It is a mount of its own if this process may
// make one. That is private: on a host whose mounts are shared (as systemd makes them), all that a
// sandbox mounts in it would otherwise appear on the host, too, and stay there.
func openMount(path string) (f *os.File, isMount bool, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, err
	}
	file := os.NewFile(uintptr(fd), path)
	mount, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return file, false, nil // it may not: then the sandbox's user is the one of this process
	}
	_ = file.Close() // it isn't needed
	f = os.NewFile(uintptr(mount), path)
	err = unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("make the mount of %s private: %w", path, err), f.Close())
	}
	return f, true, nil
}
