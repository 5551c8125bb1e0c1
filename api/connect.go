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

// A SignInRequest starts a sign-in (if it is empty), or passes on the address that the browser
// ended at.
type SignInRequest struct {
	ID       string `json:"id,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

func signInPath(upstream, id string) string {
	p := "/upstreams/" + url.PathEscape(upstream) + "/sign-in"
	if id != "" {
		p += "?id=" + url.QueryEscape(id)
	}
	return p
}

// BeginSignIn starts a sign-in to an upstream, if it needs one, and ends an attempt that is still
// pending. It and the methods below work only over the Unix socket.
func (c *Client) BeginSignIn(ctx context.Context, upstream string) (*SignIn, error) {
	return ask[*SignIn](ctx, c, http.MethodPost, signInPath(upstream, ""), []byte(`{}`))
}

// SignIn returns the state of an attempt. While the attempt waits for a person, the response is
// delayed by some seconds.
func (c *Client) SignIn(ctx context.Context, upstream, id string) (*SignIn, error) {
	return get[*SignIn](ctx, c, signInPath(upstream, id))
}

// PasteSignIn completes an attempt with the address that the browser ended at, if the browser runs
// on another machine.
func (c *Client) PasteSignIn(ctx context.Context, upstream, id, redirect string) (*SignIn, error) {
	body, err := json.Marshal(SignInRequest{ID: id, Redirect: redirect})
	if err != nil {
		return nil, err
	}
	return ask[*SignIn](ctx, c, http.MethodPost, signInPath(upstream, ""), body)
}

// CancelSignIn cancels an attempt.
func (c *Client) CancelSignIn(ctx context.Context, upstream, id string) error {
	_, err := ask[*SignOut](ctx, c, http.MethodDelete, signInPath(upstream, id), nil)
	return err
}

// SignOut forgets the credentials of a sign-in, and revokes them if the authorization server
// supports that.
func (c *Client) SignOut(ctx context.Context, upstream string) (*SignOut, error) {
	return ask[*SignOut](ctx, c, http.MethodDelete, signInPath(upstream, ""), nil)
}
