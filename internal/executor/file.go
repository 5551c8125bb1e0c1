package executor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/values"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// maxAlone bounds the files of a program without a session, which are in memory, in bytes.
const maxAlone = 64 << 20

// newFS makes the files of a program: those of its session, or an empty workspace.
func (x *Executor) newFS(ctx context.Context, p tool.Principal, l *live) (fs *vfs.FS, skills *vfs.Tree, err error) {
	own, shared, err := x.skills.trees(ctx, p.ID)
	if err != nil {
		return nil, nil, err
	}
	lim := x.cfg.Limits.Sessions
	c := vfs.Config{Skills: own, Shared: shared, Now: x.cfg.Now, Quota: vfs.Quota{Bytes: min(lim.Workspace, maxAlone), Files: lim.Files}}
	if x.cfg.Files != nil {
		c.Tools = func() map[string]string { return x.cfg.Files(p) }
	}
	if l != nil {
		c.Workspace, c.Quota.Bytes = l.files.Tree(), lim.Workspace
	}
	return vfs.New(c), own, nil
}

// file answers a request for a file. The files are ours, never the host's.
func (r *run) file(f *sandbox.File) error {
	if r.recall.told(f.ID) { // it hears the answer that it had; what it did to files is done again
		r.fileAgain(f, r.recall.heard[f.ID])
		return nil
	}
	if r.stream.full() { // whoever takes the guest's messages can't wait until it reads
		return r.post(&sandbox.Answer{ID: f.ID, Error: ownError(errUnread)}, false, false)
	}
	v, err := r.fileOp(f)
	if err != nil {
		return r.post(&sandbox.Answer{ID: f.ID, Error: fileError(err)}, false, false)
	}
	return r.post(&sandbox.Answer{ID: f.ID, Value: v}, false, false)
}

// fileDone does what a program asks for.
func (r *run) fileDone(f *sandbox.File) (json.RawMessage, error) {
	r.mu.Lock()
	r.fileOps++
	many := r.fileOps > maxFiles
	r.mu.Unlock()
	if many {
		return nil, r.refuse(tool.Errorf(tool.Limit, "the program asked for files more than %s times", values.Group(maxFiles)))
	}
	return fileOp(r.fs, f, func(h string) ([]byte, error) {
		l, err := r.leftover(h)
		if err != nil {
			return nil, err
		}
		return l.bytes()
	})
}

// bytes gives the bytes of what was kept.
func (l *leftover) bytes() ([]byte, error) {
	if l.block == nil {
		return l.value, nil
	}
	if l.text {
		return []byte(l.data), nil
	}
	data, err := base64.StdEncoding.DecodeString(l.data)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "what is kept under the handle %q is not valid base64: %w", values.Cut(l.handle, 80), err)
	}
	return data, nil
}

// fileError is the error of a file operation, as a program hears of it.
func fileError(err error) *sandbox.GuestError {
	g := ownError(err)
	var e *vfs.Error
	if errors.As(err, &e) {
		g.Code = e.Code
	}
	return g
}

// ownError is an error of ours, as a program hears of it.
func ownError(err error) *sandbox.GuestError {
	g := guestError(err)
	g.Upstream = "biplane"
	return g
}

// undefined is the value of an operation that gives none.
var undefined json.RawMessage

// fileOp does an operation of the guest protocol on files. handle gives the bytes that are kept under a handle.
func fileOp(fs *vfs.FS, f *sandbox.File, handle func(string) ([]byte, error)) (json.RawMessage, error) {
	switch f.Op {
	case "read":
		return readOp(fs, f)
	case "write":
		return undefined, writeOp(fs, f, handle)
	case "truncate":
		return undefined, fs.Truncate(f.Path, f.Offset)
	case "list":
		return listOp(fs, f)
	case "stat":
		return statOp(fs, f)
	case "mkdir":
		return undefined, fs.Mkdir(f.Path, f.Recursive)
	case "rm":
		return undefined, fs.Remove(f.Path, f.Recursive, f.Force)
	case "rmdir":
		return undefined, fs.Rmdir(f.Path)
	case "rename":
		return undefined, fs.Rename(f.Path, f.To)
	case "copy":
		return undefined, fs.Copy(f.Path, f.To, f.Flag == "wx")
	}
	return nil, tool.Errorf(tool.Invalid, "files: unknown operation %q", values.Cut(f.Op, 40))
}

func readOp(fs *vfs.FS, f *sandbox.File) (json.RawMessage, error) {
	n := int64(-1)
	if f.Length != nil {
		n = max(*f.Length, 0)
	}
	data, err := fs.Read(f.Path, f.Offset, n)
	if err != nil {
		return nil, err
	}
	if f.Base64 {
		return tool.Marshal(base64.StdEncoding.EncodeToString(data))
	}
	return tool.Marshal(string(data)) // what is no UTF-8 becomes U+FFFD
}

func writeOp(fs *vfs.FS, f *sandbox.File, handle func(string) ([]byte, error)) error {
	data, err := []byte(f.Data), error(nil)
	switch {
	case f.Handle != "":
		data, err = handle(f.Handle)
	case f.Base64:
		if data, err = base64.StdEncoding.DecodeString(f.Data); err != nil {
			err = tool.Errorf(tool.Invalid, "files: what is to be written is not valid base64: %w", err)
		}
	}
	if err != nil {
		return err
	}
	return fs.Write(f.Path, data, f.Flag, f.Offset)
}

func listOp(fs *vfs.FS, f *sandbox.File) (json.RawMessage, error) {
	type item struct {
		Name string `json:"name"`
		Dir  bool   `json:"dir"`
	}
	list, err := fs.List(f.Path)
	if err != nil {
		return nil, err
	}
	out := make([]item, len(list))
	for i, e := range list {
		out[i] = item{e.Name, e.Dir}
	}
	return tool.Marshal(out)
}

func statOp(fs *vfs.FS, f *sandbox.File) (json.RawMessage, error) {
	s, err := fs.Stat(f.Path)
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

// maxEmbedded is the largest file that a program may give to the agent, in bytes.
const maxEmbedded = 8 << 20

// embed makes an embedded resource of a file (MCP EmbeddedResource).
func (r *run) embed(name string) (json.RawMessage, error) {
	if err := r.pass("read", name, ""); err != nil {
		return nil, err
	}
	data, err := r.fs.Read(name, 0, maxEmbedded+1)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxEmbedded:
		return nil, tool.Errorf(tool.Limit, "%s is over %s: give a part of it, or tell where it is", values.Cut(name, 80), sizeText(maxEmbedded))
	}
	base := "biplane://executions/" + r.id
	if r.hold != nil {
		base = "biplane://sessions/" + r.hold.key.name
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if area, _, _ := strings.Cut(clean, "/"); area != "workspace" && area != "skills" && area != "tools" {
		clean = "workspace/" + clean
	}
	type resource struct {
		URI      string  `json:"uri"`
		MimeType string  `json:"mimeType"`
		Text     *string `json:"text,omitempty"`
		Blob     *string `json:"blob,omitempty"`
	}
	res := resource{URI: base + "/" + escapePath(clean), MimeType: mimeType(clean, data)}
	if utf8.Valid(data) {
		s := string(data)
		res.Text = &s
	} else {
		s := base64.StdEncoding.EncodeToString(data)
		res.Blob = &s
	}
	return tool.Marshal(struct {
		Type     string   `json:"type"`
		Resource resource `json:"resource"`
	}{"resource", res})
}

// escapePath writes a path as that of a URI.
func escapePath(p string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=:@"
	var b strings.Builder
	for _, c := range []byte(p) {
		if strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// mimeTypes are those that the standard library doesn't know wherever it runs.
var mimeTypes = map[string]string{
	".md": "text/markdown", ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".txt": "text/plain", ".log": "text/plain",
	".json": "application/json", ".jsonl": "application/jsonl", ".ndjson": "application/x-ndjson", ".yaml": "application/yaml", ".yml": "application/yaml",
	".ts": "text/typescript", ".py": "text/x-python", ".js": "text/javascript", ".html": "text/html", ".xml": "application/xml", ".svg": "image/svg+xml",
}

// mimeType says what a file is, by its name or else by its content.
func mimeType(name string, data []byte) string {
	ext := strings.ToLower(path.Ext(name))
	if t := mimeTypes[ext]; t != "" {
		return t
	}
	t := http.DetectContentType(data)
	if kind, _, err := mime.ParseMediaType(t); err == nil {
		return kind
	}
	return t
}
