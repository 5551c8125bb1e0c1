package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// A Secret is a value that the configuration refers to as ${secret:NAME}. The API never returns
// the value.
type Secret struct {
	Name    string     `json:"name"`
	Owner   string     `json:"owner,omitempty"` // ID of the principal whose calls alone use it; empty: shared
	State   string     `json:"state"`           // SecretSet, SecretElsewhere, SecretMissing or SecretUnknown
	Changed *time.Time `json:"changed,omitempty"`
	Uses    []string   `json:"uses,omitempty"` // names of the upstreams that refer to it
}

// The states of secrets.
const (
	SecretSet       = "set"       // in the data folder
	SecretElsewhere = "elsewhere" // in another source of the configuration
	SecretMissing   = "missing"   // in no source: the upstreams that refer to it are down
	SecretUnknown   = "unknown"   // a source can't be read
)

// SecretOfCaller stands for the ID of the calling principal.
const SecretOfCaller = "me"

// A SecretRequest sets a secret.
type SecretRequest struct {
	Value string `json:"value"`
}

func secretPath(owner, name string) string {
	p := "/secrets/" + url.PathEscape(name)
	if owner != "" {
		p += "?owner=" + url.QueryEscape(owner)
	}
	return p
}

// ListSecrets lists the secrets of an owner or, if it is empty, the shared ones. It and the methods
// below work only over the Unix socket.
func (c *Client) ListSecrets(ctx context.Context, owner string) ([]Secret, error) {
	return get[[]Secret](ctx, c, "/secrets?owner="+url.QueryEscape(owner))
}

// SetSecret stores a secret in the data folder.
func (c *Client) SetSecret(ctx context.Context, owner, name, value string) (*Secret, error) {
	body, err := json.Marshal(SecretRequest{Value: value})
	if err != nil {
		return nil, err
	}
	return ask[*Secret](ctx, c, http.MethodPut, secretPath(owner, name), body)
}

// RemoveSecret deletes a secret from the data folder.
func (c *Client) RemoveSecret(ctx context.Context, owner, name string) error {
	_, err := ask[struct{}](ctx, c, http.MethodDelete, secretPath(owner, name), nil)
	return err
}

// OwnSecrets are the calls of a Client about the caller's own secrets. They work over the network,
// too.
type OwnSecrets struct{ Client *Client }

// ListSecrets lists the caller's secrets.
func (o OwnSecrets) ListSecrets(ctx context.Context) ([]Secret, error) {
	return get[[]Secret](ctx, o.Client, "/me/secrets")
}

// SetSecret stores a secret of the caller.
func (o OwnSecrets) SetSecret(ctx context.Context, name, value string) (*Secret, error) {
	body, err := json.Marshal(SecretRequest{Value: value})
	if err != nil {
		return nil, err
	}
	return ask[*Secret](ctx, o.Client, http.MethodPut, "/me"+secretPath("", name), body)
}

// RemoveSecret deletes a secret of the caller.
func (o OwnSecrets) RemoveSecret(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, o.Client, http.MethodDelete, "/me"+secretPath("", name), nil)
	return err
}
