package executor

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/values"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// file answers a request for a file. The files are ours, never the host's.
func (r *run) file(f *sandbox.File) error {
	if r.recall.Told(f.ID) { // it hears the answer that it had; what it did to files is done again
		r.fileAgain(f, r.recall.Line(f.ID))
		return nil
	}
	if r.stream.Full() { // whoever takes the guest's messages can't wait until it reads
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
		return nil, r.refuse(tool.Over(execution.FilesLimit, "the program asked for files more than %s times", prose.Group(maxFiles)))
	}
	return r.fs.Do(f, func(h string) ([]byte, error) {
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
		return nil, tool.Errorf(tool.Invalid, "what is kept under the handle %q is not valid base64: %w", prose.Cut(l.handle, 80), err)
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
	g.Upstream = tool.Own
	return g
}

// maxEmbedded is the largest file that a program may give to the agent, in bytes.
const maxEmbedded = 8 << 20

// embed makes an embedded resource of a file.
func (r *run) embed(name string) (json.RawMessage, error) {
	if err := r.pass("read", name, ""); err != nil {
		return nil, err
	}
	data, err := r.fs.Read(name, 0, maxEmbedded+1)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxEmbedded:
		return nil, tool.Errorf(tool.Limit, "%s is over %s: give a part of it, or tell where it is", prose.Cut(name, 80), prose.Size(maxEmbedded))
	}
	base := "biplane://executions/" + r.id
	if r.hold != nil {
		base = "biplane://sessions/" + r.hold.Name()
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if area, _, _ := strings.Cut(clean, "/"); area != "workspace" && area != "skills" && area != "tools" {
		clean = "workspace/" + clean
	}
	return values.Embed(base+"/", clean, data)
}
