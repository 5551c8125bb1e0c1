package executor

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
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
func (o callObserver) OnLabels(labels []string) error            { return o.calls.carryFrom(o.n, labels) }
func (o callObserver) OnWork(_ context.Context, d time.Duration) { o.calls.meter.addHostTime(d) }

func (o callObserver) OnProgress(_ context.Context, p tool.Progress) {
	o.calls.hideText(&p.Message)
	report := reportText(p)
	o.calls.state.updateCall(o.n, func(c *execution.Call) { c.Report = report })
}

func (o callObserver) OnSend(c *tool.Call, decision string) (confirm func() error) {
	return o.calls.beforeSend(o.n, c, decision)
}
