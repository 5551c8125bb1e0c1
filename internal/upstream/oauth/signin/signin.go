// Package signin holds the attempts of people to sign in to upstreams: at most one for each
// upstream, from its start until the upstream has connected again.
package signin

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

const (
	signInTime  = 10 * time.Minute // for the user to sign in
	returnTime  = time.Minute      // for the upstream to connect after a sign-in
	awaitTime   = 20 * time.Second // before Await returns an unchanged state
	returnPause = 50 * time.Millisecond
)

// An Upstream is what users can sign in to.
type Upstream struct {
	upstream.Upstream
	Auth *oauth.Client // nil if there is no sign-in
	How  string        // how it gets its credentials
}

// Upstreams are the configured upstreams.
type Upstreams interface {
	// FindUpstream returns the upstream with a name or a namespace. The error is of kind NotFound.
	FindUpstream(name string) (*Upstream, error)
	// StartUpstreams starts them, if they haven't been started.
	StartUpstreams()
}

// A Recorder records the sign-ins to an upstream (action "sign-in") and the sign-outs ("sign-out").
// err is not nil if one failed.
type Recorder interface {
	RecordSignIn(p tool.Principal, upstream, action string, err error)
}

// A Stage is the progress of an attempt to sign in.
type Stage int

// The stages of an attempt.
const (
	NotNeeded Stage = iota // there is nothing to sign in to
	Waiting                // for the user, or for the upstream to connect again
	Done
	Failed
)

// A State is the state of an attempt at one moment.
type State struct {
	ID       string // empty if none was started
	Upstream string
	URL      string // for the user's browser
	Redirect string // where the browser ends
	How      string // how the upstream gets its credentials
	Stage    Stage
	Err      error // if Failed
}

// Attempts holds the attempts that are under way. A goroutine waits for each. It is safe for
// concurrent use.
type Attempts struct {
	upstreams Upstreams
	record    Recorder
	ctx       context.Context // of all attempts
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	active map[string]*attempt // the newest attempt, by exact name of the upstream
}

// An attempt is one sign-in that waits for the user.
type attempt struct {
	flow   *oauth.Flow
	who    tool.Principal          // who started it
	cancel context.CancelCauseFunc // the cause is returned to the waiting caller
	over   chan struct{}           // closed when err is final
	state  State                   // without Stage and Err
	err    error
}

// New returns Attempts without any.
func New(u Upstreams, r Recorder) *Attempts {
	s := &Attempts{upstreams: u, record: r, active: map[string]*attempt{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close cancels all attempts and waits for them.
func (s *Attempts) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// Begin starts a sign-in of who, if the upstream needs credentials that a user can provide.
func (s *Attempts) Begin(ctx context.Context, who tool.Principal, upstream string) (*State, error) {
	c, err := s.upstreams.FindUpstream(upstream)
	if err != nil {
		return nil, err
	}
	name := c.Name()
	s.upstreams.StartUpstreams()
	if err := awaitFirstConnection(ctx, c); err != nil {
		return nil, err
	}
	answer := &State{Upstream: name, How: c.How}
	health := c.Snapshot().Health
	if c.Auth == nil {
		return answer, nil
	}
	in, wants, err := c.Auth.SignedIn(ctx)
	if err == nil && in { // if it can't be read, it is replaced
		answer.How = "through a browser: signed in"
	}
	// err: the token can't be renewed; its authorization server may no longer exist
	_, lost := c.Auth.Token(ctx, false)
	if health.State != tool.NeedsSignIn && lost == nil && (len(wants) == 0 || health.State == tool.Down) {
		return answer, nil
	}
	replaced := tool.Errorf(tool.Conflict, "this sign-in to upstream %q was canceled, because another one was started",
		name)
	s.cancelActive(name, replaced)
	flow, err := c.Auth.Begin(ctx)
	if err != nil {
		return nil, err
	}
	a := &attempt{flow: flow, who: who, over: make(chan struct{}), state: State{
		ID: rand.Text(), Upstream: name, URL: flow.URL, Redirect: flow.Redirect, How: "through a browser",
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		flow.Close()
		return nil, tool.Errorf(tool.Unavailable, "biplane is stopping: sign in again when it is back")
	}
	if old := s.active[name]; old != nil { // started at the same time
		old.cancel(replaced)
	}
	var waiting context.Context
	waiting, a.cancel = context.WithCancelCause(s.ctx)
	s.active[name] = a
	s.wg.Go(func() { s.awaitUser(waiting, a, c) })
	return a.currentState(), nil
}

// awaitFirstConnection waits until an upstream has finished its first connection attempt, at most
// returnTime.
func awaitFirstConnection(ctx context.Context, c *Upstream) error {
	patient, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	tick := time.NewTicker(returnPause)
	defer tick.Stop()
	for c.Snapshot().Health.State == tool.Connecting {
		select {
		case <-tick.C:
		case <-patient.Done():
			if ctx.Err() != nil {
				return tool.AsError(ctx.Err())
			}
			return nil
		}
	}
	return nil
}

// awaitUser waits until the user has signed in, then until the upstream has reconnected.
func (s *Attempts) awaitUser(ctx context.Context, a *attempt, c *Upstream) {
	defer a.cancel(nil)
	patient, cancel := context.WithTimeoutCause(ctx, signInTime,
		tool.Errorf(tool.Timeout, "no one signed in to upstream %q within %s", a.state.Upstream, signInTime))
	defer cancel()
	err := a.flow.Wait(patient)
	if err != nil && patient.Err() != nil {
		err = context.Cause(patient)
	}
	a.flow.Close()
	if err == nil {
		err = awaitReconnection(ctx, c)
	}
	a.err = err
	s.record.RecordSignIn(a.who, a.state.Upstream, "sign-in", err)
	close(a.over)
}

// awaitReconnection waits until an upstream is connected after a sign-in.
func awaitReconnection(ctx context.Context, c *Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	tick := time.NewTicker(returnPause)
	defer tick.Stop()
	for {
		health := c.Snapshot().Health
		switch health.State {
		case tool.Ready, tool.Degraded:
			return nil
		case tool.NeedsSignIn:
			token, err := c.Auth.Token(ctx, false)
			if _, wants, werr := c.Auth.SignedIn(ctx); err == nil && token == "" || werr == nil && len(wants) > 0 {
				return tool.Errorf(tool.Unavailable, "signed in, and upstream %q still refuses: %s", c.Name(),
					health.Reason)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return tool.Errorf(tool.Unavailable, "signed in, but upstream %q is %s: %s", c.Name(), health.State,
				health.Reason)
		}
	}
}

// currentState returns the current state of an attempt.
func (a *attempt) currentState() *State {
	in := a.state
	in.Stage = Waiting
	select {
	case <-a.over:
		in.Stage = Done
		if a.err != nil {
			in.Stage, in.Err = Failed, a.err
		}
	default:
	}
	return &in
}

// findAttempt returns the active attempt with an id.
func (s *Attempts) findAttempt(upstream, id string) (*attempt, error) {
	c, err := s.upstreams.FindUpstream(upstream)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.active[c.Name()]; a != nil && a.state.ID == id {
		return a, nil
	}
	return nil, tool.Errorf(tool.NotFound,
		"that attempt to sign in to upstream %q is over, or another one took its place: run biplane connect again",
		c.Name())
}

// Await returns the state of an attempt when it is over, or after awaitTime.
func (s *Attempts) Await(ctx context.Context, upstream, id string) (*State, error) {
	a, err := s.findAttempt(upstream, id)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(awaitTime)
	defer timer.Stop()
	select {
	case <-a.over:
	case <-timer.C:
	case <-ctx.Done():
		return nil, tool.AsError(ctx.Err())
	}
	return a.currentState(), nil
}

// Paste accepts the address at which the browser ended.
func (s *Attempts) Paste(ctx context.Context, upstream, id, redirect string) (*State, error) {
	a, err := s.findAttempt(upstream, id)
	if err != nil {
		return nil, err
	}
	if err := a.flow.Paste(redirect); err != nil {
		return nil, err
	}
	return s.Await(ctx, upstream, id)
}

// cancelActive cancels the active attempt for an upstream, with why as its error. Afterwards the
// attempt can't be completed and its port is free.
func (s *Attempts) cancelActive(name string, why error) {
	s.mu.Lock()
	a := s.active[name]
	delete(s.active, name)
	s.mu.Unlock()
	if a != nil {
		a.cancel(why)
		a.flow.Close()
	}
}

// End cancels an attempt. If id is empty, it signs out. It returns the upstream's exact name, and
// whether its authorization server revoked the token.
func (s *Attempts) End(ctx context.Context, who tool.Principal, upstream, id string) (name string, revoked bool,
	err error) {
	c, err := s.upstreams.FindUpstream(upstream)
	if err != nil {
		return "", false, err
	}
	name = c.Name()
	if id != "" {
		if _, err := s.findAttempt(upstream, id); err == nil {
			s.cancelActive(name, context.Canceled)
		}
		return name, false, nil
	}
	if c.Auth == nil {
		return "", false, tool.Errorf(tool.Invalid,
			"upstream %q is not signed in to with biplane connect: it gets its credentials %s", name, c.How)
	}
	s.cancelActive(name, tool.Errorf(tool.Conflict,
		"this sign-in to upstream %q was canceled, because a user signed out of it", name))
	revoked, err = c.Auth.Forget(ctx)
	s.record.RecordSignIn(who, name, "sign-out", err)
	return name, revoked, err
}
