package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// writeLayout writes an OCI layout with two layers, and returns its folder.
func writeLayout(t *testing.T, arch string) string {
	t.Helper()
	var layers []v1.Layer
	for _, entries := range [][]tar.Header{
		{{Name: "usr/bin/python3.11", Mode: 0o4755}, link("usr/bin/python3", "python3.11"), file("usr/lib/gone")},
		{file("usr/lib/.wh.gone"), file("usr/lib/python3/site-packages/pandas/__init__.py"), link("bin", "usr/bin"),
			file("bin/bash")},
	} {
		b := archive(t, entries...).Bytes()
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(b)), nil
		})
		if err != nil {
			t.Fatalf("make a layer: %v", err)
		}
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err == nil {
		img, err = mutate.ConfigFile(img, withPlatform(t, img, arch))
	}
	dir := t.TempDir()
	if err == nil {
		var p layout.Path
		if p, err = layout.Write(dir, empty.Index); err == nil {
			err = p.AppendImage(img)
		}
	}
	if err != nil {
		t.Fatalf("write an OCI layout: %v", err)
	}
	return dir
}

// withPlatform returns the configuration of an image, for an architecture.
func withPlatform(t *testing.T, img v1.Image, arch string) *v1.ConfigFile {
	t.Helper()
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatalf("read the configuration of the image: %v", err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", arch
	cfg.Config.Env = []string{"PATH=/opt/bin:/usr/bin", "HOME=/root", "A=b"}
	return cfg
}

// TestOCILayout builds an image from an OCI layout and from an archive with it.
func TestOCILayout(t *testing.T) {
	dir := writeLayout(t, runtime.GOARCH)
	tarFile := filepath.Join(t.TempDir(), "image.tar")
	if out, err := exec.Command("tar", "-C", dir, "-cf", tarFile, ".").CombinedOutput(); err != nil {
		t.Skipf("tar can't run here: %v, %s", err, out)
	}
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	var first image.Manifest
	for _, path := range []string{dir, tarFile} {
		m, err := BuildImage(t.Context(), s, "own", image.Description{OCI: path}, func(string) {})
		if err != nil {
			t.Fatalf("BuildImage of %s: %v", path, err)
		}
		if m.Host || m.Interpreters["python"] != "/usr/bin/python3" || m.Interpreters["bash"] != "/usr/bin/bash" ||
			!slices.Equal(m.Modules["python"], []string{"pandas"}) || m.Environment["A"] != "b" ||
			m.Environment["HOME"] != "" {
			t.Errorf("manifest of %s: %+v", path, m)
		}
		if first.Digest != "" && first.Digest != m.Digest {
			t.Errorf("digest of the archive: %s, want that of the layout %s", m.Digest, first.Digest)
		}
		first = m
	}
	l, err := s.UseImage("own")
	if err != nil {
		t.Fatalf("UseImage: %v", err)
	}
	if info, err := os.Stat(filepath.Join(l.Root, "usr/bin/python3.11")); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode of a file with the right to change user: %v, %v, want 0755", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(l.Root, "usr/lib/gone")); err == nil {
		t.Errorf("a file that the second layer removes is there")
	}
	if err := s.RemoveImage("own"); err == nil || !strings.Contains(err.Error(), "used by a sandbox") {
		t.Errorf("RemoveImage of an image in use: %v, want an error that says so", err)
	}
	if err := errors.Join(l.EndUse(), s.RemoveImage("own")); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
}

// TestArchiveWithLinks checks that an archive can't have files of the host read by links.
func TestArchiveWithLinks(t *testing.T) {
	host := writeLayout(t, runtime.GOARCH)
	file := filepath.Join(t.TempDir(), "image.tar")
	b := archive(t, link("index.json", filepath.Join(host, "index.json")), link("blobs", filepath.Join(host, "blobs")),
		link("oci-layout", filepath.Join(host, "oci-layout"))).Bytes()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatalf("write an archive: %v", err)
	}
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	if m, err := BuildImage(t.Context(), s, "own", image.Description{OCI: file}, func(string) {}); err == nil {
		t.Errorf("an image was built of the host's files: %+v", m)
	}
}

// TestDamagedLayout checks that layers with other content than the image says are refused.
func TestDamagedLayout(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	if _, err := BuildImage(t.Context(), s, "other", image.Description{OCI: writeLayout(t, "riscv64")},
		func(string) {}); err == nil || !strings.Contains(err.Error(), "is for linux/riscv64") {
		t.Errorf("image of another architecture: %v", err)
	}
	dir := writeLayout(t, runtime.GOARCH)
	img, err := openImage(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatalf("open the layout: %v", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, img.layers[1]))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, img.layers[0]), content, 0o644)
	}
	if err != nil {
		t.Fatalf("damage a layer: %v", err)
	}
	_, err = BuildImage(t.Context(), s, "damaged", image.Description{OCI: dir}, func(string) {})
	if err == nil {
		t.Errorf("an image with an exchanged layer was built, want an error")
	}
	all, err := s.ListImages()
	if err != nil || len(all) != 0 {
		t.Errorf("images after failed builds: %v, %v, want none", all, err)
	}
}

// TestCancelledBuild checks that a cancelled build leaves nothing.
func TestCancelledBuild(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	_, err := BuildImage(ctx, image.NewStore(image.Config{Folder: folder}), "own",
		image.Description{OCI: writeLayout(t, runtime.GOARCH)}, func(string) { cancel(stop) })
	if !errors.Is(err, stop) {
		t.Errorf("BuildImage: %v, want %v", err, stop)
	}
	if got := listFiles(t, folder); !slices.Equal(got, []string{"trees/"}) {
		t.Errorf("after a cancelled build: %q, want only an empty folder", got)
	}
}

// TestDebianPackage builds an image from a package of Debian, and uses its files.
func TestDebianPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads a package")
	}
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	var lines []string
	m, err := BuildImage(t.Context(), s, "greeter", image.Description{Packages: []string{"hello"}},
		func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Skipf("Debian packages can't be installed here: %v", err)
	}
	l, err := s.UseImage("greeter")
	if err != nil {
		t.Fatalf("UseImage: %v", err)
	}
	defer l.EndUse()
	out, err := exec.Command(filepath.Join(l.Root, "usr/bin/hello")).CombinedOutput()
	if len(m.Installed) > 0 && (err != nil || string(out) != "Hello, world!\n") {
		t.Errorf("hello: %q, %v, manifest %+v, progress %q", out, err, m, lines)
	}
	_, err = BuildImage(t.Context(), s, "nothing", image.Description{Python: []string{"there-is-no-such-thing"}},
		func(string) {})
	if err == nil || !strings.Contains(err.Error(), "apt-cache search") {
		t.Errorf("unknown package: %v, want a hint", err)
	}
}
