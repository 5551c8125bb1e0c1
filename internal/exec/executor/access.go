package executor

import (
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// pass checks an operation against the run's access to files. Operations from before this process
// began are not checked again.
func (r *run) pass(op, path, to string) error {
	return r.files.checkAccess(r.ctx, r.taint.labels.All(), op, path, to)
}

// fileOp performs the file operation f if the policy allows it.
func (r *run) fileOp(f *sandbox.File) (json.RawMessage, error) {
	if err := r.pass(f.Op, f.Path, f.To); err != nil {
		return nil, err
	}
	return r.fileDone(f)
}

// fileAgain repeats a file operation from before this process began, unless answer was a refusal.
// The decision stands: a refusal stays one, and no other operation is refused now.
func (r *run) fileAgain(f *sandbox.File, answer []byte) {
	var m sandbox.HostMessage
	if json.Unmarshal(answer, &m) == nil && m.Answer != nil && m.Answer.Error != nil && m.Answer.Error.Code == "EACCES" {
		return
	}
	_, _ = r.fileDone(f)
}

// importable removes the skills that the program may not read from skills. If source names one of
// these, it returns an error.
func (r *run) importable(skills map[string]string, source string) error {
	for name := range skills {
		base, _, _ := strings.Cut(name, ".")
		named := strings.Contains(source, "skills/"+base) || strings.Contains(source, "skills."+base) || strings.Contains(source, "skills import") && strings.Contains(source, base)
		u := r.files.fence.Use
		u.Touch, u.Labels = vfs.Touch{Path: "skills/" + name}, r.taint.labels.All()
		switch {
		case r.files.fence.Access == nil || r.files.fence.Access.May(u) == nil:
		case named:
			return r.pass("read", u.Path, "")
		default:
			delete(skills, name)
		}
	}
	return nil
}
