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

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
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
