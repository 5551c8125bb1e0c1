package vfs_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

func tools() map[string]string {
	return map[string]string{"tools/github/list.ts": "list", "tools/github/index.ts": "index",
		"tools/runtime.d.ts": "runtime"}
}

func write(t *testing.T, fs *vfs.FS, path, data string) {
	t.Helper()
	if err := fs.Write(path, []byte(data), "w", 0); err != nil {
		t.Fatalf("Write: %v", err)
	}
}

func read(t *testing.T, fs *vfs.FS, path string) string {
	t.Helper()
	b, err := fs.Read(path, 0, -1)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return string(b)
}

func TestEveryWayToSayWorkspace(t *testing.T) {
	for _, p := range []string{"data.csv", "./data.csv", "/data.csv", "workspace/data.csv", "./workspace/data.csv",
		"/workspace/./data.csv",
		"../data.csv", "tools/../data.csv", "../../workspace//data.csv", "workspace/x/../data.csv"} {
		fs := vfs.New(vfs.Config{})
		write(t, fs, p, "1")
		for _, q := range []string{p, "data.csv", "/workspace/data.csv"} {
			if got := read(t, fs, q); got != "1" {
				t.Errorf("written as %q, read as %q: %q", p, q, got)
			}
		}
		if e, ok := fs.Workspace().Get("data.csv"); !ok || e.Size != 1 {
			t.Errorf("%q: not in the Tree", p)
		}
	}
}

// TestTheRoot checks that the root lists everything that relative names reach, each file once.
func TestTheRoot(t *testing.T) {
	fs := vfs.New(vfs.Config{Tools: tools})
	list := func(want ...vfs.Item) {
		t.Helper()
		for _, p := range []string{"/", ".", "..", "./", "workspace/.."} {
			if items, err := fs.List(p); err != nil || !slices.Equal(items, want) {
				t.Errorf("p = %q, items = %v, err = %v, want err == nil && slices.Equal(items, want)", p, items, err)
			}
		}
	}
	list(vfs.Item{"skills", true}, vfs.Item{"tools", true})
	for _, name := range []string{"data.csv", "workspace/tools", "workspace/workspace/x", "tmp/x", "zebra"} {
		if err := fs.Mkdir(path.Dir(name), true); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		write(t, fs, name, "")
	}
	list(vfs.Item{"data.csv", false}, vfs.Item{"skills", true}, vfs.Item{"tmp", true}, vfs.Item{"tools", true},
		vfs.Item{"zebra", false})
	// with skills, tools and tmp
	if n := len(ourFiles(t, vfs.New(vfs.Config{Workspace: fs.Workspace()}), ".")); n != 6 {
		t.Errorf("a walk finds %d names", n)
	}
	if items, err := fs.List("tools/github"); err != nil ||
		!slices.Equal(items, []vfs.Item{{"index.ts", false}, {"list.ts", false}}) {
		t.Errorf("tools/github: %v, %v", items, err)
	}
	if got := read(t, fs, "/tools/github/list.ts"); got != "list" {
		t.Errorf(`got = %v, want "list"`, got)
	}
	info, err := fs.Stat("tools/github/list.ts")
	if err != nil || info.Dir || info.Size != 4 || !info.ReadOnly || info.Modified.UnixMilli() != 0 {
		t.Errorf("info = %+v, err = %v, want err == nil && !info.Dir && info.Size == 4 && info.ReadOnly "+
			"&& info.Modified.UnixMilli() == 0", info, err)
	}
}

func TestErrors(t *testing.T) {
	fs := vfs.New(vfs.Config{Tools: tools, Quota: vfs.Quota{Depth: 5, Bytes: 1000, FileBytes: 100, Files: 4}})
	write(t, fs, "file", "text")
	if err := fs.Mkdir("dir", false); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	w := func(p string) error { return fs.Write(p, []byte("x"), "w", 0) }
	for _, c := range []struct {
		what string
		err  error
		code string
		kind tool.Kind
		says string
	}{
		{"empty", w(""), "ENOENT", tool.NotFound, "empty"},
		{"NUL", w("a\x00b"), "EINVAL", tool.Invalid, "control"},
		{"newline", w("workspace/a\nb"), "EINVAL", tool.Invalid, "control"},
		{"C1 control", w("a\u0085b"), "EINVAL", tool.Invalid, "control"},
		{"invalid UTF-8", w("a\xffb"), "EILSEQ", tool.Invalid, "UTF-8"},
		{"surrogate", w("a\xed\xa0\x80b"), "EILSEQ", tool.Invalid, "UTF-8"},
		{"long name", w(strings.Repeat("a", 256)), "ENAMETOOLONG", tool.Invalid, "255"},
		{"long path", w(strings.Repeat("a/../", 210)), "ENAMETOOLONG", tool.Invalid, "1024"},
		{"deep", w("dir/b/c/d/e/f"), "ENAMETOOLONG", tool.Invalid, "5 levels"},
		{"root", w("/"), "EISDIR", tool.Invalid, ""},
		{"folder", w("workspace"), "EISDIR", tool.Invalid, ""},
		{"tools", w("tools/x"), "EROFS", tool.Invalid, "./workspace"},
		{"a tool", fs.Remove("tools/github/list.ts", false, false), "EROFS", tool.Invalid, "./workspace"},
		{"an upstream", fs.Rename("tools/github", "workspace/github"), "EROFS", tool.Invalid, ""},
		{"into tools", fs.Rename("file", "tools/file"), "EROFS", tool.Invalid, ""},
		{"copy into tools", fs.Copy("file", "tools/file", false), "EROFS", tool.Invalid, ""},
		{"mkdir in tools", fs.Mkdir("tools/x", true), "EROFS", tool.Invalid, ""},
		{"remove workspace", fs.Remove("workspace", true, true), "EBUSY", tool.Invalid, "change its contents"},
		{"remove root", fs.Remove("/", true, true), "EBUSY", tool.Invalid, "root"},
		{"rmdir skills", fs.Rmdir("skills"), "EBUSY", tool.Invalid, ""},
		{"move workspace", fs.Rename("workspace", "elsewhere"), "EBUSY", tool.Invalid, ""},
		{"missing directory", w("/mnt/data/x.csv"), "ENOENT", tool.NotFound, "./mnt/data is no directory"},
		{"missing file", fs.Truncate("none", 0), "ENOENT", tool.NotFound, ""},
		{"through a file", w("file/x"), "ENOTDIR", tool.Invalid, ""},
		{"skill as folder", w("skills/a/b.ts"), "EPERM", tool.Invalid, "single files"},
		{"skill as directory", fs.Mkdir("skills/a.ts", false), "EPERM", tool.Invalid, ""},
		{"skill by another name", w("skills/a.sh"), "EPERM", tool.Invalid, ".ts"},
		{"skill for all", w("skills/__init__.py"), "EPERM", tool.Invalid, ""},
		{"skill no module", w("skills/a-b.py"), "EPERM", tool.Invalid, ""},
		{"skill hidden", w("skills/.ts"), "EPERM", tool.Invalid, ""},
		{"skill twice", w("skills/a.d.ts"), "EPERM", tool.Invalid, ""},
		{"skill too large", fs.Write("skills/a.ts", make([]byte, 256<<10+1), "w", 0), "EFBIG", tool.Limit, "256 KiB"},
		{"too large", fs.Write("file", make([]byte, 101), "w", 0), "EFBIG", tool.Limit, "100 bytes"},
		{"far away", fs.Write("file", []byte("x"), "r+", 1<<63-1), "EFBIG", tool.Limit, ""},
		{"negative", fs.Write("file", []byte("x"), "r+", -1), "EINVAL", tool.Invalid, "negative"},
		{"long", fs.Truncate("file", 1<<62), "EFBIG", tool.Limit, ""},
		{"flag", fs.Write("file", nil, "rw", 0), "EINVAL", tool.Invalid, "r+"},
		{"exists", fs.Write("file", nil, "wx", 0), "EEXIST", tool.Conflict, ""},
	} {
		var e *vfs.Error
		switch te := tool.AsError(c.err); {
		case !errors.As(c.err, &e):
			t.Errorf("%s: error %v, want a vfs.Error", c.what, c.err)
		case e.Code != c.code || te.Kind != c.kind || !strings.Contains(te.Msg, c.says) ||
			!strings.HasPrefix(te.Msg, c.code+": "):
			t.Errorf("%s: %s %s %q, want %s %s %q", c.what, e.Code, te.Kind, te.Msg, c.code, c.kind, c.says)
		case !utf8.ValidString(te.Msg) || strings.ContainsFunc(te.Msg, unicode.IsControl):
			t.Errorf("%s: %q is no line", c.what, te.Msg)
		}
	}
	if got := read(t, fs, "file"); got != "text" {
		t.Errorf("file is %q after changes that failed", got)
	}
}

func TestQuotas(t *testing.T) {
	fs := vfs.New(vfs.Config{Quota: vfs.Quota{Bytes: 100, FileBytes: 60, Files: 3}})
	text := strings.Repeat("x", 50)
	write(t, fs, "a", text)
	write(t, fs, "b", text)
	if err := fs.Write("c", []byte("x"), "w", 0); code(err) != "ENOSPC" {
		t.Errorf(`err = %v, want code(err) == "ENOSPC"`, err)
	}
	if err := fs.Write("a", []byte("x"), "a", 0); code(err) != "ENOSPC" {
		t.Errorf(`err = %v, want code(err) == "ENOSPC"`, err)
	}
	if err := fs.Copy("a", "d", false); code(err) != "ENOSPC" {
		t.Errorf(`err = %v, want code(err) == "ENOSPC"`, err)
	}
	write(t, fs, "c", "")
	if err := fs.Mkdir("d", false); code(err) != "EDQUOT" {
		t.Errorf(`err = %v, want code(err) == "EDQUOT"`, err)
	}
	if err := fs.Write("skills/x.ts", []byte("its own quota"), "w", 0); err != nil {
		t.Errorf("Write: %v", err)
	}
	if err := fs.Rename("skills/x.ts", "x.ts"); code(err) != "EDQUOT" && code(err) != "ENOSPC" {
		t.Errorf(`err = %v, want code(err) == "EDQUOT" || code(err) == "ENOSPC"`, err)
	}
	if got := read(t, fs, "skills/x.ts"); got != "its own quota" {
		t.Errorf(`got = %v, want "its own quota"`, got)
	}
	// If the quota was reduced below the usage, files can still be renamed and shrunk.
	small := vfs.New(vfs.Config{Workspace: fs.Workspace(), Quota: vfs.Quota{Bytes: 10, Files: 1}})
	if err := small.Rename("a", "e"); err != nil {
		t.Errorf("Rename: %v", err)
	}
	if err := small.Truncate("e", 5); err != nil {
		t.Errorf("Truncate: %v", err)
	}
	if err := small.Remove("b", false, false); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func TestTemporaryFilesNeedNoMkdir(t *testing.T) {
	fs := vfs.New(vfs.Config{})
	write(t, fs, "/tmp/x.txt", "1")
	if got := read(t, fs, "workspace/tmp/x.txt"); got != "1" {
		t.Errorf(`got = %v, want "1"`, got)
	}
}

func TestSkills(t *testing.T) {
	now := time.UnixMilli(5)
	shared, err := (*vfs.Tree)(nil).With("theirs.ts", vfs.File([]byte("theirs"), now))
	if err != nil {
		t.Fatalf("With: %v", err)
	}
	if shared, err = shared.With("both.py", vfs.File([]byte("theirs"), now)); err != nil {
		t.Fatalf("With: %v", err)
	}
	fs := vfs.New(vfs.Config{Shared: shared})
	write(t, fs, "skills/both.py", "mine")
	write(t, fs, "./skills/a_b2.md", "text")
	items, err := fs.List("./skills")
	if want := []vfs.Item{{"a_b2.md", false}, {"both.py", false}, {"theirs.ts", false}}; err != nil ||
		!slices.Equal(items, want) {
		t.Errorf("items = %v, err = %v, want err == nil && slices.Equal(items, want)", items, err)
	}
	if got := read(t, fs, "skills/both.py") + read(t, fs, "skills/theirs.ts"); got != "minetheirs" {
		t.Errorf(`got = %v, want "minetheirs"`, got)
	}
	if info, err := fs.Stat("skills/theirs.ts"); err != nil || !info.ReadOnly {
		t.Errorf("info = %v, err = %v, want err == nil && info.ReadOnly", info, err)
	}
	if err := fs.Remove("skills/theirs.ts", false, false); code(err) != "EROFS" {
		t.Errorf(`err = %v, want code(err) == "EROFS"`, err)
	}
	if err := fs.Write("skills/theirs.ts", []byte("+"), "a", 0); err != nil { // creates the user's own copy
		t.Errorf("Write: %v", err)
	}
	if e, ok := fs.Skills().Get("theirs.ts"); !ok || e.Size != 7 || fs.Skills().Len() != 3 {
		t.Errorf("e = %v, ok = %v, want ok && e.Size == 7 && fs.Skills().Len() == 3", e, ok)
	}
	if e, _ := shared.Get("theirs.ts"); e.Size != 6 {
		t.Error("others' skill changed")
	}
}

func TestReadGivesWhatIsThere(t *testing.T) {
	fs := vfs.New(vfs.Config{})
	write(t, fs, "f", "0123456789")
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, 1, ""}, {1 << 62, 1 << 62, ""}, {0, 0, ""},
		{2, -1 << 63, "23456789"}, {1, 1<<63 - 1, "123456789"}} {
		if b, err := fs.Read("f", c.off, c.n); err != nil || string(b) != c.want {
			t.Errorf("c.off = %d, c.n = %d, b = %q, err = %v, want err == nil && string(b) == c.want",
				c.off, c.n, b, err)
		}
	}
	if _, err := fs.Read("f", -1, 1); code(err) != "EINVAL" {
		t.Errorf(`err = %v, want code(err) == "EINVAL"`, err)
	}
	before, err := fs.Read("f", 0, -1)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if err := fs.Write("f", []byte("xx"), "r+", 0); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if string(before) != "0123456789" {
		t.Errorf("what was read became %q", before)
	}
}

// TestCopiesAreIndependent checks that copies, snapshots and views of a Tree don't share changes.
func TestCopiesAreIndependent(t *testing.T) {
	fs := vfs.New(vfs.Config{})
	write(t, fs, "a", "one")
	if err := fs.Copy("a", "b", false); err != nil {
		t.Fatalf("Copy: %v", err)
	}
	tree := fs.Workspace()
	other := vfs.New(vfs.Config{Workspace: tree})
	var wg sync.WaitGroup
	for i, f := range []*vfs.FS{fs, other} {
		wg.Go(func() {
			for range 100 {
				if err := errors.Join(f.Write("a", []byte{'A' + byte(i)}, "r+", 0), f.Write("a", []byte("."), "a", 0),
					f.Write("b", []byte("b"), "a", 0)); err != nil {
					t.Errorf("errors.Join: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if a, b := read(t, fs, "a"), read(t, other, "a"); a != "Ane"+strings.Repeat(".", 100) ||
		b != "Bne"+strings.Repeat(".", 100) {
		t.Errorf("a = %v, b = %v, want a == \"Ane\"+strings.Repeat(\".\", 100) && b == "+
			"\"Bne\"+strings.Repeat(\".\", 100)", a, b)
	}
	if got := files(t, tree, ""); !slices.Equal(got, []string{`a "one"`, `b "one"`}) {
		t.Errorf("got = %v, want slices.Equal(got, []string{`a \"one\"`, `b \"one\"`})", got)
	}
}

// TestQuotaRace checks that concurrent writers can't exceed the quota, and that every successful
// write is stored.
func TestQuotaRace(t *testing.T) {
	fs := vfs.New(vfs.Config{Quota: vfs.Quota{Bytes: 1000, Files: 50}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	written := map[string]bool{}
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				p := fmt.Sprintf("f%d_%d", i, j)
				if fs.Write(p, make([]byte, 30), "wx", 0) == nil {
					mu.Lock()
					written[p] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if bytes, n := fs.Sizes(); bytes > 1000 || n != len(written) || bytes != int64(30*n) || n != 33 {
		t.Errorf("%d bytes in %d files, %d written", bytes, n, len(written))
	}
}

func TestStoredFilesAreLoadedLateAndChecked(t *testing.T) {
	sum := vfs.Digest(sha256.Sum256([]byte("text")))
	loads := 0
	var data string
	tree, err := (*vfs.Tree)(nil).With("f",
		vfs.StoredEntry(4, sum, time.Time{}, func() ([]byte, error) { loads++; return []byte(data), nil }))
	if err != nil {
		t.Fatalf("With: %v", err)
	}
	fs := vfs.New(vfs.Config{Workspace: tree})
	if info, err := fs.Stat("f"); err != nil || info.Size != 4 || loads != 0 {
		t.Errorf("info = %v, err = %v, loads = %v, want err == nil && info.Size == 4 && loads == 0", info, err, loads)
	}
	data = "tixt"
	if _, err := fs.Read("f", 0, -1); code(err) != "EIO" || tool.AsError(err).Kind != tool.Internal {
		t.Errorf(`err = %v, want code(err) == "EIO" && tool.AsError(err).Kind == tool.Internal`, err)
	}
	data = "text"
	if got := read(t, fs, "f") + read(t, fs, "f"); got != "texttext" || loads != 2 {
		t.Errorf(`got = %v, loads = %v, want got == "texttext" && loads == 2`, got, loads)
	}
	e, _ := fs.Workspace().Get("f")
	if d, err := e.Digest(); err != nil || d != sum {
		t.Errorf("d = %v, err = %v, want err == nil && d == sum", d, err)
	}
}

func TestTreeRefusesOtherPaths(t *testing.T) {
	var tree *vfs.Tree
	for _, p := range []string{"", "/a", "a/", "a//b", "./a", "a/..", "..", "a\x00", strings.Repeat("a/", 40) + "b"} {
		if _, err := tree.With(p, vfs.File(nil, time.Time{})); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("p = %q, err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == "+
				"tool.Invalid", p, err)
		}
	}
	tree, err := tree.With("a", vfs.File(nil, time.Time{}))
	if err != nil {
		t.Fatalf("With: %v", err)
	}
	if _, err := tree.With("a/b", vfs.Folder(time.Time{})); err == nil {
		t.Error("a path through a file")
	}
}

func BenchmarkAppend(b *testing.B) { // appends to a log, line by line
	fs := vfs.New(vfs.Config{Quota: vfs.Quota{Bytes: 1 << 40, FileBytes: 1 << 40}})
	line := []byte("a line of a log that a program writes\n")
	for b.Loop() {
		if err := fs.Write("log", line, "a", 0); err != nil {
			b.Fatalf("Write: %v", err)
		}
	}
}

func BenchmarkSnapshotOfManyFiles(b *testing.B) { // changes one of 10,000 files and finds the change
	fs := vfs.New(vfs.Config{Quota: vfs.Quota{Files: 20_000}})
	for i := range 10_000 {
		if err := fs.Write(fmt.Sprintf("f%d", i), []byte("text"), "w", 0); err != nil {
			b.Fatalf("Write: %v", err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		old := fs.Workspace()
		if err := fs.Write("f77", []byte("other"), "w", 0); err != nil {
			b.Fatalf("Write: %v", err)
		}
		if c := fs.Workspace().Changes(old); len(c) != 1 {
			b.Fatalf("c = %v, want len(c) == 1", c)
		}
	}
}
