package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
)

// programFD is the descriptor of this program's file in the process that enters a sandbox.
const programFD = socketFD + 1

// openProgram returns a descriptor of this program's file, and its path. If this process may, the
// descriptor is a mount of its own: a sandbox's user may be unable to reach the path.
func openProgram() (*os.File, string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", fmt.Errorf("open this program: %w", err)
	}
	file := os.NewFile(uintptr(fd), path)
	mount, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return file, path, nil // it may not: then the sandbox's user is the one of this process
	}
	_ = file.Close() // it isn't needed
	return os.NewFile(uintptr(mount), path), path, nil
}

// writeShellAgent makes the agent of shells in dir: this program, read-only, and the command tool.
func writeShellAgent(dir, path string) error {
	to := dir + "/" + filepath.Base(shell.Executable)
	bin := dir + strings.TrimPrefix(filepath.Dir(shell.ToolPath), shell.Folder)
	if err := errors.Join(os.WriteFile(to, nil, 0o755), os.Mkdir(bin, 0o755),
		os.WriteFile(bin+"/"+filepath.Base(shell.ToolPath), []byte(shell.ToolScript), 0o755)); err != nil {
		return err
	}
	if err := unix.MoveMount(programFD, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err == nil {
		return setReadOnly(to)
	}
	var there, here unix.Stat_t
	if err := errors.Join(unix.Stat(path, &there), unix.Fstat(programFD, &here)); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if there.Dev != here.Dev || there.Ino != here.Ino {
		return fmt.Errorf("the program %s was replaced: restart biplane", path)
	}
	return bindReadOnly(path, to)
}
