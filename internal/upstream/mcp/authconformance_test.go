//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// A person signs in, as the suite's servers want: without being asked anything.
type person struct {
	client *oauth.Client
	signs  int // how often
}

// document is the metadata document that the suite expects as client_id where it is supported.
const document = "https://conformance-test.local/client-metadata.json"

// newPerson makes a Client with a store of its own, in dir.
func newPerson(ctx context.Context, dir, url string) (*person, func(), error) {
	cfg := oauth.Config{Name: "suite", URL: url, ClientID: document}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) == nil && given.ID != "" {
		cfg.ClientID, cfg.ClientSecret = given.ID, given.Secret
	}
	s, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		return nil, nil, err
	}
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		return nil, nil, err
	}
	cfg.Store = s.Tokens(key)
	c, err := oauth.New(cfg)
	return &person{client: c}, func() { s.Close() }, err
}

// signIn does what `biplane connect` and a browser do. Whoever is refused again and again gives up.
func (p *person) signIn(ctx context.Context) error {
	if p.signs++; p.signs > 3 {
		return errors.New("signed in often enough")
	}
	f, err := p.client.Begin(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(os.Stderr, "open", f.URL)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(resp.Request.URL.String(), f.Redirect) {
		return fmt.Errorf("the browser ended at %s: %s", resp.Request.URL, page)
	}
	return f.Wait(ctx)
}
