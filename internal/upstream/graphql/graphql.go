// Package graphql implements an upstream for a GraphQL endpoint. Each field of the query and
// mutation types becomes a tool. Its arguments are the field's arguments; its result is an object
// with the field. One more tool, query, sends any document of a program.
//
// Schemas, servers and the documents of programs are not trusted. Sizes, depths, times and counts
// are limited. Every document is validated against the schema before it is sent. Credentials go
// only to the configured address, and no redirect is followed.
package graphql

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A Config says where an endpoint is, and how to call it.
type Config struct {
	Name    string            // of the upstream; required
	URL     string            // http or https; required
	Schema  string            // absolute path of a file in GraphQL's schema language; "": introspection
	Headers map[string]string // of every request; their values are never logged
	Auth    web.Credential

	Timeout     time.Duration // of one call; default 60 s
	LoadTimeout time.Duration // of the schema; default 60 s
	MaxAnswer   int           // bytes of one answer; default 16 MiB
	Version     string        // of Biplane, for User-Agent

	OnChange web.Notify   // may be nil
	Log      *slog.Logger // nil discards
	Mask     *mask.Masker // removes secrets from answers; nil: a new one
	Masked   bool         // Mask has the secrets already
}

// An Upstream is one endpoint. It implements upstream.Upstream.
type Upstream struct {
	*web.Service[*table]
	cfg Config
	url *url.URL
}

var _ upstream.Upstream = (*Upstream)(nil)

// New returns an Upstream after validating the configuration. Nothing is read before Run.
func New(cfg Config) (*Upstream, error) {
	to, err := url.Parse(cfg.URL)
	if cfg.Name == "" || err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, tool.Errorf(tool.Invalid, "upstream %q: url must be like https://shop.example/graphql", cfg.Name)
	}
	if cfg.Mask == nil {
		cfg.Mask = mask.New()
	}
	if !cfg.Masked {
		cfg.Mask.AddSecrets(cfg.Headers)
		cfg.Mask.AddAddress(cfg.URL)
		cfg.Auth.AddTo(cfg.Mask)
	}
	u := &Upstream{cfg: cfg, url: to}
	u.Service = web.NewService(web.Config{Name: cfg.Name, Timeout: cfg.Timeout, LoadTimeout: cfg.LoadTimeout,
		MaxAnswer: cfg.MaxAnswer, Version: cfg.Version, OnChange: cfg.OnChange, Log: cfg.Log, Mask: cfg.Mask}, u)
	return u, nil
}

// LoadAPI reads the schema and creates its tools.
func (u *Upstream) LoadAPI(ctx context.Context) (*table, upstream.Snapshot, error) {
	var none upstream.Snapshot
	text, err := u.readSchema(ctx)
	if err != nil {
		return nil, none, err
	}
	load := parseIntrospection
	if u.cfg.Schema != "" {
		load = parseSDL
	}
	t, err := makeTable(u.cfg.Name, load, text)
	if err != nil {
		return nil, none, err
	}
	return t, upstream.Snapshot{Tools: t.tools, Broken: t.broken, Protocol: "GraphQL", Server: u.url.Host}, nil
}

// readSchema returns the text of the schema's file, or the answer to the introspection query.
func (u *Upstream) readSchema(ctx context.Context) ([]byte, error) {
	if u.cfg.Schema != "" {
		return web.ReadFile(filepath.Dir(u.cfg.Schema), filepath.Base(u.cfg.Schema), maxSchema)
	}
	body, err := tool.Marshal(request{Query: introspection})
	if err != nil {
		return nil, err
	}
	r, err := u.sendRequest(ctx, body, maxSchema)
	if err != nil {
		return nil, err
	}
	return r.readIntrospection()
}

// SendCall sends the document of a call and returns its result.
func (u *Upstream) SendCall(ctx context.Context, t *table, c *tool.Call) (*tool.Result, error) {
	q, err := t.buildRequest(c)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	body, err := tool.Marshal(q.request)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	r, err := u.sendRequest(ctx, body, u.Config.MaxAnswer)
	if err != nil {
		return nil, err
	}
	return r.toResult(q.reads)
}
