// Package web implements what upstreams for HTTP APIs have in common: their life cycle, clients
// that reach only the hosts they may, tokens, and limits of answers.
//
// APIs are not trusted. A client for a host that the configuration doesn't name reaches public
// addresses only. Sizes, times and counts are limited. Errors never have an address's credentials.
package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
)

// errPrivate means that a host has no public address, and the configuration doesn't name it.
var errPrivate = &tool.Error{Kind: tool.Denied, Unsent: true,
	Msg: "the host has no public address: to use a server in a private network, set server in the configuration"}

// Clients holds two clients: one for hosts that the configuration names, and one for hosts that
// only an API names, which reaches public addresses only. Neither follows redirects.
type Clients struct {
	trusted *http.Client
	guarded *http.Client
}

// NewClients returns the clients of one upstream.
func NewClients() *Clients {
	w := &Clients{trusted: newClient(), guarded: newClient()}
	t := w.guarded.Transport.(*http.Transport)
	t.Proxy = nil // the proxy would resolve names
	t.DialContext = dialPublic
	return w
}

func newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    maxAtOnce,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// ClientFor returns the client for a host, which is trusted if the configuration names it.
func (c *Clients) ClientFor(trusted bool) *http.Client {
	if trusted {
		return c.trusted
	}
	return c.guarded
}

func (c *Clients) closeIdle() {
	c.trusted.CloseIdleConnections()
	c.guarded.CloseIdleConnections()
}

// dialPublic connects to a public address of a host.
func dialPublic(ctx context.Context, network, hostport string) (net.Conn, error) {
	conn, err := netaddr.DialPublic(ctx, network, hostport)
	if errors.Is(err, netaddr.ErrPrivate) {
		return nil, errPrivate
	}
	return conn, err
}

// SameHost reports whether two addresses have the same host and port.
func SameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && (portOf(a) == portOf(b) || a.Port() == "" && b.Port() == "")
}

// SameOrigin reports whether two addresses have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

// ClipText returns the beginning of a text for an error.
func ClipText(s string) string { return CleanLine(s, 80) }

// CleanLine returns s as one line of at most n characters, without hidden ones.
func CleanLine(s string, n int) string {
	s = strings.Join(strings.Fields(tool.VisibleLine(strings.ToValidUTF8(s, "?"))), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
