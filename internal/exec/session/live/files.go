package live

import (
	"context"

	"github.com/biplane-dev/biplane/internal/exec/vfs"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAlone is the maximum size in bytes of the files of a program without a session, which are in
// memory.
const maxAlone = 64 << 20

// FS returns the file system of a program, and the skills of p. The workspace is that of the
// session, or empty if h is nil.
func (t *storage) FS(ctx context.Context, p tool.Principal, h *Hold) (fs *vfs.FS, skills *vfs.Tree, err error) {
	own, shared, err := t.cfg.Skills.Trees(ctx, p.ID)
	if err != nil {
		return nil, nil, err
	}
	lim := t.cfg.Limits
	c := vfs.Config{Skills: own, Shared: shared, Clock: t.cfg.Clock,
		Quota: vfs.Quota{Bytes: min(lim.Workspace, maxAlone), Files: lim.Files}}
	if t.cfg.Tools != nil {
		c.Tools = func() map[string]string { return t.cfg.Tools.ToolFiles(p) }
	}
	if h != nil {
		c.Workspace, c.Quota.Bytes = h.files.Tree(), lim.Workspace
	}
	return vfs.New(c), own, nil
}
