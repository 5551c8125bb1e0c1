package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// scope returns the vault of a call.
func scope(c *tool.Call) tool.Scope {
	return tool.Scope{Owner: c.Principal.ID, Session: c.FromProgram().Session}
}

// hide hides personal data from models in the result of a call, and in its progress and log
// messages.
func hide(g *Gateway, next handler) handler {
	if g.cfg.Privacy == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		g.muffle(ctx, &r.call)
		result, err := next(ctx, r)
		g.afterwards(ctx, &r.call, result, func() { result, err = g.shown(ctx, &r.call, result, err) })
		return result, err
	}
}

// modelled reports whether the result of a call goes directly to a model: the call is from outside,
// to an upstream's tool. The executor handles the output of programs.
func (g *Gateway) modelled(c *tool.Call) bool {
	return g.cfg.Privacy != nil && c.FromProgram().Execution == "" && c.Tool.Upstream != tool.Own
}

// muffle hides personal data in the progress and log messages of a tool called from outside.
func (g *Gateway) muffle(ctx context.Context, c *tool.Call) {
	if !g.modelled(c) || c.Observer == nil {
		return
	}
	c.Observer = &privateObserver{c.Observe(), ctx, g.cfg.Privacy, scope(c)}
}

// A privateObserver hides personal data in progress and log messages.
type privateObserver struct {
	tool.Observer
	ctx   context.Context
	guard *privacy.Guard
	scope tool.Scope
}

func (o *privateObserver) OnProgress(p tool.Progress) {
	s := o.guard.Sheet(o.ctx, o.scope)
	s.Text(&p.Message)
	s.Hide(o.ctx)
	o.Observer.OnProgress(p)
}

func (o *privateObserver) OnLog(l tool.Log) {
	s := o.guard.Sheet(o.ctx, o.scope)
	if s.Blind() {
		return
	}
	s.JSON(&l.Raw)
	s.Hide(o.ctx)
	o.Observer.OnLog(l)
}

// shown returns the result of a call in the form that the caller may see: a model sees tokens, a
// program sees the data.
func (g *Gateway) shown(ctx context.Context, c *tool.Call, r *tool.Result, err error) (*tool.Result, error) {
	if g.cfg.Privacy != nil && c.FromProgram().Execution == "" && c.Tool.Upstream == tool.Own {
		return g.ownShown(ctx, c, r, err)
	}
	if !g.modelled(c) {
		if r == nil || g.cfg.Privacy == nil || c.FromProgram().Execution == "" {
			return r, err
		}
		if lerr := g.cfg.Privacy.Learn(ctx, scope(c), c.Tool, r); lerr != nil {
			return nil, lerr
		}
		return r, err
	}
	s := g.cfg.Privacy.Sheet(ctx, scope(c), privacy.SchemaFields(c.Tool.OutputSchema)...)
	s.Result(&r)
	if err != nil {
		e := *tool.AsError(err)
		s.Text(&e.Msg)
		e.Err = nil // it contains the values that were replaced in the text
		s.Hide(ctx)
		return nil, &e
	}
	s.Hide(ctx)
	return r, nil
}

// ownShown is shown for our own tools. The output of a program was hidden in its session, before it
// was truncated. The rest of the result, such as names chosen by programs and people, is hidden
// here. Definitions of tools that search finds are not data.
func (g *Gateway) ownShown(ctx context.Context, c *tool.Call, r *tool.Result, err error) (*tool.Result, error) {
	s := g.cfg.Privacy.Sheet(ctx, scope(c))
	if err != nil {
		e := *tool.AsError(err)
		s.Text(&e.Msg)
		s.Hide(ctx)
		return nil, &e
	}
	if c.Tool.Name != "search" {
		s.Again(&r)
		s.Hide(ctx)
	}
	return r, nil
}
