package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// TestSharedTree checks that images with the same content share a tree, and that it is removed with
// the last of them.
func TestSharedTree(t *testing.T) {
	folder := t.TempDir()
	s := image.NewStore(image.Config{Folder: folder})
	build := func(name, content string) image.Manifest {
		d, err := s.NewDraft()
		if err == nil {
			err = os.WriteFile(filepath.Join(d.Root, "file"), []byte(content), 0o600)
		}
		if err != nil {
			t.Fatalf("NewDraft: %v", err)
		}
		m, err := d.CommitTree(t.Context(), image.Manifest{Name: name})
		if err != nil {
			t.Fatalf("CommitTree: %v", err)
		}
		return m
	}
	countTrees := func() int {
		all, _ := filepath.Glob(filepath.Join(folder, "trees", "*"))
		return len(all)
	}
	if a, b := build("a", "x"), build("b", "x"); a.Digest != b.Digest || countTrees() != 1 {
		t.Errorf("digests %s and %s, %d trees, want one", a.Digest, b.Digest, countTrees())
	}
	lease, err := s.UseImage("b")
	if err != nil {
		t.Fatalf("UseImage: %v", err)
	}
	build("b", "y")
	if err := s.RemoveImage("a"); err == nil {
		t.Errorf("RemoveImage removed a tree in use")
	}
	if err := errors.Join(lease.EndUse(), s.RemoveImage("a")); err != nil || countTrees() != 1 {
		t.Errorf("RemoveImage: %v, %d trees, want one", err, countTrees())
	}
	left := filepath.Join(folder, "new-left")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "lock"), nil, 0o600)); err != nil {
		t.Fatalf("leave the remains of a build: %v", err)
	}
	before := countTrees()
	broken := filepath.Join(folder, "names", "b.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatalf("damage a manifest: %v", err)
	}
	build("c", "z")
	if n := countTrees(); n != before+1 {
		t.Errorf("%d trees after a build beside a damaged manifest, want %d: one may be of that image", n, before+1)
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("the remains of a build that died are still there")
	}
}

// TestVolumes checks the folders of volumes, and their limits.
func TestVolumes(t *testing.T) {
	s := image.NewStore(image.Config{Folder: t.TempDir()})
	user := image.User{UID: os.Geteuid(), GID: os.Getegid()}
	m := image.Mount{Volume: "cache", Target: "/cache", Limit: 10}
	ann, err := s.MountPath(m, "ann", user)
	if err != nil {
		t.Fatalf("MountPath: %v", err)
	}
	if bob, err := s.MountPath(m, "bob", user); err != nil || bob == ann {
		t.Errorf("the volumes of two owners: %s and %s, %v", ann, bob, err)
	}
	m.Shared = true
	if a, err := s.MountPath(m, "ann", user); err != nil || a == ann {
		t.Errorf("a shared volume: %s, %v", a, err)
	}
	m.Shared = false
	if err := os.WriteFile(filepath.Join(ann, "file"), make([]byte, 11), 0o600); err != nil {
		t.Fatalf("write to the volume: %v", err)
	}
	if _, err := s.MountPath(m, "ann", user); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a full volume: %v, want an error", err)
	}
	m.ReadOnly = true
	if _, err := s.MountPath(m, "ann", user); err != nil {
		t.Errorf("a full volume for reading: %v", err)
	}
	m.ReadOnly = false
	deep, err := os.OpenRoot(ann)
	for range 20 { // the path of a file is too long for the system
		name := strings.Repeat("n", 250)
		if err == nil {
			err = deep.Mkdir(name, 0o700)
		}
		if err == nil {
			deep, err = deep.OpenRoot(name)
		}
	}
	if err == nil {
		err = errors.Join(os.Remove(filepath.Join(ann, "file")), deep.WriteFile("file", make([]byte, 11), 0o600))
	}
	if err != nil {
		t.Fatalf("write to the volume: %v", err)
	}
	if _, err := s.MountPath(m, "ann", user); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a volume with a file below a long path: %v, want an error", err)
	}
}

// TestTargets checks where folders and volumes can be mounted.
func TestTargets(t *testing.T) {
	for target, ok := range map[string]bool{"/data": true, "/mnt/data": true, "/": false, "data": false,
		"/usr/x":       false,
		"/workspace/x": false, "/data/../etc": false, "/biplane": false, "/.image": false, "/proc/self": false} {
		if err := image.CheckTarget(target); (err == nil) != ok {
			t.Errorf("CheckTarget(%q): %v, want valid: %t", target, err, ok)
		}
	}
}

// TestLargeManifest checks that a build whose manifest couldn't be read again leaves the image of
// that name, and the others, as they are.
func TestLargeManifest(t *testing.T) {
	folder := t.TempDir()
	s := image.NewStore(image.Config{Folder: folder})
	commit := func(modules []string) error {
		d, err := s.NewDraft()
		if err != nil {
			t.Fatalf("NewDraft: %v", err)
		}
		_, err = d.CommitTree(t.Context(), image.Manifest{Name: "a", Modules: map[string][]string{"python": modules}})
		return errors.Join(err, d.DiscardTree())
	}
	if err := commit([]string{"x"}); err != nil {
		t.Fatalf("CommitTree: %v", err)
	}
	many := make([]string, 12_000) // names that a file can have
	for i := range many {
		many[i] = strings.Repeat("\x01", 250)
	}
	if err := commit(many); err == nil || !strings.Contains(err.Error(), "too many modules") {
		t.Errorf("CommitTree of a manifest with 18 MB: %v, want a refusal", err)
	}
	all, err := s.ListImages()
	if err != nil || len(all) != 1 || len(all[0].Modules["python"]) != 1 {
		t.Errorf("ListImages: %+v, %v, want the image as it was", all, err)
	}
}
