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
	// Mount means that the descriptor is a mount of its own.
	Mount bool `json:"mount,omitempty"`

	tree int // a copy of the mount of Path, made in the sandbox; 0: there is none
}

// openTree copies the mount of the path, which the root of the sandbox may cover. It is needed if
// the descriptor can't be mounted.
func (s *Shared) openTree(c *caller) error {
	if s == nil || c.record != nil && s.Mount {
		return nil
	}
	err := c.isSame(s.Path, s.FD)
	if err == nil {
		const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
		s.tree, err = c.openBy(unix.SYS_OPEN_TREE, unix.AT_FDCWD, s.Path, flags)
	}
	if c.record == nil {
		return nil // mountAt has other ways, or reports why
	}
	return err
}

// errReplaced is the error of a path that no longer refers to the descriptor's file.
var errReplaced = errors.New("it was replaced: restart biplane")

// openTrees copies the mounts of everything that a setup shares.
func (s *Setup) openTrees(c *caller) error {
	all := []*Shared{s.Program, s.NodeModules}
	if s.Image != nil {
		all = append(all, &s.Image.Shared)
	}
	for i := range s.Mounts {
		all = append(all, &s.Mounts[i].Shared)
	}
	for _, one := range all {
		if err := one.openTree(c); err != nil {
			return err
		}
	}
	return nil
}

// mountAt makes the file or folder available at a path that exists. It can't be written unless
// write is set.
func (s *Shared) mountAt(c *caller, to string, write bool) error {
	attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if !write {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	move := func(fd int) error {
		return c.makeCall(unix.SYS_MOVE_MOUNT, fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	var err error
	if c.record != nil && s.tree != 0 {
		err = move(s.tree)
	} else if err = move(s.FD); err != nil && s.tree > 0 {
		err = move(s.tree)
	}
	if err != nil {
		if err := c.isSame(s.Path, s.FD); err != nil {
			return fmt.Errorf("find %s: %w", s.Path, err)
		}
		if err := c.mountPath(s.Path, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("share %s: %w", s.Path, err)
		}
	}
	if err := c.restrictMount(to, attributes, unix.AT_RECURSIVE); err != nil {
		return fmt.Errorf("restrict %s: %w", s.Path, err)
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
