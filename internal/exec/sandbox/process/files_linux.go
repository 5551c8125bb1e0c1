package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/nodeguest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A handover collects the files that the process which enters a sandbox inherits after its
// connection.
type handover struct {
	files []*os.File
	own   []*os.File // those to close once the process has started
}

// addFile adds a file that is closed with the handover. It returns its descriptor in the process.
func (h *handover) addFile(f *os.File) int {
	h.own = append(h.own, f)
	return h.lendFile(f)
}

// lendFile adds a file that stays open.
func (h *handover) lendFile(f *os.File) int {
	h.files = append(h.files, f)
	return socketFD + len(h.files)
}

// addMount adds a file or a folder of the host, to be mounted in the sandbox.
func (h *handover) addMount(path string) (shared, error) {
	f, err := openMount(path)
	if err != nil {
		return shared{}, err
	}
	return shared{FD: h.addFile(f), Path: path}, nil
}

func (h *handover) closeFiles() error {
	var errs []error
	for _, f := range h.own {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// A shared is a file or folder of the host that a sandbox has: an open descriptor, and its path for
// a process that may not mount the descriptor.
type shared struct {
	FD   int    `json:"fd"`
	Path string `json:"path"`

	tree int // a copy of the mount of Path, made in the sandbox; 0: there is none
}

// openTree copies the mount of the path, which the root of the sandbox may cover. It is needed if
// the descriptor can't be mounted.
func (s *shared) openTree() {
	if s == nil || s.checkPath() != nil { // mountAt reports why
		return
	}
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	if fd, err := unix.OpenTree(unix.AT_FDCWD, s.Path, flags); err == nil {
		s.tree = fd
	}
}

// openTrees copies the mounts of everything that a setup shares.
func (s *setup) openTrees() {
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
func (s *shared) mountAt(to string, write bool) error {
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
func (s *shared) checkPath() error {
	var there, here unix.Stat_t
	if err := errors.Join(unix.Stat(s.Path, &there), unix.Fstat(s.FD, &here)); err != nil {
		return fmt.Errorf("find %s: %w", s.Path, err)
	}
	if there.Dev != here.Dev || there.Ino != here.Ino {
		return fmt.Errorf("%s was replaced: restart biplane", s.Path)
	}
	return nil
}

// A mounted is a folder of the host or a volume, and where it is in the sandbox.
type mounted struct {
	shared
	Target string `json:"target"`
	Write  bool   `json:"write,omitempty"`
	File   bool   `json:"file,omitempty"` // it is not a folder
}

// An imageSetup is the image of a sandbox.
type imageSetup struct {
	shared
	Host bool `json:"host,omitempty"` // it is a layer above the host's /usr
}

// fillSetup adds the host's folders and files that the sandbox uses to its setup, and their
// descriptors to h.
func (d *Driver) fillSetup(b *box, s *setup, h *handover) error {
	switch b.spec.Runtime {
	case "js":
		if d.cfg.NodeModules == "" {
			break
		}
		m, err := h.addMount(d.cfg.NodeModules)
		if err != nil {
			return tool.Errorf(tool.Invalid, "the folder of npm packages (sandbox.node_modules): %w", err)
		}
		s.NodeModules = &m
	case "bash", "go", "rust", "java", machineRuntime:
		f, path, err := openProgram()
		if err != nil {
			return err
		}
		s.Program = &shared{FD: h.addFile(f), Path: path}
	case "python":
		d.mu.Lock()
		if f := d.bytecode; f != nil {
			s.BytecodeFD = h.lendFile(f)
		}
		d.mu.Unlock()
	}
	if b.libraries != "" {
		at, err := h.addMount(b.libraries)
		if err != nil {
			return err
		}
		s.Mounts = append(s.Mounts, mounted{shared: at, Target: shell.LibraryFolder, Write: b.makes})
	}
	if b.machine != nil {
		if err := fillMachine(b.machine, s, h); err != nil {
			return err
		}
	}
	return d.fillImage(b, s, h)
}

// fillImage adds the image of a sandbox to its setup.
func (d *Driver) fillImage(b *box, s *setup, h *handover) error {
	if b.image == nil {
		return nil
	}
	if b.image.Root != "" {
		m, err := h.addMount(b.image.Root)
		if err != nil {
			return fmt.Errorf("open image %q: %w", b.image.Name, err)
		}
		s.Image = &imageSetup{shared: m, Host: b.image.Host}
	}
	for name, value := range b.image.Use.Environment {
		s.Environment = append(s.Environment, name+"="+value)
	}
	slices.Sort(s.Environment)
	for _, m := range b.image.Mounts {
		path, err := d.cfg.Images.MountPath(m, b.spec.Owner, sandboxUser())
		if err != nil {
			return err
		}
		at, err := h.addMount(path)
		if err != nil {
			return tool.Errorf(tool.Unavailable, "%s of image %q: %w", m.Target, b.image.Name, err)
		}
		s.Mounts = append(s.Mounts, mounted{shared: at, Target: m.Target, Write: !m.ReadOnly})
	}
	return nil
}

// useImage returns a lease of the image of a spec, or nil if it names none.
func (d *Driver) useImage(spec sandbox.Spec) (*image.Lease, error) {
	if spec.Image == "" {
		return nil, nil
	}
	if d.cfg.Images == nil {
		return nil, tool.Errorf(tool.Unavailable, "image %q: there are no images here", spec.Image)
	}
	return d.cfg.Images.UseImage(spec.Image)
}

// ListImages returns the images that can be used.
func (d *Driver) ListImages() ([]sandbox.Image, error) {
	if d.cfg.Images == nil {
		return nil, nil
	}
	all, err := d.cfg.Images.ListImages()
	if err != nil {
		return nil, err
	}
	var out []sandbox.Image
	for _, i := range all {
		o := sandbox.Image{Name: i.Name, Tier: i.Use.Tier, Modules: i.Modules, Built: i.IsBuilt(), Host: i.Host}
		for _, r := range interpreters {
			if i.Interpreters[r.name] != "" || i.Host && d.findInterpreter(r) != "" {
				o.Runtimes = append(o.Runtimes, r.name)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// environmentOf returns the environment of the agent.
func environmentOf(s *setup) []string {
	out := slices.Clone(shell.Environment)
	if s.Runtime == "js" {
		out = append(out, "NODE_PATH="+nodeguest.SearchPath)
	}
	if s.Network != nil {
		out = append(out, s.Network.Environment...)
		if s.Runtime == "js" { // the variable costs Node 45 ms at its start, this only when TLS begins
			out = slices.DeleteFunc(out, func(v string) bool { return strings.HasPrefix(v, "NODE_EXTRA_CA_CERTS=") })
			out = append(out, "NODE_OPTIONS=--use-openssl-ca")
		}
	}
	return shell.JoinEnvironment(out, s.Environment)
}

// descriptorPath returns a path of an open descriptor of this process.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
