package gateway

import (
	"context"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// scope returns the vault of a call.
func scope(c *tool.Call) tool.Scope {
	return tool.Scope{Owner: c.Principal.ID, Session: c.FromProgram().Session}
}

// reveal replaces the tokens in a call's arguments by their values, if policy lets the tool have
// them. It returns a remark for the call's audit record. Our own tools receive programs as written.
func (g *Gateway) reveal(ctx context.Context, c *tool.Call) (remark string, err error) {
	if g.cfg.Privacy == nil || c.Tool.Upstream == tool.Own {
		return "", nil
	}
	args, r, err := g.cfg.Privacy.Reveal(ctx, scope(c), c.Arguments, func(kinds []string) (bool, string) {
		if g.cfg.Barred != nil {
			if why := g.cfg.Barred(c.Principal, c.Tool); why != "" {
				return false, why
			}
		}
		return g.cfg.Policy.Reveals(policy.Request{Principal: c.Principal, Tool: c.Tool,
			Arguments: c.Arguments, Parent: c.FromProgram().Execution, Tier: c.FromProgram().Tier, Labels: c.Labels, Kinds: kinds})
	})
	if err != nil {
		return "", err
	}
	c.Arguments = args
	if r == nil {
		return "", nil
	}
	tell := func(text string) {
		c.Observe().OnRemark(c.Tool.Path() + " was given " + text)
	}
	var parts []string
	if len(r.Kinds) > 0 {
		parts = append(parts, "personal data was turned back: "+list(r.Kinds))
	}
	if len(r.Kept) > 0 {
		parts = append(parts, fmt.Sprintf("sent as tokens, not turned back: %s (%s)", list(r.Kept), r.Reason))
		tell(fmt.Sprintf("%s as it stands, not what that stands for: %s", list(r.Kept), r.Reason))
	}
	if len(r.Alien) > 0 {
		parts = append(parts, "sent as it stands, since it stands for nothing here: "+list(r.Alien))
		tell(list(r.Alien) + " as it stands: it stands for nothing in this session")
	}
	return strings.Join(parts, "; "), nil
}

// list joins names, and counts them if there are many.
func list(names []string) string {
	const most = 20
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
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
