package vfs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

func TestTouches(t *testing.T) {
	fs := vfs.New(vfs.Config{})
	for _, p := range []string{"d/a", "d/e/b", "c"} {
		if i := strings.LastIndexByte(p, '/'); i > 0 {
			if err := fs.Mkdir(p[:i], true); err != nil {
				t.Fatalf("Mkdir: %v", err)
			}
		}
		write(t, fs, p, "x")
	}
	for _, c := range []struct{ op, path, to, want string }{
		{"read", "c", "", "r workspace/c"},
		{"read", "/d/../workspace/../../c", "", "r workspace/c"},
		{"read", "./skills/x.ts", "", "r skills/x.ts"},
		{"read", "/", "", ""},
		{"write", "new", "", "w workspace/new"},
		{"truncate", "c", "", "w workspace/c"},
		{"mkdir", "./workspace/n/m", "", "w workspace/n/m"},
		{"rm", "d", "", "w workspace/d, w workspace/d/a, w workspace/d/e, w workspace/d/e/b"},
		{"rmdir", "gone", "", "w workspace/gone"},
		{"copy", "c", "skills/c.ts", "r workspace/c, w skills/c.ts"},
		{"rename", "c", "k", "r workspace/c, w workspace/c, w workspace/k"},
		{"rename", "d/e", "f",
			"r workspace/d/e, w workspace/d/e, w workspace/f, r workspace/d/e/b, w workspace/d/e/b, w workspace/f/b"},
		{"rename", "c", "\x00", ""},
		{"stat", "c", "", ""},
		{"list", "d", "", ""},
	} {
		var got []string
		for _, u := range fs.Touches(c.op, c.path, c.to) {
			got = append(got, fmt.Sprintf("%s %s", map[bool]string{true: "w", false: "r"}[u.Write], u.Path))
		}
		if c.op == "rm" {
			slices.Sort(got)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s %q %q touches %s, want %s", c.op, c.path, c.to, s, c.want)
		}
	}
}
