package origin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	vaultTime   = 10 * time.Second
	vaultAnswer = 1 << 20 // bytes
)

// A Vault is one entry of the key-value store, version 2, of a Vault or OpenBao server. Each read
// is one request, and reads the newest version.
type Vault struct {
	Address   string // "https://vault.example.com:8200"
	Path      string // mount and path of the entry: "secret/biplane"
	Token     string
	Namespace string
	Timeout   time.Duration // 0: the default
	Client    *http.Client  // nil: a new one; its timeout and redirects are replaced
}

// ReadSecrets returns the values of the named secrets that the entry has.
func (v Vault) ReadSecrets(ctx context.Context, names []string) (map[string]string, error) {
	mount, path, ok := strings.Cut(v.Path, "/")
	if !ok {
		return nil, fmt.Errorf("vault: the path %q has no mount", v.Path)
	}
	address, err := url.JoinPath(v.Address, "v1", mount, "data", path)
	if err != nil {
		return nil, errors.New("vault: the address can't be read")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("vault: the address can't be read")
	}
	req.Header.Set("X-Vault-Token", v.Token)
	req.Header.Set("X-Vault-Request", "true")
	if v.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", v.Namespace)
	}
	resp, err := v.newClient().Do(req)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound: // there is no such entry, or it was deleted
		return map[string]string{}, nil
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, fmt.Errorf("vault refused the token for %s (status %d): use a token whose policy allows read on %s",
			v.Path, resp.StatusCode, mount+"/data/"+path)
	default:
		return nil, fmt.Errorf("vault answered with status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, vaultAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	if len(raw) > vaultAnswer {
		return nil, fmt.Errorf("vault: the answer has more than %d bytes", vaultAnswer)
	}
	return selectTexts(raw, names)
}

// newClient returns a client that follows no redirects: it would send the token along.
func (v Vault) newClient() *http.Client {
	c := &http.Client{}
	if v.Client != nil {
		c.Transport = v.Client.Transport
	}
	if c.Timeout = v.Timeout; c.Timeout == 0 {
		c.Timeout = vaultTime
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// selectTexts returns the named values of an answer that are texts.
func selectTexts(raw []byte, names []string) (map[string]string, error) {
	var answer struct {
		Data struct {
			Data map[string]json.RawMessage `json:"data"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("vault: the answer is not from a key-value store of version 2")
	}
	out := map[string]string{}
	for _, name := range names {
		value, ok := answer.Data.Data[name]
		if !ok {
			continue
		}
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, fmt.Errorf("vault: %s is not a text", name)
		}
		out[name] = text
	}
	return out, nil
}
