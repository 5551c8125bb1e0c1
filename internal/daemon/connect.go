package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

const (
	signInTime  = 10 * time.Minute // for the user to sign in
	returnTime  = time.Minute      // for the upstream to connect after a sign-in
	awaitTime   = 20 * time.Second // before Await returns an unchanged state
	returnPause = 50 * time.Millisecond
)

// signIns holds the sign-in attempts that are under way, at most one for each upstream. A goroutine
// waits for each.
type signIns struct {
	upstreams *upstreams
	tell      signedIn
	log       *slog.Logger
	ctx       context.Context // of all attempts
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	active map[string]*attempt // the newest attempt, by exact name of the upstream
}

// signedIn is called after a sign-in to an upstream (action "sign-in") or a sign-out ("sign-out").
// err is not nil if it failed.
type signedIn func(p tool.Principal, upstream, action string, err error)

// An attempt is one sign-in that waits for the user.
type attempt struct {
	flow   *oauth.Flow
	who    tool.Principal          // who started it
	cancel context.CancelCauseFunc // the cause is returned to the waiting caller
	over   chan struct{}           // closed when state and err are final
	shown  api.SignIn              // without State and Error
	err    error
}

func newSignIns(u *upstreams, tell signedIn, log *slog.Logger) *signIns {
	s := &signIns{upstreams: u, tell: tell, log: log, active: map[string]*attempt{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close cancels all attempts and waits for them.
func (s *signIns) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// source returns the upstream with a name or a namespace.
func (s *signIns) source(name string) (*source, error) {
	var names []string
	for _, info := range s.upstreams.catalog.View().Upstreams() {
		if info.Namespace == name && info.Name != name &&
			!slices.ContainsFunc(s.upstreams.sources, func(c *source) bool { return c.up.Name() == name }) {
			name = info.Name
		}
	}
	for _, c := range s.upstreams.sources {
		if c.up.Name() == name {
			return c, nil
		}
		names = append(names, c.up.Name())
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return nil, tool.Errorf(tool.NotFound, "no upstream %s: there is %s", name, strings.Join(names, ", "))
}

// Begin starts a sign-in, if the upstream needs credentials that a user can provide.
func (s *signIns) Begin(ctx context.Context, upstream string) (*api.SignIn, error) {
	c, err := s.source(upstream)
	if err != nil {
		return nil, err
	}
	name := c.up.Name()
	s.upstreams.want()
	if err := connected(ctx, c); err != nil {
		return nil, err
	}
	answer := &api.SignIn{Upstream: name, State: api.SignInNotNeeded, How: c.how}
	health := c.up.Snapshot().Health
	if c.auth == nil {
		return answer, nil
	}
	in, wants, err := c.auth.SignedIn(ctx)
	if err == nil && in { // if it can't be read, it is replaced
		answer.How = "through a browser: signed in"
	}
	// err: the token can't be renewed; its authorization server may be gone for good
	_, lost := c.auth.Token(ctx, false)
	if health.State != tool.NeedsSignIn && lost == nil && (len(wants) == 0 || health.State == tool.Down) {
		return answer, nil
	}
	replaced := tool.Errorf(tool.Conflict, "this sign-in to upstream %q was canceled, because another one was started",
		name)
	s.drop(name, replaced)
	flow, err := c.auth.Begin(ctx)
	if err != nil {
		return nil, err
	}
	who, _ := identity.PrincipalFrom(ctx)
	a := &attempt{flow: flow, who: who, over: make(chan struct{}), shown: api.SignIn{
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
	s.wg.Go(func() { s.wait(waiting, a, c) })
	return a.now(), nil
}

// connected waits until an upstream has finished its first connection attempt, at most returnTime.
func connected(ctx context.Context, c *source) error {
	patient, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	tick := time.NewTicker(returnPause)
	defer tick.Stop()
	for c.up.Snapshot().Health.State == tool.Connecting {
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

// wait waits until the user has signed in, then until the upstream has reconnected.
func (s *signIns) wait(ctx context.Context, a *attempt, c *source) {
	defer a.cancel(nil)
	patient, cancel := context.WithTimeoutCause(ctx, signInTime,
		tool.Errorf(tool.Timeout, "no one signed in to upstream %q within %s", a.shown.Upstream, signInTime))
	defer cancel()
	err := a.flow.Wait(patient)
	if err != nil && patient.Err() != nil {
		err = context.Cause(patient)
	}
	a.flow.Close()
	if err == nil {
		err = returned(ctx, c)
	}
	a.err = err
	s.tell(a.who, a.shown.Upstream, "sign-in", err)
	close(a.over)
}

// returned waits until an upstream is connected after a sign-in.
func returned(ctx context.Context, c *source) error {
	ctx, cancel := context.WithTimeout(ctx, returnTime)
	defer cancel()
	tick := time.NewTicker(returnPause)
	defer tick.Stop()
	for {
		health := c.up.Snapshot().Health
		switch health.State {
		case tool.Ready, tool.Degraded:
			return nil
		case tool.NeedsSignIn:
			token, err := c.auth.Token(ctx, false)
			if _, wants, werr := c.auth.SignedIn(ctx); err == nil && token == "" || werr == nil && len(wants) > 0 {
				return tool.Errorf(tool.Unavailable, "signed in, and upstream %q still refuses: %s", c.up.Name(),
					health.Reason)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return tool.Errorf(tool.Unavailable, "signed in, but upstream %q is %s: %s", c.up.Name(), health.State,
				health.Reason)
		}
	}
}

// now returns the current state of an attempt.
func (a *attempt) now() *api.SignIn {
	in := a.shown
	in.State = api.SignInWaiting
	select {
	case <-a.over:
		in.State = api.SignInDone
		if a.err != nil {
			in.State, in.Error = api.SignInFailed, Explain(a.err)
		}
	default:
	}
	return &in
}

// find returns the active attempt with an id.
func (s *signIns) find(upstream, id string) (*attempt, error) {
	c, err := s.source(upstream)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.active[c.up.Name()]; a != nil && a.shown.ID == id {
		return a, nil
	}
	return nil, tool.Errorf(tool.NotFound,
		"that attempt to sign in to upstream %q is over, or another one took its place: run biplane connect again",
		c.up.Name())
}

// Await returns the state of an attempt when it is over, or after awaitTime.
func (s *signIns) Await(ctx context.Context, upstream, id string) (*api.SignIn, error) {
	a, err := s.find(upstream, id)
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
	return a.now(), nil
}

// Paste accepts the address at which the browser ended.
func (s *signIns) Paste(ctx context.Context, upstream, id, redirect string) (*api.SignIn, error) {
	a, err := s.find(upstream, id)
	if err != nil {
		return nil, err
	}
	if err := a.flow.Paste(redirect); err != nil {
		return nil, err
	}
	return s.Await(ctx, upstream, id)
}

// drop cancels the active attempt for an upstream, with why as its error. Afterwards the attempt
// can't be completed and its port is free.
func (s *signIns) drop(name string, why error) {
	s.mu.Lock()
	a := s.active[name]
	delete(s.active, name)
	s.mu.Unlock()
	if a != nil {
		a.cancel(why)
		a.flow.Close()
	}
}

// End cancels an attempt. If id is empty, it signs out.
func (s *signIns) End(ctx context.Context, upstream, id string) (*api.SignOut, error) {
	c, err := s.source(upstream)
	if err != nil {
		return nil, err
	}
	out := &api.SignOut{Upstream: c.up.Name()}
	if id != "" {
		if _, err := s.find(upstream, id); err == nil {
			s.drop(out.Upstream, context.Canceled)
		}
		return out, nil
	}
	if c.auth == nil {
		return nil, tool.Errorf(tool.Invalid,
			"upstream %q is not signed in to with biplane connect: it gets its credentials %s", out.Upstream, c.how)
	}
	s.drop(out.Upstream, tool.Errorf(tool.Conflict,
		"this sign-in to upstream %q was canceled, because a user signed out of it", out.Upstream))
	out.Revoked, err = c.auth.Forget(ctx)
	who, _ := identity.PrincipalFrom(ctx)
	s.tell(who, out.Upstream, "sign-out", err)
	return out, err
}

// credentials describes how a configured server gets its credentials, without their values.
func credentials(c *config.Server) string {
	given := c.Shown()
	keys := func(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
	switch {
	case c.Type == "stdio" && len(given.Env) == 0:
		return "not at all: the configuration gives its process no env"
	case c.Type == "stdio":
		return "with the env that the configuration gives to its process: " + keys(given.Env)
	case len(given.Headers) == 0:
		return "not at all: it has not asked for it"
	}
	return fmt.Sprintf("with the headers of the configuration: %s", keys(given.Headers))
}
