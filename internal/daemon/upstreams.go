package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program/check"
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
	auth   *oauth.Client // nil if there is no sign-in
	narrow config.Narrowing
	seen   sighted
}

// An adding adds the configured upstreams of one kind.
type adding func(s *config.Config, u *upstreams) error

// kinds lists the kinds of upstreams, one per line.
var kinds = []adding{
	addServers,
	addAPIs,
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
		auth, err := u.signsIn(c)
		if err != nil {
			return err
		}
		err = u.add(&source{kind: shown.Type, target: target, how: credentials(c), auth: auth, narrow: c.Narrow},
			c.Name, func(changed func()) (upstream.Upstream, error) {
				kind := c.Type
				if kind == "http" {
					// Many configurations set it, or set nothing, for servers that speak the legacy
					// transport: detect the transport.
					kind = ""
				}
				cfg := mcp.Config{
					Name: c.Name, Type: kind, Command: c.Command, Args: c.Args, Env: c.Env,
					Environ: c.Environ, Dir: c.Dir,
					URL: c.URL, Headers: c.Headers, Timeout: c.Timeout, Timeouts: c.Timeouts,
					OnChange: changed, Log: u.log, Mask: u.mask, ClientName: "biplane", ClientVersion: u.version,
				}
				if auth != nil {
					cfg.Auth = auth
				}
				return mcp.New(cfg)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// signsIn returns the OAuth client for a server on the network. It is nil for programs, and for
// servers with a configured Authorization header, which then is the only credential.
func (u *upstreams) signsIn(c *config.Server) (*oauth.Client, error) {
	if c.URL == "" || c.Authorization() {
		return nil, nil
	}
	return oauth.New(oauth.Config{
		Name: c.Name, URL: c.URL, ClientID: c.OAuth.ClientID, ClientSecret: c.OAuth.ClientSecret,
		Issuer: c.OAuth.Issuer, Scopes: c.OAuth.Scopes, RedirectPort: c.OAuth.RedirectPort,
		Store: u.tokens, Alone: true, Log: u.log, Mask: u.mask, // Alone: the data folder has one owner
	})
}

// upstreams holds all sources of tools, and keeps the catalog up to date with them.
type upstreams struct {
	log     *slog.Logger
	mask    *mask.Masker
	version string
	tokens  oauth.Store
	signIns signIns
	hints   *hints
	catalog *catalog.Catalog
	changed func() // called when tools were added or removed
	wait    time.Duration
	sources []*source // in the order of the configuration
	settled chan struct{}
	wanted  chan struct{} // closed on first use, which starts them

	mu        sync.Mutex
	connects  map[string]chan struct{} // by upstream, during the first connection attempt; closed when it is over
	lastTools map[string][]*tool.Tool

	lastOffers map[string]*tool.Offers
}

func newUpstreams(s *config.Config, tokens oauth.Store, h *hints, c *catalog.Catalog, version string, log *slog.Logger,
	m *mask.Masker, changed func(), r signin.Recorder) (*upstreams, error) {
	u := &upstreams{
		log: log, mask: m, version: version, tokens: tokens, hints: h, catalog: c, changed: changed, wait: s.StartWait,
		settled: make(chan struct{}), wanted: make(chan struct{}),
		connects: map[string]chan struct{}{}, lastTools: map[string][]*tool.Tool{},
		lastOffers: map[string]*tool.Offers{},
	}
	u.signIns = signIns{signin.New(u, r)}
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

// add creates an upstream, and adds it to the catalog without tools until it is connected.
func (u *upstreams) add(s *source, name string, create func(changed func()) (upstream.Upstream, error)) error {
	up, err := create(func() { u.update(s) })
	if err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "upstream %s: %w", name, err)
	}
	s.up = up
	u.sources = append(u.sources, s)
	u.connects[name] = make(chan struct{})
	u.catalog.Set(catalog.Source{Name: name, Caller: up, Health: up.Snapshot().Health})
	return nil
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
	offers := s.narrowOffers(snap.Offers)
	u.catalog.Set(catalog.Source{Name: name, Caller: s.up, Tools: tools, Health: snap.Health, Offers: offers})
	s.seen.mu.Unlock()
	u.mu.Lock()
	news := compared && len(tools) > 0 || len(u.lastTools[name]) != len(snap.Tools) ||
		len(snap.Tools) > 0 && &u.lastTools[name][0] != &snap.Tools[0] || u.lastOffers[name] != snap.Offers
	u.lastTools[name], u.lastOffers[name] = snap.Tools, snap.Offers
	u.mu.Unlock()
	if news {
		u.changed()
	}
	if snap.Health.State != tool.Connecting {
		u.settle(name)
	}
	if news {
		u.catalog.View().Warm() // here rather than in the first search: ten thousand tools take a moment
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

// connecting returns the upstreams that are still making their first connection, sorted; none if
// they have not been started.
func (u *upstreams) connecting() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.wanted:
		return slices.Sorted(maps.Keys(u.connects))
	default:
		return nil
	}
}

// states returns the state of each upstream.
func (u *upstreams) states() map[string]tool.State {
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

// waitForProgram waits like WaitReady, but only for the upstreams that a program may use.
func (u *upstreams) waitForProgram(ctx context.Context, arguments json.RawMessage) {
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
		if mayUse(info.Name, info.Namespace) && !u.past(ctx, info.Name) {
			return
		}
	}
}

// past waits until an upstream is past its first connection attempt, or the time for that is over.
// It returns false if ctx is done first.
func (u *upstreams) past(ctx context.Context, name string) bool {
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
		u.WaitReady(ctx)
		return next.Call(ctx, c)
	})
}

// waitingFor is like waiting, for execute: it waits only for the upstreams that the program may
// use.
func (u *upstreams) waitingFor(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.waitForProgram(ctx, c.Arguments)
		return next.Call(ctx, c)
	})
}

// waitingOne is like waiting, for the calls of programs: it waits only for the upstream of the
// called tool. A program resumed after a restart starts before the upstreams do.
func (u *upstreams) waitingOne(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.mu.Lock()
		settled := len(u.connects) == 0
		u.mu.Unlock()
		if settled {
			return next.Call(ctx, c)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "tools."), ".")
		for _, info := range u.catalog.View().Upstreams() {
			if info.Name == first || info.Namespace == first {
				u.past(ctx, info.Name)
				return next.Call(ctx, c)
			}
		}
		u.WaitReady(ctx) // no known upstream has that name yet
		return next.Call(ctx, c)
	})
}
