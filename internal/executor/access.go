package executor

import (
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// pass is that of the run's fence. What a program did before this process began is not decided on
// again.
func (r *run) pass(op, path, to string) error {
	r.fencing.Lock()
	defer r.fencing.Unlock()
	r.fence.Use.Labels = r.labels.All()
	return r.fence.Pass(r.ctx, r.fs, op, path, to)
}

// fileOp does what a program asks for, where it may.
func (r *run) fileOp(f *sandbox.File) (json.RawMessage, error) {
	if err := r.pass(f.Op, f.Path, f.To); err != nil {
		return nil, err
	}
	return r.fileDone(f)
}

// fileAgain does to files what a program did before this process began, when it was answered so. It
// was decided on then: a refusal stays one, and nothing else becomes one.
func (r *run) fileAgain(f *sandbox.File, answer []byte) {
	var m sandbox.HostMessage
	if json.Unmarshal(answer, &m) == nil && m.Answer != nil && m.Answer.Error != nil && m.Answer.Error.Code == "EACCES" {
		return
	}
	_, _ = r.fileDone(f)
}

// importable keeps the skills that a program may read. One that it names, and may not, is an error.
func (r *run) importable(skills map[string]string, source string) error {
	for name := range skills {
		base, _, _ := strings.Cut(name, ".")
		named := strings.Contains(source, "skills/"+base) || strings.Contains(source, "skills."+base) || strings.Contains(source, "skills import") && strings.Contains(source, base)
		u := r.fence.Use
		u.Touch, u.Labels = vfs.Touch{Path: "skills/" + name}, r.labels.All()
		switch {
		case r.fence.Access == nil || r.fence.Access.May(u) == nil:
		case named:
			return r.pass("read", u.Path, "")
		default:
			delete(skills, name)
		}
	}
	return nil
}
