package gateway

import (
	"context"
	"runtime/debug"

	"github.com/biplane-dev/biplane/internal/tool"
)

// recoverPanic keeps a panic of one Caller from ending the process with everyone's work.
func recoverPanic(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (_ *tool.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				c := &r.call
				g.cfg.Log.Error("a call panicked", "call", c.ID, "tool", c.Path, "panic", p, "stack",
					string(debug.Stack()))
				err = tool.Errorf(tool.Internal, "%s failed with an internal error: whether it took effect is unknown",
					c.Path)
			}
		}()
		return next(ctx, r)
	}
}
