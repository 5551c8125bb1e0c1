package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A door is the way of every call, of an agent or a program, to the gateway with the newest
// policies. It counts, measures and traces the calls.
type door struct {
	daemon *Daemon
	waits  bool // calls wait until the upstream of their tool has connected
}

// Call implements tool.Caller.
func (d *door) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if d.waits {
		d.daemon.upstreams.waitForTool(ctx, c)
	}
	m := d.daemon.meters
	began := time.Now()
	measured := m.metrics.BeginCall(c.Path)
	defer measured.LeaveFlight()
	ctx, traced, span := m.tracer.BeginCall(ctx, c)
	d.daemon.policies.calls.NoteActivity()
	res, err := d.daemon.policies.gate.Load().Call(ctx, traced)
	span.EndCall(res, err)
	measured.CountCall(res, err)
	m.usage.CountCall(c, d.daemon.findTool(c.Path), res, err, time.Since(began))
	return res, err
}
