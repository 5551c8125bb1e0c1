package journal

import (
	"encoding/json"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Prior holds the calls of earlier executions that a program corrects. Calls of the same tool
// with the same arguments are answered from their journals, each once. A nil Prior is empty. It is
// safe for concurrent use.
type Prior struct {
	mu      sync.Mutex
	done    map[string][]PriorCall // by the call's digest, in order
	labels  []string               // labels of the data that they had read
	unknown map[string]PriorCall   // calls that may have taken effect, and have no result here
	seen    map[string]int         // number of calls already added, by their original execution and digest
}

// A PriorCall is a call that an execution made.
type PriorCall struct {
	*Call
	Of      string // execution that made it
	Session string // session of the execution whose journal it was read from; empty: none
}

// NewPrior returns an empty Prior.
func NewPrior() *Prior {
	return &Prior{done: map[string][]PriorCall{}, unknown: map[string]PriorCall{}, seen: map[string]int{}}
}

// Add adds the calls of an execution. A call that a later execution answered from here is not added
// again.
func (p *Prior) Add(st *History) {
	p.labels = tool.JoinLabels(p.labels, st.Labels())
	here := map[string]int{}
	for _, c := range st.Calls {
		switch {
		case c.Simulated():
		case c.Unknown() || doubtful(c):
			p.unknown[c.Digest] = PriorCall{c, st.Record.ID, st.Record.Session}
		case st.Record.Lost != "" && c.hasSucceeded() && c.Value == nil:
			// a call that was answered from another execution has its result there
			if c.From == "" && !c.ReadOnly && !c.Idempotent {
				p.unknown[c.Digest] = PriorCall{c, st.Record.ID, st.Record.Session}
			}
		case c.hasSucceeded():
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

func (c *Call) hasSucceeded() bool { return c.Known() && c.Failure == nil }

// doubtful reports whether a call that may write was sent and failed without a definite outcome:
// the tool did not answer, or its answer could not be used.
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

// Take returns the call that answers one with this tool and these arguments, or nil if there is
// none. It returns an error if it is unknown whether that call took effect, or what it returned.
func (p *Prior) Take(path string, args json.RawMessage) (*PriorCall, error) {
	if p == nil {
		return nil, nil
	}
	d := tool.CallDigest(path, args)
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.done[d]; len(of) > 0 {
		c := of[0]
		p.done[d] = of[1:]
		return &c, nil
	}
	switch c, ok := p.unknown[d]; {
	case !ok:
	case c.hasSucceeded():
		return nil, tool.NotSent(tool.Errorf(tool.Conflict, "execution %s already made this call, and its result was "+
			"not kept, because that execution's journal became too large: look with a tool that reads; omit after to "+
			"send it again", c.Of))
	default:
		return nil, tool.NotSent(tool.Errorf(tool.Conflict, "execution %s already sent this call, and whether it "+
			"took effect is unknown: check first with a tool that reads; omit after to send it again", c.Of))
	}
	return nil, nil
}

// Labels returns the labels of the data that the executions had read.
func (p *Prior) Labels() []string {
	if p == nil {
		return nil
	}
	return p.labels
}
