package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// The states of a SignIn.
const (
	SignInWaiting   = "waiting"    // for a person to open URL
	SignInDone      = "signed in"  // by this attempt
	SignInFailed    = "failed"     // Error says why
	SignInNotNeeded = "not needed" // no attempt was started: How says why
)

// A SignIn is an attempt to sign in to an upstream.
type SignIn struct {
	ID       string `json:"id,omitempty"` // of the attempt; empty if none was started
	Upstream string `json:"upstream"`     // exact name
	State    string `json:"state"`
	URL      string `json:"url,omitempty"`      // for a person's browser
	Redirect string `json:"redirect,omitempty"` // where the browser ends, on the machine of the responding process
	How      string `json:"how,omitempty"`      // how the upstream gets its credentials
	Error    *Error `json:"error,omitempty"`
}

// A SignOut is the result of signing out of an upstream.
type SignOut struct {
	Upstream string `json:"upstream"`
	Revoked  bool   `json:"revoked"` // the authorization server revoked the tokens, too
}

// A SignInRequest starts a sign-in (without an ID), or passes on the address that the browser ended
// at.
type SignInRequest struct {
	ID       string `json:"id,omitempty"`
	Redirect string `json:"redirect,omitempty"`
	// Port is the port of the user's machine that the browser is to be redirected to, for the
	// caller's own sign-in. The configuration may require another one: see SignIn.Redirect.
	Port int `json:"port,omitempty"`
}

// A SignInTarget identifies a sign-in to an upstream.
type SignInTarget struct {
	Upstream string // name or namespace
	// Owner is the ID of the principal whose sign-in it is, if the upstream has one for each.
	// Empty: the caller.
	Owner string
	// Own means that the request goes to the routes for any principal, also over the network. Only
	// the caller's own sign-in can be changed there. Otherwise it works only over the Unix socket.
	Own bool
}

func (t SignInTarget) signInPath(id string) string {
	q := url.Values{}
	p := "/upstreams/" + url.PathEscape(t.Upstream) + "/sign-in"
	if t.Own {
		p = "/me" + p
	} else if t.Owner != "" {
		q.Set("owner", t.Owner)
	}
	if id != "" {
		q.Set("id", id)
	}
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	return p
}

// A SignInClient signs in to upstreams, and out.
type SignInClient struct{ client *Client }

// SignIns returns the client of sign-ins.
func (c *Client) SignIns() SignInClient { return SignInClient{c} }

// Begin starts a sign-in to an upstream, if it needs one, and ends an attempt that is still
// pending. port is for the caller's own sign-in: see SignInRequest.
func (c SignInClient) Begin(ctx context.Context, t SignInTarget, port int) (*SignIn, error) {
	body, err := json.Marshal(SignInRequest{Port: port})
	if err != nil {
		return nil, err
	}
	return ask[*SignIn](ctx, c.client, http.MethodPost, t.signInPath(""), body)
}

// Get returns the state of an attempt. While the attempt waits for a person, the response is
// delayed by some seconds.
func (c SignInClient) Get(ctx context.Context, t SignInTarget, id string) (*SignIn, error) {
	return get[*SignIn](ctx, c.client, t.signInPath(id))
}

// Paste completes an attempt with the address that the browser ended at, if the browser runs
// on another machine than Biplane.
func (c SignInClient) Paste(ctx context.Context, t SignInTarget, id, redirect string) (*SignIn, error) {
	body, err := json.Marshal(SignInRequest{ID: id, Redirect: redirect})
	if err != nil {
		return nil, err
	}
	return ask[*SignIn](ctx, c.client, http.MethodPost, t.signInPath(""), body)
}

// Cancel cancels an attempt.
func (c SignInClient) Cancel(ctx context.Context, t SignInTarget, id string) error {
	_, err := ask[*SignOut](ctx, c.client, http.MethodDelete, t.signInPath(id), nil)
	return err
}

// SignOut forgets the credentials of a sign-in, and revokes them if the authorization server
// supports that.
func (c SignInClient) SignOut(ctx context.Context, t SignInTarget) (*SignOut, error) {
	return ask[*SignOut](ctx, c.client, http.MethodDelete, t.signInPath(""), nil)
}
