package owned

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An egressState is the state of a sandbox's network. boxes.mu guards it.
type egressState struct {
	user    tool.Principal   // its last user, on whose behalf connections are made
	traffic *traffic.Traffic // see machines.trafficOf
	notes   []string         // for its next user
}

// Bounds of the notes that wait for the next answer.
const (
	maxNotes = 20
	maxNote  = 2000 // bytes
)

// addNetwork adds the network of a sandbox that has one.
func (ms *machines) addNetwork(b *box, spec *sandbox.MachineSpec) {
	if t := ms.trafficOf(b); t != nil {
		spec.Network, spec.Traffic = ms.cfg.Egress.Network, t
	}
}

// trafficOf returns the value that decides on a sandbox's connections, which stays the same when
// its processes are started again. It is nil if the sandbox has no network.
func (ms *machines) trafficOf(b *box) *traffic.Traffic {
	e := ms.cfg.Egress
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if b.egress.traffic == nil && b.rec.Network && e.Network != nil {
		b.egress.traffic = traffic.NewTraffic(traffic.Config{Owner: tenant{&ms.boxes, b}, Hosts: e.Hosts, Door: e.Door,
			Name: b.rec.ID + "." + strings.ToLower(rand.Text()[:8])})
	}
	return b.egress.traffic
}

// bringLabels adds labels to a sandbox. Its connections under way are decided on again if there are
// more than before.
func (ms *machines) bringLabels(ctx context.Context, b *box, labels []string) error {
	if t := ms.trafficOf(b); t != nil {
		return t.AddLabels(ctx, labels)
	}
	_, err := ms.keepLabels(ctx, b, labels)
	return err
}

// A tenant is a sandbox as the owner of its connections. It is a traffic.Owner.
type tenant struct {
	all *boxes
	box *box
}

// DescribeCaller returns on whose behalf the sandbox makes connections now.
func (t tenant) DescribeCaller() tool.Call {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return tool.Call{Principal: t.box.egress.user, Labels: t.box.rec.Labels,
		By: &tool.Program{Sandbox: t.box.rec.ID, Tier: tool.Process}}
}

// KeepLabels adds labels to those of the sandbox.
func (t tenant) KeepLabels(ctx context.Context, labels []string) (more bool, err error) {
	return t.all.keepLabels(ctx, t.box, labels)
}

// AddNote adds a line to the next answer, once.
func (t tenant) AddNote(line string) {
	line = text.Clip(line, maxNote)
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if n := &t.box.egress.notes; len(*n) < maxNotes && !slices.Contains(*n, line) {
		*n = append(*n, line)
	}
}
