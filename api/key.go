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
	ID       string     `json:"id"`    // part of the key itself
	State    string     `json:"state"` // KeyActive, KeyExpired, KeyRevoked or KeyChanged
	Person   string     `json:"person,omitempty"`
	Roles    []string   `json:"roles"`
	Scopes   []string   `json:"scopes"`
	Tools    []string   `json:"tools,omitempty"` // patterns; empty: all
	Groups   []string   `json:"groups,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires,omitempty"`
	Rotated  *time.Time `json:"rotated,omitempty"`
	OldUntil *time.Time `json:"old_until,omitempty"` // the secret before the last rotation is accepted until then
	Used     *time.Time `json:"used,omitempty"`
	Revoked  *time.Time `json:"revoked,omitempty"`
	Key      string     `json:"key,omitempty"` // the key itself: only in the response that creates or rotates it
}

// The states of keys.
const (
	KeyActive  = "active"
	KeyExpired = "expired"
	KeyRevoked = "revoked"
	KeyChanged = "changed" // changed in the database without the data folder's key: it is not accepted
)

// A KeyRequest describes a key to create.
type KeyRequest struct {
	Name           string   `json:"name"`
	Person         string   `json:"person,omitempty"`
	Roles          []string `json:"roles,omitempty"`           // default: user
	Scopes         []string `json:"scopes,omitempty"`          // mcp, api; default: mcp
	Tools          []string `json:"tools,omitempty"`           // patterns of paths; empty: all
	Groups         []string `json:"groups,omitempty"`          // as policies and approvers name them
	ExpiresSeconds int64    `json:"expires_seconds,omitempty"` // from now; 0: never
}

// A RotateRequest specifies how long the old secret of a rotated key is still accepted.
type RotateRequest struct {
	GraceSeconds int64 `json:"grace_seconds,omitempty"`
}

// A KeyClient manages API keys.
type KeyClient struct{ client *Client }

// Keys returns the client of keys.
func (c *Client) Keys() KeyClient { return KeyClient{c} }

// List lists the API keys, including revoked ones.
func (c KeyClient) List(ctx context.Context) ([]Key, error) {
	return get[[]Key](ctx, c.client, "/keys")
}

// Create creates a key. Only this response contains it.
func (c KeyClient) Create(ctx context.Context, r KeyRequest) (*Key, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Key](ctx, c.client, http.MethodPost, "/keys", body)
}

// Rotate replaces the secret of a key. Only this response contains the new key.
func (c KeyClient) Rotate(ctx context.Context, name string, r RotateRequest) (*Key, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Key](ctx, c.client, http.MethodPost, "/keys/"+url.PathEscape(name)+"/rotate", body)
}

// Revoke revokes a key, immediately and permanently.
func (c KeyClient) Revoke(ctx context.Context, name string) (*Key, error) {
	return ask[*Key](ctx, c.client, http.MethodDelete, "/keys/"+url.PathEscape(name), nil)
}
