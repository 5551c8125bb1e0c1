package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/policy/desk"
	"github.com/biplane-dev/biplane/internal/tool"
)

// policyName matches the names of files that can be created in a folder of policies.
var policyName = lazily.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.cedar$`)

// A policyEditor reads and changes the files of the policies in force. It implements
// httpapi.PolicyEditor.
type policyEditor struct{ d *Daemon }

// A policyService implements httpapi.Policies.
type policyService struct {
	*desk.Desk
	policyEditor
}

// ListFiles implements httpapi.PolicyEditor.
func (p policyEditor) ListFiles() (*api.PolicyFiles, error) {
	s := p.d.policies.settings.Load()
	files, err := s.PolicyFiles()
	if err != nil {
		return nil, err
	}
	out := &api.PolicyFiles{Folder: s.PolicyDir, Digest: digestFiles(files), Files: []api.PolicyFile{}}
	for _, f := range files {
		out.Files = append(out.Files, api.PolicyFile{Name: f.Name, Text: string(f.Text)})
	}
	if s.PolicyDir == "" {
		out.Fixed = fmt.Sprintf("the policy %s is built in: to edit it, save its text as a .cedar file in a folder, "+
			"and name that folder as policy in the configuration", s.Policy)
	}
	return out, nil
}

// digestFiles returns a digest of the names and texts of files.
func digestFiles(files []policy.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %q\n", f.Name, f.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// EditFile implements httpapi.PolicyEditor. It refuses policies that contain errors.
func (p policyEditor) EditFile(ctx context.Context, who tool.Principal, edit api.PolicyEdit) (*api.PolicyReport,
	error) {
	was, err := p.ListFiles()
	if err != nil {
		return nil, err
	}
	next, err := changeFile(was, edit)
	if err != nil {
		return nil, err
	}
	report, err := p.d.newPolicyDesk(p.d.upstreams).Check(ctx, next)
	if err != nil {
		return nil, err
	}
	if n := len(report.Problems); n > 0 {
		first := report.Problems[0]
		return nil, tool.Errorf(tool.Invalid, "the policies have %d errors, and nothing was changed; the first is "+
			"%s:%d:%d: %s", n, first.File, first.Line, first.Column, first.Message)
	}
	if err := p.putFile(ctx, who, edit); err != nil {
		return nil, err
	}
	return report, nil
}

// changeFile returns the files with an edit, if that is possible.
func changeFile(was *api.PolicyFiles, edit api.PolicyEdit) ([]api.PolicyFile, error) {
	name := edit.File.Name
	at := slices.IndexFunc(was.Files, func(f api.PolicyFile) bool { return f.Name == name })
	switch {
	case was.Fixed != "":
		return nil, tool.Errorf(tool.Conflict, "%s", was.Fixed)
	case edit.Digest != was.Digest:
		return nil, errPoliciesChanged
	case at < 0 && !policyName.Get().MatchString(name):
		return nil, tool.Errorf(tool.Invalid, "a file of policies needs a name such as mail.cedar, of letters, "+
			"digits, dots, hyphens and underscores")
	case at < 0 && edit.File.Text == "":
		return nil, tool.Errorf(tool.NotFound, "the folder has no file %s to remove", name)
	}
	next := was.WithFile(edit.File)
	if len(next) == 0 {
		return nil, tool.Errorf(tool.Invalid, "this is the last file, and without policies every call is denied: "+
			"to deny all calls, replace its text by a comment")
	}
	return next, nil
}

var errPoliciesChanged = &tool.Error{Kind: tool.Conflict, Msg: "the policies have changed since you read them: read " +
	"them again, and repeat your change"}

// putFile changes a file, and applies the policies. Before it does so, it records the
// change.
func (p policyEditor) putFile(ctx context.Context, who tool.Principal, edit api.PolicyEdit) error {
	held := p.d.policies
	held.folder.mu.Lock()
	defer held.folder.mu.Unlock()
	was, err := p.ListFiles()
	if err != nil {
		return err
	}
	next, err := changeFile(was, edit)
	if err != nil {
		return err
	}
	files := make([]policy.File, len(next))
	for i, f := range next {
		files[i] = policy.File{Name: f.Name, Text: []byte(f.Text)}
	}
	e, err := held.settings.Load().EngineOf(files)
	if err != nil {
		return err
	}
	event := audit.Event{Kind: audit.KindPolicy, Principal: who, Subject: audit.Subject{Name: e.Name()},
		Detail:  map[string]string{"version": e.Version(), "action": "edit", "file": edit.File.Name},
		Outcome: audit.OK}
	if err := p.d.event(ctx, event); err != nil {
		return err
	}
	if err = writePolicy(filepath.Join(was.Folder, edit.File.Name), edit.File.Text); err != nil {
		err = tool.Errorf(tool.Unavailable, "the file %s could not be changed: %w; is the folder of policies writable "+
			"for Biplane?", edit.File.Name, err)
		_ = p.d.event(ctx, withError(event, err)) // event has logged its own error
		return err
	}
	held.applyFolder(ctx, e, nil)
	return nil
}

// writePolicy replaces or creates a file or, if the text is empty, removes it. It keeps the
// permissions of the file. A symbolic link is not followed, and is an error.
func writePolicy(path, text string) error {
	mode := fs.FileMode(0o600)
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return errors.New("it is not a regular file: change what it links to")
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if text == "" {
		return os.Remove(path)
	}
	return atomicfile.WriteFile(path, []byte(text), mode)
}
