package gateway

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// labelled makes the call. The caller receives the labels of the tool before any of its output.
func (g *Gateway) labelled(ctx context.Context, c *tool.Call, caller tool.Caller) (*tool.Result, error) {
	labels := g.cfg.Policy.SourceOf(c.Tool)
	if len(labels) == 0 || c.Observer == nil {
		return caller.Call(ctx, c)
	}
	carry := sync.OnceValue(func() error { return c.Observer.OnLabels(labels) })
	next := *c
	next.Observer = labelledObserver{c.Observer, carry}
	result, err := caller.Call(ctx, &next)
	if bad := carry(); bad != nil {
		return nil, &tool.Error{Kind: tool.Internal, Err: bad,
			Msg: c.Path + " was called, and what it answered is withheld: that it was read can't be kept: " + tool.AsError(bad).Msg}
	}
	return result, err
}

// A labelledObserver receives the labels of a tool before any of its progress and log messages.
type labelledObserver struct {
	tool.Observer
	carry func() error
}

func (o labelledObserver) OnProgress(p tool.Progress) {
	if o.carry() == nil {
		o.Observer.OnProgress(p)
	}
}

func (o labelledObserver) OnLog(l tool.Log) {
	if o.carry() == nil {
		o.Observer.OnLog(l)
	}
}
