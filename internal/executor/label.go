package executor

import (
	"context"
	"slices"

	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxLabels is how many labels an imported session may have: far more than there are.
const maxLabels = 64

// carries has the run carry labels on, and its session, before its program hears anything of what they are of.
func (r *run) carries(labels []string) error {
	r.labelling.Lock()
	defer r.labelling.Unlock()
	if r.hold != nil {
		if err := r.x.label(r.ctx, r.hold.live, labels); err != nil {
			return err
		}
	}
	r.labels.Add(labels)
	return nil
}

// carriesFrom is carries for what came of the n-th call.
func (r *run) carriesFrom(n int, labels []string) error {
	r.mu.Lock()
	if k := r.exec.Calls[n].note; k != nil {
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

// tells has whoever made a call of ours carry labels on, before they hear anything of the program that carries them.
func tells(c *tool.Call, labels []string) error {
	if c.Carries == nil || len(labels) == 0 {
		return nil
	}
	if err := c.Carries(labels); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err, Msg: "what the program came to is withheld: that it was read can't be kept: " + tool.AsError(err).Msg}
	}
	return nil
}

// label has a session carry labels on, whether the program that reads what they are of ends well or not. l is held.
func (x *Executor) label(ctx context.Context, l *live, labels []string) error {
	all := tool.Joined(l.labels, labels)
	if len(all) == len(l.labels) {
		return nil
	}
	now := x.cfg.Now()
	old := now.Add(-x.cfg.Limits.Sessions.Unused)
	if err := x.cfg.Store.Label(context.WithoutCancel(ctx), l.key.owner, l.key.name, all, now, old); err != nil {
		return err
	}
	l.labels = all
	return nil
}

// loadLabels reads the labels of a session: those that its state was saved with, and those that came since.
func (x *Executor) loadLabels(ctx context.Context, l *live) error {
	since, err := x.cfg.Store.Labels(ctx, l.key.owner, l.key.name)
	l.labels = tool.Joined(since, l.state.Labels)
	return err
}

// checkLabels says what is wrong in the labels of an imported session.
func checkLabels(s *session.State) error {
	if len(s.Labels) > maxLabels || slices.ContainsFunc(s.Labels, func(l string) bool { return l == "" || len(l) > maxLabels }) {
		return tool.Errorf(tool.Invalid, "import: the session's labels are none")
	}
	return nil
}
