package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A pending is a request that waits for its answer.
type pending struct {
	done       chan struct{} // closed when result or err is set
	result     json.RawMessage
	err        error
	progress   chan tool.Progress
	cancelable bool          // the server must be told when we stop waiting
	logs       chan tool.Log // nil: not wanted
	call       bool          // it is a tools/call
	acked      chan<- json.RawMessage
	asked      chan *jsonrpc.Request // the server's questions; nil: no one can be asked
	asking     bool                  // the client is being asked; guarded by requests.mu
	owner      string                // the principal of a call
}

// drainEvents reports the progress and the log messages that arrived before the answer.
func (p *pending) drainEvents(ctx context.Context, q query) {
	for {
		select {
		case pr := <-p.progress:
			if q.observer != nil {
				q.observer.OnProgress(ctx, pr)
			}
		case l := <-p.logs:
			q.observer.OnLog(ctx, l)
		default:
			return
		}
	}
}

// gatherTime is how long to wait for further questions after one. Servers may ask several at a
// time, and since 2026-07-28 a client learns of all of them in one answer.
const gatherTime = 50 * time.Millisecond

// gatherQuestions returns the questions that the server asks at a time, of which r is the first.
func (p *pending) gatherQuestions(ctx context.Context, r *jsonrpc.Request) []*jsonrpc.Request {
	all := []*jsonrpc.Request{r}
	limit := time.NewTimer(gatherTime)
	defer limit.Stop()
	for len(all) < tool.MaxQuestions {
		select {
		case r := <-p.asked:
			all = append(all, r)
			continue
		case <-limit.C:
		case <-p.done:
		case <-ctx.Done():
		}
		break
	}
	return all
}

// requests has the requests of a session that wait for their answers.
type requests struct {
	mu      sync.Mutex
	pending map[int64]*pending // nil after the session has ended
	// abandoned has the principals that stopped waiting for a call, and when. The server may still
	// ask about it.
	abandoned map[string]time.Time
}

func newRequests() requests {
	return requests{pending: map[int64]*pending{}, abandoned: map[string]time.Time{}}
}

// addRequest adds a request. It returns false if the session has ended.
func (r *requests) addRequest(id int64, p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		return false
	}
	r.pending[id] = p
	return true
}

// abandonRequest removes a request whose answer is no longer awaited.
func (r *requests) abandonRequest(id int64, p *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[id] != nil && p.call {
		now := time.Now()
		maps.DeleteFunc(r.abandoned, func(_ string, at time.Time) bool { return now.Sub(at) > abandonedTime })
		r.abandoned[p.owner] = now
	}
	delete(r.pending, id)
}

// takeRequest removes a request that is to be answered. It returns nil if the request is not
// pending.
func (r *requests) takeRequest(id int64) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending[id]
	delete(r.pending, id)
	return p
}

// peekRequest returns a request without removing it.
func (r *requests) peekRequest(id int64) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[id]
}

// isWaiting reports whether a request is still unanswered.
func (r *requests) isWaiting(id int64) bool { return r.peekRequest(id) != nil }

// failRequest ends one request with an error.
func (r *requests) failRequest(id int64, err error) {
	if p := r.takeRequest(id); p != nil {
		p.err = err
		close(p.done)
	}
}

// endRequests removes all requests and accepts no more. first is false if it was called before.
func (r *requests) endRequests() (all map[int64]*pending, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.pending = r.pending, nil
	return all, all != nil
}

// setCancelable sets whether the server must be told when a request is no longer awaited.
func (r *requests) setCancelable(p *pending, told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.cancelable = told
}

// unansweredRequests returns the requests whose end the server must be told about.
func (r *requests) unansweredRequests() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []int64
	for id, p := range r.pending {
		if p.cancelable {
			ids = append(ids, id)
		}
	}
	return ids
}

// listCalls returns the calls in progress. The caller must hold r.mu.
func (r *requests) listCalls() (calls []*pending) {
	for _, p := range r.pending {
		if p.call {
			calls = append(calls, p)
		}
	}
	return calls
}

// onlyCall returns the call in progress, if there is exactly one.
func (r *requests) onlyCall() *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if calls := r.listCalls(); len(calls) == 1 {
		return calls[0]
	}
	return nil
}

// passQuestion passes a request of the server to the call whose client is asked. from is the call
// in whose exchange the request arrived, or 0 if the transport can't say. It returns false if no
// client can be asked, or if it has too many questions already.
func (r *requests) passQuestion(question *jsonrpc.Request, from int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.pending[from]
	if from == 0 {
		found = r.guessCall()
	}
	if found == nil || !found.call || found.asked == nil || from == 0 && r.hasAbandoned(found.owner) {
		return false
	}
	select {
	case found.asked <- question:
		return true
	default:
		return false
	}
}

// guessCall returns the call that a question without a call's id belongs to: the only call in
// progress, or the only one whose client isn't being asked. It returns nil if that is uncertain, or
// if the calls belong to several principals: no one must see a question about another's call.
// The caller must hold r.mu.
func (r *requests) guessCall() *pending {
	calls := r.listCalls()
	if slices.ContainsFunc(calls, func(p *pending) bool { return p.owner != calls[0].owner }) {
		return nil
	}
	if len(calls) > 1 {
		calls = slices.DeleteFunc(calls, func(p *pending) bool { return p.asking })
	}
	if len(calls) != 1 {
		return nil
	}
	return calls[0]
}

// abandonedTime is how long a server may still ask about a call that the caller no longer waits
// for.
const abandonedTime = 10 * time.Minute

// hasAbandoned reports whether a question may be about a call of another principal than owner, who
// no longer waits for its answer. The caller must hold r.mu.
func (r *requests) hasAbandoned(owner string) bool {
	for who, at := range r.abandoned {
		if who != owner && time.Since(at) <= abandonedTime {
			return true
		}
	}
	return false
}

// setAsking sets whether the client of a call is being asked.
func (r *requests) setAsking(p *pending, asking bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.asking = asking
}
