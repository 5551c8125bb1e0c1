//go:build linux

package vfs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// TestAsLinux applies the same random operations to an FS and to a directory of the real file
// system. Each operation must return the same error and leave the same files.
func TestAsLinux(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "vfs")
		if err != nil {
			t.Fatalf("os.MkdirTemp: %v", err)
		}
		defer os.RemoveAll(dir)
		fs := vfs.New(vfs.Config{})
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			op, ours, theirs := twoFiles{fs, dir}.draw(t)
			if got, want := code(ours), errno(theirs); got != want {
				t.Fatalf("%s: %q, on Linux %q (%v; %v)", op, got, want, ours, theirs)
			}
			if rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 {
				fs = vfs.New(vfs.Config{Workspace: fs.Workspace()})
			}
		}
		if got, want := ourFiles(t, fs, "workspace"), realFiles(t, dir); !slices.Equal(got, want) {
			t.Fatalf("files are\n%s\non Linux\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

type twoFiles struct {
	fs  *vfs.FS
	dir string
}

func (w twoFiles) draw(t *rapid.T) (op string, ours, theirs error) {
	path := rapid.StringMatching(`[ab](/[abc]){0,2}/?`)
	p, q := path.Draw(t, "path"), path.Draw(t, "other")
	real, other := w.dir+"/"+p, w.dir+"/"+q
	data := []byte(rapid.StringMatching(`[xyz]{0,9}`).Draw(t, "data"))
	off := rapid.Int64Range(-1, 20).Draw(t, "offset")
	op = rapid.SampledFrom([]string{"w", "wx", "a", "ax", "r+", "w", "mkdir", "mkdir", "mkdir", "mkdir -p", "rm",
		"rmdir", "rm -r", "rm -f",
		"rename", "rename", "truncate", "read", "list", "stat", "copy"}).Draw(t, "operation")
	switch op {
	case "w", "wx", "a", "ax", "r+":
		ours, theirs = w.fs.Write("workspace/"+p, data, op, off), realWrite(real, data, op, off)
	case "mkdir":
		ours, theirs = w.fs.Mkdir(p, false), syscall.Mkdir(real, 0o777)
	case "mkdir -p":
		if ours, theirs = w.fs.Mkdir("./"+p, true), os.MkdirAll(real, 0o777); ours != nil && theirs != nil {
			ours, theirs = nil, nil // Go checks in a different order
		}
	case "rm":
		ours, theirs = w.fs.Remove("/workspace//"+p, false, false), syscall.Unlink(real)
		if strings.HasSuffix(p, "/") && errno(theirs) == "ENOTDIR" && code(ours) == "EISDIR" {
			theirs = ours // some file systems return this error
		}
	case "rmdir":
		ours, theirs = w.fs.Rmdir(p), syscall.Rmdir(real)
	case "rm -r", "rm -f":
		p, real = strings.TrimSuffix(p, "/"), strings.TrimSuffix(real, "/")
		ours = w.fs.Remove(p, true, op == "rm -f")
		if _, theirs = os.Lstat(real); theirs == nil || op == "rm -f" {
			if theirs = os.RemoveAll(real); errno(theirs) == "ENOTDIR" && op == "rm -f" && code(ours) == "ENOTDIR" {
				theirs = ours
			}
		}
	case "rename":
		if ours, theirs = w.fs.Rename(p, q), syscall.Rename(real, other); ours != nil && theirs != nil &&
			(code(ours) == "ENOENT" || code(ours) == "ENOTDIR") {
			theirs = ours // if both errors apply, Linux may return the other one
		}
	case "truncate":
		ours, theirs = w.fs.Truncate(p, off), syscall.Truncate(real, off)
	case "read":
		var a, b []byte
		a, ours = w.fs.Read(p, 0, -1)
		if b, theirs = os.ReadFile(real); string(a) != string(b) {
			t.Fatalf("read %s: %q, on Linux %q", p, a, b)
		}
	case "list":
		_, ours = w.fs.List(p)
		_, theirs = os.ReadDir(real)
	case "stat":
		_, ours = w.fs.Stat(p)
		_, theirs = os.Stat(real)
	case "copy":
		p, q = strings.TrimSuffix(p, "/"), strings.TrimSuffix(q, "/")
		ours = w.fs.Copy(p, q, false)
		var b []byte
		if b, theirs = os.ReadFile(w.dir + "/" + p); theirs == nil && p != q {
			theirs = realWrite(w.dir+"/"+q, b, "w", 0)
		}
	}
	return op + " " + p + " " + q, ours, theirs
}

func realWrite(path string, data []byte, flag string, off int64) error {
	mode := map[string]int{"w": os.O_TRUNC | os.O_CREATE, "wx": os.O_EXCL | os.O_CREATE, "a": os.O_CREATE | os.O_APPEND,
		"ax": os.O_CREATE | os.O_EXCL, "r+": 0}[flag]
	fd, err := unix.Open(path, mode|os.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if flag == "r+" {
		_, err = unix.Pwrite(fd, data, off)
	} else {
		_, err = unix.Write(fd, data)
	}
	return err
}

// errno is like code, but accepts system errors too.
func errno(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		return unix.ErrnoName(no)
	}
	return code(err)
}

func realFiles(t *rapid.T, dir string) []string {
	var all []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		line := strings.TrimPrefix(p, dir+"/")
		if !d.IsDir() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return all
}
