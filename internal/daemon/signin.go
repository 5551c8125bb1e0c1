package daemon

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// ownSignIns are the sign-ins of principals to an upstream, one for each. A principal's tokens are
// stored under the principal's ID, and only that principal's client reads them.
type ownSignIns struct {
	upstreams *upstreams
	cfg       oauth.Config // of all clients, without their owner

	mu      sync.Mutex
	clients map[string]*usedClient // by owner: one at most, since two could use a refresh token twice
}

func newOwnSignIns(u *upstreams, cfg oauth.Config) *ownSignIns {
	return &ownSignIns{upstreams: u, cfg: cfg, clients: map[string]*usedClient{}}
}

// serverSignIn returns the settings of the sign-in to a server. ok is false if the server isn't
// signed in to.
func serverSignIn(c *config.Server) (cfg oauth.Config, ok bool) {
	return oauth.Config{
		Name: c.Name, URL: c.URL, ClientID: c.OAuth.ClientID, ClientSecret: c.OAuth.ClientSecret,
		Issuer: c.OAuth.Issuer, Scopes: c.OAuth.Scopes, RedirectPort: c.OAuth.RedirectPort,
	}, c.SignsIn()
}

// apiSignIn is like serverSignIn, for an API whose description says where people sign in.
func apiSignIn(s *config.Source) (cfg oauth.Config, ok bool) {
	if s.SignIn == nil {
		return cfg, false
	}
	c := s.SignIn.Credential
	return oauth.Config{Name: s.Name, URL: s.SignIn.Address, Described: true, ClientID: c.ClientID,
		ClientSecret: c.ClientSecret, Scopes: c.Scopes, RedirectPort: c.RedirectPort}, true
}

// openSignIn returns the OAuth client of a shared sign-in, and sets it as the client of its
// source. It returns nil if ok is false.
func (u *upstreams) openSignIn(s *source, cfg oauth.Config, ok bool) (*oauth.Client, error) {
	if !ok {
		return nil, nil
	}
	auth, err := u.newOAuth(cfg)
	if err == nil {
		s.auth.Store(auth)
	}
	return auth, err
}

// newOAuth returns an OAuth client that keeps its owner's tokens.
func (u *upstreams) newOAuth(cfg oauth.Config) (*oauth.Client, error) {
	cfg.Store, cfg.Log, cfg.Mask = u.tokens.ForOwner(cfg.Owner), u.log, u.mask
	cfg.Alone = true // the data folder has one owner
	return oauth.New(cfg)
}

// A usedClient is a client, with the number of its uses.
type usedClient struct {
	*oauth.Client
	uses int
}

// acquireClient returns the client of a principal. The caller calls release, once.
func (s *ownSignIns) acquireClient(owner string) (_ *oauth.Client, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[owner]
	if c == nil {
		cfg := s.cfg
		cfg.Owner = owner
		made, err := s.upstreams.newOAuth(cfg)
		if err != nil {
			return nil, nil, err
		}
		c = &usedClient{Client: made}
		s.clients[owner] = c
	}
	c.uses++
	return c.Client, func() { s.releaseClient(owner, c) }, nil
}

func (s *ownSignIns) releaseClient(owner string, c *usedClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.uses--; c.uses == 0 {
		delete(s.clients, owner)
		c.ReleaseTokens()
	}
}

// requireToken returns an error that says how to sign in, unless the principal has a token that can
// be used. The caller calls release after the call.
func (s *ownSignIns) requireToken(ctx context.Context, owner string) (release func(), err error) {
	c, release, err := s.acquireClient(owner)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	token, err := c.Token(ctx, false)
	if err == nil && token != "" {
		return release, nil
	}
	release()
	if err != nil {
		return nil, tool.NotSent(err)
	}
	return nil, newUnsent(tool.Unavailable, "upstream %s needs sign-in: each principal uses it with their own "+
		"account, and %s is not signed in: %s, then call again", s.cfg.Name, owner,
		s.upstreams.signInAdvice(s.cfg.Name, owner))
}

// signInPage returns the address of the page where users sign in to an upstream, or "".
func (u *upstreams) signInPage(name string) string {
	if base := u.places.publicURL(); base != "" {
		return base + "/connect/" + url.PathEscape(name)
	}
	return ""
}

// signInAdvice tells a principal how to sign in to an upstream.
func (u *upstreams) signInAdvice(name, owner string) string {
	base := u.places.publicURL()
	switch {
	case owner == identity.LocalUser().ID:
		return "run `biplane connect " + name + "`"
	case base != "":
		return "open " + u.signInPage(name) + " in a browser, or run `biplane connect " + name +
			" --server " + base + "` with the credential in $BIPLANE_API_KEY"
	}
	return "run `biplane connect " + name + " --for " + owner + "` on Biplane's machine"
}

// An ownConnection is an upstream with credentials: person as one principal sees it.
type ownConnection struct {
	*personalUpstream
	owner string
}

// Snapshot returns the state of the principal's connection. It creates the connection if there is
// none, also before the principal has signed in: the server then names its requirements.
func (o ownConnection) Snapshot() upstream.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), ownSnapshotTime)
	defer cancel()
	i, err := o.enterInstance(ctx, o.owner)
	if err != nil {
		return upstream.Snapshot{Health: tool.Health{State: tool.Down, Reason: tool.AsError(err).Msg}}
	}
	defer o.releaseInstance(i)
	return i.up.Snapshot()
}

// ownSnapshotTime limits the wait for an instance that makes room.
const ownSnapshotTime = 5 * time.Second

// forgetPrincipal ends everything that uses the sign-ins of a principal who lost all rights, and
// deletes the sign-ins. The authorization servers are asked to revoke the tokens.
func (u *upstreams) forgetPrincipal(ctx context.Context, owner string) {
	u.signIns.CancelOwner(owner)
	ctx = context.WithoutCancel(ctx)
	revoking, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range u.listSources() {
		p, ok := s.up.(*personalUpstream)
		if !ok {
			continue
		}
		p.pool.mu.Lock()
		if i := p.instances[owner]; i != nil {
			p.pool.cutInstance(i)
		}
		p.pool.mu.Unlock()
		if p.signIns != nil {
			wg.Go(func() { p.signIns.forgetOwner(revoking, owner) })
		}
	}
	wg.Wait()
	// also of upstreams that the configuration no longer has
	if err := u.tokens.ForOwner(owner).ForgetOwner(ctx); err != nil {
		u.log.Error("sign-ins not deleted", "principal", owner, "err", err)
	}
}

// forgetTime limits the revocation of tokens at authorization servers.
const forgetTime = 10 * time.Second

// forgetOwner deletes the sign-in of a principal, and asks its authorization server to revoke it.
func (s *ownSignIns) forgetOwner(ctx context.Context, owner string) {
	c, release, err := s.acquireClient(owner)
	if err != nil {
		return // it can't be used either
	}
	defer release()
	_, _ = c.Forget(ctx) // ForgetOwner reports the error
}
