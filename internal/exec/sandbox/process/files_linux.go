package process

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
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
	return entry.SocketFD + len(h.files)
}

// addMount adds a file or a folder of the host, to be mounted in the sandbox.
func (h *handover) addMount(path string) (entry.Shared, error) {
	f, isMount, err := openMount(path)
	if err != nil {
		return entry.Shared{}, err
	}
	return entry.Shared{FD: h.addFile(f), Path: path, Mount: isMount}, nil
}

func (h *handover) closeFiles() error {
	var errs []error
	for _, f := range h.own {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// fillSetup adds the host's folders and files that the sandbox uses to its setup, and their
// descriptors to h.
func (d *Driver) fillSetup(b *box, s *entry.Setup, h *handover) error {
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
	case "bash", "go", "rust", "java", entry.MachineRuntime:
		f, path, isMount, err := openProgram()
		if err != nil {
			return err
		}
		s.Program = &entry.Shared{FD: h.addFile(f), Path: path, Mount: isMount}
	case "python":
		files, err := d.openAgentFiles()
		if err != nil {
			return err
		}
		for _, f := range files {
			s.FileFDs = append(s.FileFDs, h.lendFile(f))
		}
	}
	if b.libraries != "" {
		at, err := h.addMount(b.libraries)
		if err != nil {
			return err
		}
		s.Mounts = append(s.Mounts, entry.Mounted{Shared: at, Target: shell.LibraryFolder, Write: b.makes})
	}
	if b.machine != nil {
		if err := fillMachine(b.machine, s, h); err != nil {
			return err
		}
	}
	return d.fillImage(b, s, h)
}

// fillImage adds the image of a sandbox to its setup.
func (d *Driver) fillImage(b *box, s *entry.Setup, h *handover) error {
	if b.image == nil {
		return nil
	}
	if b.image.Root != "" {
		m, err := h.addMount(b.image.Root)
		if err != nil {
			return fmt.Errorf("open image %q: %w", b.image.Name, err)
		}
		s.Image = &entry.ImageSetup{Shared: m, Host: b.image.Host}
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
		s.Mounts = append(s.Mounts, entry.Mounted{Shared: at, Target: m.Target, Write: !m.ReadOnly})
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
