package executor

import (
	"github.com/biplane-dev/biplane/internal/tool"
)

// carry adds labels to the program and its session. It must be called before the program receives
// the labeled data.
func (t *taint) carry(labels []string) error {
	return t.addLabels(t.ctx, t.keeper, labels)
}

// carryFrom is taint.carry for the result of the n-th call.
func (cs *calls) carryFrom(n int, labels []string) error {
	cs.state.mu.Lock()
	if k := cs.state.exec.Calls[n].Note; k != nil {
		k.Labels = tool.Joined(k.Labels, labels)
	}
	cs.state.mu.Unlock()
	return cs.taint.carry(labels)
}

// leftover returns the leftover with a handle. Its labels are added to the run's.
func (s *results) leftover(handle string) (*leftover, error) {
	l, err := s.x.left.get(s.principal.ID, handle)
	if err == nil {
		err = s.taint.carry(l.labels)
	}
	if err == nil {
		err = s.taint.bringLeftover(l)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// tells passes labels to the caller of one of Biplane's own tools, before the caller receives
// output of a program with these labels.
func tells(c *tool.Call, labels []string) error {
	if len(labels) == 0 {
		return nil
	}
	if err := c.Observe().OnLabels(labels); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err, Msg: "what the program came to is withheld: that it was read can't be kept: " + tool.AsError(err).Msg}
	}
	return nil
}
