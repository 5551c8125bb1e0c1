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
	SignInNotNeeded = "not needed" // nothing was begun: How says why
)

// A SignIn is an attempt to sign in to an upstream.
type SignIn struct {
	ID       string `json:"id,omitempty"` // of the attempt; empty when nothing was begun
	Upstream string `json:"upstream"`     // exact name
	State    string `json:"state"`
	URL      string `json:"url,omitempty"`      // for a person's browser
	Redirect string `json:"redirect,omitempty"` // where the browser ends, on the machine of the process that answers
	How      string `json:"how,omitempty"`      // how the upstream gets its credentials
	Error    *Error `json:"error,omitempty"`
}

// A SignOut is what signing out of an upstream did.
type SignOut struct {
	Upstream string `json:"upstream"`
	Revoked  bool   `json:"revoked"` // whether the authorization server took the tokens back, too
}

// A SignInRequest begins to sign in (empty), or gives the address that the browser ended at.
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

// BeginSignIn begins to sign in to an upstream, where it needs that. An attempt that is under way ends. Over the socket only,
// as all that follows.
func (c *Client) BeginSignIn(ctx context.Context, upstream string) (*SignIn, error) {
	return ask[*SignIn](ctx, c, http.MethodPost, signInPath(upstream, ""), []byte(`{}`))
}

// SignIn gives how an attempt is. While it waits for a person, the answer comes after some seconds.
func (c *Client) SignIn(ctx context.Context, upstream, id string) (*SignIn, error) {
	return get[*SignIn](ctx, c, signInPath(upstream, id))
}

// PasteSignIn finishes an attempt with the address that the browser ended at, where that runs on another machine.
func (c *Client) PasteSignIn(ctx context.Context, upstream, id, redirect string) (*SignIn, error) {
	body, err := json.Marshal(SignInRequest{ID: id, Redirect: redirect})
	if err != nil {
		return nil, err
	}
	return ask[*SignIn](ctx, c, http.MethodPost, signInPath(upstream, ""), body)
}

// CancelSignIn gives an attempt up.
func (c *Client) CancelSignIn(ctx context.Context, upstream, id string) error {
	_, err := ask[*SignOut](ctx, c, http.MethodDelete, signInPath(upstream, id), nil)
	return err
}

// SignOut forgets the sign-in to an upstream, and has it revoked where that is offered.
func (c *Client) SignOut(ctx context.Context, upstream string) (*SignOut, error) {
	return ask[*SignOut](ctx, c, http.MethodDelete, signInPath(upstream, ""), nil)
}
