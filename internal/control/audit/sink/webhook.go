package sink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Webhook is a Sink that sends each checkpoint to a web address: a POST of {"origin", "size",
// "checkpoint"} as JSON, which must be answered with 2xx. Redirects are not followed, so that
// checkpoints go only to the configured address.
type Webhook struct {
	URL    string       // may contain a secret, even in its path
	Client *http.Client // nil: a new one
}

// answerBytes is the maximum number of bytes read from a response.
const answerBytes = 64 << 10

// Name returns the kind of the sink and the host of the address.
func (w *Webhook) Name() string { return "webhook " + addressHost(w.URL) }

// Put sends c.
func (w *Webhook) Put(ctx context.Context, c Checkpoint) error {
	body, err := tool.Marshal(struct {
		Checkpoint string `json:"checkpoint"`
		Origin     string `json:"origin"`
		Size       int64  `json:"size"`
	}{c.Text, c.Origin, c.Size})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return tool.Errorf(tool.Invalid, "the webhook's address is empty or invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "biplane")
	resp, err := withoutRedirects(w.Client).Do(req)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "%s: %v", w.Name(), withoutAddress(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytes)) // so that the connection can be reused
	if resp.StatusCode/100 != 2 {
		return tool.Errorf(tool.Unavailable, "%s answered %d %s", w.Name(), resp.StatusCode,
			http.StatusText(resp.StatusCode))
	}
	return nil
}

// withoutRedirects returns a copy of c, or of a default client, that doesn't follow redirects.
func withoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: http.DefaultTransport}
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// withoutAddress returns the cause of a request's error, without the address, which may contain a
// secret.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// addressHost returns the part of an address that contains no secret.
func addressHost(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strconv.Quote("?")
	}
	return u.Scheme + "://" + u.Host
}
