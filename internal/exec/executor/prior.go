package executor

import (
	"context"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxChain is the maximum length of a chain of executions that continue each other with after.
const maxChain = 32

// priorOf reads the results of an execution of p, and of the executions that it came after, for the
// execution next. It returns nil if id is empty. For a plan, these are the results of the execution
// that carried it out.
func (x *Executor) priorOf(ctx context.Context, p tool.Principal, id, next string) (*journal.Prior, error) {
	if id == "" {
		return nil, nil
	}
	out := journal.NewPrior()
	for n := 0; id != ""; n++ {
		st, err := x.story(ctx, p, id)
		switch {
		case n > 0 && n == maxChain:
			return nil, tool.Errorf(tool.Limit, "execute: after: %d executions came one after the other: look what "+
				"they did, and send a program without after", maxChain)
		case err != nil && n > 0 && tool.AsError(err).Kind == tool.NotFound:
			return nil, tool.Errorf(tool.NotFound, "execute: after: execution %s, which it came after, is not kept "+
				"any more, so what that did isn't known: look, and send a program without after", text.Cut(id, 80))
		case err != nil && tool.AsError(err).Kind == tool.NotFound:
			return nil, tool.Errorf(tool.NotFound, "execute: after: no execution %q: give the id of one that you began",
				text.Cut(id, 80))
		case err != nil:
			return nil, err
		case st.End == nil && next != carrierOf(id):
			return nil, tool.Errorf(tool.Conflict,
				"execute: after: execution %s has not ended: wait for it with resume", id)
		}
		if st.Planned != nil && next != carrierOf(id) {
			switch rec, err := x.cfg.Journal.Get(ctx, carrierOf(id)); {
			case err != nil:
				return nil, err
			case rec != nil:
				id = rec.ID
				continue
			case st.Call(journal.PlanCall) != nil && !st.Call(journal.PlanCall).Sent.IsZero():
				return nil, tool.Errorf(tool.NotFound, "execute: after: execution %s, which carried out the plan of "+
					"%s, is not kept any more, so what it did isn't known: look, and send a program without after",
					carrierOf(id), id)
			}
		}
		out.Add(st)
		id, next = st.Record.After, id
	}
	return out, nil
}
