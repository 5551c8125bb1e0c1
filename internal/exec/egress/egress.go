// Package egress sends the requests of programs to network hosts. Its callers decide whether a
// request may be made.
//
// A host name is resolved once, and the address that is dialed has been checked: it is public, or
// in a configured range. So a name that resolves to another address a moment later (DNS rebinding)
// reaches nothing. Nor does a name that points to this machine, its network or a cloud's metadata
// service. Redirects are not followed, proxies in the environment are ignored, no cookie is kept
// and no credential is added. Requests and responses are limited in size and time.
package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits of a request and of its response.
const (
	MaxBody    = 8 << 20 // bytes, each way; of a response, decompressed
	maxHeaders = 64
	maxHeader  = 16 << 10 // bytes of all request headers
	maxAnswer  = 64 << 10 // bytes of all response headers
	maxTime    = 60 * time.Second
	// maxAtOnce is the number of concurrent requests to one host. Principals share them; other
	// requests take turns.
	maxAtOnce = 32
)

// Config configures a Client. The zero value reaches public addresses only.
type Config struct {
	Private []netip.Prefix // addresses that may be reached besides public ones
	Version string         // of Biplane, for User-Agent
	Network Network        // nil: this machine's
	// Authorities are certificates in PEM that are trusted besides the system's.
	Authorities []byte
	Inserted    []Secret // values that replace placeholders
	Secrets     Secrets  // resolves them; nil: none is inserted
}

// A Network resolves names, and lists the addresses of this machine.
type Network interface {
	// LookupHost returns the addresses of a name.
	LookupHost(ctx context.Context, name string) ([]netip.Addr, error)
	// OwnAddresses returns the addresses of this machine, which are never reached, even if public.
	OwnAddresses() ([]net.Addr, error)
}

// hostNetwork uses the system's resolver and the addresses of the interfaces.
type hostNetwork struct{}

func (hostNetwork) LookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func (hostNetwork) OwnAddresses() ([]net.Addr, error) { return net.InterfaceAddrs() }

// A Request is a request of a program.
type Request struct {
	Principal string // ID of the program's principal
	Method    string
	URL       *url.URL // absolute, http or https
	Header    map[string]string
	Body      []byte
}

// A Response is the response to a Request.
type Response struct {
	Status  int
	Text    string            // of the status, "Not Found"
	Headers map[string]string // by lower-case name; several values of one name are joined by ", "
	Body    []byte
}

// A Client sends requests. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
	held *queue.Shares // bytes of answers to requests with secrets

	mu    sync.Mutex
	hosts map[string]*host // hosts with requests, by name
}

// A host manages the turns of requests to one host.
type host struct {
	turns *queue.Fair
	users int // requests in progress or waiting
}

// New returns a Client.
func New(cfg Config) *Client {
	if cfg.Network == nil {
		cfg.Network = hostNetwork{}
	}
	c := &Client{cfg: cfg, hosts: map[string]*host{},
		held: queue.NewShares("bytes of answers to requests with secrets", "held", maxHeld)}
	var trusted *tls.Config // nil: the system's authorities
	if len(cfg.Authorities) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(cfg.Authorities)
		trusted = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: secretTransport{c, &http.Transport{
			DialContext: c.dial, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxAnswer, TLSClientConfig: trusted,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: maxTime, IdleConnTimeout: 30 * time.Second, MaxIdleConns: 64,
		}},
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request. An error of kind Denied means that no address of the host may be reached. One
// of kind Invalid means that the request is invalid. In both cases nothing was sent.
func (c *Client) Do(ctx context.Context, q Request) (*Response, error) {
	leave, err := c.enterTurn(ctx, q)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(WithPrincipal(ctx, q.Principal), maxTime)
	defer cancel()
	r, err := buildRequest(ctx, q)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	r.Header.Set("User-Agent", "biplane/"+c.cfg.Version)
	if ua := q.Header["user-agent"]; ua != "" {
		r.Header.Set("User-Agent", ua)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.explainFailure(ctx, q, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, c.explainFailure(ctx, q, err)
	case len(body) > MaxBody:
		return nil, tool.Errorf(tool.Limit, "%s answered with over %d MiB: ask for less at a time",
			q.URL.Host, MaxBody>>20)
	}
	out := &Response{Status: resp.StatusCode, Text: http.StatusText(resp.StatusCode), Headers: map[string]string{},
		Body: body}
	for name, values := range resp.Header {
		out.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
	}
	return out, nil
}

// enterTurn waits for the principal's turn to send a request to its host. If err is nil, leave must
// be called.
func (c *Client) enterTurn(ctx context.Context, q Request) (leave func(), err error) {
	c.mu.Lock()
	h := c.hosts[q.URL.Host]
	if h == nil {
		h = &host{turns: queue.New(maxAtOnce, math.MaxInt)} // the number that wait is limited by the calls of programs
		c.hosts[q.URL.Host] = h
	}
	h.users++
	c.mu.Unlock()
	done := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(c.hosts, q.URL.Host)
		}
	}
	waiting, cancel := context.WithTimeoutCause(ctx, maxTime,
		tool.Errorf(tool.Timeout,
			"no request to %s was sent within %s: %d other requests are in progress", q.URL.Host, maxTime, maxAtOnce))
	defer cancel()
	if err := h.turns.Enter(waiting, q.Principal); err != nil {
		done()
		return nil, err
	}
	return func() { h.turns.Leave(q.Principal); done() }, nil
}

// explainFailure returns the error of a failed request.
func (c *Client) explainFailure(ctx context.Context, q Request, err error) error {
	var e *tool.Error
	switch {
	case errors.As(err, &e): // it is for programs
		return e
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return tool.Errorf(tool.Timeout, "%s did not answer within %s", q.URL.Host, maxTime)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &tool.Error{Kind: tool.Unavailable, Err: err,
		Msg: fmt.Sprintf("%s %s: %s", q.Method, q.URL.Host, describeFailure(q.URL, err))}
}

// describeFailure says why a request failed, without the addresses of this machine, of its resolver
// or of hosts, which programs don't need.
func describeFailure(u *url.URL, err error) string {
	var lookup *net.DNSError
	var op *net.OpError
	var broken *url.Error
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return fmt.Sprintf("the host name %q is unknown: check the URL", u.Hostname())
	case errors.As(err, &lookup):
		return fmt.Sprintf("the host name %q could not be looked up: try again later", u.Hostname())
	case errors.As(err, &op):
		return describeFailure(u, findCause(op))
	case errors.As(err, &broken): // the program knows the URL
		return describeFailure(u, broken.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection before its answer was complete"
	}
	return err.Error()
}

// findCause returns the cause of a failed network operation, without its addresses.
func findCause(op *net.OpError) error {
	var number syscall.Errno
	switch {
	case op.Timeout() && op.Op == "dial":
		return errors.New("the connection could not be made in time")
	case op.Timeout():
		return errors.New("the connection timed out")
	case errors.As(op.Err, &number):
		return number
	case op.Err == nil:
		return errors.New(op.Op + " failed")
	}
	return op.Err
}

// ours are headers that belong to the connection, not to the program.
var ours = []string{"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer",
	"keep-alive", "expect", "accept-encoding"}

func buildRequest(ctx context.Context, q Request) (*http.Request, error) {
	if len(q.Body) > MaxBody {
		return nil, tool.Errorf(tool.Limit, "the body has %d bytes: the maximum is %d MiB", len(q.Body), MaxBody>>20)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL.String(), bytes.NewReader(q.Body))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "fetch: %w", err)
	}
	r.GetBody = nil // it is sent once
	size := 0
	for name, value := range q.Header {
		lower := strings.ToLower(name)
		if size += len(name) + len(value); size > maxHeader || len(q.Header) > maxHeaders {
			return nil, tool.Errorf(tool.Limit, "the request has over %d headers, or %d KiB of them", maxHeaders,
				maxHeader>>10)
		}
		if slices.Contains(ours, lower) || strings.HasPrefix(lower, "proxy-") || strings.HasPrefix(lower, "sec-") {
			return nil, tool.Errorf(tool.Invalid, "the header %q can't be set by a program: leave it out", name)
		}
		if !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, tool.Errorf(tool.Invalid, "invalid HTTP header %q", name)
		}
		r.Header.Set(name, value)
	}
	return r, nil
}

// isToken reports whether s is a valid header name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}

// dial resolves a host and connects to the first of its addresses that may be reached.
func (c *Client) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = c.cfg.Network.LookupHost(ctx, host); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 15 * time.Second}
	var last error
	for _, a := range addrs {
		if a = a.Unmap(); !c.mayReach(a) {
			continue
		}
		conn, err := d.DialContext(ctx, network, netip.AddrPortFrom(a, uint16(n)).String())
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if last == nil {
		last = tool.NotSent(tool.Errorf(tool.Denied, "%s has no public address (%s): programs reach others only "+
			"where the configuration names their range (network: { private: [...] })", host, firstOf(addrs)))
	}
	return nil, last
}

func firstOf(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "it has none"
	}
	return fmt.Sprint(addrs[0])
}

// isOwn reports whether an address belongs to this machine, where servers may trust local clients.
// It returns true if that can't be determined.
func (c *Client) isOwn(a netip.Addr) bool {
	all, err := c.cfg.Network.OwnAddresses()
	return err != nil || netaddr.IsOneOf(all, a)
}

// mayReach reports whether a program may reach an address: a configured range may be reached, and
// so may public addresses.
func (c *Client) mayReach(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if in(c.cfg.Private) {
		return true
	}
	if c.isOwn(a) {
		return false
	}
	return netaddr.IsPublic(a)
}
