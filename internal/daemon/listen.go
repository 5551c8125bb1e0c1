package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/httpapi"
	"github.com/biplane-dev/biplane/internal/queue"
)

// A server serves one listener.
type server struct {
	http *http.Server
	done chan struct{} // closed when it serves no more
	err  error         // why, when it wasn't told to stop; set before done is closed
}

// serve begins to serve. failed is told when the server ends by itself; it must have room for that.
// Connections over a network are bounded.
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

// stop ends a server: it takes no more connections, and the requests under way may end until ctx is
// done.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.err)
}

// mostConnections is how many connections of a network there may be: no more than a half of the
// files that the process may open, so that the rest of it (the store, upstreams, the socket) always
// finds some.
func mostConnections() int64 {
	const most = 4096
	return max(min(most, openFiles()/2), 8)
}

// connections bounds the connections of a network, by the addresses that they come from. When an
// address has its share, or all of them have theirs, the connection that has been idle for longest
// is closed, of the address with the most; when none is, the new one.
type connections struct {
	shares *queue.Shares

	mu  sync.Mutex
	all map[net.Conn]*peer
}

// A peer is a connection that counts.
type peer struct {
	from  string
	idle  bool // no request of it is under way
	since time.Time
}

func newConnections(most int64) *connections {
	return &connections{shares: queue.NewShares("connections", "open", most), all: map[net.Conn]*peer{}}
}

// state is called when a connection changes its state (http.Server.ConnState).
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

// enter counts a connection, or closes it. c.mu is held.
func (c *connections) enter(conn net.Conn) {
	from := "local"
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from = httpapi.Network64(a.AddrPort().Addr())
	}
	for c.shares.Take(from, 1) != nil {
		victim := c.victim(from)
		if victim == nil {
			hangUp(conn)
			return
		}
		c.leave(victim)
		hangUp(victim)
	}
	c.all[conn] = &peer{from: from, idle: true, since: time.Now()}
}

// victim returns the connection that makes room for one from an address: of the address with the
// most that has an idle one. c.mu is held.
func (c *connections) victim(from string) (oldest net.Conn) {
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

// leave no longer counts a connection. c.mu is held.
func (c *connections) leave(conn net.Conn) {
	c.shares.Give(c.all[conn].from, 1)
	delete(c.all, conn)
}

// hangUp closes a connection at once: TLS would first try to say so, to a peer that may not listen.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // nothing is lost with it
}
