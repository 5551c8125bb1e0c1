package entry

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/nodeguest"
)

// A mount is a file system that is mounted in a sandbox.
type mount struct {
	target, kind, options string
	flags                 uintptr
}

// newRoot is where the root is made. It is mounted over that folder.
const newRoot = "/tmp"

// makeRoot makes a private root: the host's /usr and a few files of /etc, read-only; private
// folders for the program; and a few devices.
func makeRoot(c *caller, s *Setup) error {
	if err := c.mountPath("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := s.openTrees(c); err != nil {
		return err
	}
	const root = newRoot
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	if err := c.mountPath("none", root, "tmpfs", safe, "mode=0755,size=1m,nr_inodes=4k"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	if err := shareSystem(c, root, s.Image); err != nil {
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
		if err := c.makeFolders(root + m.target); err != nil {
			return err
		}
		if err := c.mountPath("none", root+m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := makeDevices(c, root); err != nil {
		return err
	}
	if err := installAgent(c, root, s); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := makeMountPoint(c, root, m.Target, m.File); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		if err := m.mountAt(c, root+m.Target, m.Write); err != nil {
			return err
		}
	}
	if s.Runtime == MachineRuntime { // its folder has only its own files
		return changeRoot(c, root)
	}
	for name, to := range map[string]string{"workspace": ".", "skills": "/skills"} {
		if err := c.makeLink(to, root+"/workspace/"+name); err != nil {
			return err
		}
	}
	return changeRoot(c, root)
}

// makeMountPoint makes an empty file or folder to mount over, unless there is one. It fails if a
// link is on the way, which leads out of the root: the image may be hostile.
func makeMountPoint(c *caller, root, target string, file bool) error {
	to := root
	for part := range strings.SplitSeq(strings.TrimPrefix(target, "/"), "/") {
		to += "/" + part
		if c.isLink(to) {
			return fmt.Errorf("the image has a link at %s: choose another path", strings.TrimPrefix(to, root))
		}
	}
	if c.hasPath(to) {
		return nil
	}
	if !file {
		return c.makeFolders(to)
	}
	if err := c.makeFolders(path.Dir(to)); err != nil {
		return err
	}
	return c.makeFile(to, "", 0o644)
}

// installAgent writes the agent's code, and mounts what it needs.
func installAgent(c *caller, root string, s *Setup) error {
	dir := root + agentFolder
	var err error
	switch s.Runtime {
	case "bash", "go", "rust", "java", MachineRuntime:
		err = writeShellAgent(c, dir, s.Program)
	case "js":
		err = os.WriteFile(dir+"/agent.js", nodeguest.Source, 0o644)
	}
	for _, fd := range s.FileFDs {
		err = errors.Join(err, unpackFiles(dir, fd))
	}
	if err != nil || s.NodeModules == nil {
		return err
	}
	if err := c.makeFolder(root + nodeguest.Packages); err != nil {
		return err
	}
	return s.NodeModules.mountAt(c, root+nodeguest.Packages, false)
}

// changeRoot makes a folder the root, and lets go of the old one.
func changeRoot(c *caller, root string) error {
	for _, dir := range []string{root + agentFolder, root + "/dev", root} {
		if err := c.restrictMount(dir, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	if err := c.makeCall(unix.SYS_CHDIR, root); err != nil {
		return err
	}
	if err := c.makeCall(unix.SYS_PIVOT_ROOT, ".", "."); err != nil { // the old root is now over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := c.makeCall(unix.SYS_UMOUNT2, ".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return c.makeCall(unix.SYS_CHDIR, "/workspace")
}

// bindReadOnly makes a file or a folder available at another path, read-only, with all that is
// mounted below it.
func bindReadOnly(c *caller, from, to string) error {
	if err := c.mountPath(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: %w", from, err)
	}
	const attributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if err := c.restrictMount(to, attributes, unix.AT_RECURSIVE); err != nil {
		return fmt.Errorf("make %s read-only: %w", to, err)
	}
	return nil
}

// makeDevices makes the devices of the new root.
func makeDevices(c *caller, root string) error {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		if err := c.makeFile(root+name, "", 0o644); err != nil {
			return err
		}
		if err := c.mountPath(name, root+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("share %s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := c.makeLink(to, root+"/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}
