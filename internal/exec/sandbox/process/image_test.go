//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// buildImage builds an image of files: path to content.
func buildImage(t *testing.T, s *image.Store, m image.Manifest, files map[string]string) image.Manifest {
	t.Helper()
	d, err := s.NewDraft()
	if err != nil {
		t.Fatalf("NewDraft: %v", err)
	}
	for name, content := range files {
		path := filepath.Join(d.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(content), 0o700)); err != nil {
			t.Fatalf("write %s: %v", path, err)
		}
	}
	if m, err = d.CommitTree(context.Background(), m); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return m
}

// imageDriver returns a driver with a store of images.
func imageDriver(t *testing.T, described map[string]image.Description) (*process.Driver, *image.Store) {
	s := image.NewStore(image.Config{Folder: t.TempDir(), Described: described})
	return newShellDriver(t, process.Config{Images: s}), s
}

// TestWarmImage checks that sandboxes which are started ahead have imported the modules of their
// image, and that what these print and how they fail doesn't reach programs.
func TestWarmImage(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir(), Described: map[string]image.Description{"warm": {
		Packages: []string{"x"}, Use: image.Use{Warm: []string{"noisy", "broken"}}}}})
	d := newDriver(t, process.Config{Images: s, Warm: 1})
	const path = "usr/lib/python3/dist-packages/"
	buildImage(t, s, image.Manifest{Name: "warm", Host: true}, map[string]string{
		path + "noisy.py":  "import os\nos.system('echo noise')\nprint('noise')\n",
		path + "broken.py": "raise RuntimeError('noise')\n"})
	spec := roomy
	spec.Image = "warm"
	run := func() *sandboxtest.Outcome {
		return sandboxtest.Exec(t.Context(), t, d, spec, "import sys\n'noisy' in sys.modules", sandboxtest.Host{})
	}
	if o := run(); string(o.Value) != "false" {
		t.Fatalf("the first program: %v, want a sandbox that has imported nothing", o)
	}
	for wait := time.Millisecond; d.CountWarm() == 0; wait *= 2 {
		if wait > time.Minute {
			t.Fatalf("no sandbox was started ahead")
		}
		time.Sleep(wait)
	}
	if o := run(); string(o.Value) != "true" || len(o.Console) > 0 {
		t.Errorf("a program in a sandbox that was started ahead: %v, console %v, want the module and no console", o,
			o.Console)
	}
}

// TestImageAboveHost runs scripts with an image that is a layer above the host's /usr.
func TestImageAboveHost(t *testing.T) {
	d, s := imageDriver(t, map[string]image.Description{"layer": {Packages: []string{"hello"},
		Use: image.Use{Environment: map[string]string{"GREETING": "good day"}}}})
	if _, err := d.Create(t.Context(), sandbox.Spec{Runtime: "bash", Image: "layer"}); err == nil ||
		!strings.Contains(err.Error(), "biplane image build layer") {
		t.Fatalf("Create with an image that isn't built: %v, want an error that names the command", err)
	}
	buildImage(t, s, image.Manifest{Name: "layer", Host: true}, map[string]string{
		"usr/bin/greet": "#!/bin/sh\necho $GREETING\n", "etc/greet/name": "layer", "opt/greet/x": "opt",
		"etc/passwd": "intruder"})
	o := runScript(t, d, sandbox.Spec{Image: "layer"},
		"greet; cat /etc/greet/name /opt/greet/x; grep -c intruder /etc/passwd; touch /usr/bin/x 2>&1; "+
			"test -x /usr/bin/env && ls -a / | grep -c image; mount 2>/dev/null | grep -c "+t.Name()+"; true")
	const want = "good day\nlayeropt0\ntouch: cannot touch '/usr/bin/x': Read-only file system\n0\n0"
	var got string
	if _ = json.Unmarshal(o.Value, &got); got != want {
		t.Errorf("with the image: %v, want %q", o, want)
	}
	if err := s.RemoveImage("layer"); err != nil {
		t.Errorf("RemoveImage: %v", err)
	}
	if _, err := d.Create(t.Context(), sandbox.Spec{Runtime: "bash", Image: "nothing"}); err == nil ||
		!strings.Contains(err.Error(), `no image "nothing"`) {
		t.Errorf("Create with an unknown image: %v", err)
	}
}

// TestWarmNow checks that WarmImage starts a sandbox now, makes room for it, and that the next
// program claims it.
func TestWarmNow(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir(), Described: map[string]image.Description{
		"warm":   {Packages: []string{"x"}, Use: image.Use{Warm: []string{"quiet"}}},
		"mounts": {Use: image.Use{Mounts: []image.Mount{{Target: "/data", Volume: "v"}}}}}})
	d := newDriver(t, process.Config{Images: s, Warm: 1})
	buildImage(t, s, image.Manifest{Name: "warm", Host: true},
		map[string]string{"usr/lib/python3/dist-packages/quiet.py": "x = 1\n"})
	spec := roomy
	for _, c := range []struct{ runtime, image string }{{"bash", ""}, {"python", ""}, {"python", "warm"}} {
		spec.Runtime, spec.Image = c.runtime, c.image
		w, err := d.WarmImage(t.Context(), spec)
		if err != nil || w.Ready != 1 || w.Claim <= 0 || w.Start <= 0 || d.CountWarm() != 1 {
			t.Errorf("WarmImage of %q for %s: %+v, %v, %d wait; want one", c.image, c.runtime, w, err, d.CountWarm())
		}
	}
	if o := sandboxtest.Exec(t.Context(), t, d, spec, "import sys\n'quiet' in sys.modules",
		sandboxtest.Host{}); string(o.Value) != "true" {
		t.Errorf("the next program: %v, want a sandbox that has imported the module", o)
	}
	for name, want := range map[string]string{"none": `no image "none"`, "mounts": "has folders or volumes"} {
		spec.Image = name
		if _, err := d.WarmImage(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WarmImage of %q: %v, want %q", name, err, want)
		}
	}
}
