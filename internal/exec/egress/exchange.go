package egress

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Exchange is a connection or a request of a program in a sandbox. The context of the call that
// policy decides on carries it, since its bytes don't fit into arguments and results.
type Exchange interface {
	// MakeExchange makes the connection or the request with a Client. u is the URL that policy
	// decided on. The result is for the record.
	MakeExchange(ctx context.Context, c *Client, u *url.URL) (*tool.Result, error)
}

type exchangeKey struct{}

// WithExchange returns a context that carries x.
func WithExchange(ctx context.Context, x Exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// ExchangeFrom returns the Exchange that a context carries, or nil.
func ExchangeFrom(ctx context.Context) Exchange {
	x, _ := ctx.Value(exchangeKey{}).(Exchange)
	return x
}

// DialHost connects to a port of a host: to the first of its addresses that may be reached. Errors
// don't name addresses.
func (c *Client) DialHost(ctx context.Context, host string, port int) (net.Conn, error) {
	u := &url.URL{Scheme: "tcp", Host: net.JoinHostPort(host, strconv.Itoa(port))}
	conn, err := c.dial(ctx, "tcp", u.Host)
	if err != nil {
		return nil, c.explainFailure(ctx, Request{Method: "connect to", URL: u}, err)
	}
	return conn, nil
}

// RoundTrip sends a request of a program in a sandbox, as it is. Redirects are not followed.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Transport.RoundTrip(r)
	if err != nil {
		return nil, c.explainFailure(r.Context(), Request{Method: r.Method, URL: r.URL}, err)
	}
	return resp, nil
}
