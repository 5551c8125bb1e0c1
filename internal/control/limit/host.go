package limit

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

type hostKey struct{}

// WithHost returns a context for a call that connects to a network host, in its canonical form.
func WithHost(ctx context.Context, host string) context.Context {
	return context.WithValue(ctx, hostKey{}, host)
}

// hostFrom returns the host that a call connects to; empty: none.
func hostFrom(ctx context.Context) string {
	host, _ := ctx.Value(hostKey{}).(string)
	return host
}

// Bounds of the bytes that a meter collects before it charges them. So a connection exceeds a limit
// by at most that much.
const (
	leastBatch = 4 << 10
	mostBatch  = 256 << 10
)

// A meter charges the bytes of a connection. It is a tool.Meter.
type meter struct {
	limits         *Limiter
	ctx            context.Context // of its call
	call           *tool.Call
	batch          int64
	sent, received []use // with a cost of one byte

	mu                  sync.Mutex
	unpaidOut, unpaidIn int64
}

// MeterCall returns a meter for the bytes of the connection of a call; nil: no rule
// limits them.
func (l *Limiter) MeterCall(ctx context.Context, c *tool.Call) tool.Meter {
	host := hostFrom(ctx)
	m := &meter{limits: l, ctx: context.WithoutCancel(ctx), call: c, batch: mostBatch,
		sent: l.appendHostUses(host, c, nil, Egress, 1), received: l.appendHostUses(host, c, nil, Ingress, 1)}
	for _, list := range [][]use{m.sent, m.received} {
		for _, u := range list {
			m.batch = max(min(m.batch, int64(u.rule.Max/64)), leastBatch)
		}
	}
	if len(m.sent)+len(m.received) == 0 {
		return nil
	}
	return m
}

// CountBytes charges bytes that have passed. It returns an error of kind Limit if a limit is used
// up: no more may pass.
func (m *meter) CountBytes(sent, received int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unpaidOut, m.unpaidIn = m.unpaidOut+sent, m.unpaidIn+received
	if m.unpaidOut < m.batch && m.unpaidIn < m.batch {
		return nil
	}
	return m.chargeBytes()
}

// EndCount charges what is left.
func (m *meter) EndCount() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.chargeBytes() // they have passed
}

// chargeBytes charges the collected bytes. m.mu is held.
func (m *meter) chargeBytes() error {
	var uses []use
	for _, u := range m.sent {
		u.cost = float64(m.unpaidOut)
		uses = append(uses, u)
	}
	for _, u := range m.received {
		u.cost = float64(m.unpaidIn)
		uses = append(uses, u)
	}
	m.unpaidOut, m.unpaidIn = 0, 0
	l := m.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Clock.Now()
	// It was used in any case: if it can't be stored, it still counts until this process ends.
	_ = l.chargeUses(m.ctx, uses, now)
	for _, u := range uses {
		u.cost = 0
		if wait := l.waitFor(u, now); wait > 0 {
			err := exceededError(&u, m.call, wait)
			err.Unsent = false // bytes have passed
			return err
		}
	}
	return nil
}
