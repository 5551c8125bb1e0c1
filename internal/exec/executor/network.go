package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/base/cputime"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Hosts decides which hosts programs may reach without calling fetch.
type Hosts interface {
	// ReachesHost reports whether some connection that the program of c makes to a host could be
	// permitted.
	ReachesHost(c *tool.Call, host string) bool
	// PermitsConnection reports whether c, a call of one of Biplane's tools for the network, is
	// permitted without asking a person.
	PermitsConnection(c *tool.Call) bool
}

// A traffic has the connections of one program authorized and recorded, as calls on the program's
// behalf. It is a sandbox.Traffic. Connections are not in the journal: a guest that makes them is
// not replayed.
type traffic struct {
	calls *calls
	made  atomic.Int64
}

// connectionMark is in the id of a call that is a connection, before its number.
const connectionMark = ".net"

// isConnection reports whether a call with an id is a connection.
func isConnection(id string) bool { return strings.Contains(id, connectionMark) }

// newCall returns a call on behalf of the program.
func (t *traffic) newCall(name string, arguments json.RawMessage) *tool.Call {
	cs := t.calls
	return &tool.Call{Path: tool.Own + "." + name, Arguments: arguments, Principal: cs.principal,
		By: cs.describeProgram(), Labels: cs.taint.labels.All()}
}

// ReachesHost reports whether some connection to a host could be permitted.
func (t *traffic) ReachesHost(host string) bool {
	defer t.timeWork()()
	return t.calls.x.cfg.Hosts.ReachesHost(t.newCall("connect", nil), host)
}

// PermitsConnection reports whether a call of connect could be permitted.
func (t *traffic) PermitsConnection(arguments json.RawMessage) bool {
	defer t.timeWork()()
	return t.calls.x.cfg.Hosts.PermitsConnection(t.newCall("connect", arguments))
}

// timeWork returns a function that counts the processor time since as the host's work for the
// program. The same goroutine must call it.
func (t *traffic) timeWork() (done func()) {
	end := cputime.StartTimer()
	return func() { t.calls.meter.addHostTime(end()) }
}

// CallNetwork calls one of Biplane's tools for the network through the door.
func (t *traffic) CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	if t.calls.plan != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Denied,
			"a program whose writes are planned has no network of its own: call fetch"))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	open := &connection{traffic: t, name: name, arguments: arguments, cancel: cancel}
	t.calls.taint.addConnection(open)
	defer t.calls.taint.removeConnection(open)
	c := t.newCall(name, arguments)
	c.ID = fmt.Sprintf("%s%s%d", t.calls.id, connectionMark, t.made.Add(1))
	c.Observer = trafficObserver{traffic: t, open: open}
	return t.calls.x.cfg.Door.Call(ctx, c)
}

// A connection is a connection or a request under way.
type connection struct {
	traffic   *traffic
	name      string // of the tool
	arguments json.RawMessage
	cancel    context.CancelCauseFunc
}

// errNewLabels is the error of a connection that policy no longer permits.
var errNewLabels = tool.Errorf(tool.Denied, "a connection was closed: the program has read data with labels with "+
	"which policy doesn't permit it")

// decideAgain ends the connection if policy doesn't permit it with the program's new labels: what
// the program has read could leave by it.
func (c *connection) decideAgain() {
	t := c.traffic
	if t.calls.x.cfg.Hosts.PermitsConnection(t.newCall(c.name, c.arguments)) {
		return
	}
	c.cancel(errNewLabels)
	t.AddNote("network: " + errNewLabels.Msg)
}

// AddNote adds a note to the answer.
func (t *traffic) AddNote(text string) { t.calls.state.addRemark(text) }

// A trafficObserver observes a connection.
type trafficObserver struct {
	tool.NoObserver
	traffic *traffic
	open    *connection
}

func (o trafficObserver) OnRemark(text string) { o.traffic.AddNote(text) }

func (o trafficObserver) OnLabels(labels []string) error {
	t := o.traffic.calls.taint
	return t.addLabelsOf(t.ctx, o.open, t.keeper, labels)
}

// errNoHold is the error of a connection for which a person would have to be asked.
var errNoHold = tool.NotSent(tool.Errorf(tool.Denied, "a policy asks a person about this connection, and connections "+
	"can't wait: call fetch in the program, or permit it without @ask"))

// OnHold cancels a connection that would wait for a person.
func (o trafficObserver) OnHold(h *tool.Hold) {
	if h != nil {
		o.open.cancel(errNoHold)
	}
}
