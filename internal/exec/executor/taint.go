package executor

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A taint is what a program's data inherits from the data that it has read: labels, and personal
// data from other sessions. It is safe for concurrent use.
type taint struct {
	*env
	labels tool.Labels // of the program's sender, and of the data that it has read

	keeper labeler // the program's session; nil: it has none

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

// addLabels adds labels to the program's, and first to those of its session, which may be nil.
// If the session can't keep them, the program doesn't get them either, nor the labeled data.
func (t *taint) addLabels(ctx context.Context, session labeler, labels []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session != nil {
		if err := session.Label(ctx, labels); err != nil {
			return err
		}
	}
	t.labels.Add(labels)
	return nil
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
