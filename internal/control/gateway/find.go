package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// find finds the upstream that has the tool, and sets the call's limits.
func find(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		if r.hidden { // the call is denied later
			return next(ctx, r)
		}
		var ok bool
		if r.target, ok = g.cfg.Catalog.Caller(r.entry.Tool.Upstream); !ok {
			return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "upstream %s was removed: search again",
				r.entry.Tool.Upstream))
		}
		r.call.Grant = r.decision.Grant
		return next(ctx, r)
	}
}
