package vfs

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Do performs an operation of the guest protocol and returns its value, or nil if it has none.
// handle returns the bytes stored under a handle, for writes from it.
func (f *FS) Do(q *tool.FileOp, handle func(string) ([]byte, error)) (json.RawMessage, error) {
	switch q.Op {
	case "read":
		return f.readOp(q)
	case "write":
		return nil, f.writeOp(q, handle)
	case "truncate":
		return nil, f.Truncate(q.Path, q.Offset)
	case "list":
		return f.listOp(q)
	case "stat":
		return f.statOp(q)
	case "mkdir":
		return nil, f.Mkdir(q.Path, q.Recursive)
	case "rm":
		return nil, f.Remove(q.Path, q.Recursive, q.Force)
	case "rmdir":
		return nil, f.Rmdir(q.Path)
	case "rename":
		return nil, f.Rename(q.Path, q.To)
	case "copy":
		return nil, f.Copy(q.Path, q.To, q.Flag == "wx")
	}
	return nil, tool.Errorf(tool.Invalid, "files: unknown operation %q", printable(q.Op))
}

func (f *FS) readOp(q *tool.FileOp) (json.RawMessage, error) {
	n := int64(-1)
	if q.Length != nil {
		n = max(*q.Length, 0)
	}
	data, err := f.Read(q.Path, q.Offset, n)
	if err != nil {
		return nil, err
	}
	if q.Base64 {
		return tool.Marshal(base64.StdEncoding.EncodeToString(data))
	}
	return tool.Marshal(string(data)) // invalid UTF-8 becomes U+FFFD
}

func (f *FS) writeOp(q *tool.FileOp, handle func(string) ([]byte, error)) error {
	data, err := []byte(q.Data), error(nil)
	switch {
	case q.Handle != "":
		data, err = handle(q.Handle)
	case q.Base64:
		if data, err = base64.StdEncoding.DecodeString(q.Data); err != nil {
			err = tool.Errorf(tool.Invalid, "files: the data to write is not valid base64: %w", err)
		}
	}
	if err != nil {
		return err
	}
	return f.Write(q.Path, data, q.Flag, q.Offset)
}

func (f *FS) listOp(q *tool.FileOp) (json.RawMessage, error) {
	type item struct {
		Name     string `json:"name"`
		Dir      bool   `json:"dir"`
		Size     *int64 `json:"size,omitempty"`
		Modified *int64 `json:"mtime,omitempty"`
	}
	list, err := f.List(q.Path)
	if err != nil {
		return nil, err
	}
	out := make([]item, len(list))
	for i, e := range list {
		out[i] = item{Name: e.Name, Dir: e.Dir}
		if q.Flag != "l" {
			continue
		}
		if s, err := f.Stat(strings.TrimSuffix(q.Path, "/") + "/" + e.Name); err == nil { // it isn't locked
			modified := s.Modified.UnixMilli()
			out[i].Size, out[i].Modified = &s.Size, &modified
		}
	}
	return tool.Marshal(out)
}

func (f *FS) statOp(q *tool.FileOp) (json.RawMessage, error) {
	s, err := f.Stat(q.Path)
	if err != nil {
		return nil, err
	}
	return tool.Marshal(struct {
		Dir      bool  `json:"dir"`
		Size     int64 `json:"size"`
		Modified int64 `json:"mtime"`
		ReadOnly bool  `json:"readonly"`
	}{s.Dir, s.Size, s.Modified.UnixMilli(), s.ReadOnly})
}
