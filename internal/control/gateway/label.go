package gateway

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// label passes the labels of the tool to the caller before any of its output.
func label(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		labels := g.cfg.Policy.SourceOf(c.Tool)
		if len(labels) == 0 || c.Observer == nil {
			return next(ctx, r)
		}
		o := &labelledObserver{Observer: c.Observer, labels: labels}
		c.Observer = o
		result, err := next(ctx, r)
		if bad := o.carry(); bad != nil {
			return nil, &tool.Error{Kind: tool.Internal, Err: bad,
				Msg: c.Path + " was called, and what it answered is withheld: that it was read can't be kept: " +
					tool.AsError(bad).Msg}
		}
		return result, err
	}
}

// errNotPassed is the error for labels that the caller didn't receive.
var errNotPassed = &tool.Error{Kind: tool.Internal, Msg: "the caller failed to receive the labels"}

// A labelledObserver passes the labels of a tool on, once, before any of its progress and log
// messages.
type labelledObserver struct {
	tool.Observer
	labels []string
	once   sync.Once
	err    error // of passing the labels on
}

func (o *labelledObserver) carry() error {
	o.once.Do(func() {
		o.err = errNotPassed // if OnLabels panics
		o.err = o.Observer.OnLabels(o.labels)
	})
	return o.err
}

// OnLabels passes further labels on, after the tool's own. A tool calls it without labels to make
// sure that the caller has the tool's own labels before output bypasses the Observer and the
// result.
func (o *labelledObserver) OnLabels(labels []string) error {
	if err := o.carry(); err != nil || len(labels) == 0 {
		return err
	}
	return o.Observer.OnLabels(labels)
}

func (o *labelledObserver) OnProgress(ctx context.Context, p tool.Progress) {
	if o.carry() == nil {
		o.Observer.OnProgress(ctx, p)
	}
}

func (o *labelledObserver) OnLog(ctx context.Context, l tool.Log) {
	if o.carry() == nil {
		o.Observer.OnLog(ctx, l)
	}
}

func (o *labelledObserver) OnQuestions(ctx context.Context, asked map[string]tool.Question) (
	map[string]json.RawMessage, error) {
	if err := o.carry(); err != nil {
		return nil, err
	}
	return o.Observer.OnQuestions(ctx, asked)
}
