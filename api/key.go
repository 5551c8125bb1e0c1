package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// A Key is an API key, without its secret.
type Key struct {
	Name     string     `json:"name"`
	ID       string     `json:"id"`    // stands in the key itself
	State    string     `json:"state"` // one of the states of keys
	Person   string     `json:"person,omitempty"`
	Roles    []string   `json:"roles"`
	Scopes   []string   `json:"scopes"`
	Tools    []string   `json:"tools,omitempty"` // patterns; none: all
	Groups   []string   `json:"groups,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires,omitempty"`
	Rotated  *time.Time `json:"rotated,omitempty"`
	OldUntil *time.Time `json:"old_until,omitempty"` // the secret before the last rotation opens until then
	Used     *time.Time `json:"used,omitempty"`
	Revoked  *time.Time `json:"revoked,omitempty"`
	Key      string     `json:"key,omitempty"` // the key itself: only where it was just made, and never again
}

// The states of keys.
const (
	KeyActive  = "active"
	KeyExpired = "expired"
	KeyRevoked = "revoked"
	KeyChanged = "changed" // in the database, without the key of the data folder: it opens nothing
)

// A KeyRequest is a key that is to be made.
type KeyRequest struct {
	Name           string   `json:"name"`
	Person         string   `json:"person,omitempty"`
	Roles          []string `json:"roles,omitempty"`           // none: user
	Scopes         []string `json:"scopes,omitempty"`          // mcp, api; none: mcp
	Tools          []string `json:"tools,omitempty"`           // patterns of paths; none: all
	Groups         []string `json:"groups,omitempty"`          // as policies and approvers name them
	ExpiresSeconds int64    `json:"expires_seconds,omitempty"` // from now; 0: never
}

// A RotateRequest says how long the secret of a key goes on that is replaced.
type RotateRequest struct {
	GraceSeconds int64 `json:"grace_seconds,omitempty"`
}

// Keys lists the API keys, revoked ones too.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	return get[[]Key](ctx, c, "/keys")
}

// CreateKey makes a key. The answer holds it, once.
func (c *Client) CreateKey(ctx context.Context, r KeyRequest) (*Key, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Key](ctx, c, http.MethodPost, "/keys", body)
}

// RotateKey gives a key another secret. The answer holds the key, once.
func (c *Client) RotateKey(ctx context.Context, name string, r RotateRequest) (*Key, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Key](ctx, c, http.MethodPost, "/keys/"+url.PathEscape(name)+"/rotate", body)
}

// RevokeKey ends a key, at once and for good.
func (c *Client) RevokeKey(ctx context.Context, name string) (*Key, error) {
	return ask[*Key](ctx, c, http.MethodDelete, "/keys/"+url.PathEscape(name), nil)
}
