package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A home is the folder of a sandbox's files.
type home struct {
	*testing.T
	dir string
}

func newHome(t *testing.T) home { return home{t, t.TempDir()} }

// mustSucceed fails the test if there is an error.
func (h home) mustSucceed(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// makePath returns the path of a file, whose folder it creates.
func (h home) makePath(name string) string {
	h.Helper()
	at := filepath.Join(h.dir, name)
	h.mustSucceed(os.MkdirAll(filepath.Dir(at), 0o755))
	return at
}

func (h home) writeFile(name, text string, mode os.FileMode) {
	h.Helper()
	h.mustSucceed(os.WriteFile(h.makePath(name), []byte(text), 0o600))
	h.mustSucceed(os.Chmod(filepath.Join(h.dir, name), mode))
}

// buildImage builds an image from the home. It returns its files by their paths, and the progress.
func (h home) buildImage(s *image.Store, from Source) (files map[string]string, notes string, err error) {
	h.Helper()
	from.ID, from.Folder = "sb_x", h.dir
	if from.MaxBytes == 0 {
		from.MaxBytes, from.MaxFiles = 1<<20, 1000
	}
	if from.Guard == nil {
		from.Guard = &guard{refuses: -1}
	}
	m, err := BuildFrom(context.Background(), s, "made", &from, func(line string) { notes += line + "\n" })
	if err != nil {
		return nil, notes, err
	}
	lease, err := s.UseImage("made")
	h.mustSucceed(err)
	defer lease.EndUse()
	if m.From != "sb_x" {
		h.Errorf("the manifest has from %q, want the sandbox", m.From)
	}
	files = map[string]string{}
	h.mustSucceed(filepath.WalkDir(lease.Root, func(at string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(lease.Root, at)
		if e.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(at)
			files[name] = "-> " + to
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(at)
		files[name] = fmt.Sprintf("%s %s", info.Mode(), b)
		return err
	}))
	return files, notes, nil
}

// A guard refuses a sandbox in one of its checks, or never.
type guard struct{ checks, refuses int }

func (g *guard) CheckData() error {
	if g.checks++; g.checks == g.refuses {
		return errors.New("it has labels")
	}
	return nil
}

// TestCopyLeavesPackages checks that a link which is left out, as npm link makes them, doesn't
// remove the package of the base image.
func TestCopyLeavesPackages(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	d, err := s.NewDraft()
	if err != nil {
		t.Fatalf("NewDraft: %v", err)
	}
	b := home{t, d.Root}
	b.writeFile("usr/lib/node_modules/kept/index.js", "kept", 0o644)
	_, err = d.CommitTree(t.Context(), image.Manifest{Name: "base"})
	b.mustSucceed(err)
	base, err := s.UseImage("base")
	b.mustSucceed(err)
	defer base.EndUse()
	h := newHome(t)
	h.writeFile("node_modules/new/index.js", "new", 0o644)
	h.mustSucceed(os.Symlink("/workspace/elsewhere", h.makePath("node_modules/kept")))
	files, _, err := h.buildImage(s, Source{Base: base})
	h.mustSucceed(err)
	if got := files["usr/lib/node_modules/kept/index.js"]; got != "-rw-r--r-- kept" {
		t.Errorf("the package of the base image is %q, want it unchanged", got)
	}
}

// TestCopyPackages checks which files of a sandbox an image has, that it begins with the sandbox's
// image, and that the other image doesn't change.
func TestCopyPackages(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	d, err := s.NewDraft()
	if err != nil {
		t.Fatalf("NewDraft: %v", err)
	}
	b := home{t, d.Root}
	b.writeFile("usr/lib/python3/dist-packages/old.py", "old", 0o644)
	b.writeFile("usr/bin/python3", "", 0o755)
	b.writeFile("usr/lib/node_modules/left/gone.js", "gone", 0o644)
	b.writeFile("usr/local/bin/tool", "first", 0o755)
	b.mustSucceed(os.Symlink("old.py", b.makePath("usr/lib/python3/dist-packages/link.py")))
	_, err = d.CommitTree(t.Context(), image.Manifest{Name: "base", Installed: []string{"old=1"},
		Environment: map[string]string{"A": "b"}})
	b.mustSucceed(err)
	base, err := s.UseImage("base")
	b.mustSucceed(err)
	defer base.EndUse()

	h := newHome(t)
	h.writeFile(".local/lib/python3.11/site-packages/new.py", "new", 0o600)
	h.writeFile(".local/lib/python3.x/site-packages/no.py", "", 0o600)
	h.writeFile(".local/bin/tool", "second", 0o4711)
	h.writeFile("node_modules/left/index.js", "left", 0o644)
	h.writeFile("node_modules/@a/b/index.js", "ab", 0o644)
	h.mustSucceed(os.Symlink("../left/index.js", h.makePath("node_modules/.bin/left")))
	h.writeFile("notes.txt", "private", 0o644)
	files, _, err := h.buildImage(s, Source{Base: base})
	h.mustSucceed(err)
	want := map[string]string{
		"usr/bin/python3":                               "-rwxr-xr-x ",
		"usr/lib/python3/dist-packages/old.py":          "-rw-r--r-- old",
		"usr/lib/python3/dist-packages/link.py":         "-> old.py",
		"usr/local/lib/python3.11/dist-packages/new.py": "-rw-r--r-- new",
		"usr/local/bin/tool":                            "-rwxr-xr-x second",
		"usr/lib/node_modules/left/index.js":            "-rw-r--r-- left",
		"usr/lib/node_modules/@a/b/index.js":            "-rw-r--r-- ab",
		"usr/lib/node_modules/.bin/left":                "-> ../left/index.js",
	}
	for name, text := range want {
		if files[name] != text {
			t.Errorf("%s is %q, want %q", name, files[name], text)
		}
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("the image also has %v", files)
	}
	i, err := s.FindImage("made")
	h.mustSucceed(err)
	if i.Host || i.Use.Environment["A"] != "b" || !slices.Equal(i.Installed, []string{"old=1"}) ||
		!slices.Equal(i.Modules["python"], []string{"link", "new", "old"}) ||
		!slices.Equal(i.Modules["js"], []string{"@a/b", "left"}) || i.Interpreters["python"] != "/usr/bin/python3" {
		t.Errorf("the image is %+v", i)
	}
	if text, err := os.ReadFile(filepath.Join(base.Root, "usr/local/bin/tool")); string(text) != "first" {
		t.Errorf("the other image has %q, %v; want its own file", text, err)
	}
}

const packages = ".local/lib/python3.11/site-packages/"

// TestCopyHostileFiles checks that nothing of a hostile sandbox leads out of it or blocks, and that
// no device, pipe or socket is opened.
func TestCopyHostileFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	h := newHome(t)
	h.mustSucceed(os.WriteFile(secret, []byte("secret"), 0o644))
	h.writeFile(packages+"good.py", "good", 0o644)
	for name, to := range map[string]string{"absolute": secret, "up": "../../../../../../../../" + secret,
		"out": "../../../../notes", "folder": filepath.Dir(secret), "magic": "/proc/self/root"} {
		h.mustSucceed(os.Symlink(to, h.makePath(packages+name)))
	}
	h.mustSucceed(unix.Mkfifo(h.makePath(packages+"pipe"), 0o644))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	h.mustSucceed(err)
	defer unix.Close(socket)
	t.Chdir(filepath.Join(h.dir, packages)) // the path of a socket must be short
	h.mustSucceed(unix.Bind(socket, &unix.SockaddrUnix{Name: "socket"}))
	left := 7
	if os.Geteuid() == 0 {
		// /dev/watchdog and others act when they are opened: number 10:130.
		if err := unix.Mknod(h.makePath(packages+"device"), unix.S_IFCHR|0o666, int(unix.Mkdev(10, 130))); err == nil {
			left++
		}
	}
	h.mustSucceed(os.Link(h.makePath(packages+"good.py"), h.makePath(packages+"hard.py")))
	files, notes, err := h.buildImage(image.NewStore(image.Config{Folder: t.TempDir()}), Source{})
	h.mustSucceed(err)
	if want := fmt.Sprintf("left out links that lead elsewhere, devices, pipes and sockets: %d\n",
		left); !strings.Contains(notes, want) {
		t.Errorf("the progress is %q, want %q", notes, want)
	}
	if len(files) != 2 {
		t.Errorf("the image has %v, want good.py and hard.py", files)
	}
	for name, text := range files {
		if text != "-rw-r--r-- good" {
			t.Errorf("%s is %q", name, text)
		}
	}
}

// TestCopyRefused checks which sandboxes no image is built from, and that nothing is left then.
func TestCopyRefused(t *testing.T) {
	outside := t.TempDir()
	home{t, outside}.makePath("python3.11/site-packages/x")
	for name, c := range map[string]struct {
		make func(h home)
		from Source
		want string
	}{
		"nothing": {func(h home) { h.writeFile("a", "", 0o644) }, Source{},
			"has no packages in .local or node_modules"},
		"empty folders": {func(h home) { h.makePath(packages + "x") }, Source{}, "has no packages"},
		"a link to lib": {func(h home) { h.mustSucceed(os.Symlink(outside, h.makePath(".local/lib"))) }, Source{},
			".local/lib of the sandbox is not an ordinary folder"},
		"a link to .local": {func(h home) { h.mustSucceed(os.Symlink(outside, h.makePath(".local"))) }, Source{},
			"is not an ordinary folder"},
		"a link to packages": {func(h home) {
			h.mustSucceed(os.Symlink(outside, h.makePath(strings.TrimSuffix(packages, "/"))))
		}, Source{}, "site-packages of the sandbox is not an ordinary folder"},
		"a file as a folder": {func(h home) { h.writeFile("node_modules", "", 0o644) }, Source{},
			"node_modules of the sandbox is not an ordinary folder"},
		"a sparse file": {func(h home) {
			h.writeFile(packages+"big", "", 0o644)
			h.mustSucceed(os.Truncate(h.makePath(packages+"big"), 1<<40))
		}, Source{}, "big is too large"},
		"many small files": {func(h home) {
			for i := range 11 {
				h.writeFile(fmt.Sprintf("%s%d", packages, i), "", 0o644)
			}
		}, Source{MaxBytes: 1 << 20, MaxFiles: 10}, "more than 10 files and folders"},
		"hard links": {func(h home) {
			h.writeFile(packages+"a", strings.Repeat("x", 400<<10), 0o644)
			h.mustSucceed(os.Link(h.makePath(packages+"a"), h.makePath(packages+"b")))
			h.mustSucceed(os.Link(h.makePath(packages+"a"), h.makePath(packages+"c")))
		}, Source{}, "more than 1.0 MB"},
		"deep folders": {func(h home) { h.writeFile(packages+strings.Repeat("d/", 70)+"f", "", 0o644) }, Source{},
			"nested too deep"},
		"many versions": {func(h home) {
			for i := range 101 {
				h.makePath(fmt.Sprintf(".local/lib/python3.%d/x", i))
			}
		}, Source{}, ".local/lib of the sandbox has too many entries"},
		"labels that arrive meanwhile": {func(h home) { h.writeFile(packages+"a.py", "", 0o644) },
			Source{MaxBytes: 100, MaxFiles: 10, Guard: &guard{refuses: 2}}, "it has labels"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			c.make(h)
			folder := t.TempDir()
			s := image.NewStore(image.Config{Folder: folder})
			files, _, err := h.buildImage(s, c.from)
			if err == nil || !strings.Contains(err.Error(), c.want) || tool.AsError(err).Kind == tool.Internal &&
				c.want != "it has labels" {
				t.Errorf("the image has %v, %v; want an error with %q", files, err, c.want)
			}
			var left []string
			h.mustSucceed(filepath.WalkDir(folder, func(at string, e os.DirEntry, err error) error {
				if !e.IsDir() || strings.HasPrefix(e.Name(), "new-") {
					left = append(left, at)
				}
				return err
			}))
			if len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}
