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

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/program/check"
	"github.com/biplane-dev/biplane/internal/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// A source is one upstream of the configuration.
type source struct {
	kind   string // "stdio", "http", "sse"
	target string // the command or the address, without credentials
	how    string // it gets its credentials, where nobody signs in
	up     upstream.Upstream
	auth   *oauth.Client // nil where nobody can sign in
	narrow config.Narrowing
	seen   sighted
}

// An adding gives the upstreams of one kind that the settings ask for.
type adding func(s *config.Config, u *upstreams) error

// The kinds of upstreams: one line each.
var kinds = []adding{
	addServers,
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
		err = u.add(&source{kind: shown.Type, target: target, how: credentials(c), auth: auth, narrow: c.Narrow}, c.Name, func(changed func()) (upstream.Upstream, error) {
			kind := c.Type
			if kind == "http" {
				// many configurations say so, or nothing, of servers that speak the legacy
				// transport: it finds out
				kind = ""
			}
			cfg := mcp.Config{
				Name: c.Name, Type: kind, Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir, URL: c.URL, Headers: c.Headers, Timeout: c.Timeout, Timeouts: c.Timeouts,
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

// signsIn makes what signs in to a server on the network. A server whose Authorization header the
// configuration gives is signed in to with that alone: the client is nil, as for programs.
func (u *upstreams) signsIn(c *config.Server) (*oauth.Client, error) {
	if c.URL == "" || c.Authorization() {
		return nil, nil
	}
	return oauth.New(oauth.Config{
		Name: c.Name, URL: c.URL, ClientID: c.OAuth.ClientID, ClientSecret: c.OAuth.ClientSecret, Issuer: c.OAuth.Issuer, Scopes: c.OAuth.Scopes, RedirectPort: c.OAuth.RedirectPort,
		Store: u.tokens, Alone: true, Log: u.log, Mask: u.mask, // the data folder has one owner
	})
}

// upstreams are all sources of tools, and keep the catalog up to date with them.
type upstreams struct {
	log     *slog.Logger
	mask    *mask.Masker
	version string
	tokens  oauth.Store
	signIns *signIns
	hints   *hints
	catalog *catalog.Catalog
	changed func() // told when tools came or went
	wait    time.Duration
	sources []*source // in the order of the configuration
	settled chan struct{}
	wanted  chan struct{} // closed when somebody needs them: they are started then

	mu        sync.Mutex
	connects  map[string]chan struct{} // still connecting for the first time; closed when it no longer is
	lastTools map[string][]*tool.Tool
}

func newUpstreams(s *config.Config, tokens oauth.Store, h *hints, c *catalog.Catalog, version string, log *slog.Logger, m *mask.Masker, changed func(), signedIn signedIn) (*upstreams, error) {
	u := &upstreams{
		log: log, mask: m, version: version, tokens: tokens, hints: h, catalog: c, changed: changed, wait: s.StartWait, settled: make(chan struct{}), wanted: make(chan struct{}),
		connects: map[string]chan struct{}{}, lastTools: map[string][]*tool.Tool{},
	}
	u.signIns = newSignIns(u, signedIn, log)
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

// add makes an upstream, and shows it in the catalog without tools until it is connected.
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

// want starts the upstreams, where that was left until somebody needs them.
func (u *upstreams) want() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.wanted:
	default:
		close(u.wanted)
	}
}

// run runs all upstreams once they are wanted, at the same time, until ctx is done; it returns when
// all that they started is gone.
func (u *upstreams) run(ctx context.Context) {
	defer u.signIns.close()
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

// update brings the catalog up to date with one upstream.
func (u *upstreams) update(s *source) {
	name := s.up.Name()
	s.seen.mu.Lock()
	snap := s.up.Snapshot()
	tools, compared := u.believed(s, snap.Tools)
	u.catalog.Set(catalog.Source{Name: name, Caller: s.up, Tools: tools, Health: snap.Health})
	s.seen.mu.Unlock()
	u.mu.Lock()
	news := compared && len(tools) > 0 || len(u.lastTools[name]) != len(snap.Tools) || len(snap.Tools) > 0 && &u.lastTools[name][0] != &snap.Tools[0]
	u.lastTools[name] = snap.Tools
	u.mu.Unlock()
	if news {
		u.changed()
	}
	if snap.Health.State != tool.Connecting {
		u.settle(name)
	}
	if news {
		u.catalog.View().Warm() // here, not in the first search: it takes a moment for ten thousand tools
	}
}

// settle notes that an upstream is past its first connection, or that nobody waits any longer (name
// empty).
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

// connecting names those that are wanted, and not past their first connection, sorted.
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

// states says how each upstream is.
func (u *upstreams) states() map[string]tool.State {
	out := make(map[string]tool.State, len(u.sources))
	for _, s := range u.sources {
		out[s.up.Name()] = s.up.Snapshot().Health.State
	}
	return out
}

// ready waits until all upstreams are past their first connection, or the time for that is over.
func (u *upstreams) ready(ctx context.Context) {
	u.want()
	select {
	case <-u.settled:
	case <-ctx.Done():
	}
}

// readyFor waits as ready does, for those upstreams only that a program may use: those that its
// text names, by namespace or name. A program that might reach others by names that are not in its
// text, or names a tool alone, waits for all.
func (u *upstreams) readyFor(ctx context.Context, arguments json.RawMessage) {
	var a struct {
		Code    string `json:"code"`
		Session string `json:"session"` // what was defined in it before is not in the text
	}
	if json.Unmarshal(arguments, &a) != nil || a.Session != "" || slices.ContainsFunc(computed, func(w string) bool { return strings.Contains(a.Code, w) }) ||
		check.CallsUndeclared(a.Code) {
		u.ready(ctx)
		return
	}
	for _, info := range u.catalog.View().Upstreams() {
		if !strings.Contains(a.Code, info.Name) && !strings.Contains(a.Code, info.Namespace) {
			continue
		}
		if !u.past(ctx, info.Name) {
			return
		}
	}
}

// past waits until an upstream is past its first connection, or the time for that is over; false
// when ctx is done before.
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

// computed are the words of programs that can reach upstreams which their text doesn't name: by
// computed names, as files, by search, through the global object, or in code that they make.
var computed = []string{
	"tools", "search", "callTool", "import", "require", "readdir", "globalThis", "self", "this", "window", "global", "eval", "Function", "constructor", `\u`,
}

// waiting makes a Caller wait for the upstreams' first connections before it calls.
func (u *upstreams) waiting(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.ready(ctx)
		return next.Call(ctx, c)
	})
}

// waitingFor is waiting for execute, which waits for those upstreams only that the program may use.
func (u *upstreams) waitingFor(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.readyFor(ctx, c.Arguments)
		return next.Call(ctx, c)
	})
}

// waitingOne is waiting for the calls of programs, which wait for the upstream of their tool only:
// one that goes on after a restart begins before the upstreams do.
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
		u.ready(ctx) // its name is none that is known yet
		return next.Call(ctx, c)
	})
}
