package network

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A peeked is a connection whose first bytes were read, and are still to be used.
type peeked struct {
	tcp   *net.TCPConn
	first []byte
}

// A connRest is a net.Conn without its streams.
type connRest interface {
	Close() error
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// A joinedConn is a net.Conn with other streams.
type joinedConn struct {
	connRest
	io.Reader
	io.Writer
}

// openConn returns the connection from its first byte on.
func (p *peeked) openConn() net.Conn {
	return joinedConn{p.tcp, io.MultiReader(bytes.NewReader(p.first), p.tcp), p.tcp}
}

// peekFirst waits for the first bytes of the client. There are none if the client is silent.
func (p *peeked) peekFirst(wait time.Duration) ([]byte, error) {
	if len(p.first) > 0 {
		return p.first, nil
	}
	b := make([]byte, 1024)
	_ = p.tcp.SetReadDeadline(time.Now().Add(wait)) // fails only if it is closed
	defer func() { _ = p.tcp.SetReadDeadline(time.Time{}) }()
	n, err := p.tcp.Read(b)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil, nil
	}
	p.first = b[:n]
	return p.first, err
}

// peekMore reads more of what the client begins with, until a time.
func (p *peeked) peekMore(deadline time.Time) ([]byte, error) {
	b := make([]byte, 1024)
	_ = p.tcp.SetReadDeadline(deadline) // fails only if it is closed
	defer func() { _ = p.tcp.SetReadDeadline(time.Time{}) }()
	n, err := p.tcp.Read(b)
	p.first = append(p.first, b[:n]...)
	if n > 0 {
		err = nil // it comes again
	}
	return p.first, err
}

// handshake is the first byte of a TLS connection.
const handshake = 22

// serveTarget serves a connection to a target, and closes it. The first bytes show whether it is
// TLS or HTTP. Any other connection is allowed or denied as a whole.
func (s *service) serveTarget(ctx context.Context, p *peeked, t target) {
	wait := silentTime
	if t.port == 80 || t.port == 443 {
		wait = sniffTime
	}
	first, err := p.peekFirst(wait)
	for deadline := time.Now().Add(sniffTime); err == nil && mayBeRequest(first); {
		first, err = p.peekMore(deadline)
	}
	switch {
	case err != nil:
		s.closeConn(p.tcp)
	case len(first) > 0 && first[0] == handshake:
		s.serveTLS(ctx, p, t)
	case isHTTP(first):
		s.serveHTTP(&origin{Conn: p.openConn(), service: s, raw: p.tcp, scheme: "http", target: t})
	default:
		defer s.closeConn(p.tcp)
		_ = s.openTunnel(ctx, p, t, "tcp") // the program reads the end of the connection, and its note
	}
}

// methods lists the methods of requests.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// maxRequestLine is the length of a line that is taken for a request if nothing else is known.
const maxRequestLine = 16 << 10

// isHTTP reports whether first begins an HTTP request.
func isHTTP(first []byte) bool {
	if len(first) == 0 {
		return false
	}
	first = bytes.TrimLeft(first, "\r\n")
	line, _, complete := bytes.Cut(first, []byte("\n"))
	if bytes.Contains(line, []byte(" HTTP/")) || !complete && len(line) > maxRequestLine && isRequestLine(line) {
		return true // with any method
	}
	return slices.ContainsFunc(append(slices.Clone(methods), "CONNECT", "TRACE"), func(m string) bool {
		return bytes.HasPrefix(first, []byte(m+" "))
	})
}

// mayBeRequest reports whether the first bytes of a client are not an HTTP request yet, but may
// become one with its next bytes: it is a part of a line.
func mayBeRequest(first []byte) bool {
	if len(first) == 0 || first[0] == handshake || isHTTP(first) {
		return false
	}
	line := bytes.TrimLeft(first, "\r\n")
	return len(first) <= maxRequestLine && !bytes.Contains(line, []byte("\n")) && isRequestLine(line)
}

// isRequestLine reports whether a part of a line may be the beginning of a request's: a token, and
// after a space anything that can be printed.
func isRequestLine(line []byte) bool {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	return !bytes.ContainsFunc(method, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
	}) && !bytes.ContainsFunc(bytes.TrimSuffix(rest, []byte("\r")), func(c rune) bool { return c < ' ' || c == 0x7f })
}

// serveTLS serves a connection whose client begins TLS.
func (s *service) serveTLS(ctx context.Context, p *peeked, t target) {
	if err := checkHello(p, t.host); err != nil {
		defer s.closeConn(p.tcp)
		s.traffic.AddNote("network: " + tool.AsError(err).Msg)
		_ = s.callNetwork(ctx, "connect", http.MethodConnect, t.makeURL("https", "/"), failing{err})
		return
	}
	opened := slices.Contains(s.gate.cfg.Opened, t.host)
	if !opened && s.traffic.PermitsConnection(opaqueArguments(t.makeURL("https", "/"))) {
		defer s.closeConn(p.tcp)
		_ = s.openTunnel(ctx, p, t, "https") // the program reads the end of the connection, and its note
		return
	}
	inner := tls.Server(p.openConn(), &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.gate.authority.issueLeaf(t.host)
		}})
	hasty, cancel := context.WithTimeout(ctx, sniffTime)
	defer cancel()
	if err := inner.HandshakeContext(hasty); err != nil {
		s.traffic.AddNote("network: TLS with " + t.host + " must be opened, since policy or a secret depends on its " +
			"requests, and the program doesn't trust the sandbox's certificates, or doesn't speak HTTP/1.1")
		s.closeConn(p.tcp)
		return
	}
	s.serveHTTP(&origin{Conn: inner, service: s, raw: p.tcp, scheme: "https", target: t})
}

// encryptedHello is the extension of an encrypted ClientHello, which hides the server's name.
const encryptedHello = 0xfe0d

// checkHello reads the ClientHello, which is read again, and checks that it names the host.
func checkHello(p *peeked, host string) error {
	var read bytes.Buffer
	c := p.openConn()
	var name string
	var extensions []uint16
	done := errors.New("read")
	_ = p.tcp.SetReadDeadline(time.Now().Add(sniffTime)) // fails only if it is closed
	cfg := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, extensions = h.ServerName, h.Extensions
		return nil, done
	}}
	err := tls.Server(joinedConn{c, io.TeeReader(c, &read), io.Discard}, cfg).Handshake()
	_ = p.tcp.SetReadDeadline(time.Time{})
	p.first = append(read.Bytes(), p.first[min(read.Len(), len(p.first)):]...)
	if !errors.Is(err, done) {
		return tool.Errorf(tool.Invalid, "the TLS client of the connection to %s sent no valid ClientHello", host)
	}
	if slices.Contains(extensions, encryptedHello) {
		return tool.Errorf(tool.Denied,
			"the TLS client hides the server's name (ECH) in a connection to %s: turn that off", host)
	}
	_, isAddress := netip.ParseAddr(host)
	if name == "" && isAddress == nil {
		return nil
	}
	if said, err := canonicalHost(name); err != nil || said != host {
		return tool.Errorf(tool.Denied,
			"the TLS client names the server %q in a connection to %s: both must be the same", clipText(name), host)
	}
	return nil
}

// A failing is the Exchange of a connection that is invalid.
type failing struct{ err error }

// MakeExchange returns the error.
func (f failing) MakeExchange(context.Context, *egress.Client, *url.URL) (*tool.Result, error) {
	return nil, tool.NotSent(f.err)
}

// openTunnel has a connection decided on, and passes its bytes on. If the host can't be reached, a
// note says so: the program reads only the end of its connection.
func (s *service) openTunnel(ctx context.Context, p *peeked, t target, scheme string) error {
	err := s.callNetwork(ctx, "connect", http.MethodConnect, t.makeURL(scheme, "/"), &tunnel{inner: p, target: t})
	if err != nil && tool.AsError(err).Kind == tool.Unavailable && ctx.Err() == nil {
		s.traffic.AddNote("network: " + tool.AsError(err).Msg)
	}
	return err
}

// A tunnel is the Exchange of a connection whose bytes pass through.
type tunnel struct {
	inner  *peeked
	target target
	active atomic.Int64 // when bytes last passed, in milliseconds
	spoken atomic.Bool  // the server has sent something
}

// MakeExchange connects to the target, and passes bytes in both directions until both ends have
// closed.
func (x *tunnel) MakeExchange(ctx context.Context, c *egress.Client, _ *url.URL) (*tool.Result, error) {
	outer, err := c.DialHost(ctx, x.target.host, x.target.port)
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	defer context.AfterFunc(ctx, func() { outer.Close(); x.inner.tcp.Close() })()
	first := x.inner.first
	if _, err := outer.Write(first); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "connect to %s: %w", x.target.host, err)
	}
	x.active.Store(time.Now().UnixMilli())
	m, counts := tool.MeterFrom(ctx)
	if err := m.CountBytes(int64(len(first)), 0); err != nil {
		return nil, err
	}
	out, in := byteCount{meter: m, sent: true}, byteCount{meter: m}
	inner := x.inner.tcp
	late := &lateClient{from: inner, tunnel: x}
	var client, server net.Conn = inner, outer // to read from
	if len(first) == 0 {
		client = joinedConn{inner, late, inner}
		server = joinedConn{outer, lateServer{outer, x}, outer}
	}
	var sent, received int64
	var back sync.WaitGroup
	if counts {
		client = joinedConn{client, io.TeeReader(client, &out), client}
		server = joinedConn{server, io.TeeReader(server, &in), server}
	}
	back.Go(func() { received = x.passBytes(inner, server) })
	sent = x.passBytes(outer, client) + int64(len(first))
	back.Wait()
	if over := cmp.Or(out.over.Load(), in.over.Load()); over != nil {
		return nil, *over
	}
	if late.refused != nil {
		return nil, late.refused
	}
	return countResult(0, sent, received)
}

// A lateClient reads from a client that was silent when its tunnel was opened. It may wait for the
// server to begin. If it begins with TLS or HTTP, its connection would have been checked for the
// name of the server, so it is refused.
type lateClient struct {
	from    io.Reader
	tunnel  *tunnel
	begun   bool
	held    []byte // what was read, until it is clear that it may pass
	refused error
}

// Read reads from the client. It fails if the client begins with TLS or HTTP, which should have
// been checked.
func (c *lateClient) Read(b []byte) (n int, err error) {
	switch {
	case len(c.held) > 0 && c.begun:
		n = copy(b, c.held)
		c.held = c.held[n:]
		return n, nil
	case c.begun:
		return c.from.Read(b)
	}
	n, err = c.from.Read(b)
	c.held = append(c.held, b[:n]...)
	spoken := c.tunnel.spoken.Load()
	switch {
	case len(c.held) == 0:
		return 0, err
	case !spoken && (c.held[0] == handshake || isHTTP(c.held)):
		c.refused = tool.Errorf(tool.Denied, "the program waited too long before it used its connection to %s: "+
			"send the request as soon as it is open", c.tunnel.target.host)
		return 0, c.refused
	case !spoken && mayBeRequest(c.held):
		return 0, err // an unfinished line is lost with its connection
	}
	c.begun = true
	n = copy(b, c.held)
	c.held = c.held[n:]
	return n, nil // an error comes again
}

// A lateServer reads from the server of a tunnel whose client was silent, and notes that it began.
type lateServer struct {
	from   io.Reader
	tunnel *tunnel
}

// Read reads from the server.
func (s lateServer) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	if n > 0 {
		s.tunnel.spoken.Store(true)
	}
	return n, err
}

// passBytes copies from one end to the other until the first has no more, or the second reads
// nothing for idleTime, or nothing passes in either direction for idleTime.
func (x *tunnel) passBytes(to, from net.Conn) (n int64) {
	b := make([]byte, 32<<10)
	for {
		_ = from.SetReadDeadline(time.Now().Add(idleTime)) // fails only if it is closed
		m, err := from.Read(b)
		passed, failure := netaddr.WriteWithin(to, b[:m], idleTime)
		n += int64(passed)
		if passed > 0 {
			x.active.Store(time.Now().UnixMilli())
		}
		var timeout net.Error
		switch idle := time.Since(time.UnixMilli(x.active.Load())); {
		case failure != nil:
		case err == nil, errors.As(err, &timeout) && timeout.Timeout() && idle < idleTime:
			continue
		case errors.Is(err, io.EOF):
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // the other end may have closed
			}
			return n
		}
		_, _ = to.Close(), from.Close() // both directions end
		return n
	}
}

// countResult returns the result of an exchange, for the record.
func countResult(status int, sent, received int64) (*tool.Result, error) {
	b, err := tool.Marshal(struct {
		Status   int   `json:"status,omitempty"`
		Sent     int64 `json:"sent"`
		Received int64 `json:"received"`
	}{status, sent, received})
	if err != nil {
		return nil, err
	}
	return tool.StructuredResult(b)
}
