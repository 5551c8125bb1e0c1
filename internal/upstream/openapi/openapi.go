// Package openapi implements an upstream for an HTTP API that an OpenAPI document describes: 3.0,
// 3.1, or Swagger 2.0. Each operation becomes a tool. Its arguments are the operation's parameters
// and body; its result is an object with status, headers, body and the arguments for the next page.
//
// Documents and servers are not trusted. Sizes, depths, times and counts are limited. A broken
// operation costs only itself. Credentials go only to hosts that the configuration names: the
// server that it sets, the document's own host, or any server of a document in a file. Other hosts
// are reached only at public addresses, and redirects are followed within one origin only.
package openapi

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A Notify is called when an upstream's Snapshot has changed.
type Notify func()

// A Config says where an API's document is, and how to call the API.
type Config struct {
	Name      string            // of the upstream; required
	Spec      string            // an http or https URL, or a file's absolute path; required
	Server    string            // replaces the document's servers
	Variables map[string]string // of the document's servers
	Headers   map[string]string // of every request; their values are never logged
	Auth      map[string]Credential

	Timeout     time.Duration // of one call; default 60 s
	LoadTimeout time.Duration // of the document; default 60 s
	MaxAnswer   int           // bytes of one answer; default 16 MiB
	Version     string        // of Biplane, for User-Agent

	OnChange Notify       // may be nil
	Log      *slog.Logger // nil discards
	Mask     *mask.Masker // removes secrets from answers; nil: a new one
}

// maxAtOnce is the number of concurrent requests of one upstream. Principals share them.
const maxAtOnce = 64

// An Upstream is one API. It implements upstream.Upstream.
type Upstream struct {
	cfg     Config
	servers serverConfig
	web     *web
	tokens  *tokenCache
	turns   *queue.Fair
	end     chan struct{} // closed when Run ends

	mu      sync.Mutex
	running bool
	table   *table
	snap    upstream.Snapshot
	wake    chan struct{} // closed and replaced when the state changes
}

var _ upstream.Upstream = (*Upstream)(nil)

// New returns an Upstream after validating the configuration. Nothing is read before Run.
func New(cfg Config) (*Upstream, error) {
	u := &Upstream{web: newWeb(), tokens: newTokenCache(), turns: queue.New(maxAtOnce, math.MaxInt),
		end: make(chan struct{}), wake: make(chan struct{})}
	if cfg.Name == "" || cfg.Spec == "" {
		return nil, tool.Errorf(tool.Invalid, "upstream %q: name and spec are required", cfg.Name)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.LoadTimeout == 0 {
		cfg.LoadTimeout = time.Minute
	}
	if cfg.MaxAnswer == 0 {
		cfg.MaxAnswer = 16 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Mask == nil {
		cfg.Mask = mask.New()
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func() {}
	}
	cfg.Log = cfg.Log.With("upstream", cfg.Name)
	u.servers = serverConfig{fixed: cfg.Server, variables: cfg.Variables}
	if isURL(cfg.Spec) {
		base, err := url.Parse(cfg.Spec)
		if err != nil || base.Host == "" {
			return nil, tool.Errorf(tool.Invalid, "upstream %q: the address of its document can't be read", cfg.Name)
		}
		u.servers.base = base
	}
	if cfg.Server != "" {
		if s, err := url.Parse(cfg.Server); err != nil || s.Host == "" || s.Scheme != "http" && s.Scheme != "https" ||
			s.RawQuery != "" {
			return nil, tool.Errorf(tool.Invalid, "upstream %q: server must be like https://api.example.com/v1",
				cfg.Name)
		}
	}
	cfg.addSecrets()
	u.cfg = cfg
	u.snap.Health = tool.Health{State: tool.Connecting, Reason: "its document is not loaded yet: try again in a moment"}
	return u, nil
}

func isURL(spec string) bool {
	return strings.HasPrefix(spec, "http://") || strings.HasPrefix(spec, "https://")
}

// addSecrets adds the credentials to the mask, since a server might repeat them.
func (c *Config) addSecrets() {
	c.Mask.AddSecrets(c.Headers)
	c.Mask.AddAddress(c.Spec)
	c.Mask.AddAddress(c.Server)
	for _, a := range c.Auth {
		for _, s := range []string{a.Value, a.Password, a.ClientSecret} {
			if s != "" {
				c.Mask.Add(s)
			}
		}
	}
}

// Name returns the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.cfg.Name }

// Snapshot returns the current state of the upstream.
func (u *Upstream) Snapshot() upstream.Snapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.snap
}

// firstRetry and lastRetry are the delays before the document is loaded again.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run loads the document, again after failures, until ctx is done.
func (u *Upstream) Run(ctx context.Context) error {
	u.mu.Lock()
	again := u.running
	u.running = true
	u.mu.Unlock()
	if again {
		return tool.Errorf(tool.Conflict, "upstream %q: Run was called before", u.cfg.Name)
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := u.loadTable(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		reason := cleanLine(u.cfg.Mask.Text(err.Error()), 500)
		u.cfg.Log.Warn("document not loaded", "reason", reason, "next_attempt_in", wait)
		u.setState(func() { u.snap.Health = tool.Health{State: tool.Down, Reason: reason} })
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	<-ctx.Done()
	close(u.end)
	u.setState(func() {
		u.snap.Health = tool.Health{State: tool.Down, Reason: "closed", Stale: len(u.snap.Tools) > 0}
	})
	u.web.closeIdle()
	return nil
}

// setState changes the state under the lock, wakes waiting calls and notifies the owner.
func (u *Upstream) setState(change func()) {
	u.mu.Lock()
	change()
	close(u.wake)
	u.wake = make(chan struct{})
	u.mu.Unlock()
	u.cfg.OnChange()
}

// loadTable reads the document and its operations.
func (u *Upstream) loadTable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.LoadTimeout)
	defer cancel()
	began := time.Now()
	var s source = fileSource{filepath.Dir(u.cfg.Spec)}
	name := filepath.Base(u.cfg.Spec)
	if u.servers.base != nil {
		if name = path.Base(u.servers.base.Path); name == "." || name == "/" {
			name = "document"
		}
		s = webSource{web: u.web, url: u.servers.base, name: name}
	}
	d, err := loadDocument(ctx, s, name)
	if err != nil {
		return err
	}
	t, err := readTable(d, u.cfg.Name, u.servers)
	if err != nil {
		return err
	}
	if err := t.checkCredentials(u.cfg.Auth); err != nil {
		return err
	}
	own, err := t.requestOperation(u.cfg.Name, d)
	if err != nil {
		return err
	}
	t.byName[ownRequest] = own
	t.tools = append(slices.Clip(t.tools), own.tool)
	u.cfg.Log.Info("document loaded", "title", t.title, "tools", len(t.tools), "broken", t.dropped, "took",
		time.Since(began).Round(time.Millisecond))
	u.setState(func() {
		u.table = t
		u.snap = upstream.Snapshot{Health: tool.Health{State: tool.Ready}, Tools: t.tools, Broken: t.broken,
			Protocol: "OpenAPI", Server: t.title}
	})
	return nil
}

// awaitTable returns the operations, and waits while the document is being loaded.
func (u *Upstream) awaitTable(ctx context.Context) (*table, error) {
	for {
		u.mu.Lock()
		t, h, wake := u.table, u.snap.Health, u.wake
		u.mu.Unlock()
		switch {
		case h.State == tool.Down:
			return nil, tool.Errorf(tool.Unavailable, "upstream %q is down: %s", u.cfg.Name, h.Reason)
		case t != nil:
			return t, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, tool.AsError(context.Cause(ctx))
		}
	}
}

// Call sends the request of an operation and returns its answer.
func (u *Upstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == nil {
		return nil, tool.Errorf(tool.Internal, "upstream %q: the call names no tool", u.cfg.Name)
	}
	args, err := parseArguments(c.Arguments)
	if err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: %w", c.Tool.Path(), err))
	}
	ctx, cancel := context.WithTimeout(ctx, u.cfg.Timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-u.end:
			stop(tool.Errorf(tool.Unavailable,
				"upstream %q is being closed; whether the request took effect is unknown",
				u.cfg.Name))
		case <-ctx.Done():
		}
	}()
	res, err := u.callOperation(ctx, c, args)
	if err != nil {
		e := *tool.AsError(err)
		e.Msg = cleanLine(u.cfg.Mask.Text(c.Tool.Path()+": "+e.Msg), 2000)
		return nil, &e
	}
	return tool.ParseResult(u.cfg.Mask.HideJSON(res.Raw))
}

func parseArguments(raw []byte) (*node, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return newMap(), nil
	}
	args, err := parseJSON(raw)
	if err == nil && args.kind != mapKind {
		err = tool.Errorf(tool.Invalid, "the arguments must be a JSON object")
	}
	return args, err
}

func (u *Upstream) callOperation(ctx context.Context, c *tool.Call, args *node) (*tool.Result, error) {
	t, err := u.awaitTable(ctx)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	o := t.byName[c.Tool.Name]
	if o == nil {
		return nil, tool.NotSent(tool.Errorf(tool.NotFound, "the document has no such operation"))
	}
	build := o.buildRequest
	if o.name == ownRequest {
		build = o.buildAny
	}
	r, err := build(args)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	if err := u.turns.Enter(ctx, c.Principal.ID); err != nil {
		return nil, tool.NotSent(err)
	}
	defer u.turns.Leave(c.Principal.ID)
	got, err := u.sendRequest(ctx, t, o, r)
	if err != nil {
		return nil, err
	}
	sent := *o
	sent.method, sent.path = r.method, pathOf(o, r)
	return got.toResult(&sent, args)
}

// pathOf returns the path as an error shows it: a template, so that it has no values of arguments.
func pathOf(o *operation, r *wireRequest) string {
	if o.path != "" {
		return o.path
	}
	return r.path
}
