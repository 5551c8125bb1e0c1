package executor

import (
	"github.com/biplane-dev/biplane/internal/tool"
)

// carries has the run carry labels on, and its session, before its program hears anything of what
// they are of.
func (r *run) carries(labels []string) error {
	r.labelling.Lock()
	defer r.labelling.Unlock()
	if r.hold != nil {
		if err := r.hold.Label(r.ctx, labels); err != nil {
			return err
		}
	}
	r.labels.Add(labels)
	return nil
}

// carriesFrom is carries for what came of the n-th call.
func (r *run) carriesFrom(n int, labels []string) error {
	r.mu.Lock()
	if k := r.exec.Calls[n].Note; k != nil {
		k.Labels = tool.Joined(k.Labels, labels)
	}
	r.mu.Unlock()
	return r.carries(labels)
}

// leftover gives what an execution left under a handle. The run carries on what that one carried.
func (r *run) leftover(handle string) (*leftover, error) {
	l, err := r.x.left.get(r.principal.ID, handle)
	if err == nil {
		err = r.carries(l.labels)
	}
	if err == nil {
		err = r.broughtOnce(l)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// tells has whoever made a call of ours carry labels on, before they hear anything of the program
// that carries them.
func tells(c *tool.Call, labels []string) error {
	if c.Carries == nil || len(labels) == 0 {
		return nil
	}
	if err := c.Carries(labels); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err, Msg: "what the program came to is withheld: that it was read can't be kept: " + tool.AsError(err).Msg}
	}
	return nil
}
