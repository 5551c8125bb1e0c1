package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// archive returns an archive of entries.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	for _, h := range entries {
		content := h.Name
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("write %s: %v", h.Name, err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatalf("write %s: %v", h.Name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("close the archive: %v", err)
	}
	return b
}

func link(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

func hardLink(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
}

func folder(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }

func file(name string) tar.Header { return tar.Header{Name: name} }

// listFiles returns what is in a folder: paths, with the targets of links and the content of files.
func listFiles(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || name == ".":
			return err
		case e.IsDir():
			out = append(out, name+"/")
		case e.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			out = append(out, name+" -> "+to)
		default:
			b, err := os.ReadFile(path)
			out = append(out, name+" = "+string(b))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list %s: %v", dir, err)
	}
	return out
}

// TestHostileArchives extracts archives that try to write or link outside of the tree.
func TestHostileArchives(t *testing.T) {
	for _, c := range []struct {
		name    string
		layers  [][]tar.Header
		want    []string // the tree; nil: an error
		problem string
	}{
		{"parent", [][]tar.Header{{file("../evil")}}, nil, "has .. in it"},
		{"hidden parent", [][]tar.Header{{file("a/../../evil")}}, nil, "has .. in it"},
		{"absolute", [][]tar.Header{{file("/etc/evil")}}, []string{"etc/", "etc/evil = /etc/evil"}, ""},
		{"through an absolute link", [][]tar.Header{{link("out", "/"), file("out/evil")}},
			[]string{"evil = out/evil", "out -> /"}, ""},
		{"through a relative link", [][]tar.Header{{link("a", "../../.."), file("a/evil")}},
			[]string{"a -> ../../..", "evil = a/evil"}, ""},
		{"through nested links", [][]tar.Header{{link("a", "b"), link("b", "/c"), file("a/evil")}},
			[]string{"a -> b", "b -> /c", "c/", "c/evil = a/evil"}, ""},
		{"loop of links", [][]tar.Header{{link("a", "b"), link("b", "a"), file("a/evil")}}, nil, "too many links"},
		{"over a link", [][]tar.Header{{link("a", "/etc/passwd"), file("a")}}, []string{"a = a"}, ""},
		{"folder over a link", [][]tar.Header{{link("a", "/etc"), folder("a"), file("a/b")}},
			[]string{"a/", "a/b = a/b"}, ""},
		{"hard link to the host", [][]tar.Header{{hardLink("a", "/etc/passwd")}}, nil, "no file of the image"},
		{"hard link through a link", [][]tar.Header{{link("d", "/etc"), hardLink("a", "d/passwd")}}, nil,
			"no file of the image"},
		{"hard link to a link", [][]tar.Header{{link("l", "/etc/passwd"), hardLink("a", "l")}},
			[]string{"a -> /etc/passwd", "l -> /etc/passwd"}, ""},
		{"hard link to itself", [][]tar.Header{{file("a"), hardLink("a", "a")}}, []string{"a = a"}, ""},
		{"hard link to a parent", [][]tar.Header{{hardLink("a", "../x")}}, nil, "has .. in it"},
		{"hard link to a folder", [][]tar.Header{{folder("d"), hardLink("a", "d")}}, nil, "no file of the image"},
		{"device", [][]tar.Header{{{Name: "mem", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1}, file("a")}},
			[]string{"a = a"}, ""},
		{"pipe", [][]tar.Header{{{Name: "p", Typeflag: tar.TypeFifo}}}, []string{}, ""},
		{"the root", [][]tar.Header{{folder("./"), link("./", "/etc"), file("a")}}, []string{"a = a"}, ""},
		{"deep", [][]tar.Header{{file(strings.Repeat("a/", 200) + "b")}}, nil, "invalid path"},
		{"deep through a link", [][]tar.Header{{link("l", strings.Repeat("a/", 90)),
			file(strings.Repeat("a/", 90) + "b"), file("l/" + strings.Repeat("c/", 90) + "d")}}, nil,
			"nested more than"},
		{"whiteout", [][]tar.Header{{file("d/a"), file("d/b")}, {file("d/.wh.a"), file("d/c")}},
			[]string{"d/", "d/b = d/b", "d/c = d/c"}, ""},
		{"whiteout of its own layer", [][]tar.Header{{file("d/a")}, {file("d/b"), file("d/.wh.b")}},
			[]string{"d/", "d/a = d/a", "d/b = d/b"}, ""},
		{"whiteout of a parent", [][]tar.Header{{file("a")}, {file(".wh..."), file(".wh..")}}, []string{"a = a"}, ""},
		{"whiteout through a link", [][]tar.Header{{link("l", "/"), file("etc/a")}, {file("l/etc/.wh.a")}},
			[]string{"etc/", "l -> /"}, ""},
		{"opaque folder", [][]tar.Header{{file("d/a"), file("d/e/b")}, {file("d/c"), file("d/.wh..wh..opq")}},
			[]string{"d/", "d/c = d/c"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "in", "tree")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatalf("make the tree: %v", err)
			}
			x, err := openExtractor(dir)
			if err != nil {
				t.Fatalf("openExtractor: %v", err)
			}
			defer x.root.Close()
			x.layers = true
			for _, l := range c.layers {
				if err == nil {
					err = x.extractTar(t.Context(), archive(t, l...))
				}
			}
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want one with %q", err, c.problem)
				}
			} else if got := listFiles(t, dir); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("the tree has %q, error %v, want %q", got, err, c.want)
			}
			if got := listFiles(t, filepath.Dir(dir)); len(got) == 0 || got[0] != "tree/" || slices.ContainsFunc(got,
				func(s string) bool { return !strings.HasPrefix(s, "tree/") }) {
				t.Errorf("beside the tree: %q, want nothing", got)
			}
		})
	}
}

// FuzzArchive extracts any bytes. Nothing may be outside of the tree then.
func FuzzArchive(f *testing.F) {
	f.Add(archive(f, link("a", "/"), file("a/b"), hardLink("c", "a/b"), file(".wh.c")).Bytes())
	f.Add(archive(f, file("../a")).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "tree")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatalf("make the tree: %v", err)
		}
		x, err := openExtractor(dir)
		if err != nil {
			t.Fatalf("openExtractor: %v", err)
		}
		defer x.root.Close()
		x.layers = true
		_ = x.extractTar(t.Context(), bytes.NewReader(b)) // most are no archives
		entries, err := os.ReadDir(parent)
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the tree: %v, %v, want nothing", entries, err)
		}
	})
}

// nothing is an endless reader.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) { return len(p), nil }

// TestEndlessEntry extracts an archive whose entry is left out, and has no end.
func TestEndlessEntry(t *testing.T) {
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "a", Typeflag: 'Z', Size: 1 << 60}); err != nil {
		t.Fatalf("write the header: %v", err)
	}
	x, err := openExtractor(t.TempDir())
	if err != nil {
		t.Fatalf("openExtractor: %v", err)
	}
	defer x.root.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = x.extractTar(ctx, io.MultiReader(bytes.NewReader(header.Bytes()), nothing{}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of its context: %v, want %v", err, context.DeadlineExceeded)
	}
	x.read = maxArchives - 1<<20
	err = x.extractTar(t.Context(), io.MultiReader(bytes.NewReader(header.Bytes()), nothing{}))
	if !errors.Is(err, errArchives) {
		t.Errorf("after too much: %v, want %v", err, errArchives)
	}
}
