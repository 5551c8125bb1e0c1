package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An origin is a connection of a program on which it sends HTTP requests.
type origin struct {
	net.Conn
	service *service
	raw     *net.TCPConn
	scheme  string // empty: the program uses the proxy
	target  target
}

// A connQueue is the net.Listener of connections that were accepted elsewhere.
type connQueue struct {
	net.Listener // nil: no address is needed
	conns        chan net.Conn
	done         <-chan struct{}
}

// Accept waits for a connection.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the queue ends with its context.
func (q *connQueue) Close() error { return nil }

// serveHTTP serves requests on a connection, and closes it at the end.
func (s *service) serveHTTP(o *origin) {
	select {
	case s.queue.conns <- o:
	case <-s.queue.done:
		o.service.closeConn(o.raw)
	}
}

type originKey struct{}

// newServer returns the server for HTTP requests. ctx is done when the run ends.
func (s *service) newServer(ctx context.Context) *http.Server {
	handle := func(w http.ResponseWriter, r *http.Request) { s.serveRequest(ctx, w, r) }
	return &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeaders, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, originKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if o, ok := c.(*origin); ok && state == http.StateClosed {
				s.closeConn(o.raw)
			}
		}}
}

// serveRequest makes a request of a program, if it is permitted. run is done when the run ends: it
// outlives the connection, so that a program can't prevent the record of a refusal by closing it.
func (s *service) serveRequest(run context.Context, w http.ResponseWriter, r *http.Request) {
	if !s.beginWork() {
		return
	}
	defer s.work.Done()
	o, ok := r.Context().Value(originKey{}).(*origin)
	if !ok {
		return
	}
	if r.Method == http.MethodConnect && o.scheme == "" {
		s.serveConnect(run, w, r, o)
		return
	}
	t, scheme, err := o.targetOf(r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	name, err := toolFor(r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(requestTime))  // fails only if it is closed
	_ = control.SetWriteDeadline(time.Now().Add(requestTime)) // the same
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	x := &request{w: w, r: r}
	err = s.callNetwork(ctx, name, r.Method, t.makeURL(scheme, pathOf(r.URL)), x)
	switch {
	case x.began && (err != nil || x.broken):
		panic(http.ErrAbortHandler) // the program sees that the answer is incomplete
	case err != nil:
		writeFailure(w, err)
	}
}

// pathOf returns the path of a URL with its query.
func pathOf(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	return path
}

// targetOf returns the target of a request. On a connection to a host, the request must name that
// host.
func (o *origin) targetOf(r *http.Request) (t target, scheme string, err error) {
	if o.scheme == "" {
		if r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil {
			return t, "", tool.Errorf(tool.Invalid,
				"this is an HTTP proxy: send requests for http://host/path, or CONNECT host:port")
		}
		t, err = parseTarget(r.URL.Host, 80)
		return t, "http", err
	}
	port := 443
	if o.scheme == "http" {
		port = 80
	}
	t, err = parseTarget(r.Host, port)
	switch {
	case err != nil:
		return t, "", err
	case t != o.target:
		return t, "", tool.Errorf(tool.Denied,
			"the request names the host %s, and its connection is to %s port %d: both must be the same",
			clipText(r.Host), o.target.host, o.target.port)
	}
	return t, o.scheme, nil
}

// toolFor returns the name of the tool by which a request is decided on.
func toolFor(r *http.Request) (name string, err error) {
	switch {
	case !slices.Contains(methods, r.Method):
		return "", tool.Errorf(tool.Invalid, "the method %s is not supported: use %s", clipText(r.Method),
			strings.Join(methods, ", "))
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		return "", tool.Errorf(tool.Invalid,
			"WebSockets need TLS, and a policy that permits the connection whatever its requests are")
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return "fetch", nil
	}
	return "send", nil
}

// serveConnect serves a connection through the proxy.
func (s *service) serveConnect(ctx context.Context, w http.ResponseWriter, r *http.Request, o *origin) {
	t, err := parseTarget(r.RequestURI, 0)
	if err == nil && !s.reachesName(t.host) {
		err = s.callNetwork(ctx, "connect", http.MethodConnect, t.makeURL("https", "/"), refusal{})
	}
	if err != nil {
		writeFailure(w, err)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		writeFailure(w, err)
		return
	}
	_ = c.SetDeadline(time.Time{}) // fails only if it is closed
	first := make([]byte, rw.Reader.Buffered())
	_, _ = io.ReadFull(rw, first) // they are buffered
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		s.closeConn(o.raw) // the program has closed it
		return
	}
	s.serveTarget(ctx, &peeked{o.raw, first}, t)
}

// writeFailure answers a request that was not made, or has no answer.
func writeFailure(w http.ResponseWriter, err error) {
	e := tool.AsError(err)
	status := http.StatusBadGateway
	switch e.Kind {
	case tool.Denied:
		status = http.StatusForbidden
	case tool.Limit:
		status = http.StatusTooManyRequests
	case tool.Timeout:
		status = http.StatusGatewayTimeout
	case tool.Invalid:
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	fmt.Fprintln(w, "biplane: "+e.Msg)
}

// A request is the Exchange of an HTTP request.
type request struct {
	w      http.ResponseWriter
	r      *http.Request
	began  bool // the answer
	broken bool // the answer is incomplete
}

// hopHeaders are headers of a connection. They are not passed on.
var hopHeaders = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings"}

// removeHops removes the headers of a connection.
func removeHops(h http.Header) {
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		h.Del(name)
	}
}

// MakeExchange sends the request to the URL that was decided on, and passes the answer on.
func (x *request) MakeExchange(ctx context.Context, c *egress.Client, u *url.URL) (*tool.Result, error) {
	m, _ := tool.MeterFrom(ctx)
	sent, received := byteCount{meter: m, sent: true}, byteCount{meter: m}
	body := io.NopCloser(io.TeeReader(x.r.Body, &sent)) // the server closes it
	out := (&http.Request{Method: x.r.Method, URL: u, Host: u.Host, Header: x.r.Header.Clone(), Body: body,
		ContentLength: x.r.ContentLength, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if x.r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	removeHops(out.Header)
	if len(out.Header.Values("User-Agent")) == 0 {
		out.Header.Set("User-Agent", "") // Go's own would be sent
	}
	if err := m.CountBytes(headerBytes(out.Header), 0); err != nil {
		return nil, tool.NotSent(err)
	}
	resp, err := c.RoundTrip(out)
	if over := sent.over.Load(); over != nil {
		return nil, *over
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	removeHops(resp.Header)
	resp.Header.Del("Alt-Svc") // it names other protocols and ports
	if err := m.CountBytes(0, headerBytes(resp.Header)); err != nil {
		return nil, err
	}
	for name, values := range resp.Header {
		x.w.Header()[name] = values
	}
	x.began = true
	x.w.WriteHeader(resp.StatusCode)
	err = copyAndFlush(x.w, io.TeeReader(resp.Body, &received))
	if over := received.over.Load(); over != nil {
		x.broken = true
		return nil, *over
	}
	if err != nil {
		x.broken = true
		return nil, tool.Errorf(tool.Unavailable, "the answer of %s ended early: %w", u.Host, err)
	}
	return countResult(resp.StatusCode, sent.Load(), received.Load())
}

// headerBytes returns the size of headers: data can be in them as well as in a body.
func headerBytes(h http.Header) (n int64) {
	for name, values := range h {
		for _, v := range values {
			n += int64(len(name) + len(": ") + len(v) + len("\r\n"))
		}
	}
	return n
}

// copyAndFlush copies a body as it arrives.
func copyAndFlush(w http.ResponseWriter, r io.Reader) error {
	control := http.NewResponseController(w)
	b := make([]byte, 32<<10)
	for {
		m, err := r.Read(b)
		if m > 0 {
			if _, err := w.Write(b[:m]); err != nil {
				return err
			}
			if m < len(b) {
				_ = control.Flush() // writing fails, too, if this does
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// A byteCount counts the bytes that are written to it, until no more may pass.
type byteCount struct {
	atomic.Int64
	meter tool.Meter
	sent  bool                  // by the program
	over  atomic.Pointer[error] // why no more may pass; nil: they may
}

// Write counts.
func (c *byteCount) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	sent, received := int64(0), int64(len(b))
	if c.sent {
		sent, received = received, sent
	}
	if err := c.meter.CountBytes(sent, received); err != nil {
		c.over.Store(&err)
		return 0, err
	}
	return len(b), nil
}
