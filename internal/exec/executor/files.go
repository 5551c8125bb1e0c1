package executor

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/skill"
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
