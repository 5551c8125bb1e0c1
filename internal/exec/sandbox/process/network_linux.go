package process

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// A gate is the host's end of a sandbox's network. The zero gate has none.
type gate struct {
	sandbox.Gate
	reason string // why there is no network
	noted  sync.Once
}

// chooseNetwork returns the network of a sandbox: a machine has its own, or none.
func (b *box) chooseNetwork() sandbox.Network {
	if b.machine != nil {
		return b.machine.Network
	}
	return b.d.cfg.Network
}

// createGate creates the host's end, and returns the setup for the sandbox.
func (g *gate) createGate(n sandbox.Network) (*netns.Setup, error) {
	if n == nil {
		return nil, nil
	}
	var err error
	if g.Gate, err = n.NewGate(); err != nil {
		return nil, err
	}
	s := g.DescribeSetup()
	return &s, nil
}

// receiveListeners receives the listeners that the sandbox opened. A sandbox that can't open them
// has no network: its programs learn why.
func (g *gate) receiveListeners(conn *os.File) error {
	if g.Gate == nil {
		return nil
	}
	files, err := netns.ReceiveListeners(conn)
	switch {
	case errors.Is(err, netns.ErrUnavailable):
		g.reason = err.Error()
		return nil
	case err != nil:
		return err
	}
	return g.AttachListeners(files)
}

// openTraffic serves the sandbox's network until close is called.
func (g *gate) openTraffic(ctx context.Context, t sandbox.Traffic) (close func()) {
	switch {
	case g.Gate == nil:
		return func() {}
	case g.reason != "":
		if t != nil {
			g.noted.Do(func() { t.AddNote(g.reason) })
		}
		return func() {}
	}
	return g.OpenTraffic(ctx, t)
}

func (g *gate) closeListeners() {
	if g.Gate != nil {
		_ = g.CloseListeners() // nothing is lost: the sandbox has ended
	}
}
