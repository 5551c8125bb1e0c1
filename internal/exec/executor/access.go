package executor

import (
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// check checks an operation against the program's access to files. Operations from before this
// process began are not checked again.
func (f *files) check(op, path, to string) error {
	return f.checkAccess(f.ctx, f.taint.labels.All(), op, path, to)
}

// perform performs a file operation if the policy allows it.
func (f *files) perform(op *sandbox.File) (json.RawMessage, error) {
	if err := f.check(op.Op, op.Path, op.To); err != nil {
		return nil, err
	}
	return f.performUnchecked(op)
}

// repeat repeats a file operation from before this process began, unless answer was a refusal.
// The decision stands: a refusal stays one, and no other operation is refused now.
func (f *files) repeat(op *sandbox.File, answer []byte) {
	var m sandbox.HostMessage
	if json.Unmarshal(answer, &m) == nil && m.Answer != nil && m.Answer.Error != nil && m.Answer.Error.Code == "EACCES" {
		return
	}
	_, _ = f.performUnchecked(op)
}

// removeUnreadable removes the skills that the program may not read from skills. If source names
// one of these, it returns an error.
func (f *files) removeUnreadable(skills map[string]string, source string) error {
	for name := range skills {
		base, _, _ := strings.Cut(name, ".")
		named := strings.Contains(source, "skills/"+base) || strings.Contains(source, "skills."+base) || strings.Contains(source, "skills import") && strings.Contains(source, base)
		u := f.fence.Use
		u.Touch, u.Labels = vfs.Touch{Path: "skills/" + name}, f.taint.labels.All()
		switch {
		case f.fence.Access == nil || f.fence.Access.May(u) == nil:
		case named:
			return f.check("read", u.Path, "")
		default:
			delete(skills, name)
		}
	}
	return nil
}
