package executor

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/base/cputime"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A network has the connections of one program authorized and recorded, as calls on the program's
// behalf. It is a sandbox.Traffic. Connections are not in the journal: a guest that makes them is
// not replayed.
type network struct {
	*traffic.Traffic
	calls *calls
}

// newNetwork returns the network of the program that makes calls; nil: programs have none.
func newNetwork(cs *calls) *network {
	if cs.x.cfg.Hosts == nil {
		return nil
	}
	n := &network{calls: cs}
	n.Traffic = traffic.NewTraffic(traffic.Config{Owner: n, Hosts: cs.x.cfg.Hosts, Door: cs.x.cfg.Door, Name: cs.id,
		Instead: "call fetch in the program"})
	return n
}

// ReachesHost reports whether some connection to a host could be permitted.
func (n *network) ReachesHost(host string) bool {
	defer n.timeWork()()
	return n.Traffic.ReachesHost(host)
}

// PermitsConnection reports whether a call of connect could be permitted.
func (n *network) PermitsConnection(arguments json.RawMessage) bool {
	defer n.timeWork()()
	return n.Traffic.PermitsConnection(arguments)
}

// timeWork returns a function that counts the processor time since as the host's work for the
// program. The same goroutine must call it.
func (n *network) timeWork() (done func()) {
	end := cputime.StartTimer()
	return func() { n.calls.meter.addHostTime(end()) }
}

// CallNetwork calls one of Biplane's tools for the network through the door.
func (n *network) CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	if n.calls.plan != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Denied,
			"a program whose writes are planned has no network of its own: call fetch"))
	}
	return n.Traffic.CallNetwork(ctx, name, arguments)
}

// DescribeCaller implements traffic.Owner.
func (n *network) DescribeCaller() tool.Call {
	return tool.Call{Principal: n.calls.principal, By: n.calls.describeProgram(), Labels: n.calls.taint.labels.All()}
}

// KeepLabels implements traffic.Owner. Labels are kept until the program ends, not the connection.
func (n *network) KeepLabels(_ context.Context, labels []string) (more bool, err error) {
	return n.calls.taint.keepLabels(labels)
}

// AddNote adds a note to the answer.
func (n *network) AddNote(text string) { n.calls.state.addRemark(text) }
