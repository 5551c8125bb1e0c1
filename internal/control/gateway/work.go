package gateway

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Bounds on what the host computes for calls. How many wait is bounded by the calls.
const (
	largeWork = 32 << 10         // bytes of arguments, or of a result, that are large
	briefWork = time.Millisecond // what takes less isn't worth to be charged for
)

// NewTurns makes the turns of large work: half of the processors are left to everything else.
// Principals take turns.
func NewTurns() *queue.Fair { return queue.New(max(1, runtime.GOMAXPROCS(0)/2), 1<<30) }

// charged has c tell what the host computes for it. A program counts that for its execution; what a
// call from outside takes is charged at once.
func (g *Gateway) charged(ctx context.Context, c *tool.Call) {
	if g.cfg.Limits != nil && c.FromProgram().Execution == "" {
		c.Observer = &chargedObserver{c.Observe(), ctx, g.cfg.Limits, c.Principal}
	}
}

// A chargedObserver charges a principal for what the host computes.
type chargedObserver struct {
	tool.Observer
	ctx    context.Context
	limits *limit.Limiter
	who    tool.Principal
}

func (o *chargedObserver) OnWork(d time.Duration) {
	if d >= briefWork {
		o.limits.Spend(o.ctx, o.who, d)
	}
	o.Observer.OnWork(d)
}

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

// affordable returns an error if a call from outside that takes much work is made by a principal
// whose CPU time is used up.
func (g *Gateway) affordable(ctx context.Context, c *tool.Call) error {
	search := c.Tool.Upstream == tool.Own && c.Tool.Name == "search"
	if g.cfg.Limits == nil || c.FromProgram().Execution != "" || len(c.Arguments) <= largeWork && !search {
		return nil
	}
	err := g.cfg.Limits.Afford(ctx, c)
	if err != nil {
		// its principal may not see the tool, and that is on record
		if e := tool.AsError(g.attempted(ctx, c)); e.Kind != tool.NotFound {
			return e
		}
	}
	return err
}

// A judgement is what comes of the arguments of a call.
type judgement struct {
	decision policy.Decision
	invalid  error // why they don't fit the tool's schema
	hidden   bool  // then the decision is that on a tool which the principal may not see
}

// judge turns tokens in c's arguments back, fills them in, checks them and decides on them.
func (g *Gateway) judge(ctx context.Context, c *tool.Call, entry *catalog.Entry) (j judgement, err error) {
	if err := g.affordable(ctx, c); err != nil {
		return j, err
	}
	wait := g.work(ctx, c, len(c.Arguments), func() {
		var remark string
		if remark, err = g.reveal(ctx, c); err != nil {
			return
		}
		c.Arguments = entry.Fill(c.Arguments)
		if j.invalid = entry.Validate(c.Arguments); j.invalid != nil {
			j.decision, j.hidden = g.hidden(c)
			return
		}
		j.decision = g.decide(policy.Request{Principal: c.Principal, Tool: entry.Tool,
			Arguments: c.Arguments, Parent: c.FromProgram().Execution, Tier: c.FromProgram().Tier, Labels: c.Labels})
		j.decision.Remark = remark
	})
	return j, cmp.Or(wait, err)
}

// resolve finds the tool of a call. Its error suggests only what the principal may see.
func (g *Gateway) resolve(c *tool.Call) (*catalog.Entry, error) {
	defer c.TimeWork()()
	entry, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil {
		if _, own := g.Visible(c.Principal).Resolve(c.Path); own != nil {
			err = own
		}
	}
	return entry, err
}
