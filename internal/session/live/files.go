package live

import (
	"context"

	"github.com/biplane-dev/biplane/internal/vfs"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAlone bounds the files of a program without a session, which are in memory, in bytes.
const maxAlone = 64 << 20

// FS makes the files of a program: those of its session, or an empty workspace where h is nil; and the skills of p as they are now.
func (s *Sessions) FS(ctx context.Context, p tool.Principal, h *Hold) (fs *vfs.FS, skills *vfs.Tree, err error) {
	own, shared, err := s.cfg.Skills.Trees(ctx, p.ID)
	if err != nil {
		return nil, nil, err
	}
	lim := s.cfg.Limits
	c := vfs.Config{Skills: own, Shared: shared, Now: s.cfg.Now, Quota: vfs.Quota{Bytes: min(lim.Workspace, maxAlone), Files: lim.Files}}
	if s.cfg.Tools != nil {
		c.Tools = func() map[string]string { return s.cfg.Tools(p) }
	}
	if h != nil {
		c.Workspace, c.Quota.Bytes = h.files.Tree(), lim.Workspace
	}
	return vfs.New(c), own, nil
}
