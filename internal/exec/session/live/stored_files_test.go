package live

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A shelf is a Store that holds only blobs.
type shelf struct {
	session.Store
	blobs map[string][]byte
}

func (s shelf) Blob(_ context.Context, id string) ([]byte, error) {
	if b, ok := s.blobs[id]; ok {
		return b, nil
	}
	return nil, tool.Errorf(tool.Conflict, "missing")
}

// Files have the content of the last Tree, and only new content is written.
func TestFilesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shelf{blobs: map[string][]byte{}}
		files := &Files{}
		var tree *vfs.Tree
		for range rapid.IntRange(1, 6).Draw(t, "programs") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				path := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b", "e"}).Draw(t, "path")
				data := []byte(rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "data"))
				var err error
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					tree = tree.Without(path)
				default:
					tree, err = tree.With(path, vfs.File(data, time.UnixMilli(int64(len(data)))))
				}
				if err != nil {
					t.Fatalf("err = %v, want nil", err)
				}
			}
			var c session.Change
			next, err := files.Next(tree, &c)
			if err != nil {
				t.Fatalf("Next: %v", err)
			}
			for _, b := range c.Add {
				s.blobs[b.ID] = b.Data
			}
			for _, id := range c.Drop {
				if s.blobs[id] == nil {
					t.Fatalf("drops %s, which is not there", id)
				}
				delete(s.blobs, id)
			}
			files = next
			if len(s.blobs) != len(files.Refs()) {
				t.Fatalf("%d blobs, %d referred to", len(s.blobs), len(files.Refs()))
			}
			loaded, err := LoadFiles(t.Context(), s, files.List())
			if err != nil {
				t.Fatalf("LoadFiles: %v", err)
			}
			if got, want := contents(t, loaded.Tree()), contents(t, tree); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			files = loaded
			tree = loaded.Tree()
		}
	})
}

func contents(t *rapid.T, tree *vfs.Tree) map[string]string {
	out := map[string]string{}
	for path, e := range tree.All() {
		data, err := e.Data()
		if err != nil {
			t.Fatalf("Data: %v", err)
		}
		out[path] = fmt.Sprintf("%v %s %d", e.Dir, data, e.Modified.UnixMilli())
	}
	return out
}
