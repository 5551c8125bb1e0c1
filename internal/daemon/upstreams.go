package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
	"github.com/biplane-dev/biplane/internal/upstream/oauth/signin"
)

// A source is one configured upstream.
type source struct {
	kind   string // "stdio", "http", "sse"
	target string // the command or the address, without credentials
	how    string // how it gets credentials if there is no sign-in
	up     upstream.Upstream
	auth   atomic.Pointer[oauth.Client] // nil if there is no sign-in
	narrow config.Narrowing
	seen   sighted
	review screened // guarded by seen.mu, except what it says otherwise
}

// An adding adds the configured upstreams of one kind.
type adding func(s *config.Config, u *upstreams) error

// kinds lists the kinds of upstreams, one per line.
var kinds = []adding{
	addServers,
	addAPIs(openOpenAPI),
	addAPIs(openFolder),
	addAPIs(openGraphQL),
}

// addAPIs returns an adding for the upstreams that are configured as C.
func addAPIs[C config.API](open func(c C, u *upstreams, changed func()) (upstream.Upstream, error)) adding {
	return func(s *config.Config, u *upstreams) error {
		for _, a := range s.APIs {
			c, ok := a.(C)
			if !ok || a.GetSource().Disabled {
				continue
			}
			how := "not at all: the configuration has neither auth nor headers for it"
			if names := a.ListCredentials(); len(names) > 0 {
				how = "with the auth and headers of the configuration: " + strings.Join(names, ", ")
			}
			base := a.GetSource()
			err := u.addSource(&source{kind: base.Part, target: a.ShowTarget(), how: how, narrow: base.Narrow},
				base.Name, base.Secrets,
				func(secrets map[string]string, changed func()) (upstream.Upstream, error) {
					full := config.API(c)
					if len(secrets) > 0 {
						var err error
						if full, err = s.ReadAPI(base.Part, base.Name, secrets); err != nil {
							return nil, err
						}
					}
					if err := u.approved.checkAPI(full); err != nil {
						return nil, err
					}
					return open(full.(C), u, changed)
				})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// addServers adds the MCP servers.
func addServers(s *config.Config, u *upstreams) error {
	for i := range s.Servers {
		c := &s.Servers[i]
		if c.Disabled {
			continue
		}
		shown := c.Shown()
		target := shown.URL
		if c.Command != "" {
			target = shown.Command
		}
		src := &source{kind: shown.Type, target: target, how: describeCredentials(c), narrow: c.Narrow}
		read := func(secrets map[string]string) (*config.Server, error) {
			full := c
			if len(secrets) > 0 {
				var err error
				if full, err = s.ReadServer(c.Name, secrets); err != nil {
					return nil, err
				}
			}
			return full, u.approved.checkServer(full)
		}
		if c.Personal {
			u.addPersonal(src, c, read)
			continue
		}
		err := u.addSource(src, c.Name, c.Secrets,
			func(secrets map[string]string, changed func()) (upstream.Upstream, error) {
				full, err := read(secrets)
				if err != nil {
					return nil, err
				}
				auth, err := u.newSignIn(full, "")
				if err != nil {
					return nil, err
				}
				if auth != nil {
					src.auth.Store(auth)
				}
				return u.openServer(full, auth, "", changed)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// addPersonal adds an MCP server with credentials: person. read returns its configuration with the
// values of secrets.
func (u *upstreams) addPersonal(src *source, c *config.Server,
	read func(secrets map[string]string) (*config.Server, error)) {
	var own *ownSignIns
	advice := "set a valid secret: `biplane secrets set NAME --for me`"
	if c.SignsIn() {
		own = &ownSignIns{upstreams: u, server: c, clients: map[string]*usedClient{}}
		advice = "sign in again: `biplane connect " + c.Name + "`"
	}
	open := func(auth *oauth.Client, secrets map[string]string, changed func()) (upstream.Upstream, error) {
		full, err := read(secrets)
		if err != nil {
			return nil, err
		}
		return u.openServer(full, auth, advice, changed)
	}
	u.addUpstream(src, c.Name, newPersonalUpstream(c.Name, u, c.Secrets, own, c.Idle, open, func() { u.update(src) }))
}

// openServer returns the upstream of an MCP server. auth is nil without sign-in. advice is for
// users whose credentials the server refuses; empty: the usual one.
func (u *upstreams) openServer(c *config.Server, auth *oauth.Client, advice string,
	changed func()) (upstream.Upstream, error) {
	kind := c.Type
	if kind == "http" {
		// Many configurations set it, or set nothing, for servers that speak the legacy transport:
		// detect the transport.
		kind = ""
	}
	cfg := mcp.Config{
		Name: c.Name, Type: kind, Command: c.Command, Args: c.Args, Env: c.Env,
		Environ: c.Environ, Dir: c.Dir,
		URL: c.URL, Headers: c.Headers, Timeout: c.Timeout, Timeouts: c.Timeouts,
		Updates: resourceObserver{u.observer, c.Name}, Questions: u.direct,
		OnChange: changed, Log: u.log, Mask: u.mask,
		Client: mcp.Implementation{Name: "biplane", Version: u.version, Revision: c.Revision},
		Masked: c.Personal, // by secrets, as long as they are in use: there may be many
		Advice: advice,
	}
	if auth != nil {
		cfg.Auth = auth
	}
	return mcp.New(cfg)
}

// newSignIn returns the OAuth client for a server, with the sign-in of owner, or the shared one if
// owner is empty. It is nil if the server isn't signed in to.
func (u *upstreams) newSignIn(c *config.Server, owner string) (*oauth.Client, error) {
	if !c.SignsIn() {
		return nil, nil
	}
	return oauth.New(oauth.Config{
		Name: c.Name, URL: c.URL, Owner: owner, ClientID: c.OAuth.ClientID, ClientSecret: c.OAuth.ClientSecret,
		Issuer: c.OAuth.Issuer, Scopes: c.OAuth.Scopes, RedirectPort: c.OAuth.RedirectPort,
		Store: u.tokens.ForOwner(owner), Alone: true, Log: u.log, Mask: u.mask, // Alone: the data folder has one owner
	})
}

// A toolObserver is informed about tools.
type toolObserver interface {
	updateTools()  // tools were added or removed
	updateOffers() // resources, templates or prompts were
	updateResource(upstream, uri string)
}

// places says where users reach this process.
type places interface {
	// publicURL returns the address that browsers and clients elsewhere use, without a path. It is
	// empty if there is none, or if callers don't sign in.
	publicURL() string
}

// A signInObserver is what upstreams need to know and report about sign-ins.
type signInObserver interface {
	signin.Recorder
	places
}

// upstreams holds all sources of tools, and keeps the catalog up to date with them.
type upstreams struct {
	log       *slog.Logger
	mask      *mask.Masker
	version   string
	tokens    *store.Tokens
	secrets   *secrets
	approved  *approvedServers // nil: all
	pool      *instancePool
	signIns   signIns
	hints     *hints
	pins      *definitions
	catalog   *catalog.Catalog
	observer  toolObserver
	places    places
	wait      time.Duration
	direct    bool       // agents call the tools of upstreams themselves, and can be asked
	sources   []*source  // in the order of the configuration
	functions *functions // runs the tools of folders
	settled   chan struct{}
	wanted    chan struct{} // closed on first use, which starts them

	mu        sync.Mutex
	connects  map[string]chan struct{} // by upstream, during the first connection attempt; closed when it is over
	lastTools map[string][]*tool.Tool

	lastOffers map[string]*tool.Offers
}

func newUpstreams(s *config.Config, tokens *store.Tokens, known *secrets, approved *approvedServers, h *hints,
	c *catalog.Catalog, version string, log *slog.Logger, m *mask.Masker, o toolObserver, r signInObserver,
) (*upstreams, error) {
	u := &upstreams{
		log: log, mask: m, version: version, tokens: tokens, secrets: known, approved: approved, hints: h,
		catalog: c, observer: o, places: r,
		wait: s.StartWait, direct: servesDirect(s), pool: newInstancePool(maxInstances),
		settled: make(chan struct{}), wanted: make(chan struct{}),
		connects: map[string]chan struct{}{}, lastTools: map[string][]*tool.Tool{},
		lastOffers: map[string]*tool.Offers{}, functions: &functions{},
	}
	u.signIns = signIns{signin.New(u, r)}
	var err error
	if u.pins, err = newDefinitions(s, h.events, log); err != nil {
		return nil, err
	}
	for _, add := range kinds {
		if err := add(s, u); err != nil {
			return nil, err
		}
	}
	if len(u.sources) == 0 {
		close(u.settled)
	}
	return u, nil
}

// addSource creates an upstream, and adds it to the catalog without tools until it is connected. An
// upstream that refers to secrets is created when they are known, and one that must be approved
// when it is.
func (u *upstreams) addSource(s *source, name string, secrets []string, open opening) error {
	changed := func() { u.update(s) }
	var up upstream.Upstream
	if len(secrets) > 0 || u.approved != nil {
		up = newLateUpstream(name, u.secrets, secrets, open, changed)
	} else {
		var err error
		if up, err = open(nil, changed); err != nil {
			return tool.Errorf(tool.AsError(err).Kind, "upstream %s: %w", name, err)
		}
	}
	u.addUpstream(s, name, up)
	return nil
}

// addUpstream adds an upstream without tools.
func (u *upstreams) addUpstream(s *source, name string, up upstream.Upstream) {
	s.up = up
	u.sources = append(u.sources, s)
	u.connects[name] = make(chan struct{})
	u.catalog.Set(catalog.Source{Name: name, Caller: up, Health: up.Snapshot().Health})
}

// want starts the upstreams if they have not been started yet.
func (u *upstreams) want() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.wanted:
	default:
		close(u.wanted)
	}
}

// run runs all upstreams concurrently once they are wanted, until ctx is done. It returns when
// everything that they started is gone.
func (u *upstreams) run(ctx context.Context) {
	defer u.signIns.Close()
	select {
	case <-u.wanted:
	case <-ctx.Done():
		u.settle("")
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range u.sources {
		wg.Go(func() {
			if err := s.up.Run(ctx); err != nil && ctx.Err() == nil {
				u.log.Error("upstream stopped", "upstream", s.up.Name(), "err", err)
			}
		})
	}
	timer := time.NewTimer(u.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		u.settle("")
	case <-u.settled:
	case <-ctx.Done():
		u.settle("")
	}
}

// update updates the catalog with the state of one upstream.
func (u *upstreams) update(s *source) {
	name := s.up.Name()
	s.seen.mu.Lock()
	snap := s.up.Snapshot()
	tools, compared := u.trustHints(s, snap.Tools)
	screening := u.pins.screenTools(name, &s.review, tools)
	offers := s.narrowOffers(snap.Offers)
	u.catalog.Set(catalog.Source{Name: name, Caller: s.up, Tools: screening.kept, Health: snap.Health,
		Offers: offers, Withheld: screening.withheld})
	u.pins.publishNotices(name, &s.review, screening)
	s.seen.mu.Unlock()
	for _, other := range screening.others { // their tools look like a new one, or no longer do
		if o := u.source(other); o != nil {
			u.update(o)
		}
	}
	u.mu.Lock()
	news := compared && len(tools) > 0 || screening.changed || len(u.lastTools[name]) != len(snap.Tools) ||
		len(snap.Tools) > 0 && &u.lastTools[name][0] != &snap.Tools[0]
	offered := u.lastOffers[name] != snap.Offers
	u.lastTools[name], u.lastOffers[name] = snap.Tools, snap.Offers
	u.mu.Unlock()
	if news {
		u.observer.updateTools()
	}
	if offered {
		u.observer.updateOffers()
	}
	if snap.Health.State != tool.Connecting {
		u.settle(name)
	}
	if news || offered {
		u.catalog.View().Warm() // here rather than in the first search: ten thousand tools take a moment
	}
}

// A resourceObserver passes on which resources of an upstream were updated.
type resourceObserver struct {
	to       toolObserver
	upstream string
}

// OnUpdate implements mcp.UpdateObserver.
func (o resourceObserver) OnUpdate(uri string) { o.to.updateResource(o.upstream, uri) }

// WatchResource implements mcpserver.Resources.
func (u *upstreams) WatchResource(name, uri string) {
	if s := u.source(name); s != nil {
		if w, ok := s.up.(upstream.Watcher); ok {
			w.WatchResource(uri)
		}
	}
}

// UnwatchResource implements mcpserver.Resources.
func (u *upstreams) UnwatchResource(name, uri string) {
	if s := u.source(name); s != nil {
		if w, ok := s.up.(upstream.Watcher); ok {
			w.UnwatchResource(uri)
		}
	}
}

// narrowOffers removes the tools that the configuration excludes from offers, and so what can be
// read with them.
func (s *source) narrowOffers(o *tool.Offers) *tool.Offers {
	if o == nil {
		return nil
	}
	left := *o
	left.Tools = s.narrow.Keep(o.Tools)
	return &left
}

// settle notes that an upstream is past its first connection attempt or, if name is empty, that the
// wait for all of them is over.
func (u *upstreams) settle(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.connects) == 0 {
		return
	}
	for n, past := range u.connects {
		if name == "" || name == n {
			close(past)
			delete(u.connects, n)
		}
	}
	if len(u.connects) == 0 {
		close(u.settled)
	}
}

// listConnecting returns the upstreams that are still making their first connection, sorted; none
// if they have not been started.
func (u *upstreams) listConnecting() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.wanted:
		return slices.Sorted(maps.Keys(u.connects))
	default:
		return nil
	}
}

// listStates returns the state of each upstream.
func (u *upstreams) listStates() map[string]tool.State {
	out := make(map[string]tool.State, len(u.sources))
	for _, s := range u.sources {
		out[s.up.Name()] = s.up.Snapshot().Health.State
	}
	return out
}

// WaitReady waits until all upstreams are past their first connection attempt, or the time for that
// is over.
func (u *upstreams) WaitReady(ctx context.Context) {
	u.want()
	select {
	case <-u.settled:
	case <-ctx.Done():
	}
}

// WaitReadyFor waits like WaitReady. It also lists the tools of upstreams that no one has used yet
// with the credentials of a principal, if those are needed.
func (u *upstreams) WaitReadyFor(ctx context.Context, p tool.Principal) {
	u.WaitReady(ctx)
	u.preparePersonal(ctx, p)
}

// preparePersonal lists the tools of upstreams with credentials: person that have listed none yet.
func (u *upstreams) preparePersonal(ctx context.Context, p tool.Principal) {
	ctx, cancel := context.WithTimeout(ctx, max(u.wait, preparePause))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range u.sources {
		if up, ok := s.up.(*personalUpstream); ok {
			wg.Go(func() { up.PrepareFor(ctx, p.ID) })
		}
	}
}

// isListed reports whether the tools of all upstreams with credentials: person are known.
func (u *upstreams) isListed() bool {
	for _, s := range u.sources {
		if up, ok := s.up.(*personalUpstream); ok && !up.isListed() {
			return false
		}
	}
	return true
}

// prepareOne is like preparePersonal, for one upstream.
func (u *upstreams) prepareOne(ctx context.Context, name, owner string) {
	if s := u.source(name); s != nil {
		if up, ok := s.up.(*personalUpstream); ok {
			ctx, cancel := context.WithTimeout(ctx, max(u.wait, preparePause))
			defer cancel()
			up.PrepareFor(ctx, owner)
		}
	}
}

// waitForProgram waits like WaitReady, but only for the upstreams that a program may use.
func (u *upstreams) waitForProgram(ctx context.Context, arguments json.RawMessage) {
	select {
	case <-u.settled:
		return
	default:
	}
	var a struct {
		Code    string `json:"code"`
		Session string `json:"session"` // its earlier definitions are not in the text
	}
	if json.Unmarshal(arguments, &a) != nil || a.Session != "" {
		u.WaitReady(ctx)
		return
	}
	mayUse := check.MayUseUpstream(a.Code)
	if mayUse == nil {
		u.WaitReady(ctx)
		return
	}
	for _, info := range u.catalog.View().Upstreams() {
		if mayUse(info.Name, info.Namespace) && !u.awaitAttempt(ctx, info.Name) {
			return
		}
	}
}

// awaitAttempt waits until an upstream is past its first connection attempt, or the time for that
// is over. It returns false if ctx is done first.
func (u *upstreams) awaitAttempt(ctx context.Context, name string) bool {
	u.want()
	u.mu.Lock()
	past := u.connects[name]
	u.mu.Unlock()
	if past == nil {
		return true
	}
	select {
	case <-past:
		return true
	case <-ctx.Done():
		return false
	}
}

// waiting returns a Caller that waits for all upstreams before it calls next.
func (u *upstreams) waiting(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.WaitReadyFor(ctx, c.Principal)
		return next.Call(ctx, c)
	})
}

// waitingFor is like waiting, for execute: it waits only for the upstreams that the program may
// use.
func (u *upstreams) waitingFor(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.waitForProgram(ctx, c.Arguments)
		u.preparePersonal(ctx, c.Principal)
		return next.Call(ctx, c)
	})
}

// waitingOne is like waiting, for the calls of programs: it waits only for the upstream of the
// called tool. A program resumed after a restart starts before the upstreams do, and before anyone
// has listed the tools of upstreams with credentials: person.
func (u *upstreams) waitingOne(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.mu.Lock()
		settled := len(u.connects) == 0
		u.mu.Unlock()
		if settled && u.isListed() {
			return next.Call(ctx, c)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "tools."), ".")
		for _, info := range u.catalog.View().Upstreams() {
			if info.Name == first || info.Namespace == first {
				if !settled {
					u.awaitAttempt(ctx, info.Name)
				}
				u.prepareOne(ctx, info.Name, c.Principal.ID)
				return next.Call(ctx, c)
			}
		}
		if !settled {
			u.WaitReady(ctx) // no known upstream has that name yet
		}
		return next.Call(ctx, c)
	})
}
