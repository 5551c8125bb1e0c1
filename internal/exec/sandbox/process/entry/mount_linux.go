package entry

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A Shared is a file or folder of the host that a sandbox has: an open descriptor, and its path for
// a process that may not mount the descriptor.
type Shared struct {
	FD   int    `json:"fd"`
	Path string `json:"path"`

	tree int // a copy of the mount of Path, made in the sandbox; 0: there is none
}

// openTree copies the mount of the path, which the root of the sandbox may cover. It is needed if
// the descriptor can't be mounted.
func (s *Shared) openTree() {
	if s == nil || s.checkPath() != nil { // mountAt reports why
		return
	}
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	if fd, err := unix.OpenTree(unix.AT_FDCWD, s.Path, flags); err == nil {
		s.tree = fd
	}
}

// openTrees copies the mounts of everything that a setup shares.
func (s *Setup) openTrees() {
	s.Program.openTree()
	s.NodeModules.openTree()
	if s.Image != nil {
		s.Image.openTree()
	}
	for i := range s.Mounts {
		s.Mounts[i].openTree()
	}
}

// mountAt makes the file or folder available at a path that exists. It can't be written unless
// write is set.
func (s *Shared) mountAt(to string, write bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !write {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err := unix.MoveMount(s.FD, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil && s.tree != 0 {
		err = unix.MoveMount(s.tree, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		if err := s.checkPath(); err != nil {
			return err
		}
		if err := unix.Mount(s.Path, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("share %s: %w", s.Path, err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("restrict %s: %w", s.Path, err)
	}
	return nil
}

// checkPath returns an error if the path no longer refers to the descriptor's file.
func (s *Shared) checkPath() error {
	var there, here unix.Stat_t
	if err := errors.Join(unix.Stat(s.Path, &there), unix.Fstat(s.FD, &here)); err != nil {
		return fmt.Errorf("find %s: %w", s.Path, err)
	}
	if there.Dev != here.Dev || there.Ino != here.Ino {
		return fmt.Errorf("%s was replaced: restart biplane", s.Path)
	}
	return nil
}

// A Mounted is a folder of the host or a volume, and where it is in the sandbox.
type Mounted struct {
	Shared
	Target string `json:"target"`
	Write  bool   `json:"write,omitempty"`
	File   bool   `json:"file,omitempty"` // it is not a folder
}

// An ImageSetup is the image of a sandbox.
type ImageSetup struct {
	Shared
	Host bool `json:"host,omitempty"` // it is a layer above the host's /usr
}
