package entry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/nodeguest"
)

// A mount is a file system that is mounted in a sandbox.
type mount struct {
	target, kind, options string
	flags                 uintptr
}

// makeRoot makes a private root: the host's /usr and a few files of /etc, read-only; private
// folders for the program; and a few devices.
func makeRoot(s *Setup) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	s.openTrees()
	const root = "/tmp" // the new root is mounted over it
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("none", root, "tmpfs", safe, "mode=0755,size=1m,nr_inodes=4k"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	if err := shareSystem(root, s.Image); err != nil {
		return err
	}
	if err := writeNetworkFiles(root, s.Network); err != nil {
		return err
	}
	quota := fmt.Sprintf("mode=0755,uid=%d,gid=%d,size=%d,nr_inodes=32k", Insider, Insider, s.Disk)
	for _, m := range []mount{
		{"/dev", "tmpfs", "mode=0755,size=64k,nr_inodes=64", unix.MS_NOSUID},
		{"/dev/shm", "tmpfs", "mode=1777,size=64m,nr_inodes=1k", safe | unix.MS_NOEXEC},
		{"/proc", "proc", "subset=pid", safe | unix.MS_NOEXEC},
		{"/tmp", "tmpfs", quota, safe},
		{"/workspace", "tmpfs", quota, safe},
		{"/skills", "tmpfs", quota, safe},
		{agentFolder, "tmpfs", "mode=0755,size=2m,nr_inodes=128", safe},
	} {
		if err := os.MkdirAll(root+m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("none", root+m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := makeDevices(root); err != nil {
		return err
	}
	if err := installAgent(root, s); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := makeMountPoint(root, m.Target, m.File); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		if err := m.mountAt(root+m.Target, m.Write); err != nil {
			return err
		}
	}
	if s.Runtime == MachineRuntime { // its folder has only its own files
		return changeRoot(root)
	}
	for name, to := range map[string]string{"workspace": ".", "skills": "/skills"} {
		if err := os.Symlink(to, root+"/workspace/"+name); err != nil {
			return err
		}
	}
	return changeRoot(root)
}

// makeMountPoint makes an empty file or folder to mount over, unless there is one. It fails if a
// link is on the way, which leads out of the root: the image may be hostile.
func makeMountPoint(root, target string, file bool) error {
	to := root
	for part := range strings.SplitSeq(strings.TrimPrefix(target, "/"), "/") {
		to += "/" + part
		if info, err := os.Lstat(to); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("the image has a link at %s: choose another path", strings.TrimPrefix(to, root))
		}
	}
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if !file {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, nil, 0o644)
}

// installAgent writes the agent's code, and mounts what it needs.
func installAgent(root string, s *Setup) error {
	dir := root + agentFolder
	var err error
	switch s.Runtime {
	case "bash", "go", "rust", "java", MachineRuntime:
		err = writeShellAgent(dir, s.Program)
	case "js":
		err = os.WriteFile(dir+"/agent.js", nodeguest.Source, 0o644)
	}
	for _, fd := range s.FileFDs {
		err = errors.Join(err, unpackFiles(dir, fd))
	}
	if err != nil || s.NodeModules == nil {
		return err
	}
	if err := os.Mkdir(root+nodeguest.Packages, 0o755); err != nil {
		return err
	}
	return s.NodeModules.mountAt(root+nodeguest.Packages, false)
}

// changeRoot makes a folder the root, and lets go of the old one.
func changeRoot(root string) error {
	for _, dir := range []string{root + agentFolder, root + "/dev", root} {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &attr); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/workspace")
}

// bindReadOnly makes a file or a folder available at another path, read-only.
func bindReadOnly(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: %w", from, err)
	}
	return setReadOnly(to)
}

// setReadOnly makes a mount, and those below it, read-only.
func setReadOnly(path string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// makeDevices makes the devices of the new root.
func makeDevices(root string) error {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		if err := os.WriteFile(root+name, nil, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(name, root+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("share %s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, root+"/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}
