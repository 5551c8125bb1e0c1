package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// fakeFiles are the files of a sandbox. It calls onWrite before each part that is written.
type fakeFiles struct {
	mu      sync.Mutex
	sizes   map[string]int    // by path; folders have -1
	modes   map[string]uint32 // by path; 0o644 if it is missing
	onWrite func()
	chmod   int // its exit status
}

// ServeHTTP carries out an operation.
func (f *fakeFiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o api.SandboxOperation
	if json.NewDecoder(r.Body).Decode(&o) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size, known := f.sizes[o.Path]
	answer := api.SandboxAnswer{}
	switch op := path.Base(r.URL.Path); {
	case op == "write":
		f.onWrite()
		if !o.Append {
			size = 0
		}
		f.sizes[o.Path] = size + len(o.Base64)
		answer.File = &api.SandboxFile{Type: "file", Mode: 0o644}
	case op == "run" && f.chmod == 0: // chmod MODE -- PATH
		mode, _ := strconv.ParseUint(o.Argv[1], 8, 32)
		f.modes[o.Argv[3]] = uint32(mode)
		answer.Exit = &api.SandboxExit{}
	case op == "run":
		answer.Exit, answer.Stderr = &api.SandboxExit{Status: f.chmod}, "not permitted\n"
	case !known:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": api.Error{Kind: api.NotFound, Message: "no such file"}})
		return
	case op == "stat" && size < 0:
		answer.File = &api.SandboxFile{Type: "dir"}
	case op == "stat":
		answer.File = &api.SandboxFile{Type: "file", Mode: cmp.Or(f.modes[o.Path], 0o644)}
		switch o.Path {
		case "link":
			answer.File.Type, answer.File.Target = "link", "a"
		case "pipe":
			answer.File.Type = "other"
		}
	case op == "move":
		f.sizes[o.To], f.modes[o.To] = size, f.modes[o.Path]
		delete(f.sizes, o.Path)
	case op == "remove":
		delete(f.sizes, o.Path)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestCopyIn checks that a copy of any size replaces a regular file as a whole and keeps its
// permissions, that one that fails leaves no part and the old file, and that one into a folder has
// its name there.
func TestCopyIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		name, to string
		size     int // of the file
		stop     int // the write with which the copy is interrupted; 0: it isn't
		chmod    int
		want     string // the path of the copy
		fails    string
	}{
		{name: "an empty file", to: "a", want: "a"},
		{name: "a small file", to: "a", size: 5, want: "a"},
		{name: "a new file", to: "b", size: 5, want: "b"},
		{name: "a file of several parts", to: "a", size: 2*copyPart + 5, want: "a"},
		{name: "a file of whole parts", to: "a", size: 2 * copyPart, want: "a"},
		{name: "into a folder", to: "dir", size: 5, want: "dir/data"},
		{name: "into the working folder", size: copyPart, want: "data"},
		{name: "over a small executable", to: "tool", size: 5, want: "tool"},
		{name: "over a large executable", to: "tool", size: 2 * copyPart, want: "tool"},
		{name: "permissions that can't be kept", to: "tool", size: 5, chmod: 1,
			fails: "the permissions of work:tool can't be kept: chmod: not permitted"},
		{name: "over a link", to: "link", size: 5, fails: "work:link is a link to a: "},
		{name: "over a pipe", to: "pipe", size: 2 * copyPart, fails: "work:pipe is not a file"},
		{name: "interrupted in a small file", to: "a", size: 5, stop: 1, fails: "canceled"},
		{name: "interrupted at the first part", to: "a", size: 3 * copyPart, stop: 1, fails: "canceled"},
		{name: "interrupted later", to: "a", size: 3 * copyPart, stop: 2, fails: "canceled"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		writes := 0
		old := map[string]int{"a": 7, "tool": 7, "link": 7, "pipe": 7, "dir": -1}
		modes := map[string]uint32{"tool": 0o755}
		f := &fakeFiles{sizes: maps.Clone(old), modes: modes, chmod: c.chmod, onWrite: func() {
			if writes++; writes == c.stop {
				cancel()
			}
		}}
		s := httptest.NewServer(f)
		client := (&api.Client{Base: s.URL}).OwnSandboxes()
		if err := os.WriteFile(file, []byte(strings.Repeat("x", c.size)), 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		err := copyIn(ctx, client, nil, file, "work", c.to)
		cancel()
		s.Close()
		if c.want != "" {
			old[c.want] = c.size
		}
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
		}
		if !maps.Equal(f.sizes, old) {
			t.Errorf("%s: the sizes of the files are %v, want %v", c.name, f.sizes, old)
		}
		if f.modes["tool"] != 0o755 {
			t.Errorf("%s: tool has the permissions %o", c.name, f.modes["tool"])
		}
	}
	err := copyIn(t.Context(), api.SandboxClient{}, nil, filepath.Dir(file), "work", "a")
	if err == nil || !strings.Contains(err.Error(), " is a folder: pack it first") {
		t.Errorf("a folder: %v", err)
	}
}
