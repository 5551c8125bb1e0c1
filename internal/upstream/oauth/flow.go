package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	beginTime = time.Minute      // for discovery and registration
	codeTime  = 30 * time.Second // to exchange the code
)

// A Flow is one sign-in that waits for a person. Close must be called.
type Flow struct {
	URL      string // to open in a browser
	Redirect string // where the browser is sent afterwards

	c        *Client
	meta     *serverMeta
	grant    grant
	state    string
	verifier string
	listener *callback       // nil: others receive the redirect, and call Paste or CompleteWith
	ctx      context.Context // of the exchange; canceled by Close
	cancel   context.CancelFunc
	once     sync.Once // the code is exchanged once
	done     chan struct{}
	err      error // set before done is closed
}

// Begin discovers how to sign in, registers a client, and listens for the redirect on a local port.
// It asks for the scopes in the server's last refusal, and for those granted before. It lasts at
// most a minute. Its error explains what to do.
func (c *Client) Begin(ctx context.Context) (*Flow, error) { return c.BeginAt(ctx, "") }

// LocalRedirect returns the redirect to a port of the machine that the browser runs on. The
// configured port replaces the given one.
func (c *Client) LocalRedirect(port int) string {
	if c.cfg.RedirectPort != 0 {
		port = c.cfg.RedirectPort
	}
	return fmt.Sprintf("http://127.0.0.1:%d%s", port, callbackPath)
}

// BeginAt is like Begin, but the browser is redirected to redirect, and the Flow doesn't listen.
// The caller calls Paste or CompleteWith, and only for the user who began. Empty: as Begin.
func (c *Client) BeginAt(ctx context.Context, redirect string) (*Flow, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, beginTime,
		tool.Errorf(tool.Unavailable, "the servers did not answer within %s", beginTime))
	defer cancel()
	f, err := c.beginFlow(ctx, redirect)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, c.explainError(err)
	}
	return f, nil
}

// explainError converts an error to one that can be shown: without credentials or terminal escape
// sequences.
func (c *Client) explainError(err error) *tool.Error {
	e := tool.AsError(err)
	return &tool.Error{Kind: e.Kind, Msg: oneLine(c.Redact("sign in to upstream \""+c.cfg.Name+"\": "+e.Msg), 1000),
		Err: err}
}

func (c *Client) beginFlow(ctx context.Context, redirect string) (_ *Flow, err error) {
	if err := checkSecure(c.server, isLoopback(c.server)); err != nil {
		return nil, tool.Errorf(tool.Invalid, "its url %w: tokens are sent over https only", err)
	}
	c.mu.Lock()
	ch := c.challenge
	c.mu.Unlock()
	rm, m, err := c.findMetadata(ctx, ch)
	if err != nil {
		return nil, err
	}
	f := &Flow{c: c, meta: m, state: rand.Text(), verifier: rand.Text() + rand.Text(), done: make(chan struct{}),
		Redirect: redirect}
	if redirect == "" {
		if f.listener, err = listenCallback(f, c.cfg.RedirectPort); err != nil {
			return nil, err
		}
		f.Redirect = f.listener.redirectURL()
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx)) // a person takes longer than ctx allows
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	scopes := c.chooseScopes(ctx, ch, rm, m)
	client, err := c.registerClient(ctx, m, f.Redirect, scopes)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.rememberSecrets(client.Secret, f.verifier)
	c.mu.Unlock()
	f.grant = grant{Resource: rm.Resource, Issuer: m.Issuer, Endpoint: m.Token, Renewal: m.renewal,
		Revocation: m.Revocation, Client: client, Scopes: scopes}
	f.URL, err = f.authorizationURL()
	return f, err
}

// offline is the scope that makes OpenID providers issue refresh tokens.
const offline = "offline_access"

// chooseScopes returns the scopes to ask for: those of the configuration, otherwise those of the
// challenge, otherwise those of the metadata. Scopes granted before by the same issuer are added,
// so that asking for more loses nothing.
func (c *Client) chooseScopes(ctx context.Context, ch challenge, rm *resourceMeta, m *serverMeta) []string {
	var s []string
	if h, err := c.loadSignIn(ctx); err == nil && h.Issuer == m.Issuer { // an unreadable one is replaced
		s = slices.Concat(h.Scopes, h.Wants)
	}
	switch {
	case len(c.cfg.Scopes) > 0:
		return cleanScopes(append(s, c.cfg.Scopes...))
	case c.cfg.Described:
		s = slices.Concat(s, ch.scopes, rm.Scopes)
	case len(ch.scopes) > 0:
		s = append(s, ch.scopes...)
	case len(s) == 0:
		s = append(s, rm.Scopes...)
	}
	if slices.Contains(m.Scopes, offline) {
		s = append(s, offline)
	}
	return cleanScopes(s)
}

// authorizationURL returns the address that a person opens (RFC 6749 section 4.1.1, RFC 7636, RFC
// 8707).
func (f *Flow) authorizationURL() (string, error) {
	u, err := url.Parse(f.meta.Authorization)
	if err != nil {
		return "", tool.Errorf(tool.Unavailable, "authorization endpoint: %w", err)
	}
	sum := sha256.Sum256([]byte(f.verifier))
	q := u.Query()
	for k, v := range map[string]string{
		"response_type": "code", "client_id": f.grant.Client.ID, "redirect_uri": f.Redirect, "state": f.state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(k, v)
	}
	if f.grant.Resource != "" {
		q.Set("resource", f.grant.Resource)
	}
	if len(f.grant.Scopes) > 0 {
		q.Set("scope", strings.Join(f.grant.Scopes, " "))
	}
	if slices.Contains(f.grant.Scopes, offline) {
		q.Set("prompt", "consent") // OpenID Connect Core section 11
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Paste completes the sign-in with the address that the browser was sent to, if it runs on another
// machine.
func (f *Flow) Paste(text string) error {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || len(text) > maxCallback || u.Query().Get("state") == "" {
		return tool.Errorf(tool.Invalid,
			"this is not the final address of the browser: that begins with %s and contains a code and a state",
			f.Redirect)
	}
	return f.handleResponse(u.Query())
}

// HasState reports whether an authorization response belongs to f.
func (f *Flow) HasState(q url.Values) bool {
	return len(q["state"]) == 1 && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.state)) == 1
}

// CompleteWith completes the sign-in with an authorization response.
func (f *Flow) CompleteWith(q url.Values) error { return f.handleResponse(q) }

// errOther means that a redirect belongs to another sign-in; this one continues.
var errOther = &tool.Error{Kind: tool.Invalid,
	Msg: "this address belongs to another sign-in: open the one that biplane connect printed last"}

// handleResponse handles the authorization response (RFC 6749 section 4.1.2). A response with
// another state is rejected and changes nothing. The first one with the right state ends the flow.
func (f *Flow) handleResponse(q url.Values) error {
	if !f.HasState(q) {
		return errOther
	}
	mine := false
	f.once.Do(func() {
		mine = true
		if err := f.exchangeCode(q); err != nil {
			f.err = f.c.explainError(err)
		}
		close(f.done)
	})
	<-f.done
	if !mine && f.err == nil {
		return tool.Errorf(tool.Conflict, "this sign-in is complete")
	}
	return f.err
}

// exchangeCode checks the issuer (RFC 9207 section 2.4) before it uses anything else, and exchanges
// the code.
func (f *Flow) exchangeCode(q url.Values) error {
	iss, said := q.Get("iss"), q.Has("iss")
	switch {
	case said && (!f.meta.isIssuer(iss) || len(q["iss"]) != 1):
		return tool.Errorf(tool.Denied,
			"the answer came from a different authorization server, %s: it was rejected", shortLine(f.meta.Issuer))
	case !said && f.meta.SaysIssuer:
		return tool.Errorf(tool.Denied,
			"the answer does not name its authorization server, although %s promises to do so: it was rejected",
			shortLine(f.meta.Issuer))
	case q.Get("error") != "":
		e := &protocolError{Code: q.Get("error"), Description: q.Get("error_description")}
		return tool.Errorf(tool.Denied, "the authorization server refused: %w", e)
	case q.Get("code") == "" || len(q["code"]) != 1:
		return tool.Errorf(tool.Unavailable, "the authorization server sent no code")
	}
	ctx, cancel := context.WithTimeout(f.ctx, codeTime)
	defer cancel()
	f.c.mu.Lock()
	f.c.rememberSecrets(q.Get("code"))
	f.c.mu.Unlock()
	g := f.grant
	err := f.requestFirst(ctx, &g, url.Values{
		"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {f.Redirect},
		"code_verifier": {f.verifier},
	})
	var no *protocolError
	if errors.As(err, &no) {
		return tool.Errorf(tool.Denied, "the authorization server rejects its own code: %w", err)
	} else if err != nil {
		return err
	}
	if f.ctx.Err() != nil {
		return errClosed
	}
	return f.c.signedIn(context.WithoutCancel(ctx), g) // a half-saved sign-in would be a sign-out
}

// signedIn stores a new sign-in and replaces the previous one.
func (c *Client) signedIn(ctx context.Context, g grant) error {
	if err := c.cfg.Store.Forget(ctx, c.cfg.Name); err != nil {
		return err
	}
	if err := c.saveSignIn(ctx, &storedGrant{grant: g}); err != nil {
		return err
	}
	c.mu.Lock()
	c.refused, c.challenge, c.renewed, c.forced, c.failed = "", challenge{}, time.Time{}, time.Time{}, nil
	c.mu.Unlock()
	c.log.Info("signed in", "issuer", g.Issuer, "expires", g.Expires)
	c.notifyChange()
	return nil
}

// Wait waits until the sign-in has succeeded or failed, or ctx is done.
func (f *Flow) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return tool.AsError(ctx.Err())
	}
}

// errClosed means that an answer came too late.
var errClosed = &tool.Error{Kind: tool.Conflict, Msg: "this sign-in was canceled: run biplane connect again"}

// Close stops listening for the redirect, cancels an exchange in progress, and returns when the
// flow has ended. After that it can no longer sign in. It may be called twice.
func (f *Flow) Close() {
	f.cancel()
	f.once.Do(func() { // otherwise an answer is being processed, or was
		f.err = errClosed
		close(f.done)
	})
	if f.listener != nil {
		f.listener.close()
	}
}
