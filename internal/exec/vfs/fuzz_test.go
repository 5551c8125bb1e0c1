package vfs_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// FuzzPath uses arbitrary paths. Each must be refused with an *Error whose text is one line without
// control characters, or be writable and readable. The resulting Trees must contain clean paths.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"a", "/", "..", "a/../..", "workspace/x", "./skills/a.ts", "tools/x", "tmp/x", "a\x00",
		"\xff", "a\nb", "ÅÅ", "con", "..\\..\\x", "．．/x", "a/b/c/d",
		strings.Repeat("x", 300), strings.Repeat("x/", 600), "a\u2028b", "//host/x", "C:\\x", "~/.ssh",
		"skills/../tools/x"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		fs := vfs.New(vfs.Config{Tools: tools})
		for _, err := range []error{fs.Write(path, []byte("text"), "w", 0), fs.Mkdir(path, true),
			fs.Remove(path, true, false), fs.Rmdir(path),
			fs.Rename(path, path), fs.Copy(path, path, false), fs.Truncate(path, 3),
			fs.Write(path, []byte("text"), "w", 0)} {
			var e *vfs.Error
			if err != nil && (!errors.As(err, &e) || !utf8.ValidString(err.Error()) ||
				strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 1000) {
				t.Fatalf("path = %q, err = %q", path, err)
			}
		}
		if fs.Write(path, []byte("text"), "w", 0) == nil {
			if b, err := fs.Read(path, 0, -1); err != nil || string(b) != "text" {
				t.Fatalf("%q: written, but %q, %v", path, b, err)
			}
		}
		for _, tree := range []*vfs.Tree{fs.Workspace(), fs.Skills()} {
			rebuild(t, tree)
		}
	})
}

// rebuild checks that a Tree can be rebuilt from the entries that All returns.
func rebuild(t *testing.T, tree *vfs.Tree) {
	var again *vfs.Tree
	n := 0
	for p, e := range tree.All() {
		n++
		var err error
		if again, err = again.With(p, e); err != nil {
			t.Fatalf("With: %v", err)
		}
	}
	if c := tree.Changes(again); len(c) > 0 || n != tree.Len() || again.Len() != n || again.Size() != tree.Size() {
		t.Fatalf("%d entries of %d, changes %v", again.Len(), tree.Len(), c)
	}
}

// FuzzOperations interprets arbitrary bytes as operations. None may panic or exceed the quota.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"))
	f.Add([]byte("0a1b2c3d4e5f6g7h8i9j"))
	f.Fuzz(func(t *testing.T, script []byte) {
		paths := []string{"a", "b", "a/b", "b/a", "a/b/c", "skills/x.ts", "skills", "workspace", "tools/runtime.d.ts",
			"/", "tmp/q", "a/"}
		offsets := []int64{0, 1, 9, 60, -1, 1 << 62, -1 << 63, 1<<63 - 1}
		quota := vfs.Quota{Bytes: 100, Files: 6, FileBytes: 50}
		fs := vfs.New(vfs.Config{Tools: tools, Quota: quota, Skill: quota})
		for len(script) >= 4 {
			p, q := paths[int(script[1])%len(paths)], paths[int(script[2])%len(paths)]
			off := offsets[int(script[3])%len(offsets)]
			data := []byte(strings.Repeat("x", int(script[3])))
			switch script[0] % 12 {
			case 0, 1, 2:
				_ = fs.Write(p, data, []string{"w", "a", "r+", "wx", "ax", "?"}[script[2]%6], off)
			case 3:
				_ = fs.Mkdir(p, script[2]%2 == 0)
			case 4:
				_ = fs.Remove(p, script[2]%2 == 0, script[3]%2 == 0)
			case 5:
				_ = fs.Rmdir(p)
			case 6, 7:
				_ = fs.Rename(p, q)
			case 8:
				_ = fs.Copy(p, q, script[3]%2 == 0)
			case 9:
				_ = fs.Truncate(p, off)
			case 10:
				_, _ = fs.Read(p, off, offsets[int(script[2])%len(offsets)])
			case 11:
				fs = vfs.New(vfs.Config{Tools: tools, Quota: quota, Skill: quota, Workspace: fs.Workspace(),
					Skills: fs.Skills()})
			}
			script = script[4:]
		}
		for _, tree := range []*vfs.Tree{fs.Workspace(), fs.Skills()} {
			if tree.Size() > quota.Bytes || tree.Len() > quota.Files {
				t.Fatalf("%d bytes in %d files", tree.Size(), tree.Len())
			}
			rebuild(t, tree)
		}
		ourFiles(t, fs, "workspace")
	})
}
