package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestJournalsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRecorder(rapid.SampledFrom([]string{"typescript", "python"}).Draw(t, "language"), 1<<20)
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			k := rapid.SampledFrom([]Kind{Line, Answer}).Draw(t, "kind")
			r.Heard(k, []byte(rapid.StringMatching(`[^\n]{0,40}`).Draw(t, "text")))
			r.Said(&sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: 1, Path: "a.b"}}, k == Answer)
		}
		j := r.Journal()
		got, err := DecodeJournal(j.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got.Language != j.Language || got.Asked != j.Asked || len(got.Entries) != len(j.Entries) {
			t.Fatalf("%+v became %+v", j, got)
		}
		for i := range got.Entries {
			if got.Entries[i].Kind != j.Entries[i].Kind || !bytes.Equal(got.Entries[i].Text, j.Entries[i].Text) {
				t.Fatalf("entry %d: %q became %q", i, j.Entries[i].Text, got.Entries[i].Text)
			}
		}
	})
}

// A journal that exceeds the limit is nil, and stays nil.
func TestRecorderIsBounded(t *testing.T) {
	r := NewRecorder("typescript", 100)
	r.Heard(Line, make([]byte, 50))
	if r.Journal() == nil {
		t.Error("nothing was recorded")
	}
	for range 10 {
		r.Heard(Line, make([]byte, 50))
	}
	if r.Journal() != nil || r.j.Entries != nil {
		t.Error("it holds too much")
	}
	var none *Recorder
	none.Heard(Line, nil)
	none.Said(nil, false)
	if none.Journal() != nil {
		t.Error("nobody recorded something")
	}
}

// Requests by lines and by questions have different digests, and their order matters.
func TestDigestOfWhatWasAsked(t *testing.T) {
	call := func(path string) *sandbox.GuestMessage {
		return &sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: 1, Path: path}}
	}
	seen := map[[32]byte]string{}
	for name, say := range map[string]func(asked){
		"nothing":   func(asked) {},
		"a line":    func(a asked) { a.note(call("x"), false) },
		"asked":     func(a asked) { a.note(call("x"), true) },
		"in order":  func(a asked) { a.note(call("x"), false); a.note(call("y"), false) },
		"otherwise": func(a asked) { a.note(call("y"), false); a.note(call("x"), false) },
		"one":       func(a asked) { a.note(call("xy"), false) },
	} {
		a := newAsked()
		say(a)
		if other := seen[a.sum()]; other != "" {
			t.Errorf("%s is the same as %s", name, other)
		}
		seen[a.sum()] = name
	}
}

func FuzzDecodeJournal(f *testing.F) {
	r := NewRecorder("python", 1000)
	r.Heard(Line, []byte(`{"run":{}}`))
	r.Heard(Answer, []byte(`{"answer":{"id":1}}`))
	f.Add(r.Journal().Encode())
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := DecodeJournal(b)
		if err != nil {
			return
		}
		again, err := DecodeJournal(j.Encode())
		if err != nil || !reflect.DeepEqual(j, again) {
			t.Fatalf("%+v became %+v: %v", j, again, err)
		}
	})
}

func FuzzParseExported(f *testing.F) {
	x := &Exported{Name: "a", Engine: "e", State: &State{Guests: []Guest{{Language: "python"}}}, Guests: map[string][]byte{"python": []byte("snapshot")},
		Journal: [][]byte{[]byte("part")}, Files: []ExportedFile{{Path: "d", Dir: true}, {Path: "d/f", Data: []byte("x")}}}
	var b bytes.Buffer
	if err := x.write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	x.Private, b = []byte("a vault"), bytes.Buffer{}
	if err := x.write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	if again, err := parseExported(b.Bytes()); err != nil || string(again.Private) != "a vault" {
		f.Fatalf("the vault became %+v: %v", again, err)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		x, err := parseExported(plain)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := x.write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := parseExported(b.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
}

// A shelf is a Store that holds only blobs.
type shelf struct {
	Store
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
					t.Fatal(err)
				}
			}
			var c Change
			next, err := files.Next(tree, &c)
			if err != nil {
				t.Fatal(err)
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
				t.Fatal(err)
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
			t.Fatal(err)
		}
		out[path] = fmt.Sprintf("%v %s %d", e.Dir, data, e.Modified.UnixMilli())
	}
	return out
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "A-1_b.c": true, "": false, ".a": false, "a/b": false, "a b": false, "é": false, "..": false, "a\n": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	var d hexDigest
	if err := json.Unmarshal([]byte(`"00"`), &d); err == nil {
		t.Error("a short digest")
	}
}
