package approval

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Decide approves or denies a request. The decision is recorded before it takes effect. It returns
// the request after the decision. It returns an error, and decides nothing, if d may not decide on
// the request, or if the request has expired or is no longer pending.
func (g *Gate) Decide(ctx context.Context, d Decider, id string, approve bool, note string) (*Request, error) {
	if g.cfg.Store == nil {
		return nil, unknown(id)
	}
	if len(note) > maxNote || !utf8.ValidString(note) || strings.ContainsRune(note, 0) {
		return nil, tool.Errorf(tool.Invalid, "the note must be text of at most %d bytes", maxNote)
	}
	done, err := g.alone(ctx)
	if err != nil {
		return nil, tool.AsError(err)
	}
	defer done()
	r, err := g.cfg.Store.Get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, unknown(id)
	}
	to := Denied
	if approve {
		to = Approved
	}
	if err := d.may(r, g.cfg.Separate); err != nil {
		if g.cfg.Recorder != nil {
			g.cfg.Recorder.RecordRefusal(ctx, d, r, to, err)
		}
		return nil, err
	}
	if r.State == Pending && !g.cfg.Clock.Now().Before(r.Expires) {
		if err := g.settleLocked(ctx, id, Expired, Decision{Time: g.cfg.Clock.Now()}); err != nil {
			return nil, err
		}
		r.State = Expired
	}
	if r.State != Pending {
		return r, conflict(r)
	}
	return g.storeDecision(ctx, d, r, to, note)
}

// storeDecision records a decision and stores it. The decider's ctx may end meanwhile: a recorded
// decision still takes effect, and the waiting calls are notified.
func (g *Gate) storeDecision(ctx context.Context, d Decider, r *Request, to State, note string) (*Request, error) {
	if g.cfg.Recorder != nil {
		if err := g.cfg.Recorder.RecordDecision(ctx, d, r, to, note); err != nil {
			return nil, tool.Errorf(tool.Unavailable,
				"request %s is still undecided: the decision can't be recorded: %w", r.ID, err)
		}
	}
	ctx = context.WithoutCancel(ctx)
	decision := Decision{Decider: d.Principal.ID, Time: g.cfg.Clock.Now(), Note: note}
	moved, err := g.cfg.Store.Move(ctx, r.ID, Pending, to, decision)
	g.wake(r.ID) // even after an error: it may have been moved
	if err != nil {
		return nil, err
	}
	if moved { // a call that waited may have moved it on since, so it isn't read again
		decided := *r
		decided.State, decided.Decider = to, decision.Decider
		decided.Decided, decided.Note = decision.Time.UTC().Truncate(time.Microsecond), decision.Note
		g.markChanged(&decided)
		return &decided, nil
	}
	now, err := g.cfg.Store.Get(ctx, r.ID)
	switch {
	case err != nil:
		return nil, tool.Errorf(tool.Unavailable, "request %s can't be read: %w", r.ID, err)
	case now == nil:
		return nil, unknown(r.ID)
	}
	return now, conflict(now)
}

// May returns an error that says why d may not decide on r, in whatever state r is.
func (g *Gate) May(d Decider, r *Request) error { return d.may(r, g.cfg.Separate) }

func unknown(id string) error {
	return tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones", id)
}

// conflict returns an error that says why a request can no longer be decided on.
func conflict(r *Request) error {
	what := string(r.State)
	switch r.State {
	case Approved, Made:
		what = "approved by " + r.Decider
	case Denied:
		what = "denied by " + r.Decider
	}
	return tool.Errorf(tool.Conflict, "request %s is already %s", r.ID, what)
}

// wake makes the calls that wait for a request check it again.
func (g *Gate) wake(id string) {
	g.mu.Lock()
	w := g.waiting[id]
	if delete(g.waiting, id); w != nil {
		close(w.decided)
	}
	g.mu.Unlock()
	if w != nil {
		for _, h := range w.holding {
			h.release()
		}
	}
}

// Get returns a request, or an error of kind NotFound if there is none.
func (g *Gate) Get(ctx context.Context, id string) (*Request, error) {
	if g.cfg.Store == nil {
		return nil, unknown(id)
	}
	r, err := g.cfg.Store.Get(ctx, id)
	if err == nil && r == nil {
		err = unknown(id)
	}
	return r, err
}

// List returns the requests that q selects, newest first, without arguments larger than
// ListedArguments. It expires those whose time is over, even if no call waits for them. So the list
// may be shorter than q.Limit, but it is only empty if there are no more.
func (g *Gate) List(ctx context.Context, q Query) ([]Request, error) {
	if g.cfg.Store == nil {
		return nil, nil
	}
	for {
		all, err := g.cfg.Store.List(ctx, q)
		if err != nil || len(all) == 0 {
			return nil, err
		}
		q.Before = all[len(all)-1].ID
		if out, err := g.expireOld(ctx, q, all); err != nil || len(out) > 0 {
			return out, err
		}
	}
}

// expireOld expires requests of a list whose time is over, and returns the requests that q still
// selects.
func (g *Gate) expireOld(ctx context.Context, q Query, all []Request) ([]Request, error) {
	out := all[:0]
	for _, r := range all {
		if r.State == Pending && !g.cfg.Clock.Now().Before(r.Expires) {
			if err := g.expire(ctx, &r); err != nil {
				return nil, err
			}
			now, err := g.cfg.Store.Get(ctx, r.ID) // it may have been decided just in time
			if err != nil {
				return nil, err
			}
			if now == nil {
				continue
			}
			r.State, r.Decider, r.Decided, r.Note = now.State, now.Decider, now.Decided, now.Note
			if len(q.States) > 0 && !slices.Contains(q.States, r.State) {
				continue
			}
		}
		out = append(out, r)
	}
	return out, nil
}
