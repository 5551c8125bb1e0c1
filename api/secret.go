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

// A SecretClient manages stored secrets. Nothing returns their values.
type SecretClient struct{ client *Client }

// Secrets returns the client of secrets.
func (c *Client) Secrets() SecretClient { return SecretClient{c} }

// List lists the secrets of an owner or, if it is empty, the shared ones. It and the methods
// below work only over the Unix socket.
func (c SecretClient) List(ctx context.Context, owner string) ([]Secret, error) {
	return get[[]Secret](ctx, c.client, "/secrets?owner="+url.QueryEscape(owner))
}

// Set stores a secret in the data folder.
func (c SecretClient) Set(ctx context.Context, owner, name, value string) (*Secret, error) {
	body, err := json.Marshal(SecretRequest{Value: value})
	if err != nil {
		return nil, err
	}
	return ask[*Secret](ctx, c.client, http.MethodPut, secretPath(owner, name), body)
}

// Remove deletes a secret from the data folder.
func (c SecretClient) Remove(ctx context.Context, owner, name string) error {
	_, err := ask[struct{}](ctx, c.client, http.MethodDelete, secretPath(owner, name), nil)
	return err
}

// An OwnSecretClient manages the caller's own secrets. It works over the network, too.
type OwnSecretClient struct{ client *Client }

// OwnSecrets returns the client of the caller's own secrets.
func (c *Client) OwnSecrets() OwnSecretClient { return OwnSecretClient{c} }

// List lists the caller's secrets.
func (c OwnSecretClient) List(ctx context.Context) ([]Secret, error) {
	return get[[]Secret](ctx, c.client, "/me/secrets")
}

// Set stores a secret of the caller.
func (c OwnSecretClient) Set(ctx context.Context, name, value string) (*Secret, error) {
	body, err := json.Marshal(SecretRequest{Value: value})
	if err != nil {
		return nil, err
	}
	return ask[*Secret](ctx, c.client, http.MethodPut, "/me"+secretPath("", name), body)
}

// Remove deletes a secret of the caller.
func (c OwnSecretClient) Remove(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c.client, http.MethodDelete, "/me"+secretPath("", name), nil)
	return err
}
