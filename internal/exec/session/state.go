package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the content of a session: its guests, the list of its files, and the mark of its
// journal.
type State struct {
	Guests  []Guest `json:"guests,omitempty"`
	Sandbox string  `json:"sandbox,omitempty"` // kind of sandbox of its guests; see SandboxKind
	Files   string  `json:"files,omitempty"`   // ID of the blob that lists the files; empty: none
	Journal Mark    `json:"journal"`
	// Labels are the labels that the session had when it was saved, sorted. Store.Labels may return
	// more, from programs that failed.
	Labels []string `json:"labels,omitempty"`
}

// A Guest is an interpreter of a session between two programs.
type Guest struct {
	Language string            `json:"language"` // "typescript" or "python"
	Blob     string            `json:"blob"`     // ID of its snapshot
	Size     int64             `json:"size"`     // size of the snapshot
	Late     []json.RawMessage `json:"late,omitempty"`
	Declared []string          `json:"declared,omitempty"` // names that its programs declared at top level
}

// Guest returns the guest of a language, or nil if there is none.
func (s *State) Guest(language string) *Guest {
	for i := range s.Guests {
		if s.Guests[i].Language == language {
			return &s.Guests[i]
		}
	}
	return nil
}

// SandboxKind returns the kind of sandbox of the guests, or "" if there are none.
func (s *State) SandboxKind() string {
	if len(s.Guests) == 0 {
		return ""
	}
	return sandbox.KindOrDefault(s.Sandbox)
}

// Put replaces the guest of the same language with g. It returns the blob of the replaced guest, or
// "".
func (s *State) Put(g Guest) (old string) {
	if at := s.Guest(g.Language); at != nil {
		old, *at = at.Blob, g
		return old
	}
	s.Guests = append(s.Guests, g)
	return ""
}

// Clone returns a copy that can be modified independently.
func (s *State) Clone() *State {
	c := *s
	c.Guests = append([]Guest(nil), s.Guests...)
	return &c
}

// Encode encodes s for a Record.
func (s *State) Encode() ([]byte, error) { return tool.Marshal(s) }

// DecodeState decodes the output of Encode.
func DecodeState(b []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, tool.Errorf(tool.Internal, "the state of a session can't be read: %w", err)
	}
	return s, nil
}

// Files are the stored files of a session, with the blob of each file.
type Files struct {
	list  string                // ID of the blob that lists them
	blobs map[vfs.Digest]string // blobs of the files' contents
	tree  *vfs.Tree
}

// Tree returns the files; nil is an empty tree.
func (f *Files) Tree() *vfs.Tree {
	if f == nil {
		return nil
	}
	return f.tree
}

// LoadFiles reads a list of files. Contents are loaded when they are first needed.
func LoadFiles(ctx context.Context, s Store, list string) (*Files, error) {
	f := &Files{list: list, blobs: map[vfs.Digest]string{}}
	if list == "" {
		return f, nil
	}
	raw, err := s.Blob(ctx, list)
	if err != nil {
		return nil, err
	}
	d := decoder{b: raw}
	for d.more() {
		path, modified := d.text(), time.UnixMilli(d.int())
		entry := vfs.Folder(modified)
		if dir := d.byte(); dir == 0 {
			blob, size, digest := d.text(), d.int(), d.digest()
			load := func() ([]byte, error) { return s.Blob(context.WithoutCancel(ctx), blob) }
			f.blobs[digest] = blob
			entry = vfs.Stored(size, digest, modified, load)
		}
		if d.err == nil {
			f.tree, d.err = f.tree.With(path, entry)
		}
	}
	if d.err != nil {
		return nil, tool.Errorf(tool.Conflict, "the list of a session's files can't be read: %w", d.err)
	}
	return f, nil
}

// Next returns the Files for a new tree, and adds the required blob changes to c. Only contents
// that are new are written. If nothing changed, it returns f.
func (f *Files) Next(tree *vfs.Tree, c *Change) (*Files, error) {
	if len(tree.Changes(f.tree)) == 0 {
		return f, nil
	}
	next := &Files{blobs: map[vfs.Digest]string{}, tree: tree}
	var e encoder
	for path, entry := range tree.All() {
		e.text(path)
		e.int(entry.Modified.UnixMilli())
		if entry.Dir {
			e.byte(1)
			continue
		}
		e.byte(0)
		digest, err := entry.Digest()
		if err != nil {
			return nil, err
		}
		blob, ok := f.blobs[digest]
		if !ok {
			blob, ok = next.blobs[digest]
		}
		if !ok {
			data, err := entry.Data()
			if err != nil {
				return nil, err
			}
			b := NewBlob(data)
			c.Add, blob = append(c.Add, b), b.ID
		}
		next.blobs[digest] = blob
		e.text(blob)
		e.int(entry.Size)
		e.b = append(e.b, digest[:]...)
	}
	for digest, blob := range f.blobs {
		if _, ok := next.blobs[digest]; !ok {
			c.Drop = append(c.Drop, blob)
		}
	}
	if f.list != "" {
		c.Drop = append(c.Drop, f.list)
	}
	if len(e.b) > 0 {
		b := NewBlob(e.b)
		c.Add, next.list = append(c.Add, b), b.ID
	}
	return next, nil
}

// List returns the ID of the blob that lists the files.
func (f *Files) List() string { return f.list }

// Refs returns the IDs of all blobs of the files.
func (f *Files) Refs() []string {
	var refs []string
	if f.list != "" {
		refs = append(refs, f.list)
	}
	for _, b := range f.blobs {
		refs = append(refs, b)
	}
	return refs
}

// An encoder writes a sequence of fields.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)   { e.b = append(e.b, v) }
func (e *encoder) int(v int64)   { e.b = appendVarint(e.b, v) }
func (e *encoder) text(s string) { e.b = append(appendVarint(e.b, int64(len(s))), s...) }

// A decoder reads what an encoder wrote. The first error is kept in err.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

func (d *decoder) fail() {
	if d.err == nil {
		d.err = fmt.Errorf("it ends or is damaged %d bytes before its end", len(d.b))
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int64 {
	v, n := varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string { return string(bytes.Clone(d.bytes())) }

func (d *decoder) digest() (v vfs.Digest) {
	if len(d.b) < len(v) {
		d.fail()
		return v
	}
	d.b = d.b[copy(v[:], d.b):]
	return v
}
