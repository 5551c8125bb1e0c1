package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// putImage builds an image above the host's /usr, with files: path to content.
func putImage(t *testing.T, dir string, m image.Manifest, files map[string]string) {
	t.Helper()
	draft, err := image.NewStore(image.Config{Folder: filepath.Join(dir, "images")}).NewDraft()
	if err != nil {
		t.Fatalf("NewDraft: %v", err)
	}
	for name, text := range files {
		path := filepath.Join(draft.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	m.Host = true
	if _, err := draft.CommitTree(t.Context(), m); err != nil {
		t.Fatalf("CommitTree: %v", err)
	}
}

// runWithImage runs a program with an image, as a principal.
func runWithImage(t *testing.T, c *api.Client, language, image, code string) *api.Execution {
	t.Helper()
	x, err := c.Run(t.Context(), api.RunRequest{Code: code, Language: language, Image: image})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return x
}

// TestImageFolders runs programs of two principals with a folder of the host, a volume of their own
// and a shared one.
func TestImageFolders(t *testing.T) {
	t.Parallel()
	newProcessRig(t, anyTier) // or skips the test
	dir, reports := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(reports, "a.txt"), []byte("report\n"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := os.Chmod(reports, 0o755); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	d, _ := run(t, dir, fmt.Sprintf(`auth: { keys: true }
sandbox:
  mounts: { reports: '%s' }
  volumes: { own: { size: 8MiB }, all: { size: 8MiB, shared: true } }
  images: { work: { mounts: [reports], volumes: { own: /own, all: /all } } }
`, reports))
	bob := clientOf(d, makeKey(t, d, api.KeyRequest{Name: "bob", Scopes: []string{"api"}}))
	for _, s := range []struct {
		who        *api.Client
		code, want string
	}{
		{d.Client(), "cat /mnt/reports/a.txt; touch /mnt/reports/b.txt 2>/dev/null || echo read-only",
			`"report\nread-only"`},
		{d.Client(), "echo mine > /own/a; echo ours > /all/a; ls /own /all | tr -d '\\n'", `"/all:a/own:a"`},
		{d.Client(), "cat /own/a /all/a", `"mine\nours"`},
		{bob, "cat /own/a 2>/dev/null; cat /all/a; echo his > /own/a", `"ours"`},
		{d.Client(), "cat /own/a; head -c 9000000 /dev/zero > /own/big", `"mine"`},
	} {
		if x := runWithImage(t, s.who, "bash", "work", s.code); x.Error != nil || string(x.Value) != s.want ||
			x.Image != "work" {
			t.Errorf("%s: value %s, %+v, image %q, want %s", s.code, x.Value, x.Error, x.Image, s.want)
		}
	}
	x := runWithImage(t, d.Client(), "bash", "work", "true")
	if x.Error == nil || !strings.Contains(x.Error.Message, `volume "own" has more than 8`) {
		t.Errorf("with a full volume: %+v, want an error that names it", x.Error)
	}
	var all sync.WaitGroup
	for i := range 4 { // at the same time
		all.Go(func() {
			if x := runWithImage(t, bob, "bash", "work", fmt.Sprintf("echo %d > /all/p%[1]d", i)); x.Error != nil {
				t.Errorf("one of several programs with a volume: %+v", x.Error)
			}
		})
	}
	all.Wait()
	if x := runWithImage(t, bob, "bash", "work", "cat /all/p*"); string(x.Value) != `"0\n1\n2\n3"` {
		t.Errorf("what several programs wrote: %s, %+v", x.Value, x.Error)
	}
}

// TestImagesForPrograms runs a Node program with an npm package of an image, a Python program with
// a module of another, and checks that policy decides on images.
func TestImagesForPrograms(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, anyTier)
	r.stop()
	web := image.Manifest{Name: "web", Modules: map[string][]string{"js": {"greeter"}}}
	putImage(t, r.dir, web, map[string]string{
		"usr/lib/node_modules/greeter/package.json": `{"name": "greeter", "version": "1.0.0", "main": "index.js"}`,
		"usr/lib/node_modules/greeter/index.js":     "exports.greet = (name) => `hello ${name}`;\n"})
	putImage(t, r.dir, image.Manifest{Name: "data", Modules: map[string][]string{"python": {"zzdata"}}},
		map[string]string{"usr/lib/python3/dist-packages/zzdata.py": "value = 7\n"})
	r.start(anyTier+`@id("closed") @reason("not that one") forbid (principal, action == Action::"execute", resource)
when { context.arguments has image && context.arguments.image == "data" };`, nil)
	c := r.d.Client()
	for _, code := range []string{"const { greet } = require('greeter'); return greet('a')",
		"import { greet } from 'greeter'; return greet('a')"} {
		x := runWithImage(t, c, "typescript", "", code)
		if x.Error != nil || string(x.Value) != `"hello a"` || x.Image != "web" {
			t.Errorf("%s: %s, %+v, image %q", code, x.Value, x.Error, x.Image)
		}
	}
	for named, code := range map[string]string{"data": "1", "": "import zzdata\nzzdata.value"} {
		x, err := c.Run(t.Context(), api.RunRequest{Code: code, Language: "python", Image: named})
		if err == nil && (x.Error == nil || !strings.Contains(x.Error.Message, "policy closed")) ||
			err != nil && !strings.Contains(err.Error(), "policy closed") {
			t.Errorf("a forbidden image, named %q: %+v, %v, want it denied", named, x, err)
		}
	}
}
