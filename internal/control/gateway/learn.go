package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A ResultLearner learns the types of results.
type ResultLearner interface {
	// LearnResult is called with each result that a tool returned, after policy has removed
	// fields. It must not wait.
	LearnResult(*tool.Tool, *tool.Result)
}

// learnTypes passes results to the ResultLearner, after policy has removed fields.
func learnTypes(g *Gateway, next handler) handler {
	if g.cfg.Shapes == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		result, err := next(ctx, r)
		if err == nil && result != nil {
			g.cfg.Shapes.LearnResult(r.call.Tool, result)
		}
		return result, err
	}
}
