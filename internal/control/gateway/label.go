package gateway

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// labelled makes the call. The caller receives the labels of the tool before any of its output.
func (g *Gateway) labelled(ctx context.Context, c *tool.Call, caller tool.Caller) (*tool.Result, error) {
	labels := g.cfg.Policy.SourceOf(c.Tool)
	if len(labels) == 0 || c.Carries == nil {
		return caller.Call(ctx, c)
	}
	carry := sync.OnceValue(func() error { return c.Carries(labels) })
	next := *c
	if c.Progress != nil {
		next.Progress = func(p tool.Progress) {
			if carry() == nil {
				c.Progress(p)
			}
		}
	}
	if c.Log != nil {
		next.Log = func(l tool.Log) {
			if carry() == nil {
				c.Log(l)
			}
		}
	}
	result, err := caller.Call(ctx, &next)
	if bad := carry(); bad != nil {
		return nil, &tool.Error{Kind: tool.Internal, Err: bad,
			Msg: c.Path + " was called, and what it answered is withheld: that it was read can't be kept: " + tool.AsError(bad).Msg}
	}
	return result, err
}
