package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// nodeFolder is the folder of npm packages in the tree: Node.js finds them there.
const nodeFolder = "usr/lib/node_modules"

// installNode installs npm packages to the tree. Their scripts are not run.
func (j *job) installNode(ctx context.Context) error {
	if len(j.d.Node) == 0 {
		return nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return tool.Errorf(tool.Unavailable, "this host has no npm, so npm packages can't be installed: install it "+
			"(Debian: npm)")
	}
	scratch, err := j.draft.MakeScratch()
	if err != nil {
		return err
	}
	dir := filepath.Join(scratch, "npm")
	if err := errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\": true}\n"), 0o600)); err != nil {
		return err
	}
	j.progress("installing " + strings.Join(j.d.Node, ", ") + " by npm")
	args := append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress",
		"--no-package-lock", "--omit=dev", "--"}, j.d.Node...)
	if _, err := runCommand(ctx, dir, npm, args...); err != nil {
		return err
	}
	if _, err := j.x.findFolder(filepath.Dir(nodeFolder)); err != nil {
		return err
	}
	to := filepath.Join(j.draft.Root, nodeFolder)
	if err := os.RemoveAll(to); err != nil { // of Debian's packages
		return err
	}
	if err := os.Rename(filepath.Join(dir, "node_modules"), to); err != nil {
		return fmt.Errorf("keep the npm packages: %w", err)
	}
	return filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		j.x.files++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			j.x.bytes += info.Size()
		}
		return ctx.Err()
	})
}
