package executor

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A callObserver observes the n-th call of a program.
type callObserver struct {
	tool.NoObserver
	calls *calls
	n     int
}

func (o callObserver) WantsProgress() bool                       { return true }
func (o callObserver) OnRemark(text string)                      { o.calls.state.addRemark(text) }
func (o callObserver) OnHold(h *tool.Hold)                       { o.calls.state.setHold(o.n, h) }
func (o callObserver) OnWork(_ context.Context, d time.Duration) { o.calls.meter.addHostTime(d) }

func (o callObserver) OnProgress(_ context.Context, p tool.Progress) {
	o.calls.hideText(&p.Message)
	report := reportText(p)
	o.calls.state.updateCall(o.n, func(c *execution.Call) { c.Report = report })
}

// OnLabels adds labels to the call and to the run.
func (o callObserver) OnLabels(labels []string) error {
	o.calls.state.updateCall(o.n, func(rec *execution.Call) {
		if rec.Note != nil {
			rec.Note.Labels = tool.JoinLabels(rec.Note.Labels, labels)
		}
	})
	return o.calls.taint.carry(labels)
}

// OnSend writes the intent of the call to the journal before the gateway sends it. It returns a
// function that waits until the intent is safe: on disk, if the call may write.
func (o callObserver) OnSend(c *tool.Call, decision string) (confirm func() error) {
	cs := o.calls
	var sent journal.Call
	again := false
	cs.state.updateCall(o.n, func(rec *execution.Call) {
		rec.Reads = c.Tool != nil && c.Tool.Annotations.Reads()
		if !cs.history.isKept() {
			return
		}
		k := rec.Note
		again = !k.Sent.IsZero()
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
		k.Decision, k.Sent, k.ReadOnly, k.Idempotent = decision, cs.x.cfg.Clock.Now(), false, false
		if c.Tool != nil {
			k.ReadOnly, k.Idempotent = is(c.Tool.Annotations.ReadOnly), is(c.Tool.Annotations.Idempotent)
		}
		sent = *k
	})
	if !cs.history.isKept() {
		return func() error { return nil }
	}
	if !sent.ReadOnly && !sent.Idempotent {
		if err := cs.history.checkCut(false); err != nil {
			return func() error { return cs.refuse(err) }
		}
	}
	p := cs.history.Intent(&sent)
	if again && !sent.ReadOnly && !sent.Idempotent {
		return func() error { return cs.refuse(changedSince(&sent)) }
	}
	switch {
	case !sent.ReadOnly:
		return p.Sync
	case p != nil:
		return p.Safe
	}
	return func() error { return nil }
}

func is(b *bool) bool { return b != nil && *b }
