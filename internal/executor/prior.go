package executor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxChain is how many executions a program may come after, one after the other.
const maxChain = 32

// A prior is what executions did that a program corrects: calls of the same tool with the same arguments are answered from
// their journals, each once. A nil prior did nothing. It is safe for concurrent use.
type prior struct {
	mu      sync.Mutex
	done    map[string][]priorCall // by the call's digest, in their order
	labels  []string               // of what they had read
	unknown map[string]priorCall   // those of which nobody knows whether they took effect
}

// A priorCall is a call of an execution.
type priorCall struct {
	*journal.Call
	of      string // the execution
	session string // in which it was made; empty: in none
}

// priorOf reads what an execution of p did, and those that it came after, for the one that comes after it; nil where id is empty. What a
// plan did is what carrying it out did.
func (x *Executor) priorOf(ctx context.Context, p tool.Principal, id, next string) (*prior, error) {
	if id == "" {
		return nil, nil
	}
	out := &prior{done: map[string][]priorCall{}, unknown: map[string]priorCall{}}
	seen := map[string]int{}
	for n := 0; id != ""; n++ {
		st, err := x.story(ctx, p, id)
		switch {
		case n > 0 && n == maxChain:
			return nil, tool.Errorf(tool.Limit, "execute: after: %d executions came one after the other: look what they did, and send a program without after", maxChain)
		case err != nil && n > 0 && tool.AsError(err).Kind == tool.NotFound:
			return nil, tool.Errorf(tool.NotFound, "execute: after: execution %s, which it came after, is not kept any more, so what that did isn't known: look, and send a program without after", prose.Cut(id, 80))
		case err != nil && tool.AsError(err).Kind == tool.NotFound:
			return nil, tool.Errorf(tool.NotFound, "execute: after: no execution %q: give the id of one that you began", prose.Cut(id, 80))
		case err != nil:
			return nil, err
		case st.End == nil && next != carrierOf(id):
			return nil, tool.Errorf(tool.Conflict, "execute: after: execution %s has not ended: wait for it with resume", id)
		}
		if st.Planned != nil && next != carrierOf(id) {
			switch rec, err := x.cfg.Journal.Get(ctx, carrierOf(id)); {
			case err != nil:
				return nil, err
			case rec != nil:
				id = rec.ID
				continue
			case st.Call(journal.PlanCall) != nil && !st.Call(journal.PlanCall).Sent.IsZero():
				return nil, tool.Errorf(tool.NotFound, "execute: after: execution %s, which carried out the plan of %s, is not kept any more, so what it did isn't known: look, and send a program without after", carrierOf(id), id)
			}
		}
		out.add(st, seen)
		out.labels = tool.Joined(out.labels, st.Labels())
		id, next = st.Record.After, id
	}
	return out, nil
}

// add adds what an execution did. seen counts the calls that are there, by the execution that made them and their digest:
// one that a later execution has from here is the same one.
func (p *prior) add(st *journal.Story, seen map[string]int) {
	here := map[string]int{}
	for _, c := range st.Calls {
		switch {
		case c.Simulated():
		case c.Unknown() || doubtful(c):
			p.unknown[c.Digest] = priorCall{c, st.Record.ID, st.Record.Session}
		case c.Known() && c.Failure == nil:
			k := priorCall{c, st.Record.ID, st.Record.Session}
			if c.From != "" {
				k.of = c.From
			}
			key := k.of + " " + c.Digest
			if here[key]++; here[key] > seen[key] {
				seen[key] = here[key]
				p.done[c.Digest] = append(p.done[c.Digest], k)
			}
		}
	}
}

// doubtful reports whether a call that may write left, and its error does not say what became of it: the tool did not answer, or its
// answer could not be used.
func doubtful(c *journal.Call) bool {
	if c.Failure == nil || c.Unsent || c.Sent.IsZero() || c.ReadOnly || c.Idempotent {
		return false
	}
	switch tool.Kind(c.Kind) {
	case tool.Timeout, tool.Unavailable, tool.Canceled, tool.Limit, tool.Internal, interruptedKind:
		return true
	}
	return false
}

// take gives the call that answers one of the same tool and arguments; nil where there is none. Its error is that nobody
// knows whether that call took effect.
func (p *prior) take(path string, args json.RawMessage) (*priorCall, error) {
	if p == nil {
		return nil, nil
	}
	d := journal.DigestOf(path, args)
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.done[d]; len(of) > 0 {
		c := of[0]
		p.done[d] = of[1:]
		return &c, nil
	}
	if c, ok := p.unknown[d]; ok {
		return nil, tool.NotSent(tool.Errorf(tool.Conflict, "execution %s had sent this call, and whether it took effect is unknown: look first, with a tool that reads; without after it is sent again", c.of))
	}
	return nil, nil
}

// carried gives the labels of what they had read.
func (p *prior) carried() []string {
	if p == nil {
		return nil
	}
	return p.labels
}

// reuse ends the n-th call with what an earlier execution's came to, or with why it isn't made. unhold follows.
func (r *run) reuse(n int, k *priorCall, err error) (json.RawMessage, *sandbox.GuestError) {
	if err == nil {
		data := []string{string(k.Value)}
		for _, b := range k.Blocks {
			data = append(data, string(b.Raw))
		}
		err = r.bring(k.session, data...)
	}
	r.mu.Lock()
	rec := &r.exec.Calls[n]
	rec.Took = time.Since(rec.Begun)
	rec.Pending, rec.MS = false, rec.Took.Milliseconds()
	var value json.RawMessage
	var failure *sandbox.GuestError
	var blocks []journal.Block
	if err != nil {
		failure = guestError(err)
		rec.Unsent, rec.Error = true, execution.NotMade+failure.Message
	} else {
		value, blocks = k.Value, k.Blocks
		rec.From, rec.Bytes = k.of, k.Bytes
		r.keepAgain(blocks)
	}
	r.answers += len(value)
	note := r.outcomeOf(rec, value, failure, blocks)
	r.mu.Unlock()
	r.log.Outcome(note)
	return value, failure
}
