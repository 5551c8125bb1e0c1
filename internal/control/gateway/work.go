package gateway

import (
	"context"
	"runtime"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// largeWork is work that takes turns. How much waits is bounded by the number of calls.
const largeWork = 32 << 10 // bytes of arguments, or of a result, that are large

// NewTurns makes the turns of large work: half of the processors are left to everything else.
// Principals take turns.
func NewTurns() *queue.Fair { return queue.New(max(1, runtime.GOMAXPROCS(0)/2), 1<<30) }

// work computes f, about so many bytes of a call, and tells c's Observer how long it took. If they
// are many, it waits for a turn.
func (g *Gateway) work(ctx context.Context, c *tool.Call, size int, f func()) error {
	if size > largeWork {
		if err := g.cfg.Turns.Enter(ctx, c.Principal.ID); err != nil {
			return err
		}
		defer g.cfg.Turns.Leave(c.Principal.ID)
	}
	defer c.TimeWork()()
	f()
	return nil
}

// afterwards is work on what a call answered: the call was made, so this is done even if nobody
// waits for it any more.
func (g *Gateway) afterwards(ctx context.Context, c *tool.Call, r *tool.Result, f func()) {
	size := 0
	if r != nil {
		size = len(r.Raw)
	}
	if err := g.work(ctx, c, size, f); err != nil {
		f()
	}
}
