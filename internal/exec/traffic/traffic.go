// Package traffic has the connections of sandboxes decided on and recorded: those of programs, of
// principals' own sandboxes and of hosted servers. Each connection is a call of one of Biplane's
// tools for the network, which passes the gateway.
package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Hosts decides which hosts a sandbox may reach.
type Hosts interface {
	// ReachesHost reports whether some connection that the sandbox of c makes to a host could be
	// permitted.
	ReachesHost(c *tool.Call, host string) bool
	// PermitsConnection reports whether c, a call of one of Biplane's tools for the network, is
	// permitted without asking a person.
	PermitsConnection(c *tool.Call) bool
}

// An Owner is the sandbox whose connections are decided on. It is safe for concurrent use, and its
// methods call none of its Traffic.
type Owner interface {
	// DescribeCaller returns on whose behalf the sandbox makes connections now: the Principal, the
	// Program and the Labels of a call.
	DescribeCaller() tool.Call
	// KeepLabels adds labels to those of the sandbox's data, before it receives data that has them.
	// It reports whether there are more than before.
	KeepLabels(ctx context.Context, labels []string) (more bool, err error)
	// AddNote adds a line for those who use the sandbox.
	AddNote(text string)
}

// Config configures a Traffic. The first four fields must be set.
type Config struct {
	Owner Owner
	Hosts Hosts
	Door  tool.Caller
	Name  string // begins the ids of its calls, which must be unique
	// Instead is what a user can do instead of a connection about which policy asks a person, such
	// as "call fetch in the program"; empty: only permit it.
	Instead string
	// CheckEach is the time between two decisions about the connections under way; zero: 5 s.
	CheckEach time.Duration
}

// A Traffic decides on the connections of one sandbox. It is a sandbox.Traffic.
type Traffic struct {
	cfg  Config
	made atomic.Int64

	mu   sync.Mutex // also held while labels are added and connections are decided on again
	open map[*connection]struct{}
	tick *time.Timer // decides again; nil: no connection is under way
}

// NewTraffic returns the Traffic of a sandbox.
func NewTraffic(cfg Config) *Traffic {
	cfg.CheckEach = cmp.Or(cfg.CheckEach, 5*time.Second)
	return &Traffic{cfg: cfg, open: map[*connection]struct{}{}}
}

// newCall returns a call on behalf of the sandbox.
func (t *Traffic) newCall(name string, arguments json.RawMessage) *tool.Call {
	c := t.cfg.Owner.DescribeCaller()
	c.Path, c.Arguments = tool.Own+"."+name, arguments
	return &c
}

// ReachesHost reports whether some connection to a host could be permitted.
func (t *Traffic) ReachesHost(host string) bool {
	return t.cfg.Hosts.ReachesHost(t.newCall("connect", nil), host)
}

// PermitsConnection reports whether a call of connect is permitted.
func (t *Traffic) PermitsConnection(arguments json.RawMessage) bool {
	return t.cfg.Hosts.PermitsConnection(t.newCall("connect", arguments))
}

// AddNote adds a line for those who use the sandbox.
func (t *Traffic) AddNote(text string) { t.cfg.Owner.AddNote(text) }

// A connection is a connection or a request under way.
type connection struct {
	tool.NoObserver
	traffic   *Traffic
	name      string // of the tool
	arguments json.RawMessage
	cancel    context.CancelCauseFunc
}

// CallNetwork calls one of Biplane's tools for the network through the door.
func (t *Traffic) CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	open := &connection{traffic: t, name: name, arguments: arguments, cancel: cancel}
	t.addConnection(open)
	defer t.removeConnection(open)
	c := t.newCall(name, arguments) // its labels are newer than the connection's entry
	c.ID = fmt.Sprintf("%s%s%d", t.cfg.Name, connectionMark, t.made.Add(1))
	c.Observer = open
	return t.cfg.Door.Call(ctx, c)
}

// connectionMark is in the ID of a call that is a connection, before its number.
const connectionMark = ".net"

// IsConnection reports whether a call with an ID is a connection.
func IsConnection(id string) bool { return strings.Contains(id, connectionMark) }

// addConnection adds a connection to those under way.
func (t *Traffic) addConnection(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
	if t.tick == nil {
		t.tick = time.AfterFunc(t.cfg.CheckEach, t.checkAgain)
	}
}

// removeConnection removes a connection that has ended.
func (t *Traffic) removeConnection(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.open, c); len(t.open) == 0 {
		t.tick.Stop()
		t.tick = nil
	}
}

// checkAgain ends the connections that are no longer permitted: a key was revoked or has expired,
// or the policies have changed.
func (t *Traffic) checkAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkConnections(nil, whyNoLonger)
	if t.tick != nil {
		t.tick.Reset(t.cfg.CheckEach)
	}
}

// Why connections are closed.
const (
	whyNoLonger  = "it is no longer permitted; see the policies, and the key of the sandbox's last user"
	whyNewLabels = "the sandbox has received data with labels with which policy doesn't permit it"
)

// AddLabels adds labels to those of the sandbox's data, before it receives data that has them. If
// there are more than before, it ends the connections under way that are no longer permitted: the
// data could leave by them.
func (t *Traffic) AddLabels(ctx context.Context, labels []string) error {
	return t.addLabels(ctx, labels, nil)
}

// addLabels is like AddLabels, for the answer of a connection, which it doesn't end.
func (t *Traffic) addLabels(ctx context.Context, labels []string, from *connection) error {
	if len(labels) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	more, err := t.cfg.Owner.KeepLabels(ctx, labels)
	if more {
		t.checkConnections(from, whyNewLabels)
	}
	return err
}

// checkConnections ends the connections under way that are no longer permitted, except one. The
// caller holds mu.
func (t *Traffic) checkConnections(except *connection, why string) {
	for c := range t.open {
		if c != except && !t.cfg.Hosts.PermitsConnection(t.newCall(c.name, c.arguments)) {
			err := tool.Errorf(tool.Denied, "the connection to %s was closed: %s", c.nameHost(), why)
			c.cancel(err)
			t.AddNote("network: " + tool.AsError(err).Msg)
		}
	}
}

// nameHost returns the host and port of a connection, as far as its URL has them.
func (c *connection) nameHost() string {
	var a struct{ URL string }
	_ = json.Unmarshal(c.arguments, &a) // the caller's own
	if u, err := url.Parse(a.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "a host"
}

// OnRemark implements tool.Observer.
func (c *connection) OnRemark(text string) { c.traffic.AddNote(text) }

// OnLabels adds the labels of what the connection answers, and decides again on the others.
func (c *connection) OnLabels(labels []string) error {
	return c.traffic.addLabels(context.Background(), labels, c)
}

// OnHold cancels a connection that would wait for a person.
func (c *connection) OnHold(h *tool.Hold) {
	if h == nil {
		return
	}
	advice := "permit it without @ask"
	if instead := c.traffic.cfg.Instead; instead != "" {
		advice = instead + ", or " + advice
	}
	c.cancel(tool.NotSent(tool.Errorf(tool.Denied, "a policy asks a person about this connection, and connections "+
		"can't wait: %s", advice)))
}
