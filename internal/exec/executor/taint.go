package executor

import (
	"context"
	"sync"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A taint holds what a program's data inherits from the data that it has read: labels, and personal
// data from other sessions. It is safe for concurrent use.
type taint struct {
	*env
	labels  tool.Labels // of the program's sender, and of the data that it has read
	keeper  labeler     // the program's session; nil: it has none
	network *network    // decides again on its connections when there are more labels; nil: it has none

	mu sync.Mutex // also held while labels and the session's are extended
	// handles from other sessions whose personal data is registered in the program's own session
	brought map[string]bool
}

// A labeler keeps the labels of a session.
type labeler interface {
	Label(ctx context.Context, labels []string) error
}

// setSession sets the session that keeps the labels, too; nil: none.
func (t *taint) setSession(session labeler) { t.keeper = session }

// keepLabels adds labels to the program's, and first to those of its session. If the session can't
// keep them, the program doesn't get them either, nor the labeled data. It reports whether there
// are more than before.
func (t *taint) keepLabels(labels []string) (more bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keeper != nil {
		if err := t.keeper.Label(t.ctx, labels); err != nil {
			return false, err
		}
	}
	before := len(t.labels.All())
	t.labels.Add(labels)
	return len(t.labels.All()) > before, nil
}

// bringOnce calls bring unless it has succeeded for the handle before.
func (t *taint) bringOnce(handle string, bring func() error) error {
	t.mu.Lock()
	known := t.brought[handle]
	t.mu.Unlock()
	if known {
		return nil
	}
	if err := bring(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.brought == nil {
		t.brought = map[string]bool{}
	}
	t.brought[handle] = true
	return nil
}

// carry adds labels to the program and its session, and decides again on the program's connections.
// It must be called before the program receives the labeled data.
func (t *taint) carry(labels []string) error {
	if t.network != nil {
		return t.network.AddLabels(t.ctx, labels)
	}
	_, err := t.keepLabels(labels)
	return err
}

// bringLeftover is env.bring for a leftover. It does nothing if the leftover has been brought
// before.
func (t *taint) bringLeftover(l *leftover) error {
	if t.x.cfg.Privacy == nil || l.session == t.session {
		return nil
	}
	return t.bringOnce(l.handle, func() error {
		data := []string{string(l.value), string(l.block)}
		if raw, err := l.bytes(); err == nil && l.block != nil && utf8.Valid(raw) {
			data = append(data, string(raw))
		}
		return t.bring(l.session, data...)
	})
}

// tells passes labels to the caller of one of Biplane's own tools, before the caller receives
// output of a program with these labels.
func tells(c *tool.Call, labels []string) error {
	if len(labels) == 0 {
		return nil
	}
	if err := c.Observe().OnLabels(labels); err != nil {
		return &tool.Error{Kind: tool.Internal, Err: err,
			Msg: "what the program came to is withheld: that it was read can't be kept: " + tool.AsError(err).Msg}
	}
	return nil
}
