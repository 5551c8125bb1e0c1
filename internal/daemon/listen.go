package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A server serves one listener.
type server struct {
	http *http.Server
	done chan struct{} // closed when serving has ended
	err  error         // why, unless stop was called; set before done is closed
}

// serve starts to serve l. It sends to failed if serving ends without a call of stop; failed must
// have room for that. The number of network connections is limited.
func serve(l net.Listener, h http.Handler, log *slog.Logger, failed chan<- error) *server {
	s := &server{
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	if l.Addr().Network() != "unix" {
		s.http.ConnState = newConnections(mostConnections()).state
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			failed <- err
		}
	}()
	return s
}

// findClients returns a handler that replaces the address of a trusted proxy, in its requests, with
// the client's address. So limits, records and logs concern the client.
func findClients(trusted []netip.Prefix, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err == nil {
			if a := netaddr.ClientOf(peer.Addr(), r.Header, trusted); a != peer.Addr().Unmap().WithZone("") {
				r.RemoteAddr = netip.AddrPortFrom(a, 0).String() // its port is unknown
			}
		}
		next.ServeHTTP(w, r)
	})
}

// stop shuts a server down. It closes the listener, and waits for the requests under way until ctx
// is done.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.err)
}

// mostConnections returns the maximum number of network connections. It is at most half of the
// files that this process may open, so that the store, upstreams and the socket always have some
// left.
func mostConnections() int64 {
	const most = 4096
	return max(min(most, openFiles()/2), 8)
}

// connections limits network connections, in total and for each source address. When a limit is
// reached, it closes the connection that has been idle for longest, from the address with the most
// connections. If none is idle, it closes the new one.
type connections struct {
	shares *queue.Shares

	mu  sync.Mutex
	all map[net.Conn]*peer
}

// A peer is a counted connection.
type peer struct {
	from  string
	idle  bool // has no request under way
	since time.Time
}

func newConnections(most int64) *connections {
	return &connections{shares: queue.NewShares("connections", "open", most), all: map[net.Conn]*peer{}}
}

// state is the callback for http.Server.ConnState.
func (c *connections) state(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to == http.StateNew {
		c.enter(conn)
		return
	}
	one := c.all[conn]
	if one == nil {
		return
	}
	switch to {
	case http.StateActive:
		one.idle = false
	case http.StateIdle:
		one.idle, one.since = true, time.Now()
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	}
}

// enter counts a connection, or closes it. The caller holds c.mu.
func (c *connections) enter(conn net.Conn) {
	from := "local"
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from = netaddr.Network64(a.AddrPort().Addr())
	}
	for c.shares.Acquire(from, 1) != nil {
		victim := c.longestIdle(from)
		if victim == nil {
			hangUp(conn)
			return
		}
		c.leave(victim)
		hangUp(victim)
	}
	c.all[conn] = &peer{from: from, idle: true, since: time.Now()}
}

// longestIdle returns the connection to close for a new one from an address, nil if there is none.
// It is the longest idle one of the address with the most connections that has an idle one. The
// caller holds c.mu.
func (c *connections) longestIdle(from string) (oldest net.Conn) {
	for _, address := range c.shares.More(from) {
		for conn, one := range c.all {
			if one.from == address && one.idle && (oldest == nil || one.since.Before(c.all[oldest].since)) {
				oldest = conn
			}
		}
		if oldest != nil {
			break
		}
	}
	return oldest
}

// leave stops counting a connection. The caller holds c.mu.
func (c *connections) leave(conn net.Conn) {
	c.shares.Release(c.all[conn].from, 1)
	delete(c.all, conn)
}

// hangUp closes a connection at once. A TLS close would first send an alert, to a peer that may not
// read.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // an error loses nothing
}
