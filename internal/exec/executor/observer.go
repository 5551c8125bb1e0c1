package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A callObserver observes the n-th call of r.
type callObserver struct {
	tool.NoObserver
	r *run
	n int
}

func (o callObserver) WantsProgress() bool            { return true }
func (o callObserver) OnProgress(p tool.Progress)     { o.r.state.setReport(o.n, p) }
func (o callObserver) OnRemark(text string)           { o.r.state.addRemark(text) }
func (o callObserver) OnHold(h *tool.Hold)            { o.r.state.setHold(o.n, h) }
func (o callObserver) OnLabels(labels []string) error { return o.r.carriesFrom(o.n, labels) }
func (o callObserver) OnWork(d time.Duration)         { o.r.meter.addHostTime(d) }

func (o callObserver) OnSend(c *tool.Call, decision string) (confirm func() error) {
	return o.r.leaving(o.n)(c, decision)
}
