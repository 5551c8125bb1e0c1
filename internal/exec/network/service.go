package network

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A service serves a sandbox's network during one run of a program.
type service struct {
	gate    *gate
	traffic sandbox.Traffic
	ctx     context.Context // done when the run ends
	http    *http.Server
	queue   *connQueue // the connections of http
	work    sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	closed   bool
	refusals map[string]bool // names that were recorded as refused
	refused  int
}

// acceptAll accepts the connections of a listener until its deadline is set.
func (s *service) acceptAll(l *net.TCPListener, index int) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the system lacks something
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if !s.addConn(c) {
			_ = c.Close() // nothing was sent
			continue
		}
		s.work.Go(func() { s.serveConn(c, index) })
	}
}

// addConn adds a connection of the sandbox, and reports whether there is room.
func (s *service) addConn(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxConnections {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// closeConn closes a connection of the sandbox.
func (s *service) closeConn(c net.Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close() // what was not sent is lost, as with every broken connection
}

// closeConns closes all connections of the sandbox.
func (s *service) closeConns() {
	s.mu.Lock()
	s.closed = true
	all := s.conns
	s.conns = map[net.Conn]struct{}{}
	s.mu.Unlock()
	for c := range all {
		_ = c.Close() // the program has ended
	}
}

// serveConn serves a connection of the listener with an index.
func (s *service) serveConn(c *net.TCPConn, index int) {
	switch index {
	case netns.LongName:
		defer s.closeConn(c)
		s.serveLongNames(c)
	case netns.Proxy:
		s.serveHTTP(&origin{Conn: c, service: s, raw: c})
	default:
		local, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok {
			s.closeConn(c)
			return
		}
		a, _ := netip.AddrFromSlice(local.IP)
		s.serveTarget(&peeked{tcp: c}, target{s.gate.pins.findName(a.Unmap()), local.Port})
	}
}

// callNetwork makes a call of one of Biplane's tools for the network. x is done if it is permitted.
func (s *service) callNetwork(ctx context.Context, name, method, url string, x egress.Exchange) error {
	arguments, err := tool.Marshal(struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	}{url, method})
	if err != nil {
		return err
	}
	s.mu.Lock()
	over := s.refused >= maxRecorded
	s.mu.Unlock()
	if over {
		return tool.Errorf(tool.Denied, "the network of this program is closed: %d of its connections were refused",
			maxRecorded)
	}
	_, err = s.traffic.CallNetwork(egress.WithExchange(ctx, x), name, arguments)
	if err != nil && tool.AsError(err).Kind != tool.Unavailable && ctx.Err() == nil {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		s.traffic.AddNote("network: " + tool.AsError(err).Msg)
	}
	return err
}

// opaqueArguments returns the arguments of a call of connect.
func opaqueArguments(url string) json.RawMessage {
	b, _ := tool.Marshal(map[string]string{"url": url, "method": http.MethodConnect}) // strings never fail
	return b
}

// beginWork counts work that closing the traffic waits for, until the caller calls s.work.Done. It
// reports false if the run has ended.
func (s *service) beginWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Add(1)
	}
	return !s.closed
}

// A refusal is the Exchange of a connection that can't be permitted. It is made only if policies
// that were put into force in between permit it.
type refusal struct{}

// MakeExchange returns an error: the connection was not kept.
func (refusal) MakeExchange(context.Context, *egress.Client, *url.URL) (*tool.Result, error) {
	return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "the policies have changed meanwhile: try again"))
}

// A noTraffic refuses everything.
type noTraffic struct{}

func (noTraffic) ReachesHost(string) bool                { return false }
func (noTraffic) PermitsConnection(json.RawMessage) bool { return false }
func (noTraffic) AddNote(string)                         {}

func (noTraffic) CallNetwork(context.Context, string, json.RawMessage) (*tool.Result, error) {
	return nil, tool.NotSent(tool.Errorf(tool.Denied, "this program has no network"))
}
