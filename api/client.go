package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// answerBytes is the maximum size of a response.
const answerBytes = 256 << 20

// A Client calls the HTTP API. It is safe for concurrent use.
type Client struct {
	Base string       // "http://127.0.0.1:8420"
	HTTP *http.Client // nil: http.DefaultClient
}

// keyOfRequest is the key of an idempotency key in a context.
type keyOfRequest struct{}

// WithKey returns a context for one request that creates something, such as Run. If the request is
// sent again with the same key, it gets the first one's answer, and nothing is created twice. Use a
// random key, and keep it until there is an answer.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfRequest{}, key)
}

// Status returns the status of the process.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return get[*Status](ctx, c, "/status")
}

// Upstreams lists the sources of tools. It waits a moment for sources that are connecting.
func (c *Client) Upstreams(ctx context.Context) ([]Upstream, error) {
	return get[[]Upstream](ctx, c, "/upstreams")
}

// Tools lists all tools.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	return get[[]Tool](ctx, c, "/tools")
}

// Tool returns the full description of a tool, by any of its names.
func (c *Client) Tool(ctx context.Context, path string) (*ToolDetail, error) {
	return get[*ToolDetail](ctx, c, "/tools/"+url.PathEscape(path))
}

// AcceptHints accepts the weaker hints of a tool, if they are still the ones that claim identifies.
func (c *Client) AcceptHints(ctx context.Context, path, claim string) (*WeakerHints, error) {
	return post[*WeakerHints](ctx, c, "/tools/"+url.PathEscape(path)+"/accept", map[string]string{"claim": claim})
}

// Search searches for tools. If limit is 0, the default applies.
func (c *Client) Search(ctx context.Context, query string, limit int) (*Hits, error) {
	q := url.Values{"query": {query}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[*Hits](ctx, c, "/tools/search?"+q.Encode())
}

// Types returns the TypeScript declarations of all tools, by file path.
func (c *Client) Types(ctx context.Context) (map[string]string, error) {
	return get[map[string]string](ctx, c, "/tools/types")
}

// Sandboxes returns the capabilities of each kind of sandbox.
func (c *Client) Sandboxes(ctx context.Context) ([]Capability, error) {
	return get[[]Capability](ctx, c, "/sandboxes")
}

// Run runs a program. It waits for its end unless r.NoWait is set.
func (c *Client) Run(ctx context.Context, r RunRequest) (*Execution, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Execution](ctx, c, http.MethodPost, "/executions", body)
}

// Execution returns an execution that was started earlier, with its tokens counted.
func (c *Client) Execution(ctx context.Context, id string) (*Execution, error) {
	return get[*Execution](ctx, c, "/executions/"+url.PathEscape(id)+"?tokens=true")
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return ask[T](ctx, c, http.MethodGet, path, nil)
}

func ask[T any](ctx context.Context, c *Client, method, path string, body []byte) (T, error) {
	var out T
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.Base, "/")+Prefix+path,
		bytes.NewReader(body))
	if err != nil {
		return out, &Error{Invalid, "biplane: " + err.Error()}
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key, ok := ctx.Value(keyOfRequest{}).(string); ok {
		req.Header.Set(IdempotencyHeader, key)
	}
	p, paged := ctx.Value(pageOf{}).(*page)
	if paged {
		p.addTo(req.URL)
	}
	resp, err := c.sendRequest(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	switch {
	case ctx.Err() != nil:
		return out, &Error{Canceled, "canceled"}
	case err != nil:
		return out, &Error{Unavailable, "biplane's answer broke off: " + err.Error()}
	case len(text) > answerBytes:
		return out, &Error{Limit, fmt.Sprintf("biplane's answer is larger than %d bytes", answerBytes)}
	case resp.StatusCode/100 != 2:
		return out, answerError(resp, text)
	}
	if paged {
		p.readNext(resp)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, &Error{Internal, "biplane's answer is not what this client reads: " + err.Error()}
	}
	return out, nil
}

// sendRequest sends a request, and converts a transport error to an *Error.
func (c *Client) sendRequest(req *http.Request) (*http.Response, error) {
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, &Error{Canceled, "canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{Timeout, "biplane did not answer in time"}
	case err != nil:
		return nil, &Error{Unavailable, "biplane does not answer: " + err.Error()}
	}
	return resp, nil
}

func answerError(resp *http.Response, text []byte) error {
	var v struct {
		Error *Error `json:"error"`
	}
	if json.Unmarshal(text, &v) == nil && v.Error != nil && v.Error.Message != "" {
		return v.Error
	}
	return &Error{Internal, fmt.Sprintf("biplane answered %s", resp.Status)}
}
