package vfs_test

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// A model is a simple implementation of ./workspace and ./skills: files and directories by full
// path.
type model struct {
	files map[string]string
	dirs  map[string]bool
	quota vfs.Quota
}

func newModel(q vfs.Quota) *model {
	return &model{map[string]string{}, map[string]bool{"workspace": true, "skills": true}, q}
}

// used returns the number of bytes and files in the workspace.
func (m *model) used() (bytes int64, count int) {
	for p, d := range m.files {
		if strings.HasPrefix(p, "workspace/") {
			bytes, count = bytes+int64(len(d)), count+1
		}
	}
	for p := range m.dirs {
		if strings.HasPrefix(p, "workspace/") {
			count++
		}
	}
	return bytes, count
}

// fits makes a change. If that raises the usage above the quota, it reverts it and returns false.
func (m *model) fits(change func()) bool {
	files, dirs := map[string]string{}, map[string]bool{}
	for p, d := range m.files {
		files[p] = d
	}
	for p := range m.dirs {
		dirs[p] = true
	}
	wasBytes, wasCount := m.used()
	change()
	bytes, count := m.used()
	if bytes > m.quota.Bytes && bytes > wasBytes || count > m.quota.Files && count > wasCount {
		m.files, m.dirs = files, dirs
		return false
	}
	return true
}

func parent(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 0)] }

// mayChange reports whether a file or directory may be created or changed at p.
func (m *model) mayChange(p string) bool {
	return strings.Contains(p, "/") && m.dirs[parent(p)] &&
		(!strings.HasPrefix(p, "skills/") || strings.HasSuffix(p, ".ts"))
}

func (m *model) write(p, data, flag string, off int64) bool {
	old, exists := m.files[p]
	if m.dirs[p] || !m.mayChange(p) || strings.HasSuffix(flag, "x") && exists || flag == "r+" && (!exists || off < 0) {
		return false
	}
	switch flag[0] {
	case 'a':
		data = old + data
	case 'r':
		if data == "" {
			return true
		}
		if off > m.quota.FileBytes {
			return false
		}
		b := []byte(old)
		for int64(len(b)) < off+int64(len(data)) {
			b = append(b, 0)
		}
		copy(b[off:], data)
		data = string(b)
	}
	return int64(len(data)) <= m.quota.FileBytes && m.fits(func() { m.files[p] = data })
}

func (m *model) truncate(p string, n int64) bool {
	old, exists := m.files[p]
	if !exists || n < 0 || n > m.quota.FileBytes {
		return false
	}
	return m.fits(func() { m.files[p] = (old + strings.Repeat("\x00", int(n)))[:n] })
}

func (m *model) mkdir(p string) bool {
	_, file := m.files[p]
	return !file && !m.dirs[p] && m.mayChange(p) && strings.HasPrefix(p, "workspace/") && m.fits(func() {
		m.dirs[p] = true
	})
}

func (m *model) remove(p string) bool {
	_, file := m.files[p]
	if !file && !m.dirs[p] || !strings.Contains(p, "/") {
		return false
	}
	for _, all := range m.below(p) {
		delete(m.files, all)
		delete(m.dirs, all)
	}
	return true
}

// below returns p and everything in it.
func (m *model) below(p string) []string {
	var all []string
	for f := range m.files {
		if f == p || strings.HasPrefix(f, p+"/") {
			all = append(all, f)
		}
	}
	for d := range m.dirs {
		if d == p || strings.HasPrefix(d, p+"/") {
			all = append(all, d)
		}
	}
	return all
}

func (m *model) rename(from, to string) bool {
	data, file := m.files[from]
	switch _, toFile := m.files[to]; {
	case !file && !m.dirs[from], !strings.Contains(from, "/"), !m.mayChange(to):
		return false
	case from == to:
		return true
	case strings.HasPrefix(to, from+"/"), m.dirs[to] && file, toFile && !file, m.dirs[to] && len(m.below(to)) > 1:
		return false
	case !file && strings.HasPrefix(to, "skills/"):
		return false
	}
	return m.fits(func() {
		if file {
			delete(m.files, from)
			m.files[to] = data
			return
		}
		for _, p := range m.below(from) {
			moved := to + strings.TrimPrefix(p, from)
			if m.dirs[p] {
				delete(m.dirs, p)
				m.dirs[moved] = true
			} else {
				m.files[moved] = m.files[p]
				delete(m.files, p)
			}
		}
	})
}

func (m *model) copy(from, to string) bool {
	data, file := m.files[from]
	return file && (from == to || m.write(to, data, "w", 0))
}

func (m *model) all() []string {
	lines := []string{}
	for p, d := range m.files {
		lines = append(lines, fmt.Sprintf("%s %q", p, d))
	}
	for p := range m.dirs {
		if strings.Contains(p, "/") {
			lines = append(lines, p)
		}
	}
	sort.Strings(lines)
	return lines
}

func TestAsTheModel(t *testing.T) {
	path := rapid.SampledFrom([]string{"workspace/a", "workspace/b", "workspace/a/a", "workspace/a/b", "workspace/b/a",
		"workspace/b/a/c",
		"workspace", "skills", "skills/x.ts", "skills/y.ts", "skills/z.sh", "skills/x.ts/a"})
	rapid.Check(t, func(t *rapid.T) {
		q := vfs.Quota{Bytes: rapid.Int64Range(10, 40).Draw(t, "bytes"), Files: rapid.IntRange(2, 6).Draw(t, "files"),
			FileBytes: 10}
		m := newModel(q)
		fs := vfs.New(vfs.Config{Quota: q, Skill: vfs.Quota{FileBytes: 10}})
		var kept *vfs.Tree // the tree at an earlier time
		var then []string
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			p, q := path.Draw(t, "path"), path.Draw(t, "other")
			data := strings.Repeat(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "letter"),
				rapid.IntRange(0, 9).Draw(t, "length"))
			off := rapid.SampledFrom([]int64{0, 1, 3, 9, -1, 1 << 62, -1 << 63, 1<<63 - 1}).Draw(t, "offset")
			op := rapid.SampledFrom([]string{"w", "wx", "a", "ax", "r+", "mkdir", "mkdir", "rm", "rename", "rename",
				"copy", "truncate"}).Draw(t, "operation")
			var err error
			var want bool
			switch op {
			case "mkdir":
				err, want = fs.Mkdir(p, false), m.mkdir(p)
			case "rm":
				err, want = fs.Remove(p, true, false), m.remove(p)
			case "rename":
				err, want = fs.Rename(p, q), m.rename(p, q)
			case "copy":
				err, want = fs.Copy(p, q, false), m.copy(p, q)
			case "truncate":
				err, want = fs.Truncate(p, off), m.truncate(p, off)
			default:
				err, want = fs.Write(p, []byte(data), op, off), m.write(p, data, op, off)
			}
			if (err == nil) != want {
				t.Fatalf("%s %s %s %q %d: %v, the model says %v", op, p, q, data, off, err, want)
			}
			if rapid.IntRange(0, 9).Draw(t, "keep") == 0 {
				kept, then = fs.Workspace(), files(t, fs.Workspace(), "workspace/")
			}
		}
		now := slices.Concat(files(t, fs.Workspace(), "workspace/"), files(t, fs.Skills(), "skills/"))
		sort.Strings(now)
		if want := m.all(); !slices.Equal(now, want) {
			t.Fatalf("files are\n%s\nin the model\n%s", strings.Join(now, "\n"), strings.Join(want, "\n"))
		}
		if !slices.Equal(files(t, kept, "workspace/"), then) {
			t.Fatal("a Tree changed")
		}
		bytes, count := fs.Sizes()
		if b, c := m.used(); b != bytes || c != count || fs.Workspace().Size() != b || fs.Workspace().Len() != c {
			t.Fatalf("%d bytes in %d files, in the model %d in %d", bytes, count, b, c)
		}
		changed(t, kept, fs.Workspace())
		changed(t, fs.Workspace(), kept)
	})
}

// changed checks that applying now.Changes(old) to old yields now.
func changed(t *rapid.T, old, now *vfs.Tree) {
	got := old
	for _, c := range now.Changes(old) {
		if c.Gone {
			got = got.Without(c.Path)
			continue
		}
		var err error
		if got, err = got.With(c.Path, c.Entry); err != nil {
			t.Fatalf("With: %v", err)
		}
	}
	if !slices.Equal(files(t, got, ""), files(t, now, "")) || got.Len() != now.Len() || got.Size() != now.Size() {
		t.Fatalf("the changes give\n%v\nand not\n%v", files(t, got, ""), files(t, now, ""))
	}
	if again := now.Changes(got); len(again) > 0 {
		t.Fatalf("after all changes there are still %v", again)
	}
}

func files(t interface{ Fatalf(string, ...any) }, tree *vfs.Tree, prefix string) []string {
	lines := []string{}
	for p, e := range tree.All() {
		if e.Dir {
			lines = append(lines, prefix+p)
			continue
		}
		b, err := e.Data()
		if err != nil || int64(len(b)) != e.Size {
			t.Fatalf("p = %v, len(b) = %v, e.Size = %v, err = %v, want err == nil && int64(len(b)) == "+
				"e.Size", p, len(b), e.Size, err)
		}
		lines = append(lines, fmt.Sprintf("%s %q", prefix+p, b))
	}
	return lines
}

// TestOrderIsBalanced checks that a large directory stays balanced for any order of changes.
func TestOrderIsBalanced(t *testing.T) {
	var tree *vfs.Tree
	var err error
	const n = 5_000
	for i := range n {
		if tree, err = tree.With(fmt.Sprintf("%06d", i), vfs.File(nil, time.Time{})); err != nil {
			t.Fatalf("With: %v", err)
		}
	}
	for i := 0; i < n; i += 2 {
		tree = tree.Without(fmt.Sprintf("%06d", i))
	}
	if tree.Len() != n/2 {
		t.Fatalf("tree.Len() = %v, want n/2", tree.Len())
	}
	if h := vfs.Height(tree); h > 17 { // 1.44 log2(2,500)
		t.Errorf("height %d", h)
	}
}

// ourFiles returns everything below a directory, found with List, Stat and Read.
func ourFiles(t interface{ Fatalf(string, ...any) }, fs *vfs.FS, dir string) []string {
	var all []string
	items, err := fs.List(dir)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	for _, i := range items {
		at := dir + "/" + i.Name
		_, line, _ := strings.Cut(at, "/")
		info, err := fs.Stat(at)
		if err != nil || info.Dir != i.Dir {
			t.Fatalf("at = %v, info = %v, err = %v, want err == nil && info.Dir == i.Dir", at, info, err)
		}
		if i.Dir {
			all = append(append(all, line), ourFiles(t, fs, at)...)
			continue
		}
		b, err := fs.Read(at, 0, -1)
		if err != nil || int64(len(b)) != info.Size {
			t.Fatalf("at = %v, info = %v, err = %v, want err == nil && int64(len(b)) == info.Size", at, info, err)
		}
		all = append(all, line+fmt.Sprintf(" %q", b))
	}
	return all
}

// code returns the code of a *vfs.Error, the text of any other error, or "" for nil.
func code(err error) string {
	var ours *vfs.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ours):
		return ours.Code
	}
	return err.Error()
}
