package executor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxFiles is the maximum number of file operations of a program.
const maxFiles = 20_000

// A files holds the files that a program sees, and checks its access to them.
type files struct {
	*env
	taint   *taint
	results *results

	fs     *vfs.FS
	skills *vfs.Tree // initial state, to compute changes
	barred error     // why the program may not read a module that it imports

	mu         sync.Mutex
	fence      vfs.Fence
	operations int
}

// setTree sets the files, and the skills among them in their initial state.
func (f *files) setTree(fs *vfs.FS, skills *vfs.Tree) { f.fs, f.skills = fs, skills }

// setTier sets the tier of the program's sandbox, by which its access is decided.
func (f *files) setTier(t tool.Tier) {
	f.fence = vfs.Fence{Access: f.x.cfg.Access,
		Use: vfs.Use{Principal: f.principal, Execution: f.id, Session: f.session, Tier: t}}
}

// setFindings sets what the review found in the program, by which its access is decided.
func (f *files) setFindings(all []tool.Finding) { f.fence.Use.Findings = tool.FindingRules(all) }

// changedSkills returns the changes that the program made to the skills.
func (f *files) changedSkills() []session.SkillChange { return skill.Changes(f.skills, f.fs.Skills()) }

// dropTree releases the files.
func (f *files) dropTree() { f.fs, f.skills = nil, nil }

// checkAccess returns an error if a program that has read data with these labels may not perform an
// operation.
func (f *files) checkAccess(ctx context.Context, labels []string, op, path, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fence.Use.Labels = labels
	return f.fence.Pass(ctx, f.fs, op, path, to)
}

// countOperation counts a file operation, and reports whether the program may perform it.
func (f *files) countOperation() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operations++
	return f.operations <= maxFiles
}

// readModule returns the source of a module in ./workspace, for which access was checked with the
// result err.
func (f *files) readModule(path string, err error) (string, bool) {
	if err != nil {
		f.barred = err
		return "", false
	}
	data, err := f.fs.Read(path, 0, -1)
	return string(data), err == nil
}

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
	if json.Unmarshal(answer, &m) == nil && m.Answer != nil && m.Answer.Error != nil &&
		m.Answer.Error.Code == "EACCES" {
		return
	}
	_, _ = f.performUnchecked(op)
}

// removeUnreadable removes the skills that the program may not read from skills. If source names
// one of these, it returns an error.
func (f *files) removeUnreadable(skills map[string]string, source string) error {
	for name := range skills {
		base, _, _ := strings.Cut(name, ".")
		named := strings.Contains(source, "skills/"+base) || strings.Contains(source, "skills."+base) ||
			strings.Contains(source, "skills import") && strings.Contains(source, base)
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

// attach writes the files into the program's view of ./workspace. They are kept if the program
// succeeds, and discarded if it fails.
func (f *files) attach(list []journal.File, again bool) error {
	for _, a := range list {
		name := "./workspace/" + a.Path
		var err error
		if !again { // otherwise access was decided before
			err = f.check("write", name, "")
		}
		if dir := path.Dir(a.Path); err == nil && dir != "." {
			err = f.fs.Mkdir("./workspace/"+dir, true)
		}
		if err == nil {
			err = f.fs.Write(name, a.Data, "w", 0)
		}
		if err != nil {
			return tool.Errorf(tool.AsError(err).Kind, "the program did not run: file %q: %w",
				text.Cut(a.Path, 80), err)
		}
	}
	return nil
}

// performUnchecked performs a file operation without a check of the program's access.
func (f *files) performUnchecked(op *sandbox.File) (json.RawMessage, error) {
	if !f.countOperation() {
		return nil, f.refuse(tool.Over(execution.FilesLimit, "the program asked for files more than %s times",
			text.Group(maxFiles)))
	}
	return f.fs.Do(op, func(h string) ([]byte, error) {
		l, err := f.results.leftover(h)
		if err != nil {
			return nil, err
		}
		return l.bytes()
	})
}

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
		return nil, tool.Errorf(tool.Limit, "%s is over %s: give a part of it, or tell where it is",
			text.Cut(name, 80), text.Size(maxEmbedded))
	}
	base := "biplane://executions/" + f.id
	if f.session != "" {
		base = "biplane://sessions/" + f.session
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if area, _, _ := strings.Cut(clean, "/"); area != "workspace" && area != "skills" && area != "tools" {
		clean = "workspace/" + clean
	}
	var block json.RawMessage
	f.results.meter.doWork(len(data), func() { block, err = values.Embed(base+"/", clean, data) })
	return block, err
}

// LoadModule returns the source of a module in ./workspace, if the program may read it.
func (f *files) LoadModule(path string) (string, bool) {
	return f.readModule(path, f.check("read", path, ""))
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
		return nil, tool.Errorf(tool.Invalid, "what is kept under the handle %q is not valid base64: %w",
			text.Cut(l.handle, 80), err)
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
