package openapi

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// ownRequest is the name of the tool that sends any request to the document's servers.
const ownRequest = "request"

// A wireRequest is a request without its credentials. Its path, query and cookies are escaped.
type wireRequest struct {
	method  string
	server  string
	path    string
	query   []pair
	header  http.Header
	cookies []pair
	body    []byte
	token   string // of a person who signed in, which it carries
}

// ownHeaders belong to the connection, or to the credentials.
var ownHeaders = []string{"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer",
	"keep-alive", "expect", "accept-encoding", "authorization", "cookie"}

// setHeader sets a header that a program chose.
func (r *wireRequest) setHeader(name, value string) error {
	lower := strings.ToLower(name)
	if slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "proxy-") || strings.HasPrefix(lower, "sec-") {
		return tool.Errorf(tool.Invalid, "the header %q can't be set by a program: leave it out", web.ClipText(name))
	}
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !isTokenRune(c) }) ||
		strings.ContainsAny(value, "\r\n\x00") {
		return tool.Errorf(tool.Invalid, "invalid HTTP header %q", web.ClipText(name))
	}
	r.header.Set(name, value)
	return nil
}

// buildURL returns the URL of a request, and an error if it leads away from the server.
func (r *wireRequest) buildURL() (*url.URL, error) {
	text := r.server + r.path
	for i, q := range r.query {
		text += map[bool]string{true: "?", false: "&"}[i == 0] + q.name + "=" + q.value
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the path %q is invalid", web.ClipText(r.path))
	}
	base, err := url.Parse(r.server)
	if err != nil || !web.SameOrigin(base, u) || u.User != nil {
		return nil, tool.Errorf(tool.Denied, "the path %q leads to another server", web.ClipText(r.path))
	}
	return u, nil
}

// buildRequest returns the request of an operation with its arguments.
func (o *operation) buildRequest(args *node) (*wireRequest, error) {
	r := &wireRequest{method: strings.ToUpper(o.method), server: o.servers[0], path: o.path, header: http.Header{}}
	r.header.Set("Accept", o.accept)
	for _, p := range o.params {
		v := args.getField(p.argument)
		if v == nil || v.kind == nullKind && p.in != "path" {
			if p.required {
				return nil, tool.Errorf(tool.Invalid, "the argument %q is missing", p.argument)
			}
			continue
		}
		if err := p.addTo(r, v); err != nil {
			return nil, err
		}
	}
	if o.body == nil {
		return r, nil
	}
	v := args.getField(o.body.argument)
	if v == nil {
		if o.body.required {
			return nil, tool.Errorf(tool.Invalid, "the argument %q is missing", o.body.argument)
		}
		return r, nil
	}
	typ := o.body.types[0]
	if choice := args.getText("content_type"); len(o.body.types) > 1 && slices.Contains(o.body.types, choice) {
		typ = choice
	}
	var err error
	if r.body, typ, err = o.body.encodeBody(v, typ); err == nil {
		r.header.Set("Content-Type", typ)
	}
	return r, err
}

// addTo adds a parameter's value to a request.
func (p *parameter) addTo(r *wireRequest, v *node) error {
	switch p.in {
	case "path":
		text, err := p.formatPath(v)
		if err != nil {
			return tool.Errorf(tool.Invalid, "%w", err)
		}
		r.path = strings.ReplaceAll(r.path, "{"+p.name+"}", text)
	case "query":
		r.query = append(r.query, p.formatQuery(v, func(s string) string { return escapeText(s, p.reserved) })...)
	case "header":
		return r.setHeader(p.name, p.formatSimple(v, func(s string) string { return s }))
	case "cookie":
		r.cookies = append(r.cookies, p.formatQuery(v, func(s string) string { return escapeText(s, false) })...)
	}
	return nil
}

// requestOperation returns the operation of the tool request.
func (t *table) requestOperation(upstreamName string, d *document) (*operation, error) {
	servers := &node{kind: listKind}
	for _, s := range t.servers {
		servers.list = append(servers.list, newText(s))
	}
	scalar := `{"type":["string","number","boolean"]}`
	input := append([]byte(`{"type":"object","properties":{"method":{"type":"string","enum":["GET","HEAD","OPTIONS",`+
		`"PUT","POST","PATCH","DELETE"]},"path":{"type":"string","description":"below the server's address, like `+
		`/pets/7"},"query":{"type":"object","additionalProperties":{"anyOf":[`+scalar+`,{"type":"array","items":`+
		scalar+`}]}},"headers":{"type":"object","additionalProperties":{"type":"string"}},`+
		`"body":{"description":"JSON; `+
		`text or {base64} with another content-type in headers"},"server":{"description":"default: the first",`+
		`"enum":`), servers.appendJSON(nil)...)
	input = append(input, `}},"required":["method","path"],"additionalProperties":false}`...)
	yes, no := true, false
	var err error
	o := &operation{name: ownRequest, servers: t.servers, accept: "application/json, */*;q=0.5",
		security: readRequirements(d.rootPlace().n.getField("security"))}
	o.tool, err = web.NewTool(upstreamName, ownRequest, "Send a request",
		"Sends any request to the API's servers, for what no other tool of this upstream does. Prefer those: their "+
			"arguments and answers have types.",
		tool.Annotations{ReadOnly: &no, Destructive: &yes, Idempotent: &no, OpenWorld: &yes}, input, answerSchema(nil,
			nil))
	return o, err
}

// buildAny returns the request that the arguments of the tool request describe.
func (o *operation) buildAny(args *node) (*wireRequest, error) {
	r := &wireRequest{method: strings.ToUpper(args.getText("method")), server: o.servers[0], path: args.getText("path"),
		header: http.Header{}}
	if s := args.getText("server"); s != "" {
		if !slices.Contains(o.servers, s) {
			return nil, tool.Errorf(tool.Denied, "the server %q is not one of the document's: use one of %s",
				web.ClipText(s),
				strings.Join(o.servers, ", "))
		}
		r.server = s
	}
	if !isMethod(strings.ToLower(r.method)) {
		return nil, tool.Errorf(tool.Invalid, "unknown method %q", web.ClipText(r.method))
	}
	if err := checkPath(r.path); err != nil {
		return nil, err
	}
	r.header.Set("Accept", o.accept)
	esc := func(s string) string { return escapeText(s, false) }
	if q := args.getField("query"); q != nil {
		for _, f := range q.fields {
			r.query = append(r.query, (&parameter{name: f.name, style: "form", explode: true}).formatQuery(f.value,
				esc)...)
		}
	}
	if h := args.getField("headers"); h != nil {
		for _, f := range h.fields {
			if err := r.setHeader(f.name, scalarText(f.value)); err != nil {
				return nil, err
			}
		}
	}
	v := args.getField("body")
	if v == nil || v.kind == nullKind {
		return r, nil
	}
	b := &body{argument: "body", encoding: map[string]*node{}}
	typ := r.header.Get("Content-Type")
	if typ == "" {
		typ = "application/json"
	}
	var err error
	if r.body, typ, err = b.encodeBody(v, typ); err == nil {
		r.header.Set("Content-Type", typ)
	}
	return r, err
}

// checkPath rejects paths that a server or proxy could read as leaving the server's address.
func checkPath(p string) error {
	plain, err := url.PathUnescape(p)
	if err != nil || !strings.HasPrefix(p, "/") || strings.ContainsAny(plain, "\\?#\x00\r\n") {
		return tool.Errorf(tool.Invalid, "invalid path %q: it begins with a slash, and parameters go into query",
			web.ClipText(p))
	}
	for part := range strings.SplitSeq(plain, "/") {
		if part == "." || part == ".." {
			return tool.Errorf(tool.Invalid, "invalid path %q: it must not have the parts . and ..", web.ClipText(p))
		}
	}
	return nil
}

// sendRequest sends a request with its credentials and returns the complete response. If a token is
// refused, it is renewed once: the server did nothing.
func (u *Upstream) sendRequest(ctx context.Context, t *table, o *operation, r *wireRequest) (*reply, error) {
	q := chooseRequirement(o.security, u.cfg.Auth)
	if o.name == ownRequest && q == nil {
		q = u.onlyRequirement()
	}
	for renew := false; ; renew = true {
		one := *r
		one.header, one.query, one.cookies = r.header.Clone(), slices.Clip(r.query), slices.Clip(r.cookies)
		for name, v := range u.cfg.Headers {
			one.header.Set(name, v)
		}
		to, err := one.buildURL()
		if err != nil {
			return nil, tool.NotSent(err)
		}
		if trusted := u.servers.isTrusted(to); !trusted && (q != nil || len(u.cfg.Headers) > 0) {
			return nil, tool.NotSent(tool.Errorf(tool.Denied,
				"the document names the server %s, another host than its "+
					"own: to send credentials there, set server: %s in the configuration", to.Host, r.server))
		}
		if err := u.applyCredentials(ctx, t, q, &one, renew); err != nil {
			return nil, err
		}
		if to, err = one.buildURL(); err != nil {
			return nil, tool.NotSent(err)
		}
		got, err := u.sendOnce(ctx, &one, to)
		if err == nil && one.token != "" {
			u.noteAnswer(ctx, one.token, got, renew)
		}
		if err != nil || got.status != http.StatusUnauthorized || renew || !u.isRenewable(q) {
			return got, err
		}
	}
}

// onlyRequirement returns a requirement of the only configured credential, or nil if there are none
// or several.
func (u *Upstream) onlyRequirement() requirement {
	if len(u.cfg.Auth) == 1 {
		for name := range u.cfg.Auth {
			return requirement{name: nil}
		}
	}
	return nil
}

// isRenewable reports whether a requirement has tokens that can be requested again.
func (u *Upstream) isRenewable(q requirement) bool {
	for name := range q {
		if c := u.cfg.Auth[name]; c.IsRenewable() {
			return true
		}
	}
	return false
}

// sendOnce sends one request, and follows redirects of GET and HEAD within its origin.
func (u *Upstream) sendOnce(ctx context.Context, r *wireRequest, to *url.URL) (*reply, error) {
	client := u.Clients.ClientFor(u.servers.isTrusted(to))
	for hop := 0; ; hop++ {
		q, err := http.NewRequestWithContext(ctx, r.method, to.String(), bytes.NewReader(r.body))
		if err != nil {
			return nil, tool.NotSent(tool.Errorf(tool.Invalid, "invalid request: %w", err))
		}
		if len(r.body) == 0 {
			q.Body, q.GetBody = http.NoBody, nil
		}
		q.Header = r.header.Clone()
		if q.Header.Get("User-Agent") == "" {
			q.Header.Set("User-Agent", "biplane/"+u.Config.Version)
		}
		tracing.SetHeader(ctx, q.Header)
		if h := q.Header.Get("Host"); h != "" {
			q.Host = h
		}
		var cookies []string
		for _, c := range r.cookies {
			cookies = append(cookies, c.name+"="+c.value)
		}
		if len(cookies) > 0 {
			q.Header.Set("Cookie", strings.Join(cookies, "; "))
		}
		resp, err := client.Do(q)
		if err != nil {
			return nil, web.ExplainFailure(ctx, to, err)
		}
		next, err := to.Parse(resp.Header.Get("Location"))
		if resp.StatusCode/100 == 3 && resp.StatusCode != http.StatusNotModified && err == nil && hop < maxRedirects &&
			resp.Header.Get("Location") != "" && web.SameOrigin(next, to) && (r.method == "GET" || r.method == "HEAD") {
			_ = resp.Body.Close()
			to = next
			continue
		}
		return u.readReply(ctx, resp, to)
	}
}

func (u *Upstream) readReply(ctx context.Context, resp *http.Response, to *url.URL) (*reply, error) {
	text, err := web.ReadAnswer(ctx, resp, to, u.Config.MaxAnswer)
	if err != nil {
		return nil, err
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: text, url: to}, nil
}
