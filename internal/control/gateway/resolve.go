package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// resolve finds the tool of a call, and sets the call's ID and Arguments if they are empty.
func resolve(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		var err error
		if r.entry, err = g.findTool(ctx, c); err != nil {
			return nil, tool.NotSent(g.recordWithheld(ctx, c, err))
		}
		c.Tool = r.entry.Tool
		if c.ID == "" {
			c.ID = "call_" + rand.Text()
		}
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage("{}")
		}
		return next(ctx, r)
	}
}

// recordWithheld records the call of a tool that the catalog withholds as denied. It returns the
// error of the call: err, or the error of recording it.
func (g *Gateway) recordWithheld(ctx context.Context, c *tool.Call, err error) error {
	_, reason := g.cfg.Catalog.View().Resolve(c.Path) // err may be about what the caller may see
	var w *catalog.WithheldError
	if !errors.As(reason, &w) {
		return err
	}
	call := *c
	call.Tool, call.Path = w.Tool, w.Tool.Path()
	if call.ID == "" {
		call.ID = "call_" + rand.Text()
	}
	if len(call.Arguments) == 0 {
		call.Arguments = json.RawMessage("{}")
	}
	log, rerr := g.cfg.Audit.Begin(ctx, &call, audit.Decision{Effect: string(policy.Deny), Policy: "definitions",
		Reason: w.Reason})
	if rerr != nil {
		return errNotRecorded(ctx, &call, rerr)
	}
	_ = log.End(ctx, nil, err) // the call is not made; the audit log reports the failure
	return err
}

// findTool finds the tool of a call. Its error suggests only what the principal may see.
func (g *Gateway) findTool(ctx context.Context, c *tool.Call) (*catalog.Entry, error) {
	defer timeWork(ctx, c)()
	entry, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil {
		if _, own := g.Visible(c.Principal).Resolve(c.Path); own != nil {
			err = own
		}
	}
	return entry, err
}
