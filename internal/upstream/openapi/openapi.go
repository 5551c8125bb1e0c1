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
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A Config says where an API's document is, and how to call the API.
type Config struct {
	Name      string            // of the upstream; required
	Spec      string            // an http or https URL, or a file's absolute path; required
	Server    string            // replaces the document's servers
	Variables map[string]string // of the document's servers
	Headers   map[string]string // of every request; their values are never logged
	Auth      map[string]Credential
	SignIn    SignIn // of the credential that has SignIn; nil if none has
	Advice    string // how to sign in; empty: the usual command

	Timeout     time.Duration // of one call; default 60 s
	LoadTimeout time.Duration // of the document; default 60 s
	MaxAnswer   int           // bytes of one answer; default 16 MiB
	Version     string        // of Biplane, for User-Agent

	OnChange web.Notify   // may be nil
	Log      *slog.Logger // nil discards
	Mask     *mask.Masker // removes secrets from answers; nil: a new one
	Masked   bool         // Mask has the secrets already
}

// An Upstream is one API. It implements upstream.Upstream.
type Upstream struct {
	*web.Service[*table]
	cfg     Config
	servers serverConfig
}

var _ upstream.Upstream = (*Upstream)(nil)

// New returns an Upstream after validating the configuration. Nothing is read before Run.
func New(cfg Config) (*Upstream, error) {
	if cfg.Name == "" || cfg.Spec == "" {
		return nil, tool.Errorf(tool.Invalid, "upstream %q: name and spec are required", cfg.Name)
	}
	if cfg.Mask == nil {
		cfg.Mask = mask.New()
	}
	u := &Upstream{cfg: cfg}
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
	if !cfg.Masked {
		cfg.addSecrets()
	}
	u.Service = web.NewService(web.Config{Name: cfg.Name, Timeout: cfg.Timeout, LoadTimeout: cfg.LoadTimeout,
		MaxAnswer: cfg.MaxAnswer, Version: cfg.Version, OnChange: cfg.OnChange, Log: cfg.Log, Mask: cfg.Mask,
		Advice: cfg.Advice}, u)
	if cfg.SignIn != nil { // otherwise it would be an interface that holds nil
		u.Config.SignIn = cfg.SignIn
	}
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
		a.AddTo(c.Mask)
	}
}

// LoadAPI reads the document and its operations.
func (u *Upstream) LoadAPI(ctx context.Context) (*table, upstream.Snapshot, error) {
	var none upstream.Snapshot
	var s source = fileSource{filepath.Dir(u.cfg.Spec)}
	name := filepath.Base(u.cfg.Spec)
	if u.servers.base != nil {
		if name = path.Base(u.servers.base.Path); name == "." || name == "/" {
			name = "document"
		}
		s = webSource{web: u.Clients, url: u.servers.base, name: name}
	}
	d, err := loadDocument(ctx, s, name)
	if err != nil {
		return nil, none, err
	}
	t, err := readTable(d, u.cfg.Name, u.servers)
	if err != nil {
		return nil, none, err
	}
	if err := t.checkCredentials(u.cfg.Auth); err != nil {
		return nil, none, err
	}
	if err := u.recordSignIn(t); err != nil {
		return nil, none, err
	}
	own, err := t.requestOperation(u.cfg.Name, d)
	if err != nil {
		return nil, none, err
	}
	t.byName[ownRequest] = own
	t.tools = append(slices.Clip(t.tools), own.tool)
	return t, upstream.Snapshot{Tools: t.tools, Broken: t.broken, Protocol: "OpenAPI", Server: t.title}, nil
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

// SendCall sends the request of an operation and returns its answer.
func (u *Upstream) SendCall(ctx context.Context, t *table, c *tool.Call) (*tool.Result, error) {
	args, err := parseArguments(c.Arguments)
	if err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%w", err))
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
