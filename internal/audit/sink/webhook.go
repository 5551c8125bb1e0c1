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

// A Webhook is a Sink that sends each checkpoint to a web address: POST of {"origin", "size",
// "checkpoint"} as JSON, which must be answered with 2xx. Redirects are not followed: what is
// configured is where checkpoints go.
type Webhook struct {
	URL    string       // may hold a secret, in its path too
	Client *http.Client // nil: one of its own
}

// answerBytes is how much of an answer is read.
const answerBytes = 64 << 10

// Name is the host of the address.
func (w *Webhook) Name() string { return "webhook " + site(w.URL) }

// Put sends c.
func (w *Webhook) Put(ctx context.Context, c Checkpoint) error {
	body, err := tool.Marshal(map[string]any{"origin": c.Origin, "size": c.Size, "checkpoint": c.Text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return tool.Errorf(tool.Invalid, "the address of the webhook is none")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "biplane")
	resp, err := client(w.Client).Do(req)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "%s: %v", w.Name(), bare(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytes)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return tool.Errorf(tool.Unavailable, "%s answered %d %s", w.Name(), resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// client is c, or one that follows no redirects.
func client(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: http.DefaultTransport}
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// bare is an error of a request without its address, which may hold a secret.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// site is the part of an address that holds no secret.
func site(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strconv.Quote("?")
	}
	return u.Scheme + "://" + u.Host
}
