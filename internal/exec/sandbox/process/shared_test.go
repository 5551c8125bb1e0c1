//go:build linux

package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

// TestMountsStayInside checks that a sandbox's mounts appear nowhere else on a host whose mounts
// are shared, as systemd makes them: neither those in an image nor those in other folders.
// Otherwise the removal of an image would also remove the files of a volume in it.
func TestMountsStayInside(t *testing.T) {
	const inside = "BIPLANE_TEST_SHARED"
	if os.Geteuid() != 0 {
		t.Skip("only root can share the mounts")
	}
	if os.Getenv(inside) == "" {
		newDriver(t, process.Config{}) // or skips the test
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		c.Env = append(os.Environ(), inside+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("with shared mounts: %v, %s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatalf("share the mounts: %v", err)
	}
	data := t.TempDir()
	s := image.NewStore(image.Config{Folder: data, Described: map[string]image.Description{"layer": {
		Packages: []string{"x"}, Use: image.Use{Mounts: []image.Mount{{Target: "/data", Volume: "v"}}}}}})
	buildImage(t, s, image.Manifest{Name: "layer", Host: true}, map[string]string{"data/readme": "an empty folder"})
	d := newShellDriver(t, process.Config{Images: s})
	before := readMounts(t)
	runScript(t, d, sandbox.Spec{Image: "layer", Owner: "ada"}, "echo kept > /data/file")
	folder, outer := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Mkdir(outer+"/inner", 0o755), os.Chmod(filepath.Dir(outer), 0o755)); err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	m, err := d.CreateMachine(t.Context(), sandbox.MachineSpec{Folder: folder,
		Mounts: []sandbox.Mount{{Path: outer}, {Path: outer + "/inner"}}})
	if err != nil {
		t.Fatalf("CreateMachine: %v", err)
	}
	q := &service.Request{Op: service.OpRun, Command: []string{"true"}}
	if _, err := service.AskAgent(t.Context(), m, q); err != nil {
		t.Errorf("run a command: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if after := readMounts(t); after != before {
		t.Errorf("the mounts of the host were\n%s\nand are after some sandboxes\n%s", before, after)
	}
	if err := s.RemoveImage("layer"); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(data, "volumes/v/*/file"))
	if err != nil || len(files) != 1 {
		t.Errorf("the files of the volume after its image was removed: %v, %v, want one", files, err)
	}
}

// readMounts returns the mounts of this process.
func readMounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatalf("read the mounts: %v", err)
	}
	return string(b)
}
