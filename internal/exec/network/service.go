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
	http    *http.Server
	queue   *connQueue // the connections of http
	work    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	counts counts
}

// counts limit refusals and questions about names. They are reset after countWindow, since a
// machine may run for a long time.
type counts struct {
	since    time.Time
	refusals map[string]bool // names that were recorded as refused
	refused  int
	names    int                // questions about names that policy answered
	known    map[string]verdict // its latest answers
}

// A verdict is the answer of policy about a name, and its time.
type verdict struct {
	reaches bool
	when    time.Time
}

// currentCounts returns the counts. s.mu is held.
func (s *service) currentCounts() *counts {
	if c := &s.counts; c.refusals == nil || time.Since(c.since) > countWindow {
		*c = counts{since: time.Now(), refusals: map[string]bool{}, known: map[string]verdict{}}
	}
	return &s.counts
}

// reachesName reports whether policy could permit some connection to a name. An answer holds for a
// moment, and their number is limited: a program can ask without end.
func (s *service) reachesName(name string) bool {
	s.mu.Lock()
	c := s.currentCounts()
	v, ok := c.known[name]
	if ok && time.Since(v.when) < verdictLife {
		s.mu.Unlock()
		return v.reaches
	}
	c.names++
	over := c.names > maxVerdicts
	first := c.names == maxVerdicts+1
	s.mu.Unlock()
	if first {
		s.traffic.AddNote("network: this sandbox has asked for too many names: no more are answered for a while")
	}
	if over {
		return false
	}
	v = verdict{s.traffic.ReachesHost(name), time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.currentCounts()
	if len(c.known) >= maxNames {
		clear(c.known)
	}
	c.known[name] = v
	return v.reaches
}

// acceptAll accepts the connections of a listener until its deadline is set. ctx is done when the
// run ends.
func (s *service) acceptAll(ctx context.Context, l *net.TCPListener, index int) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the system lacks something
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		if !s.addConn(c) {
			_ = c.Close() // nothing was sent
			continue
		}
		s.work.Go(func() { s.serveConn(ctx, c, index) })
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
func (s *service) serveConn(ctx context.Context, c *net.TCPConn, index int) {
	switch index {
	case netns.LongName:
		defer s.closeConn(c)
		s.serveLongNames(ctx, c)
	case netns.Proxy:
		s.serveHTTP(&origin{Conn: c, service: s, raw: c})
	default:
		local, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok {
			s.closeConn(c)
			return
		}
		a, _ := netip.AddrFromSlice(local.IP)
		s.serveTarget(ctx, &peeked{tcp: c}, target{s.gate.pins.findName(a.Unmap()), local.Port})
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
	over := s.currentCounts().refused >= maxRecorded
	s.mu.Unlock()
	if over {
		return tool.Errorf(tool.Denied, "the network is closed for a while: %d connections were refused within %s",
			maxRecorded, countWindow)
	}
	_, err = s.traffic.CallNetwork(egress.WithExchange(ctx, x), name, arguments)
	if err != nil && tool.AsError(err).Kind != tool.Unavailable && ctx.Err() == nil {
		s.mu.Lock()
		s.currentCounts().refused++
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
