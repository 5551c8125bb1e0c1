package daemon

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
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
	entry  any                // its part of the configuration, for comparison with another one
	uses   uses               // calls under way
	stop   context.CancelFunc // ends its Run; nil: not started
	seen   sighted
	review screened // guarded by seen.mu, unless stated otherwise
}

// An opener creates the upstreams of a configuration. The file of each kind has a method for it.
type opener struct {
	*upstreams
	plain   config.API    // the upstream's entry, without the values of its secrets
	auth    *oauth.Client // nil without sign-in
	changed notice        // called when the upstream has changed
}

// open creates an upstream that isn't an MCP server.
func (o opener) open(a config.API) (upstream.Upstream, error) {
	c, err := a.OpenWith(o)
	if err != nil {
		return nil, err
	}
	return c.(upstream.Upstream), nil
}

// addAPIs adds the upstreams that aren't MCP servers.
func addAPIs(s *config.Config, u *sourceBuilder) error {
	for _, a := range s.APIs {
		if a.GetSource().Disabled || u.reuseSource(a.GetSource().Name, a) {
			continue
		}
		if err := addAPI(s, u, a); err != nil {
			return err
		}
	}
	return nil
}

// addAPI adds one upstream.
func addAPI(s *config.Config, u *sourceBuilder, a config.API) error {
	base := a.GetSource()
	read := func(secrets map[string]string, running bool) (config.API, error) {
		full := a
		if len(secrets) > 0 {
			var err error
			if full, err = s.ReadAPI(base.Part, base.Name, secrets); err != nil {
				return nil, err
			}
		}
		return full, u.approved.checkAPI(full, running)
	}
	src := &source{kind: base.Part, target: a.ShowTarget(), how: describeAPI(a), narrow: base.Narrow, entry: a}
	opens := func(owner string, auth *oauth.Client, secrets map[string]string,
		changed func()) (upstream.Upstream, error) {
		full, err := read(secrets, false)
		if err == nil && owner == "" {
			cfg, ok := apiSignIn(full.GetSource())
			auth, err = u.openSignIn(src, cfg, ok)
		}
		if err != nil {
			return nil, err
		}
		return opener{u.upstreams, a, auth, changed}.open(full)
	}
	check := func(secrets map[string]string) error {
		_, err := read(secrets, true)
		return err
	}
	if !base.Personal {
		return u.addSource(src, base.Name, base.Secrets,
			func(secrets map[string]string, changed func()) (upstream.Upstream, error) {
				return opens("", nil, secrets, changed)
			}, check)
	}
	var own *ownSignIns
	if cfg, ok := apiSignIn(base); ok {
		own = newOwnSignIns(u.upstreams, cfg)
	}
	p := newPersonalUpstream(base.Name, u.upstreams, base.Secrets, own, base.Idle, opens, func() { u.update(src) })
	p.check = u.approved.guardCheck(check)
	u.addUpstream(src, p)
	return nil
}

// addServers adds the MCP servers.
func addServers(s *config.Config, u *sourceBuilder) error {
	for i := range s.Servers {
		c := &s.Servers[i]
		if c.Disabled {
			continue
		}
		if u.reuseSource(c.Name, *c) {
			continue
		}
		shown := c.Shown()
		target := shown.URL
		if c.Command != "" {
			target = shown.Command
		}
		src := &source{kind: shown.Type, target: target, how: describeCredentials(c), narrow: c.Narrow, entry: *c}
		read := func(secrets map[string]string, running bool) (*config.Server, error) {
			full := c
			if len(secrets) > 0 {
				var err error
				if full, err = s.ReadServer(c.Name, secrets); err != nil {
					return nil, err
				}
			}
			return full, u.approved.checkServer(full, running)
		}
		check := func(secrets map[string]string) error {
			_, err := read(secrets, true)
			return err
		}
		if c.Personal {
			u.addPersonal(src, c, read, check)
			continue
		}
		err := u.addSource(src, c.Name, c.Secrets,
			func(secrets map[string]string, changed func()) (upstream.Upstream, error) {
				full, err := read(secrets, false)
				if err != nil {
					return nil, err
				}
				cfg, ok := serverSignIn(full)
				auth, err := u.openSignIn(src, cfg, ok)
				if err != nil {
					return nil, err
				}
				return u.openServer(full, "", auth, "", changed)
			}, check)
		if err != nil {
			return err
		}
	}
	return nil
}

// addPersonal adds an MCP server with credentials: person. read returns its configuration with the
// values of secrets.
func (u *sourceBuilder) addPersonal(src *source, c *config.Server,
	read func(secrets map[string]string, running bool) (*config.Server, error), check checking) {
	var own *ownSignIns
	advice := "set a valid secret: `biplane secrets set NAME --for me`"
	if cfg, ok := serverSignIn(c); ok {
		own = newOwnSignIns(u.upstreams, cfg)
		advice = "sign in again: `biplane connect " + c.Name + "`"
	}
	open := func(owner string, auth *oauth.Client, secrets map[string]string,
		changed func()) (upstream.Upstream, error) {
		full, err := read(secrets, false)
		if err != nil {
			return nil, err
		}
		return u.openServer(full, owner, auth, advice, changed)
	}
	p := newPersonalUpstream(c.Name, u.upstreams, c.Secrets, own, c.Idle, open, func() { u.update(src) })
	p.check, p.offered = u.approved.guardCheck(check), u.observer.updateOffers
	u.addUpstream(src, p)
}

// openServer returns the upstream of an MCP server. owner is the principal who uses it alone, or
// empty. auth is nil without sign-in. advice is for users whose credentials the server refuses;
// empty: the usual one.
func (u *upstreams) openServer(c *config.Server, owner string, auth *oauth.Client, advice string,
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
		Launcher: u.newLauncher(c), URL: c.URL, Headers: c.Headers, Timeout: c.Timeout, Timeouts: c.Timeouts,
		Updates: resourceObserver{u.observer, c.Name, owner}, Questions: u.direct,
		OnChange: changed, Log: u.log, Mask: u.mask,
		Client: mcp.Implementation{Name: "biplane", Version: u.version, Revision: c.Revision},
		// Masked by secrets, as long as they are in use: there may be many.
		OwnCredentials: mcp.OwnCredentials{Masked: c.Personal, Advice: advice},
	}
	if auth != nil {
		cfg.Auth = auth
	}
	return mcp.New(cfg)
}

// A toolObserver is informed about tools.
type toolObserver interface {
	updateTools()  // tools were added or removed
	updateOffers() // resources, templates or prompts were
	updateResource(upstream, uri, owner string)
	announceLists(tools, offers bool)  // a server announced changes that are none
	noteHealth(upstream, state string) // the state of an upstream may have changed
}

// places returns the addresses at which users reach this process.
type places interface {
	// publicURL returns the address that browsers and clients elsewhere use, without a path. It is
	// empty if there is none, or if callers don't sign in.
	publicURL() string
}

// A signInObserver passes information about sign-ins from and to upstreams.
type signInObserver interface {
	signin.Recorder
	places
}

// upstreamParts are the other parts of a Daemon that upstreams use.
type upstreamParts struct {
	log      *slog.Logger
	mask     *mask.Masker
	version  string // of Biplane
	tokens   *store.Tokens
	secrets  *secrets
	approved *approvedServers // nil: all
	hints    *hints
	catalog  *catalog.Catalog
	observer toolObserver
	places   signInObserver
	hosting  *hosting // runs servers in sandboxes
}

// upstreams holds all sources of tools, and keeps the catalog up to date with them.
type upstreams struct {
	upstreamParts
	pool      *instancePool
	signIns   signIns
	pins      *definitions
	wait      time.Duration
	direct    bool                      // agents call the tools of upstreams themselves, and can be asked
	sources   atomic.Pointer[[]*source] // in the order of the configuration
	functions *functions                // runs the tools of folders
	*startup

	mu        sync.Mutex
	runner    *sourceRunner // nil: not started
	lastTools map[string][]*tool.Tool

	lastOffers map[string]*tool.Offers
}

// newUpstreams creates the upstreams of a configuration, without starting them.
func newUpstreams(s *config.Config, parts upstreamParts) (*upstreams, error) {
	u := &upstreams{
		upstreamParts: parts,
		wait:          s.StartWait, direct: servesDirect(s), pool: newInstancePool(maxInstances),
		lastTools: map[string][]*tool.Tool{}, lastOffers: map[string]*tool.Offers{}, functions: newFunctions(s),
	}
	u.signIns = signIns{signin.New(u, parts.places)}
	var err error
	if u.pins, err = newDefinitions(s, parts.hints.events, parts.log); err != nil {
		return nil, err
	}
	b, err := u.createSources(s)
	if err != nil {
		return nil, err
	}
	u.sources.Store(&b.sources)
	u.startup = newStartup(b.sources)
	for _, src := range b.sources {
		u.showSource(src, nil)
	}
	return u, nil
}

// createSources creates the configured upstreams, without starting them.
func (u *upstreams) createSources(s *config.Config) (*sourceBuilder, error) {
	b := &sourceBuilder{upstreams: u}
	if err := addServers(s, b); err != nil {
		return nil, err
	}
	if err := addAPIs(s, b); err != nil {
		return nil, err
	}
	return b, nil
}

// A sourceBuilder creates the sources of a configuration. It keeps those in use that are
// configured in the same way.
type sourceBuilder struct {
	*upstreams
	sources []*source
}

// reuseSource adds the source in use with a name if its part of the configuration is the same.
func (u *sourceBuilder) reuseSource(name string, entry any) bool {
	s := u.source(name)
	if s == nil || !reflect.DeepEqual(s.entry, entry) {
		return false
	}
	u.sources = append(u.sources, s)
	return true
}

// listSources returns all upstreams in the order of the configuration.
func (u *upstreams) listSources() []*source {
	if all := u.sources.Load(); all != nil {
		return *all
	}
	return nil
}

// addSource creates an upstream. If it refers to secrets, or must be approved, its creation waits
// until the secrets are known and the approval is there.
func (u *sourceBuilder) addSource(s *source, name string, secrets []string, open opening, check checking) error {
	changed := func() { u.update(s) }
	var up upstream.Upstream
	if len(secrets) > 0 || u.approved != nil {
		up = newLateUpstream(name, u.secrets, secrets, open, u.approved.guardCheck(check), changed)
	} else {
		var err error
		if up, err = open(nil, changed); err != nil {
			return tool.Errorf(tool.AsError(err).Kind, "upstream %s: %w", name, err)
		}
	}
	u.addUpstream(s, up)
	return nil
}

// addUpstream adds a created upstream.
func (u *sourceBuilder) addUpstream(s *source, up upstream.Upstream) {
	s.up = up
	u.sources = append(u.sources, s)
}

// showSource adds an upstream to the catalog. It has no tools until it is connected.
func (u *upstreams) showSource(s *source, offers *tool.Offers) {
	u.catalog.Set(catalog.Source{Name: s.up.Name(), Caller: route{u, s.up.Name()}, Health: s.up.Snapshot().Health,
		Offers: offers})
}

// run runs all upstreams concurrently once they are wanted, until ctx is done. It returns when
// everything that they started is gone.
func (u *upstreams) run(ctx context.Context) {
	defer u.signIns.Close()
	select {
	case <-u.wanted:
	case <-ctx.Done():
		u.settleAll()
		return
	}
	started := &sourceRunner{ctx: ctx, log: u.log}
	defer started.awaitEnd()
	u.mu.Lock()
	u.runner = started
	for _, s := range u.listSources() {
		started.startSource(s)
	}
	u.mu.Unlock()
	timer := time.NewTimer(u.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		u.settleAll()
	case <-u.settled:
	case <-ctx.Done():
		u.settleAll()
	}
}

// update updates the catalog with the state of one upstream.
func (u *upstreams) update(s *source) {
	name := s.up.Name()
	if u.source(name) != s { // replaced, or not yet in use
		s.uses.signalChange()
		return
	}
	s.seen.mu.Lock()
	snap := s.up.Snapshot()
	tools, compared := u.trustHints(s, snap.Tools)
	screening, offers := u.screenSource(s, tools, snap.Offers)
	u.catalog.Set(catalog.Source{Name: name, Caller: route{u, name}, Tools: screening.kept, Health: snap.Health,
		Offers: offers, Withheld: screening.withheld})
	u.pins.publishNotices(name, &s.review, screening)
	s.seen.mu.Unlock()
	if now := u.source(name); now != s { // replaced meanwhile: the catalog may have its tools again
		if now == nil {
			u.removeTools(name)
			return
		}
		now.seen.mu.Lock()
		now.review.tools = nil // compare its names again
		now.seen.mu.Unlock()
		u.update(now)
		return
	}
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
	u.observer.noteHealth(name, string(snap.Health.State))
	if news {
		u.observer.updateTools()
	}
	if offered {
		u.observer.updateOffers()
	}
	if snap.Health.State != tool.Connecting {
		u.settleUpstream(name)
	}
	if news || offered {
		u.catalog.View().Warm() // here rather than in the first search: ten thousand tools take a moment
	}
}

// screenSource decides which tools of an upstream are withheld, and whether its instructions are.
// The caller holds s.seen.mu.
func (u *upstreams) screenSource(s *source, tools []*tool.Tool, o *tool.Offers) (screening, *tool.Offers) {
	offers := s.narrowOffers(o)
	var text *tool.Tool
	named := func(t *tool.Tool) bool { return t.Name == tool.InstructionsName }
	if offers != nil && !slices.ContainsFunc(tools, named) {
		text = offers.Instructions
	}
	if text == nil {
		if offers != nil {
			offers.Instructions = nil
		}
		return u.pins.screenTools(s.up.Name(), &s.review, tools), offers
	}
	result := u.pins.screenTools(s.up.Name(), &s.review, append(slices.Clip(tools), text))
	result.withheld = slices.DeleteFunc(result.withheld, func(w catalog.Withheld) bool { return w.Tool == text })
	if !slices.Contains(result.kept, text) {
		offers.Instructions = nil
	}
	result.kept = slices.DeleteFunc(slices.Clone(result.kept), func(t *tool.Tool) bool { return t == text })
	return result, offers
}

// A resourceObserver passes on which resources of an upstream were updated, and what it announces.
type resourceObserver struct {
	to       toolObserver
	upstream string
	owner    string // the only principal to notify; empty: all
}

// OnUpdate implements mcp.UpdateObserver.
func (o resourceObserver) OnUpdate(uri string) { o.to.updateResource(o.upstream, uri, o.owner) }

// OnAnnouncement implements mcp.UpdateObserver. Clients are told what the server announces.
func (o resourceObserver) OnAnnouncement(tools, offers bool) { o.to.announceLists(tools, offers) }

// WatchResource implements mcpserver.Resources.
func (u *upstreams) WatchResource(name, uri, principal string) {
	s := u.source(name)
	if s == nil {
		return
	}
	switch w := s.up.(type) {
	case *personalUpstream:
		w.WatchFor(principal, uri)
	case upstream.Watcher:
		w.WatchResource(uri)
	}
}

// UnwatchResource implements mcpserver.Resources.
func (u *upstreams) UnwatchResource(name, uri, principal string) {
	s := u.source(name)
	if s == nil {
		return
	}
	switch w := s.up.(type) {
	case *personalUpstream:
		w.UnwatchFor(principal, uri)
	case upstream.Watcher:
		w.UnwatchResource(uri)
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

// listStates returns the state of each upstream.
func (u *upstreams) listStates() map[string]tool.State {
	out := make(map[string]tool.State, len(u.listSources()))
	for _, s := range u.listSources() {
		out[s.up.Name()] = s.up.Snapshot().Health.State
	}
	return out
}
