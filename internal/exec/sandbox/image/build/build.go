// Package build builds sandbox images: from Debian and npm packages, as a layer above the host's
// /usr, from an OCI layout or archive, or from what was installed in a sandbox. It needs no root.
// It runs nothing that it installs.
package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Progress is called with a line about what begins.
type Progress func(line string)

// A job is an image that is being built.
type job struct {
	d        image.Description
	draft    *image.Draft
	x        *extractor
	progress Progress
	m        image.Manifest
}

// BuildImage builds an image and keeps it in s under a name. If ctx ends, nothing is left of it.
func BuildImage(ctx context.Context, s *image.Store, name string, d image.Description, p Progress,
) (image.Manifest, error) {
	if err := errors.Join(image.CheckName(name), checkDescription(d)); err != nil {
		return image.Manifest{}, tool.AsError(err)
	}
	j := &job{d: d, progress: p, m: image.Manifest{Name: name, Description: d, Host: d.OCI == ""}}
	if d.OCI != "" {
		return j.buildTree(ctx, s, j.extractOCI)
	}
	return j.buildTree(ctx, s, j.installDebian, j.installNode)
}

// A step adds files to the tree.
type step func(context.Context) error

// buildTree carries out the steps on an empty tree, and keeps it in s.
func (j *job) buildTree(ctx context.Context, s *image.Store, steps ...step) (_ image.Manifest, err error) {
	draft, err := s.NewDraft()
	if err != nil {
		return image.Manifest{}, err
	}
	defer func() { err = errors.Join(err, draft.DiscardTree()) }()
	x, err := openExtractor(draft.Root)
	if err != nil {
		return image.Manifest{}, err
	}
	defer x.root.Close()
	j.draft, j.x, j.m.Built = draft, x, time.Now().UTC().Truncate(time.Second)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return image.Manifest{}, fmt.Errorf("build image %q: %w", j.m.Name, err)
		}
	}
	j.scanTree()
	j.progress(fmt.Sprintf("keeping %s in %d files", text.Size(x.bytes), x.files))
	return draft.CommitTree(ctx, j.m)
}

func checkDescription(d image.Description) error {
	if !d.HasContent() {
		return tool.Errorf(tool.Invalid, "there is nothing to build: name Python modules, npm packages, packages of "+
			"Debian, or an OCI image")
	}
	if d.OCI != "" && len(d.Python)+len(d.Node)+len(d.Packages) > 0 {
		return tool.Errorf(tool.Invalid, "an OCI image is a whole system: packages can't be added to it")
	}
	for _, name := range slices.Concat(d.Python, d.Node, d.Packages) {
		if err := image.CheckPackage(name); err != nil {
			return err
		}
	}
	return nil
}

// runCommand runs a program in a folder, and returns its standard output. If it fails, the error
// has the end of its standard error.
func runCommand(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = dir, 5*time.Second
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		reason := strings.TrimSpace(string(exit.Stderr))
		return "", tool.Errorf(tool.Unavailable, "%s: %w: %s", filepath.Base(name), err,
			reason[max(0, len(reason)-1000):])
	}
	return string(out), err
}

// sortedSet returns the keys of a set, sorted.
func sortedSet(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
