package daemon

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A fakeConn is a connection from an address that records whether it was closed.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return a
}

func (c *fakeConn) Close() error { c.closed = true; return nil }

// conns opens n connections from an address. Active ones have a request under way.
func conns(c *connections, n int, active bool, from string) (out []*fakeConn) {
	for i := range n {
		conn := &fakeConn{from: strings.ReplaceAll(from, "%d", fmt.Sprint(i+1))}
		c.state(conn, http.StateNew)
		if active && !conn.closed {
			c.state(conn, http.StateActive)
		}
		out = append(out, conn)
	}
	return out
}

func open(all []*fakeConn) (n int) {
	for _, c := range all {
		if !c.closed {
			n++
		}
	}
	return n
}

// TestConnectionsOfANetwork checks that all addresses of one IPv6 network share a limit, so that
// other networks can still connect.
func TestConnectionsOfANetwork(t *testing.T) {
	t.Parallel()
	c := newConnections(16)
	eve := conns(c, 40, true, "[2001:db8:0:1::%d]:999")
	if n := open(eve); n != 16 {
		t.Errorf("one network has %d connections", n)
	}
	for _, other := range []string{"[2001:db8:0:2::1]:999", "[::ffff:192.0.2.1]:999"} {
		if open(conns(c, 1, true, other)) != 1 {
			t.Errorf("%s finds no room", other)
		}
	}
	if more := conns(c, 1, true, "[2001:db8:0:3::1]:999"); open(more) != 0 {
		t.Error("with nothing idle and no room there is one more")
	}
	if n := open(eve); n != 16 {
		t.Errorf("connections with requests were closed: %d are left", n)
	}
}

// TestIdleConnectionsMakeRoom checks which connection is closed: the one that has been idle for
// longest, of the address with the most connections and an idle one.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	c := newConnections(16)
	eve, bob := conns(c, 8, true, "192.0.2.1:999"), conns(c, 6, false, "192.0.2.2:999")
	for _, conn := range bob {
		c.state(conn, http.StateActive)
		c.state(conn, http.StateIdle)
	}
	ann := conns(c, 5, true, "192.0.2.3:999")
	if open(eve) != 8 || open(ann) != 5 {
		t.Errorf("eve, with nothing idle, has %d, ann %d", open(eve), open(ann))
	}
	left := open(bob)
	if left == 6 || slices.ContainsFunc(bob[:6-left], func(c *fakeConn) bool { return !c.closed }) {
		t.Errorf("%d of bob's are left, and not the newest", left)
	}
	for _, conn := range slices.Concat(eve, bob, ann) {
		if !conn.closed {
			c.state(conn, http.StateClosed)
		}
	}
	if used, holders := c.shares.Load(); used != 0 || holders != 0 || len(c.all) != 0 {
		t.Errorf("%d left of %d", used, holders)
	}
}
