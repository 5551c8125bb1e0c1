package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// fakeFiles are the files of a sandbox. It calls onWrite before each part that is written.
type fakeFiles struct {
	mu      sync.Mutex
	sizes   map[string]int // by path; folders have -1
	onWrite func()
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
	case !known:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": api.Error{Kind: api.NotFound, Message: "no such file"}})
		return
	case op == "stat" && size < 0:
		answer.File = &api.SandboxFile{Type: "dir"}
	case op == "stat":
		answer.File = &api.SandboxFile{Type: "file"}
	case op == "move":
		delete(f.sizes, o.Path)
		f.sizes[o.To] = size
	case op == "remove":
		delete(f.sizes, o.Path)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestCopyIn checks that a copy that is interrupted leaves no part, and keeps what it would have
// replaced, and that a copy into a folder has its name.
func TestCopyIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		name, to string
		size     int // of the file
		stop     int // the write with which the copy is interrupted; 0: it isn't
		want     string
	}{
		{"a small file", "a", 5, 0, "a"},
		{"a file of several parts", "a", 2*copyPart + 5, 0, "a"},
		{"a file of whole parts", "a", 2 * copyPart, 0, "a"},
		{"into a folder", "dir", 5, 0, "dir/data"},
		{"into the working folder", "", copyPart, 0, "data"},
		{"interrupted at the first part", "a", 3 * copyPart, 1, ""},
		{"interrupted later", "a", 3 * copyPart, 2, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		writes := 0
		f := &fakeFiles{sizes: map[string]int{"a": 7, "dir": -1}, onWrite: func() {
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
		want := map[string]int{"a": 7, "dir": -1}
		if c.want != "" {
			want[c.want] = c.size
		}
		var e *api.Error
		canceled := errors.As(err, &e) && e.Kind == api.Canceled
		if canceled != (c.stop > 0) || !canceled && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for file, size := range f.sizes {
			if want[file] != size {
				t.Errorf("%s: %s has %d bytes, want %d", c.name, file, size, want[file])
			}
			delete(want, file)
		}
		if len(want) > 0 {
			t.Errorf("%s: the files %v are missing", c.name, want)
		}
	}
	err := copyIn(t.Context(), api.SandboxClient{}, nil, filepath.Dir(file), "work", "a")
	if err == nil || !strings.Contains(err.Error(), " is a folder: pack it first") {
		t.Errorf("a folder: %v", err)
	}
}
