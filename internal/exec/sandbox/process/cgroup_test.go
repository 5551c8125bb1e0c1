//go:build linux

package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLeftoverGroups checks that control groups of a gateway that was killed are removed, also the
// ones that it had created only to try, and that other groups are not.
func TestLeftoverGroups(t *testing.T) {
	c := exec.CommandContext(t.Context(), "true")
	if err := c.Run(); err != nil {
		t.Fatalf("run a process that ends: %v", err)
	}
	dir := t.TempDir()
	dead := groupPrefix + strconv.Itoa(c.Process.Pid) + "-"
	names := []string{dead + "abcdefgh", strings.Replace(groupName("probe123"), groupName(""), dead, 1),
		groupName("abcdefgh"), groupName("probe123"), "other-1-a", groupPrefix + "x-1"}
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatalf("os.Mkdir: %v", err)
		}
	}
	if checkWritable(dir) != dir {
		t.Errorf("no group can be created in %s", dir)
	}
	cgroups{freezer: dir}.removeLeftovers()
	for i, name := range names {
		_, err := os.Stat(filepath.Join(dir, name))
		if gone := errors.Is(err, fs.ErrNotExist); gone != (i < 2) {
			t.Errorf("%s: it is gone: %t, %v", name, gone, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != len(names)-2 {
		t.Errorf("%d groups are left, %v, want %d", len(all), err, len(names)-2)
	}
}
