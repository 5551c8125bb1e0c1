package live

import (
	"context"

	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

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
func LoadFiles(ctx context.Context, s session.Blobs, list string) (*Files, error) {
	f := &Files{list: list, blobs: map[vfs.Digest]string{}}
	if list == "" {
		return f, nil
	}
	raw, err := s.Blob(ctx, list)
	if err != nil {
		return nil, err
	}
	stored, err := session.DecodeFiles(raw)
	if err != nil {
		return nil, err
	}
	for _, e := range stored {
		entry := vfs.Folder(e.Modified)
		if !e.Dir {
			load := func() ([]byte, error) { return s.Blob(context.WithoutCancel(ctx), e.Blob) }
			f.blobs[e.Digest] = e.Blob
			entry = vfs.StoredEntry(e.Size, e.Digest, e.Modified, load)
		}
		if f.tree, err = f.tree.With(e.Path, entry); err != nil {
			return nil, session.ListError(err)
		}
	}
	return f, nil
}

// Next returns the Files for a new tree, and adds the required blob changes to c. Only contents
// that are new are written. If nothing changed, it returns f.
func (f *Files) Next(tree *vfs.Tree, c *session.Change) (*Files, error) {
	if len(tree.Changes(f.tree)) == 0 {
		return f, nil
	}
	next := &Files{blobs: map[vfs.Digest]string{}, tree: tree}
	var list []session.StoredFile
	for path, entry := range tree.All() {
		if entry.Dir {
			list = append(list, session.StoredFile{Path: path, Modified: entry.Modified, Dir: true})
			continue
		}
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
			b := session.NewBlob(data)
			c.Add, blob = append(c.Add, b), b.ID
		}
		next.blobs[digest] = blob
		list = append(list, session.StoredFile{
			Path: path, Modified: entry.Modified, Blob: blob, Size: entry.Size, Digest: digest,
		})
	}
	for digest, blob := range f.blobs {
		if _, ok := next.blobs[digest]; !ok {
			c.Drop = append(c.Drop, blob)
		}
	}
	if f.list != "" {
		c.Drop = append(c.Drop, f.list)
	}
	if len(list) > 0 {
		b := session.NewBlob(session.EncodeFiles(list))
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
