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
	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

const (
	signInTime  = 10 * time.Minute // that a person has
	returnTime  = time.Minute      // that the upstream has to connect afterwards
	awaitTime   = 20 * time.Second // before an answer comes though nothing has changed
	returnPause = 50 * time.Millisecond
)

// signIns are the attempts to sign in that are under way: one an upstream, each waited for by a
// goroutine.
type signIns struct {
	upstreams *upstreams
	tell      signedIn
	log       *slog.Logger
	ctx       context.Context // of all attempts
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex
	closed bool
	active map[string]*attempt // the newest, by exact name of the upstream
}

// signedIn is told that somebody signed in to an upstream ("sign-in") or out of it ("sign-out"), or
// could not.
type signedIn func(p tool.Principal, upstream, action string, err error)

// An attempt is one sign-in that waits for a person.
type attempt struct {
	flow   *oauth.Flow
	who    tool.Principal          // who began it
	cancel context.CancelCauseFunc // the cause is what who waits is told
	over   chan struct{}           // closed when state and err are final
	shown  api.SignIn              // but State and Error
	err    error
}

func newSignIns(u *upstreams, tell signedIn, log *slog.Logger) *signIns {
	s := &signIns{upstreams: u, tell: tell, log: log, active: map[string]*attempt{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends all attempts, and waits for them.
func (s *signIns) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// source finds an upstream by its name, or its namespace.
func (s *signIns) source(name string) (*source, error) {
	var names []string
	for _, info := range s.upstreams.catalog.View().Upstreams() {
		if info.Namespace == name && info.Name != name && !slices.ContainsFunc(s.upstreams.sources, func(c *source) bool { return c.up.Name() == name }) {
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

// Begin begins an attempt, where the upstream asks for credentials that a person can give.
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
	if err == nil && in { // one that can't be read is replaced
		answer.How = "through a browser: signed in"
	}
	_, lost := c.auth.Token(ctx, false) // what there is can't be renewed: who would do it is away, perhaps for good
	if health.State != tool.NeedsSignIn && lost == nil && (len(wants) == 0 || health.State == tool.Down) {
		return answer, nil
	}
	replaced := tool.Errorf(tool.Conflict, "this sign-in to upstream %q was given up, since another one was begun", name)
	s.drop(name, replaced)
	flow, err := c.auth.Begin(ctx)
	if err != nil {
		return nil, err
	}
	who, _ := identity.From(ctx)
	a := &attempt{flow: flow, who: who, over: make(chan struct{}), shown: api.SignIn{
		ID: rand.Text(), Upstream: name, URL: flow.URL, Redirect: flow.Redirect, How: "through a browser",
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		flow.Close()
		return nil, tool.Errorf(tool.Unavailable, "biplane is stopping: sign in again when it is back")
	}
	if old := s.active[name]; old != nil { // begun at the same time
		old.cancel(replaced)
	}
	var waiting context.Context
	waiting, a.cancel = context.WithCancelCause(s.ctx)
	s.active[name] = a
	s.wg.Go(func() { s.wait(waiting, a, c) })
	return a.now(), nil
}

// connected waits until an upstream is past its first connection, for a while.
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

// wait sees an attempt through: the person, then the upstream, which comes back by itself.
func (s *signIns) wait(ctx context.Context, a *attempt, c *source) {
	defer a.cancel(nil)
	patient, cancel := context.WithTimeoutCause(ctx, signInTime, tool.Errorf(tool.Timeout, "nobody signed in to upstream %q within %s", a.shown.Upstream, signInTime))
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

// returned waits until an upstream that was signed in to is connected.
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
				return tool.Errorf(tool.Unavailable, "signed in, and upstream %q still refuses: %s", c.up.Name(), health.Reason)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return tool.Errorf(tool.Unavailable, "signed in, but upstream %q is %s: %s", c.up.Name(), health.State, health.Reason)
		}
	}
}

// now is how an attempt is.
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

// find finds an attempt.
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
	return nil, tool.Errorf(tool.NotFound, "that attempt to sign in to upstream %q is over, or another one took its place: run biplane connect again", c.up.Name())
}

// Await gives how an attempt is, when it no longer waits or after a while.
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

// Paste takes the address that the browser ended at.
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

// drop gives up the attempt that is under way for an upstream, and tells it why. Afterwards nobody
// signs in with it, and its port is free.
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

// End gives an attempt up; with no id it signs out.
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
		return nil, tool.Errorf(tool.Invalid, "upstream %q is not signed in to with biplane connect: it gets its credentials %s", out.Upstream, c.how)
	}
	s.drop(out.Upstream, tool.Errorf(tool.Conflict, "this sign-in to upstream %q was given up, since somebody signed out of it", out.Upstream))
	out.Revoked, err = c.auth.Forget(ctx)
	who, _ := identity.From(ctx)
	s.tell(who, out.Upstream, "sign-out", err)
	return out, err
}

// credentials says how a server of the configuration gets its credentials, without their values.
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
