package gateway

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// redact removes the fields that policy removes from the result, before programs and people see it.
// It drops the tool's progress, log messages and questions: they may contain these fields in any
// form.
func redact(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		if len(r.decision.Redact) == 0 || c.Tool.Upstream == tool.Own {
			return next(ctx, r)
		}
		if c.Observer != nil {
			c.Observer = quietObserver{c.Observer}
		}
		result, err := next(ctx, r)
		g.afterwards(ctx, c, result, func() { result, err = redactResult(result, err, r.decision.Redact) })
		return result, err
	}
}

// A quietObserver drops progress and log messages, and refuses questions.
type quietObserver struct{ tool.Observer }

func (quietObserver) WantsProgress() bool                       { return false }
func (quietObserver) OnProgress(context.Context, tool.Progress) {}
func (quietObserver) WantsLogs() bool                           { return false }
func (quietObserver) OnLog(context.Context, tool.Log)           {}
func (quietObserver) ListCapabilities() json.RawMessage         { return nil }

func (quietObserver) OnQuestions(context.Context, map[string]tool.Question) (map[string]json.RawMessage, error) {
	return nil, &tool.Error{Kind: tool.Denied, Err: tool.ErrNotAsked,
		Msg: "the tool asks its caller, which policy prevents: it removes fields from what the tool returns"}
}

// redactResult returns the result of a call without the fields that policy removes. Of an error of
// a call that was sent, only the kind is kept.
func redactResult(r *tool.Result, err error, paths []string) (*tool.Result, error) {
	if err != nil {
		e := tool.AsError(err)
		if e.Unsent {
			return nil, err
		}
		return nil, &tool.Error{Kind: e.Kind, Msg: "the tool failed (" + string(e.Kind) +
			"): what it says is left out, since policy leaves fields out of its results", Err: err}
	}
	if r == nil {
		return nil, nil
	}
	return policy.Redact(r, paths), nil
}
