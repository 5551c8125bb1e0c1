package executor

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// Access decides on what programs, and people by the API, do to the files of sessions and to skills.
type Access interface {
	// May says why u may not be; nil: it may. It is asked before each use of a file, and does no I/O.
	May(u FileUse) error
	// Refused puts on record that u was refused. It is told once of each file, for reading and for writing, of at most
	// maxRefusals in one execution: a program may try as often as it likes.
	Refused(ctx context.Context, u FileUse, err error)
}

// A FileUse is one use of one file.
type FileUse struct {
	vfs.Touch
	Principal tool.Principal
	Execution string // whose program it is; empty: a person's, by the API
	Session   string
	Labels    []string // of what it has read: of a program, or of the session
}

// maxRefusals is how many refusals of one execution are recorded.
const maxRefusals = 64

// A fence asks before files are used. Its zero value asks nobody.
type fence struct {
	access Access
	use    FileUse            // but for the Touch
	told   map[vfs.Touch]bool // what is on record as refused
}

// pass reports why an operation on files may not be done: an error that is "EACCES" for the program.
func (f *fence) pass(ctx context.Context, fs *vfs.FS, op, path, to string) error {
	if f.access == nil {
		return nil
	}
	for _, t := range fs.Touches(op, path, to) {
		u := f.use
		u.Touch = t
		err := f.access.May(u)
		if err == nil {
			continue
		}
		if !f.told[t] && len(f.told) < maxRefusals {
			if f.told == nil {
				f.told = map[vfs.Touch]bool{}
			}
			f.told[t] = true
			f.access.Refused(ctx, u, err)
		}
		return vfs.Refused(op, t.Path, tool.AsError(err).Msg, err)
	}
	return nil
}

// pass is that of the run's fence. What a program did before this process began is not decided on again.
func (r *run) pass(op, path, to string) error {
	r.fencing.Lock()
	defer r.fencing.Unlock()
	r.fence.use.Labels = r.labels.All()
	return r.fence.pass(r.ctx, r.fs, op, path, to)
}

// fileOp does what a program asks for, where it may.
func (r *run) fileOp(f *sandbox.File) (json.RawMessage, error) {
	if err := r.pass(f.Op, f.Path, f.To); err != nil {
		return nil, err
	}
	return r.fileDone(f)
}

// fileAgain does to files what a program did before this process began, when it was answered so. It was decided on then: a refusal
// stays one, and nothing else becomes one.
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
		u := r.fence.use
		u.Touch, u.Labels = vfs.Touch{Path: "skills/" + name}, r.labels.All()
		switch {
		case r.fence.access == nil || r.fence.access.May(u) == nil:
		case named:
			return r.pass("read", u.Path, "")
		default:
			delete(skills, name)
		}
	}
	return nil
}
