package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// confirm waits until the caller's journal has the intent of the call.
func confirm(_ *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		if r.confirm == nil {
			return next(ctx, r)
		}
		if err := r.confirm(); err != nil {
			c := &r.call
			return nil, &tool.Error{Kind: tool.Internal,
				Msg: c.Path + " was not called: its intent can't be written to the journal: " + tool.AsError(err).Msg,
				Err: err, Unsent: true}
		}
		return next(ctx, r)
	}
}
