package bench

import (
	"context"
	"fmt"

	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/lab/demo"
)

// measureTokens counts the tokens of the tool lists that a model reads: the three tools, and those
// of two small servers. It also counts what the demonstration's job costs in each way.
func (r *runner) measureTokens(ctx context.Context) (_ []Figure, err error) {
	counter := &tokens.Counter{}
	direct, err := r.connectSession(ctx, "direct", demo.Kinds...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := direct.Close(); err == nil {
			err = e
		}
	}()
	var out []Figure
	for _, s := range []struct {
		name    string
		session *demo.Session
	}{{"tools_direct_tokens", direct}, {"tools_code_tokens", r.agent}} {
		defs, err := s.session.ListDefinitions(ctx)
		if err != nil {
			return nil, err
		}
		sum := 0
		for _, d := range defs {
			sum += counter.Count(d, 0)
		}
		out = append(out, numberFigure(s.name, float64(sum)))
	}
	rep, err := demo.Run(ctx, demo.Config{Biplane: r.cfg.Biplane, ServeArgs: r.cfg.ServeArgs})
	if err != nil {
		return nil, err
	}
	if len(rep.Ways) != len(ways) {
		return nil, fmt.Errorf("the demonstration did its job %d ways, not %d", len(rep.Ways), len(ways))
	}
	for i, w := range ways {
		t := rep.Ways[i].Tokens
		for part, n := range map[string]int{"definitions": t.Definitions, "calls": t.Calls, "results": t.Results,
			"context": t.Context, "read": t.Read} {
			out = append(out, numberFigure("demo_"+part+"_"+w.name+"_tokens", float64(n)))
		}
	}
	return out, nil
}
