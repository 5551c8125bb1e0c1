package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/memfile"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
)

// makeBytecode returns a file in memory with the agent's compiled modules, which can't be changed.
func makeBytecode(files map[string][]byte) (*os.File, error) {
	text, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	f, err := memfile.CreateFile("bytecode")
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(text, 0); err == nil {
		err = memfile.SealFile(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), f.Close())
	}
	return f, nil
}

// writeBytecode writes the agent's compiled modules to its folder. The file is shared by all
// sandboxes, so it has no position of its own.
func writeBytecode(dir string, fd int) error {
	var files map[string][]byte
	from := io.NewSectionReader(os.NewFile(uintptr(fd), "bytecode"), 0, maxFrame)
	if err := json.NewDecoder(from).Decode(&files); err != nil {
		return fmt.Errorf("read the agent's compiled modules: %w", err)
	}
	for name, data := range files {
		path := filepath.Join(dir, filepath.Join("/", name)) // below dir
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// openProgram returns a descriptor of this program's file, and its path. If this process has the
// right to, it opens the file as a separate mount, because a sandbox's user may be unable to reach
// the path.
func openProgram() (*os.File, string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	file, err := openMount("/proc/self/exe")
	if err != nil {
		return nil, "", fmt.Errorf("open this program: %w", err)
	}
	return file, path, nil
}

// openMount returns a descriptor of a file or folder. It is a mount of its own if this process may
// make one.
func openMount(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	mount, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return file, nil // it may not: then the sandbox's user is the one of this process
	}
	_ = file.Close() // it isn't needed
	return os.NewFile(uintptr(mount), path), nil
}

// writeShellAgent makes the agent of shells in dir: this program, read-only, and the command tool.
func writeShellAgent(dir string, program *shared) error {
	to := dir + "/" + filepath.Base(shell.Executable)
	bin := dir + strings.TrimPrefix(filepath.Dir(shell.ToolPath), shell.Folder)
	if err := errors.Join(os.WriteFile(to, nil, 0o755), os.Mkdir(bin, 0o755),
		os.WriteFile(bin+"/"+filepath.Base(shell.ToolPath), []byte(shell.ToolScript), 0o755)); err != nil {
		return err
	}
	return program.mountAt(to, false)
}
