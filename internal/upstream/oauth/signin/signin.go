// Package signin holds the attempts of people to sign in to upstreams: at most one for each
// upstream and owner, from its start until the upstream has connected again. The owner is the
// principal whose calls alone use the sign-in, or empty if the sign-in is shared.
package signin

import (
	"context"
	"crypto/rand"
	"maps"
	"net/url"
	"slices"
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
	maxActive   = 1000 // attempts of all owners
	maxBegun    = 20   // attempts that a principal can start within signInTime, over the network
	defaultPort = 8421 // of redirects to the user's machine, if the request names none
)

// An Upstream is what users can sign in to.
type Upstream struct {
	upstream.Upstream               // as its owner uses it
	Auth              *oauth.Client // nil if there is no sign-in
	How               string        // how it gets its credentials
	Owner             string        // whose sign-in it is; empty: shared
	Personal          bool          // each principal uses it with their own credentials
	Use               Use           // of Auth; nil: it doesn't end
}

// A Use is the use of an oauth.Client.
type Use interface {
	// EndUse ends it. It is called once.
	EndUse()
	// SignOut ends the connections that use the tokens.
	SignOut()
}

func (u *Upstream) endUse() {
	if u.Use != nil {
		u.Use.EndUse()
	}
}

// Upstreams are the configured upstreams.
type Upstreams interface {
	// FindUpstream returns the upstream with a name or a namespace, as owner uses it. The caller
	// ends its use. The error is of kind NotFound.
	FindUpstream(name, owner string) (*Upstream, error)
	// StartUpstreams starts them, if they haven't been started.
	StartUpstreams()
}

// A Recorder records the sign-ins to an upstream (action "sign-in") and the sign-outs ("sign-out").
// owner is empty for a shared sign-in. err is not nil if one failed.
type Recorder interface {
	RecordSignIn(p tool.Principal, upstream, owner, action string, err error)
}

// A Request says who signs in, for whom, and to which upstream.
type Request struct {
	Who      tool.Principal // who makes the request
	Owner    string         // whose sign-in it is, if the upstream has one for each principal
	Named    bool           // Owner was named: it is an error if the upstream has no sign-in per principal
	Upstream string         // its name or namespace
	// Own means that the request came over the network. It may concern only the caller's own
	// sign-in, and this machine doesn't listen for the redirect: it must be passed on by the
	// caller.
	Own bool
	// Redirect is the address of a Biplane page that the browser is sent to. Empty: a port of the
	// machine that the browser runs on.
	Redirect string
	Port     int // of Own requests without Redirect; 0: a default
	// Browser identifies the browser that began on a Biplane page. Only that browser can complete
	// the sign-in. Empty: no browser can.
	Browser string
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
	active map[target]*attempt    // the newest attempt
	begun  map[string][]time.Time // times of the recent attempts over the network, by principal
}

// A target is the target of a sign-in: the exact name of an upstream, and the owner.
type target struct{ upstream, owner string }

// An attempt is one sign-in that waits for the user.
type attempt struct {
	flow    *oauth.Flow
	who     tool.Principal          // who started it
	target  target                  // what it signs in to
	browser string                  // see Request
	cancel  context.CancelCauseFunc // the cause is returned to the waiting caller
	over    chan struct{}           // closed when err is final
	state   State                   // without Stage and Err
	err     error
}

// New returns Attempts without any.
func New(u Upstreams, r Recorder) *Attempts {
	s := &Attempts{upstreams: u, record: r, active: map[target]*attempt{}, begun: map[string][]time.Time{}}
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

// findTarget returns the upstream of a request. The caller ends its use. It refuses requests over
// the network about a sign-in that isn't the caller's own.
func (s *Attempts) findTarget(r Request) (*Upstream, target, error) {
	if r.Own && (r.Owner == "" || r.Owner != r.Who.ID) {
		return nil, target{}, tool.Errorf(tool.Denied, "over the network, principals sign in for themselves only")
	}
	c, err := s.upstreams.FindUpstream(r.Upstream, r.Owner)
	if err != nil {
		return nil, target{}, err
	}
	if r.Own && !c.Personal {
		c.endUse()
		return nil, target{}, tool.Errorf(tool.Denied, "all principals share the credentials of upstream %q: only the "+
			"command line on Biplane's machine changes them", c.Name())
	}
	if r.Named && !c.Personal {
		c.endUse()
		return nil, target{}, tool.Errorf(tool.Invalid, "all principals share the credentials of upstream %q: sign in "+
			"without naming one", c.Name())
	}
	return c, target{c.Name(), c.Owner}, nil
}

// Begin starts a sign-in, if the upstream needs credentials that a user can provide.
func (s *Attempts) Begin(ctx context.Context, r Request) (_ *State, err error) {
	c, t, err := s.findTarget(r)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			c.endUse()
		}
	}()
	name := c.Name()
	s.upstreams.StartUpstreams()
	if err := awaitFirstConnection(ctx, c); err != nil {
		return nil, err
	}
	answer := &State{Upstream: name, How: c.How}
	if c.Auth == nil {
		return answer, nil
	}
	if !c.needsSignIn(ctx, answer) {
		return answer, nil
	}
	if r.Own {
		if err := s.countBegun(r.Who.ID, time.Now()); err != nil {
			return nil, err
		}
	}
	replaced := tool.Errorf(tool.Conflict, "this sign-in to upstream %q was canceled, because another one was started",
		name)
	s.cancelActive(t, replaced)
	redirect := r.Redirect
	if redirect == "" && r.Own {
		if r.Port == 0 {
			r.Port = defaultPort
		}
		redirect = c.Auth.LocalRedirect(r.Port)
	}
	flow, err := c.Auth.BeginAt(ctx, redirect)
	if err != nil {
		if h := c.Snapshot().Health; h.State == tool.Down {
			err = tool.Errorf(tool.AsError(err).Kind, "%w; the upstream is down: %s", err, h.Reason)
		}
		return nil, err
	}
	a := &attempt{flow: flow, who: r.Who, target: t, browser: r.Browser, over: make(chan struct{}), state: State{
		ID: rand.Text(), Upstream: name, URL: flow.URL, Redirect: flow.Redirect, How: "through a browser",
	}}
	if err := s.addAttempt(a, c, replaced); err != nil {
		flow.Close()
		return nil, err
	}
	begun = true
	return a.currentState(), nil
}

// addAttempt makes a the active attempt for its target. It then waits for the user, and ends the
// use of c.
func (s *Attempts) addAttempt(a *attempt, c *Upstream, replaced error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.active) >= maxActive {
		maps.DeleteFunc(s.active, func(_ target, a *attempt) bool { return a.currentState().Stage != Waiting })
	}
	switch {
	case s.closed:
		return tool.Errorf(tool.Unavailable, "biplane is stopping: sign in again when it is back")
	case len(s.active) >= maxActive && s.active[a.target] == nil:
		return tool.Errorf(tool.Limit, "%d sign-ins are under way, which is the most: try again later", maxActive)
	}
	if old := s.active[a.target]; old != nil { // started at the same time
		old.cancel(replaced)
	}
	var waiting context.Context
	waiting, a.cancel = context.WithCancelCause(s.ctx)
	s.active[a.target] = a
	s.wg.Go(func() {
		defer c.endUse()
		s.awaitUser(waiting, a, c)
	})
	return nil
}

// needsSignIn reports whether the owner must sign in. Otherwise it sets answer.How.
func (c *Upstream) needsSignIn(ctx context.Context, answer *State) bool {
	health := c.Snapshot().Health
	in, wants, err := c.Auth.SignedIn(ctx)
	if err == nil && in { // if it can't be read, it is replaced
		answer.How = "through a browser: signed in"
	}
	// err: the token can't be renewed; its authorization server may no longer exist
	token, lost := c.Auth.Token(ctx, false)
	if c.Personal && token == "" { // calls are refused, whatever the server allows without a token
		return true
	}
	return health.State == tool.NeedsSignIn || lost != nil || len(wants) > 0 && health.State != tool.Down
}

// IsSignedIn returns the exact name of an upstream, and whether the owner is signed in.
func (s *Attempts) IsSignedIn(ctx context.Context, r Request) (name string, in bool, err error) {
	c, _, err := s.findTarget(r)
	if err != nil {
		return "", false, err
	}
	defer c.endUse()
	if c.Auth == nil {
		return "", false, tool.Errorf(tool.Invalid, "upstream %q is not signed in to: it gets its credentials %s",
			c.Name(), c.How)
	}
	token, err := c.Auth.Token(ctx, false)
	return c.Name(), err == nil && token != "", nil
}

// countBegun counts an attempt of a principal. It returns an error if there were too many.
func (s *Attempts) countBegun(principal string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, times := range s.begun {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= signInTime })
		if s.begun[p] = times; len(times) == 0 {
			delete(s.begun, p)
		}
	}
	if len(s.begun[principal]) >= maxBegun {
		return tool.Errorf(tool.Limit, "you started %d sign-ins within %s: try again later", maxBegun, signInTime)
	}
	s.begun[principal] = append(s.begun[principal], now)
	return nil
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
	s.record.RecordSignIn(a.who, a.state.Upstream, a.target.owner, "sign-in", err)
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

// findAttempt returns the active attempt with an id, of the owner that the request is about.
func (s *Attempts) findAttempt(r Request, id string) (*attempt, error) {
	c, t, err := s.findTarget(r)
	if err != nil {
		return nil, err
	}
	defer c.endUse()
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.active[t]; a != nil && a.state.ID == id {
		return a, nil
	}
	return nil, tool.Errorf(tool.NotFound,
		"that attempt to sign in to upstream %q is over, or another one took its place: run biplane connect again",
		c.Name())
}

// Await returns the state of an attempt when it is over, or after awaitTime.
func (s *Attempts) Await(ctx context.Context, r Request, id string) (*State, error) {
	a, err := s.findAttempt(r, id)
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
func (s *Attempts) Paste(ctx context.Context, r Request, id, redirect string) (*State, error) {
	a, err := s.findAttempt(r, id)
	if err != nil {
		return nil, err
	}
	if err := a.flow.Paste(redirect); err != nil {
		return nil, err
	}
	return s.Await(ctx, r, id)
}

// CompleteSignIn completes the sign-in to which an authorization response belongs, if its owner
// began it in the same browser. It waits a moment for the upstream to connect with the new tokens,
// and returns the upstream's name. A response for someone else's sign-in changes nothing.
func (s *Attempts) CompleteSignIn(ctx context.Context, owner, browser string, q url.Values) (upstream string,
	err error) {
	s.mu.Lock()
	var found *attempt
	for t, a := range s.active {
		if t.owner == owner && owner != "" && a.browser != "" && a.browser == browser && a.flow.HasState(q) {
			found = a
		}
	}
	s.mu.Unlock()
	if found == nil {
		return "", tool.Errorf(tool.NotFound, "this browser and this principal began no such sign-in, or it is over: "+
			"nothing was changed; open the page of the upstream again, and sign in from there")
	}
	if err := found.flow.CompleteWith(q); err != nil {
		return found.target.upstream, err
	}
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	select {
	case <-found.over:
		return found.target.upstream, found.err
	case <-ctx.Done():
		return found.target.upstream, nil
	}
}

// cancelActive cancels the active attempt for a target, with why as its error. Afterwards the
// attempt can't be completed and its port is free.
func (s *Attempts) cancelActive(t target, why error) {
	s.mu.Lock()
	a := s.active[t]
	delete(s.active, t)
	s.mu.Unlock()
	if a != nil {
		a.cancel(why)
		a.flow.Close()
	}
}

// CancelOwner cancels the attempts of an owner, who lost the right to sign in.
func (s *Attempts) CancelOwner(owner string) {
	s.mu.Lock()
	var all []target
	for t := range s.active {
		if t.owner == owner && owner != "" {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		s.cancelActive(t, tool.Errorf(tool.Denied, "%s may no longer sign in", owner))
	}
}

// End cancels an attempt. If id is empty, it signs out. It returns the upstream's exact name, and
// whether its authorization server revoked the token.
func (s *Attempts) End(ctx context.Context, r Request, id string) (name string, revoked bool, err error) {
	c, t, err := s.findTarget(r)
	if err != nil {
		return "", false, err
	}
	defer c.endUse()
	name = c.Name()
	if id != "" {
		if _, err := s.findAttempt(r, id); err == nil {
			s.cancelActive(t, context.Canceled)
		}
		return name, false, nil
	}
	if c.Auth == nil {
		return "", false, tool.Errorf(tool.Invalid,
			"upstream %q is not signed in to with biplane connect: it gets its credentials %s", name, c.How)
	}
	s.cancelActive(t, tool.Errorf(tool.Conflict,
		"this sign-in to upstream %q was canceled, because a user signed out of it", name))
	revoked, err = c.Auth.Forget(ctx)
	if c.Use != nil {
		c.Use.SignOut()
	}
	s.record.RecordSignIn(r.Who, name, t.owner, "sign-out", err)
	return name, revoked, err
}
