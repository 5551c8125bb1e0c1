package approval

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Decide approves or denies a request; what it decides is on record before. The request is given as it is then. It is an error, and nothing is decided, where d
// may not decide on it, it is not pending any more, or its time is over.
func (g *Gate) Decide(ctx context.Context, d Decider, id string, approve bool, note string) (*Request, error) {
	if g.cfg.Store == nil {
		return nil, unknown(id)
	}
	if len(note) > maxNote || !utf8.ValidString(note) || strings.ContainsRune(note, 0) {
		return nil, tool.Errorf(tool.Invalid, "the note is to be text of at most %d bytes", maxNote)
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
		if g.cfg.Refused != nil {
			g.cfg.Refused(ctx, d, r, to, err)
		}
		return nil, err
	}
	if r.State == Pending && !g.cfg.Now().Before(r.Expires) {
		if err := g.settled(ctx, id, Expired, Decision{Time: g.cfg.Now()}); err != nil {
			return nil, err
		}
		r.State = Expired
	}
	if r.State != Pending {
		return r, conflict(r)
	}
	return g.put(ctx, d, r, to, note)
}

// put puts a decision on record and takes it. Whoever decides may leave meanwhile: what is on record is decided, and the calls that wait
// hear of it.
func (g *Gate) put(ctx context.Context, d Decider, r *Request, to State, note string) (*Request, error) {
	if g.cfg.Record != nil {
		if err := g.cfg.Record(ctx, d, r, to, note); err != nil {
			return nil, tool.Errorf(tool.Unavailable, "request %s was not decided on: the decision can't be recorded: %w", r.ID, err)
		}
	}
	ctx = context.WithoutCancel(ctx)
	moved, err := g.cfg.Store.Move(ctx, r.ID, Pending, to, Decision{Decider: d.Principal.ID, Time: g.cfg.Now(), Note: note})
	g.wake(r.ID) // with an error, too: it may have been moved
	if err != nil {
		return nil, err
	}
	now, err := g.cfg.Store.Get(ctx, r.ID)
	switch {
	case err != nil:
		return nil, tool.Errorf(tool.Unavailable, "request %s was decided on, and can't be read: %w", r.ID, err)
	case now == nil:
		return nil, unknown(r.ID)
	case !moved:
		return now, conflict(now)
	}
	g.changed(now)
	return now, nil
}

// May reports why d may not decide on r, whatever state it is in.
func (g *Gate) May(d Decider, r *Request) error { return d.may(r, g.cfg.Separate) }

func unknown(id string) error {
	return tool.Errorf(tool.NotFound, "there is no request %q: biplane approvals list shows those that wait", id)
}

// conflict says why a request can't be decided on any more.
func conflict(r *Request) error {
	what := string(r.State)
	switch r.State {
	case Approved, Made:
		what = "approved by " + r.Decider
	case Denied:
		what = "denied by " + r.Decider
	}
	return tool.Errorf(tool.Conflict, "request %s is %s already", r.ID, what)
}

// wake has the calls that wait for a request look at it again.
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

// Get gives a request; an error of kind NotFound where there is none.
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

// List gives what q picks, newest first, without arguments that are over ListedArguments. What nobody decided on in time
// is expired by then, though nothing waits for it any more.
func (g *Gate) List(ctx context.Context, q Query) ([]Request, error) {
	if g.cfg.Store == nil {
		return nil, nil
	}
	all, err := g.cfg.Store.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := all[:0]
	for _, r := range all {
		if r.State == Pending && !g.cfg.Now().Before(r.Expires) {
			if err := g.expire(ctx, &r); err != nil {
				return nil, err
			}
			now, err := g.cfg.Store.Get(ctx, r.ID) // somebody may have decided just in time
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
