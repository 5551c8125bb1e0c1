package executor

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// answerFile answers a file request of the guest. Files are those of the vfs, never the host's.
func (d *dialog) answerFile(f *sandbox.File) error {
	if d.history.Told(f.ID) { // it receives its previous answer; the operation itself is repeated
		d.files.repeat(f, d.history.Line(f.ID))
		return nil
	}
	if d.stream.Full() { // the goroutine that reads the guest's messages can't wait for the guest to read
		return d.sendMessage(&sandbox.Answer{ID: f.ID, Error: ownError(errUnread)}, false, false)
	}
	v, err := d.files.perform(f)
	if err != nil {
		return d.sendMessage(&sandbox.Answer{ID: f.ID, Error: fileError(err)}, false, false)
	}
	return d.sendMessage(&sandbox.Answer{ID: f.ID, Value: v}, false, false)
}

// performUnchecked performs a file operation without a check of the program's access.
func (f *files) performUnchecked(op *sandbox.File) (json.RawMessage, error) {
	if !f.countOperation() {
		return nil, f.refuse(tool.Over(execution.FilesLimit, "the program asked for files more than %s times", prose.Group(maxFiles)))
	}
	return f.fs.Do(op, func(h string) ([]byte, error) {
		l, err := f.results.leftover(h)
		if err != nil {
			return nil, err
		}
		return l.bytes()
	})
}

// bytes returns the contents of a leftover.
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

// fileError converts the error of a file operation to the one that the program receives.
func fileError(err error) *sandbox.GuestError {
	g := ownError(err)
	var e *vfs.Error
	if errors.As(err, &e) {
		g.Code = e.Code
	}
	return g
}

// ownError converts an error of Biplane itself to the one that the program receives.
func ownError(err error) *sandbox.GuestError {
	g := guestError(err)
	g.Upstream = tool.Own
	return g
}

// maxEmbedded is the maximum size of a file that a program may emit to the agent, in bytes.
const maxEmbedded = 8 << 20

// embed returns an embedded resource with the contents of a file.
func (f *files) embed(name string) (json.RawMessage, error) {
	if err := f.check("read", name, ""); err != nil {
		return nil, err
	}
	data, err := f.fs.Read(name, 0, maxEmbedded+1)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxEmbedded:
		return nil, tool.Errorf(tool.Limit, "%s is over %s: give a part of it, or tell where it is", prose.Cut(name, 80), prose.Size(maxEmbedded))
	}
	base := "biplane://executions/" + f.id
	if f.session != "" {
		base = "biplane://sessions/" + f.session
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if area, _, _ := strings.Cut(clean, "/"); area != "workspace" && area != "skills" && area != "tools" {
		clean = "workspace/" + clean
	}
	return values.Embed(base+"/", clean, data)
}
