package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/base/cputime"
	"github.com/biplane-dev/biplane/internal/tool"
)

// work calls f, which processes size bytes of a call, and reports to c's Observer how long it took.
// If they are many, it waits for a turn.
func (g *Gateway) work(ctx context.Context, c *tool.Call, size int, f func()) error {
	return g.cfg.Turns.DoWork(ctx, c.Principal.ID, size, func() {
		defer timeWork(ctx, c)()
		f()
	})
}

// timeWork returns a function that reports the processor time since to c's Observer. The same
// goroutine must call it.
func timeWork(ctx context.Context, c *tool.Call) (done func()) {
	if c.Observer == nil {
		return func() {}
	}
	end := cputime.StartTimer()
	return func() { c.Observer.OnWork(ctx, end()) }
}

// afterwards is work on the result of a call: the call was made, so this is done even if its caller
// no longer waits.
func (g *Gateway) afterwards(ctx context.Context, c *tool.Call, r *tool.Result, f func()) {
	size := 0
	if r != nil {
		size = len(r.Raw)
	}
	if err := g.work(ctx, c, size, f); err != nil {
		f()
	}
}
