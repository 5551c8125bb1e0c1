package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// inspected is how many leaves Inspect reads in addition to this Log's own.
const inspected = 64

// Inspect runs quick checks whose cost doesn't depend on the log's size, when the log is opened or
// soon after. It checks the newest leaves from before this Log added any, all later ones, and their
// hashes. It also checks the newest checkpoint and the tree that it signs. A problem is returned as
// an error of kind tool.Conflict and recorded. From then on Broken and Found return it, and no call
// begins. Verify checks everything.
func (l *Log) Inspect(ctx context.Context) error {
	err := l.store.View(ctx, l.inspectView)
	if err != nil && ctx.Err() != nil {
		return tool.AsError(ctx.Err())
	}
	l.problems.mu.Lock()
	l.problems.broken = err
	l.problems.mu.Unlock()
	if err != nil {
		l.Doubt(ctx, "inspect", err)
	}
	return err
}

// Broken returns the result of the last Inspect, or nil if it found no problem.
func (l *Log) Broken() error {
	l.problems.mu.Lock()
	defer l.problems.mu.Unlock()
	return l.problems.broken
}

func (l *Log) inspectView(v View) error {
	bad := func(format string, a ...any) error {
		return tool.Errorf(tool.Conflict, "the audit record was changed: "+format+
			": run biplane audit verify, and keep a copy of the data folder", a...)
	}
	h, err := v.Head()
	if err != nil {
		return bad("%w", err)
	}
	next, segments := max(h.Size-inspected-l.added.Load(), 0), l.newSignedSegments(v)
	err = v.Leaves(next, func(leaf Leaf) error {
		c, err := decodeLeaf(leaf.Data)
		switch {
		case leaf.Seq != next:
			return bad("leaf %d is missing", next)
		case segments.hasSegment(leaf.Absent): // Verify reports that it is missing
		case err != nil || c.Seq != leaf.Seq || len(leaf.Hashes) == 0 || leaf.Hashes[0] != tlog.RecordHash(leaf.Data):
			return bad("leaf %d was changed", leaf.Seq)
		}
		next++
		return nil
	})
	if err != nil {
		return err
	}
	if next != h.Size {
		return bad("it ends with leaf %d, not %d", next-1, h.Size-1)
	}
	sealed, err := v.SealedHead()
	if err == nil {
		err = h.CompareWith(sealed, v)
	}
	if err != nil {
		return bad("%w", err)
	}
	id, began, err := v.FirstExecution()
	switch {
	case err != nil:
		return bad("the executions can't be read: %w", err)
	case id != "" && !coversExecution(v, segments, began):
		return bad("%s", olderExecution(id, began))
	}
	if err := l.inspectCheckpoints(v, h); err != nil {
		return bad("%w", err)
	}
	return nil
}

// inspectCheckpoints checks the newest checkpoint, and compares the stored checkpoints with the
// sealed ones.
func (l *Log) inspectCheckpoints(v View, h proof.Head) error {
	newest := ""
	if err := v.Checkpoints(func(text string) error { newest = text; return nil }); err != nil {
		return fmt.Errorf("the checkpoints can't be read: %w", err)
	}
	if newest != "" {
		c, err := proof.ParseCheckpoint(newest, l.signer.Public())
		if err != nil {
			return errors.New("the newest checkpoint was changed")
		}
		if c.Size > h.Size {
			return fmt.Errorf("it has %d leaves, but the newest checkpoint signs %d", h.Size, c.Size)
		}
		if root, err := tlog.TreeHash(c.Size, v); err != nil || root != c.Root {
			return fmt.Errorf("the hashes of the first %d leaves differ from the signed ones", c.Size)
		}
	}
	return v.CheckChain()
}

// coversExecution reports whether a leaf is as old as an execution. Usually the first leaf is,
// unless the clock was set back.
func coversExecution(v View, segments *signedSegments, began time.Time) bool {
	until, found := began.Add(executionSlack), errors.New("found")
	err := v.Leaves(0, func(l Leaf) error {
		if segments.hasSegment(l.Absent) { // Verify compares its segment
			return found
		}
		if c, err := decodeLeaf(l.Data); err == nil && !c.at.After(until) {
			return found
		}
		return nil
	})
	return errors.Is(err, found)
}
