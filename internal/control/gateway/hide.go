package gateway

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// scope returns the vault of a call.
func scope(c *tool.Call) tool.Scope {
	return tool.Scope{Owner: c.Principal.ID, Session: c.FromProgram().Session}
}

// hide hides personal data from models in the result of a call, and in its progress and log
// messages. A model sees tokens, a program sees the data.
func hide(g *Gateway, next handler) handler {
	guard := g.cfg.Privacy
	if guard == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		var shown func(*tool.Result, error) (*tool.Result, error)
		switch {
		case c.FromProgram().Execution != "": // the executor hides the output of programs
			shown = func(res *tool.Result, err error) (*tool.Result, error) {
				if res != nil {
					if lerr := guard.Learn(ctx, scope(c), c.Tool, res); lerr != nil {
						return nil, lerr
					}
				}
				return res, err
			}
		case isSandboxTool(c.Tool) && tool.IsForPeople(ctx):
			return next(ctx, r)
		case c.Tool.Upstream == tool.Own && !isSandboxTool(c.Tool):
			shown = func(res *tool.Result, err error) (*tool.Result, error) {
				return hideOwn(ctx, guard, c, res, err)
			}
		default:
			if c.Observer != nil {
				c.Observer = &privateObserver{c.Observer, guard, scope(c)}
			}
			shown = func(res *tool.Result, err error) (*tool.Result, error) {
				return hideData(ctx, guard, c, res, err)
			}
		}
		result, err := next(ctx, r)
		g.afterwards(ctx, c, result, func() { result, err = shown(result, err) })
		return result, err
	}
}

// A privateObserver hides personal data in progress, log messages and questions.
type privateObserver struct {
	tool.Observer
	guard *privacy.Guard
	scope tool.Scope
}

func (o *privateObserver) OnProgress(ctx context.Context, p tool.Progress) {
	s := o.guard.Sheet(ctx, o.scope)
	s.Text(&p.Message)
	s.Hide(ctx)
	o.Observer.OnProgress(ctx, p)
}

func (o *privateObserver) OnLog(ctx context.Context, l tool.Log) {
	s := o.guard.Sheet(ctx, o.scope)
	if s.Blind() {
		return
	}
	s.JSON(&l.Raw)
	s.Hide(ctx)
	o.Observer.OnLog(ctx, l)
}

func (o *privateObserver) OnQuestions(ctx context.Context, asked map[string]tool.Question) (
	map[string]json.RawMessage, error) {
	s := o.guard.Sheet(ctx, o.scope)
	if s.Blind() {
		return nil, &tool.Error{Kind: tool.Unavailable, Err: tool.ErrNotAsked,
			Msg: "the tool asks its caller, but personal data in the question can't be hidden"}
	}
	shown := make(map[string]tool.Question, len(asked))
	for key, q := range asked {
		s.JSON(&q.Params)
		s.Hide(ctx)
		shown[key] = q
	}
	return o.Observer.OnQuestions(ctx, shown)
}

// hideData hides personal data in the result of an upstream's tool.
func hideData(ctx context.Context, guard *privacy.Guard, c *tool.Call, r *tool.Result, err error) (
	*tool.Result, error) {
	s := guard.Sheet(ctx, scope(c), privacy.SchemaFields(c.Tool.OutputSchema)...)
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

// hideOwn is like hideData, for Biplane's own tools. The output of a program was hidden in its
// session, before it was truncated. The rest of the result, such as names chosen by programs and
// people, is hidden here. Definitions of tools that search finds are not data.
func hideOwn(ctx context.Context, guard *privacy.Guard, c *tool.Call, r *tool.Result, err error) (
	*tool.Result, error) {
	s := guard.Sheet(ctx, scope(c))
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
