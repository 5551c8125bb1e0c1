package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// denyAttempt returns an error for a call that is not to be made: its program was rejected, or
// fails earlier.
func denyAttempt(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		if r.call.FromProgram().Attempt {
			return nil, tool.NotSent(g.recordAttempt(ctx, &r.call))
		}
		return next(ctx, r)
	}
}

// recordAttempt records a call that is not made as denied, if its principal may not see the tool.
// It returns the error of such a call, of a call to an unknown tool, or of a failure to record.
func (g *Gateway) recordAttempt(ctx context.Context, c *tool.Call) error {
	entry, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil {
		return g.recordWithheld(ctx, c, err)
	}
	r := &request{call: *c}
	r.call.Tool, r.call.ID, r.call.Arguments = entry.Tool, "call_"+rand.Text(), json.RawMessage("{}")
	d, hidden := g.denyHidden(&r.call)
	if !hidden {
		return tool.Errorf(tool.NotFound, "%s was not called", c.Path)
	}
	r.setDecision(d)
	_, err = g.recorded(ctx, r)
	return err
}
