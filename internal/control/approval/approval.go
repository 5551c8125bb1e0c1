// Package approval holds calls until a person decides on them.
//
// A call that policy leaves to a person becomes a Request. It states who asks, which tool is called
// and with which arguments. A digest binds it to all of that, to the program and to the policies. A
// person decides on it once, before it expires. The decision is stored before it takes effect, and
// lets one call through, with the bytes that were shown. The call itself waits in memory only, as
// any slow call does: the program around it is suspended. After a restart, the process makes the
// call again and finds its request, decided or not.
package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Gate.
type Config struct {
	Store    Store         // nil: no one can be asked, and every call that needs a person is denied
	Expires  time.Duration // how long a request stays pending; default 24 h
	Separate bool          // users can't decide on their own requests (separation of duties)
	// Recorder records decisions; nil: nothing is recorded.
	Recorder Recorder
	Clock    *wallclock.Clock // nil: the system's
}

// A Recorder records decisions, for the audit record and for the log.
type Recorder interface {
	// RecordDecision records a decision, with the new state to, before it is made. If it
	// returns an error, the decision is not made.
	RecordDecision(ctx context.Context, d Decider, r *Request, to State, note string) error
	// RecordRefusal records that a principal tried to decide on a request but is not allowed to.
	RecordRefusal(ctx context.Context, d Decider, r *Request, to State, why error)
	// NoteChange is called after a request is created or decided.
	NoteChange(r Request)
}

// A Gate holds calls until a person decides on them. The zero Gate has no one to ask.
type Gate struct {
	cfg Config
	// asks counts the requests of programs that wait. A program resumed after a restart counts
	// again.
	asks *queue.Shares
	// turn is a lock: its holder may change a pending request. Of several simultaneous decisions,
	// only one is recorded.
	turn chan struct{}
	open openSet

	mu      sync.Mutex
	waiting map[string]*waiter // by request ID
}

// A waiter holds the calls that wait for one request. They have the same subject.
type waiter struct {
	decided chan struct{} // closed when the request is decided
	calls   int
	holding []*holdNotice
}

// A holdNotice notifies a call that it is held, and then, once, that it no longer is. The decider
// sends the second notification, and may be first.
type holdNotice struct {
	call *tool.Call
	mu   sync.Mutex
	told bool // the call was notified that it is held
	over bool
}

func (h *holdNotice) hold(why *tool.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told = !h.over; h.told {
		h.call.Observe().OnHold(why)
	}
}

func (h *holdNotice) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told && !h.over {
		h.call.Observe().OnHold(nil)
	}
	h.over = true
}

// New returns a Gate.
func New(cfg Config) *Gate {
	if cfg.Expires <= 0 {
		cfg.Expires = 24 * time.Hour
	}
	return &Gate{cfg: cfg, asks: queue.NewShares("calls of programs", "waiting for a person", MaxAsked),
		turn: make(chan struct{}, 1), waiting: map[string]*waiter{}}
}

// Wait waits until a person approves the call, and returns its request, with the arguments byte for
// byte. The approval is then used up. Otherwise the error is of kind Denied: a person refused, the
// request expired, no one can be asked, or what was approved is not what would be called now. When
// ctx ends, a request of a program is withdrawn, unless ctx ends because the process shuts down.
// Any other request stays, and is found when the same call is made again.
func (g *Gate) Wait(ctx context.Context, a *Ask) (*Request, error) {
	if g.cfg.Store == nil {
		return nil, tool.Errorf(tool.Denied,
			"%s requires a person's approval (%s), which is not available here", a.Call.Path, a.Reason)
	}
	if len(a.Call.Arguments) > MaxArguments {
		return nil, tool.Errorf(tool.Denied, "%s requires a person's approval (%s), but its arguments of %d bytes "+
			"are too long to review: send less at a time (at most %d)",
			a.Call.Path, a.Reason, len(a.Call.Arguments), MaxArguments)
	}
	fresh := g.request(a)
	if fresh.Execution != "" {
		if err := g.share(ctx, fresh); err != nil {
			return nil, err
		}
		defer g.asks.Release(fresh.Principal, 1)
	}
	r, err := g.openRequest(ctx, fresh)
	if err != nil {
		return nil, err
	}
	return g.await(ctx, a, r)
}

// share reserves a place among the requests of programs: a unit of g.asks, unless it returns an
// error. A call that was requested before a restart keeps its place. Requests of calls from outside
// outlive their calls, so the store counts them.
func (g *Gate) share(ctx context.Context, fresh *Request) error {
	over := g.asks.Acquire(fresh.Principal, 1)
	if over == nil {
		return nil
	}
	before, err := g.cfg.Store.List(ctx, Query{Execution: fresh.Execution, Subject: fresh.Subject, Limit: 1})
	if err != nil {
		return err
	}
	if len(before) > 0 {
		g.asks.Add(fresh.Principal, 1)
		return nil
	}
	e := *tool.AsError(over)
	e.Msg = fresh.Tool + " was not submitted for approval: " + e.Msg
	return &e
}

// openRequest returns the request of a call: the existing one if it still applies, or fresh. If the
// policies or the tool have changed since the last start, and the old request was not acted on, it
// is withdrawn and replaced by a new one.
func (g *Gate) openRequest(ctx context.Context, fresh *Request) (*Request, error) {
	for {
		why := "the call, its tool or the policies have changed"
		g.open.add(fresh.Execution)
		r, err := g.cfg.Store.Open(ctx, fresh)
		switch {
		case err != nil:
			return nil, err
		case r.ID == fresh.ID:
			g.markChanged(r)
			return r, nil
		case r.hasLapsed(fresh.Created): // a client that gave up may ask again, but only until then
			why = notMade
		case r.Digest == fresh.Digest:
			return r, nil
		case r.State != Pending && r.State != Approved:
			return nil, tool.Errorf(tool.Denied,
				"%s was submitted with different content (request %s): that decision does not apply to this call",
				fresh.Tool, r.ID)
		}
		if err := g.withdraw(ctx, r.ID, why); err != nil {
			return nil, err
		}
	}
}

// request returns a new Request for a call.
func (g *Gate) request(a *Ask) *Request {
	c, now := a.Call, g.cfg.Clock.Now().UTC().Truncate(time.Microsecond)
	return &Request{
		ID: "apr_" + strings.ToLower(rand.Text()[:20]), Subject: a.subject(), Digest: a.digest(),
		Execution: c.FromProgram().Execution, Call: c.ID, Tool: c.Tool.Path(),
		Arguments: c.Arguments, Principal: c.Principal.ID, Person: c.Principal.Person, Agent: c.Principal.Agent,
		Client:  c.Principal.Client,
		Program: c.FromProgram().Digest, Policy: a.Policy, Version: a.Version, Reason: a.Reason,
		Findings: c.FromProgram().Findings, Labels: a.Labels, Approvers: a.Approvers,
		Created: now, Expires: now.Add(g.cfg.Expires), State: Pending,
	}
}

// await waits until r is decided, and returns the result. The hold is released before the decider
// is answered, so that a list of pending calls fetched after that is accurate.
func (g *Gate) await(ctx context.Context, a *Ask, r *Request) (*Request, error) {
	timer := time.NewTimer(r.Expires.Sub(g.cfg.Clock.Now()))
	defer timer.Stop()
	for {
		h := &holdNotice{call: a.Call}
		w := g.join(r.ID, h) // before the store is read: it may be decided in between
		now, err := g.cfg.Store.Get(ctx, r.ID)
		decided := err != nil || now == nil || now.State != Pending
		if !decided {
			h.hold(&tool.Hold{Request: r.ID, Reason: a.Reason, Expires: r.Expires})
			select {
			case <-w.decided:
			case <-timer.C:
				err = g.expire(ctx, r)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		g.leave(r.ID, w)
		h.release()
		switch {
		case ctx.Err() != nil || err != nil:
			return nil, g.abandonCall(ctx, r, err)
		case decided && now == nil:
			return nil, tool.Errorf(tool.Internal, "request %s no longer exists: %s was not called", r.ID, r.Tool)
		case decided:
			return g.take(ctx, a, now)
		}
	}
}

// take applies a decision to the call. It uses up an approval.
func (g *Gate) take(ctx context.Context, a *Ask, r *Request) (*Request, error) {
	switch r.State {
	case Approved:
	case Made:
		if r.Execution == "" {
			return nil, usedUp(r)
		}
		// This call of the execution used it before its process ended. The journal knows whether
		// the call was sent.
		return r, nil
	case Denied:
		return nil, tool.Errorf(tool.Denied,
			"%s was denied by %s%s: don't try it again unless they change their mind (request %s)", r.Tool, r.Decider,
			saying(r.Note), r.ID)
	case Expired:
		return nil, tool.Errorf(tool.Denied,
			"%s was not decided on in time (request %s, %s): ask a person, then call again", r.Tool, r.ID,
			g.cfg.Expires)
	default:
		return nil, newWithdrawal(r)
	}
	if a.Recheck != nil {
		if err := a.Recheck.RecheckCall(ctx); err != nil {
			if err := g.withdraw(context.WithoutCancel(ctx), r.ID, "the approved call has changed"); err != nil {
				return nil, err
			}
			return nil, &tool.Error{Kind: tool.Denied,
				Msg: fmt.Sprintf("the approval of %s no longer applies: %s; call again to request another approval",
					r.Tool, tool.AsError(err).Msg), Err: err}
		}
	}
	moved, err := g.cfg.Store.Move(ctx, r.ID, Approved, Made, Decision{})
	switch {
	case err != nil:
		return nil, g.abandonCall(ctx, r, err)
	case !moved:
		if now, err := g.cfg.Store.Get(ctx, r.ID); err == nil && now != nil && now.State == Withdrawn {
			return nil, newWithdrawal(now) // at this moment
		}
		return nil, usedUp(r)
	}
	return r, nil
}

// newWithdrawal returns the error of a call whose request was withdrawn.
func newWithdrawal(r *Request) error {
	return tool.Errorf(tool.Denied, "request %s for %s was withdrawn%s: call again", r.ID, r.Tool, saying(r.Note))
}

func usedUp(r *Request) error {
	return tool.Errorf(tool.Denied,
		"the approval %s of %s was already used by another call: call again to request another approval", r.ID, r.Tool)
}

func saying(note string) string {
	if note == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", note)
}

// abandonCall returns the error for a call that no longer waits, and withdraws its request if it
// came from a program.
func (g *Gate) abandonCall(ctx context.Context, r *Request, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	e := tool.AsError(err)
	if r.Execution == "" || e.Kind == tool.Unavailable {
		return e
	}
	_ = g.withdraw(context.WithoutCancel(ctx), r.ID, programEnded) // otherwise it expires
	return e
}

// Notes of withdrawn requests.
const (
	programEnded = "the waiting program has ended"
	notMade      = "the approved call was not made in time"
)

// ExpireRequests ends the requests of calls from outside programs whose time is over. A pending
// request expires: a call that still waits for it is denied. An approval is withdrawn, because the
// client didn't repeat the call in time.
func (g *Gate) ExpireRequests(ctx context.Context) error {
	return g.endRequests(ctx, Query{Lapsed: g.cfg.Clock.Now()}, notMade)
}

// WithdrawApprovals withdraws the approvals of calls from outside programs that have not been used.
// In a data folder that was restored from a backup, they may have been used after it was made.
func (g *Gate) WithdrawApprovals(ctx context.Context) error {
	return g.endRequests(ctx, Query{States: []State{Approved}}, "the data folder was restored from a backup")
}

// endedAtOnce is how many requests are ended together, since people's decisions wait for that.
const endedAtOnce = 250

// endRequests ends the requests that q selects, unless they are of programs. Pending ones expire,
// and approved ones are withdrawn, with the note why.
func (g *Gate) endRequests(ctx context.Context, q Query, why string) error {
	if g.cfg.Store == nil {
		return nil
	}
	q.Limit = 1000
	for {
		page, err := g.cfg.Store.List(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		q.Before = page[len(page)-1].ID
		page = slices.DeleteFunc(page, func(r Request) bool { return r.Execution != "" })
		for some := range slices.Chunk(page, endedAtOnce) {
			if err := g.endTogether(ctx, some, why); err != nil {
				return err
			}
		}
	}
}

// endTogether ends some requests for endRequests. It moves them concurrently, because a store can
// write concurrent changes in one transaction.
func (g *Gate) endTogether(ctx context.Context, some []Request, why string) error {
	done, err := g.alone(ctx)
	if err != nil {
		return err
	}
	defer done()
	now := g.cfg.Clock.Now()
	moved, errs := make([]bool, len(some)), make([]error, len(some))
	var moves sync.WaitGroup
	for i, r := range some {
		to, d := Expired, Decision{Time: now}
		if r.State == Approved {
			to, d = Withdrawn, Decision{Decider: r.Decider, Time: r.Decided, Note: why}
		}
		moves.Go(func() { moved[i], errs[i] = g.cfg.Store.Move(ctx, r.ID, r.State, to, d) })
	}
	moves.Wait()
	for i, r := range some {
		if moved[i] {
			g.wake(r.ID)
			g.notifyState(ctx, r.ID)
		}
	}
	return cmp.Or(errs...)
}

// WithdrawAll withdraws the requests of an execution that no call has used, since nothing waits for
// them.
func (g *Gate) WithdrawAll(ctx context.Context, execution string) error {
	if g.cfg.Store == nil || execution == "" {
		return nil
	}
	if some, err := g.open.has(ctx, g.cfg.Store, execution); err != nil || !some {
		return err
	}
	for {
		left, err := g.cfg.Store.List(ctx, Query{States: []State{Pending, Approved}, Execution: execution, Limit: 1000})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			g.open.remove(execution)
			return nil
		}
		for i := range left {
			if err := g.withdraw(ctx, left[i].ID, programEnded); err != nil {
				return err
			}
		}
	}
}

// withdraw withdraws a request that is pending, or approved but not used.
func (g *Gate) withdraw(ctx context.Context, id, why string) error {
	err := g.settle(ctx, id, Withdrawn, Decision{Time: g.cfg.Clock.Now(), Note: why})
	if err != nil {
		return err
	}
	r, err := g.cfg.Store.Get(ctx, id)
	if err != nil || r == nil || r.State != Approved {
		return err
	}
	return g.withdrawApproval(ctx, r, why)
}

// withdrawApproval withdraws an approved request, unless a call uses it first.
func (g *Gate) withdrawApproval(ctx context.Context, r *Request, why string) error {
	d := Decision{Decider: r.Decider, Time: r.Decided, Note: why}
	moved, err := g.cfg.Store.Move(ctx, r.ID, Approved, Withdrawn, d)
	if err == nil && moved {
		g.notifyState(ctx, r.ID)
	}
	return err
}

func (g *Gate) expire(ctx context.Context, r *Request) error {
	return g.settle(ctx, r.ID, Expired, Decision{Time: g.cfg.Clock.Now()})
}

// settle moves a pending request to a final state without a person's decision, unless it is decided
// first.
func (g *Gate) settle(ctx context.Context, id string, to State, d Decision) error {
	done, err := g.alone(ctx)
	if err != nil {
		return err
	}
	defer done()
	return g.settleLocked(ctx, id, to, d)
}

// settleLocked is settle for a caller that holds the turn.
func (g *Gate) settleLocked(ctx context.Context, id string, to State, d Decision) error {
	moved, err := g.cfg.Store.Move(ctx, id, Pending, to, d)
	if err == nil && moved {
		g.wake(id)
		g.notifyState(ctx, id)
	}
	return err
}

// alone waits until no other goroutine changes pending requests. done ends the exclusive turn.
func (g *Gate) alone(ctx context.Context) (done func(), err error) {
	select {
	case g.turn <- struct{}{}:
		return func() { <-g.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// notifyState notifies the Recorder of the request's current state.
func (g *Gate) notifyState(ctx context.Context, id string) {
	if g.cfg.Recorder == nil {
		return
	}
	if r, err := g.cfg.Store.Get(context.WithoutCancel(ctx), id); err == nil && r != nil {
		g.markChanged(r)
	}
}

func (g *Gate) markChanged(r *Request) {
	if g.cfg.Recorder != nil {
		g.cfg.Recorder.NoteChange(*r)
	}
}

func (g *Gate) join(id string, h *holdNotice) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.waiting[id]
	if w == nil {
		w = &waiter{decided: make(chan struct{})}
		g.waiting[id] = w
	}
	w.calls++
	w.holding = append(w.holding, h)
	return w
}

func (g *Gate) leave(id string, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.calls--; w.calls == 0 && g.waiting[id] == w {
		delete(g.waiting, id)
	}
}
