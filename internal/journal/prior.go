package journal

import (
	"encoding/json"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Prior is what executions did that a program corrects: calls of the same tool with the same arguments are answered from
// their journals, each once. A nil Prior did nothing. It is safe for concurrent use.
type Prior struct {
	mu      sync.Mutex
	done    map[string][]PriorCall // by the call's digest, in their order
	labels  []string               // of what they had read
	unknown map[string]PriorCall   // those of which nobody knows whether they took effect
	seen    map[string]int         // counts those that are there, by the execution that made them and their digest
}

// A PriorCall is a call that an execution made.
type PriorCall struct {
	*Call
	Of      string // the execution
	Session string // in which it was made; empty: in none
}

// NewPrior makes one that did nothing yet.
func NewPrior() *Prior {
	return &Prior{done: map[string][]PriorCall{}, unknown: map[string]PriorCall{}, seen: map[string]int{}}
}

// Add adds what an execution did. A call that a later execution has from here is the same one.
func (p *Prior) Add(st *Story) {
	p.labels = tool.Joined(p.labels, st.Labels())
	here := map[string]int{}
	for _, c := range st.Calls {
		switch {
		case c.Simulated():
		case c.Unknown() || doubtful(c):
			p.unknown[c.Digest] = PriorCall{c, st.Record.ID, st.Record.Session}
		case c.Known() && c.Failure == nil:
			k := PriorCall{c, st.Record.ID, st.Record.Session}
			if c.From != "" {
				k.Of = c.From
			}
			key := k.Of + " " + c.Digest
			if here[key]++; here[key] > p.seen[key] {
				p.seen[key] = here[key]
				p.done[c.Digest] = append(p.done[c.Digest], k)
			}
		}
	}
}

// doubtful reports whether a call that may write left, and its error does not say what became of it: the tool did not answer, or its
// answer could not be used.
func doubtful(c *Call) bool {
	if c.Failure == nil || c.Unsent || c.Sent.IsZero() || c.ReadOnly || c.Idempotent {
		return false
	}
	switch tool.Kind(c.Kind) {
	case tool.Timeout, tool.Unavailable, tool.Canceled, tool.Limit, tool.Internal, tool.Kind(Interrupted):
		return true
	}
	return false
}

// Take gives the call that answers one of the same tool and arguments; nil where there is none. Its error is that nobody
// knows whether that call took effect.
func (p *Prior) Take(path string, args json.RawMessage) (*PriorCall, error) {
	if p == nil {
		return nil, nil
	}
	d := DigestOf(path, args)
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.done[d]; len(of) > 0 {
		c := of[0]
		p.done[d] = of[1:]
		return &c, nil
	}
	if c, ok := p.unknown[d]; ok {
		return nil, tool.NotSent(tool.Errorf(tool.Conflict, "execution %s had sent this call, and whether it took effect is unknown: look first, with a tool that reads; without after it is sent again", c.Of))
	}
	return nil, nil
}

// Labels gives the labels of what they had read.
func (p *Prior) Labels() []string {
	if p == nil {
		return nil
	}
	return p.labels
}
