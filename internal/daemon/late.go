package daemon

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// secretRetry is how long an upstream waits before it looks for a missing secret again. Changes of
// the data folder's secrets are noticed at once.
const secretRetry = 30 * time.Second

// An opening creates an upstream with the values of its secrets.
type opening func(secrets map[string]string, changed func()) (upstream.Upstream, error)

// A checking returns an error if an upstream with these values of its secrets must not run.
type checking func(secrets map[string]string) error

// A notice is called when the state of an upstream has changed.
type notice func()

// A lateUpstream is an upstream whose entry in the configuration refers to secrets. It is created
// when they are known, and created again when one of them changes. Until then it is down, for the
// reason that it shows. The same applies to one that must be approved, and loses that.
type lateUpstream struct {
	name    string
	secrets *secrets
	names   []string
	open    opening
	check   checking // every approvalAge while it runs; nil: never
	changed notice

	mu    sync.Mutex
	state lateState
	last  upstream.Snapshot // the last one with tools
	wake  chan struct{}     // closed and replaced when state changes
}

// A lateState is the state of a lateUpstream.
type lateState struct {
	inner  upstream.Upstream // nil: not created
	health tool.Health       // while inner is nil
	valid  <-chan struct{}   // closed when a secret may have changed; calls then wait for the next state
}

func newLateUpstream(name string, s *secrets, names []string, open opening, check checking,
	changed notice) *lateUpstream {
	return &lateUpstream{name: name, secrets: s, names: names, open: open, check: check, changed: changed,
		wake: make(chan struct{}),
		state: lateState{health: tool.Health{State: tool.Connecting,
			Reason: "not connected yet: try again in a moment"}}}
}

// Name implements upstream.Upstream.
func (l *lateUpstream) Name() string { return l.name }

// Snapshot implements upstream.Upstream. The tools of the last connection are kept until the next
// one.
func (l *lateUpstream) Snapshot() upstream.Snapshot {
	state, _ := l.currentState()
	snap := upstream.Snapshot{Health: state.health}
	if state.inner != nil {
		snap = state.inner.Snapshot()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(snap.Tools) > 0:
		l.last = snap
	case len(l.last.Tools) > 0 && snap.Health.State != tool.Ready:
		snap.Tools, snap.Offers, snap.Broken, snap.Health.Stale = l.last.Tools, l.last.Offers, l.last.Broken, true
	}
	return snap
}

func (l *lateUpstream) currentState() (lateState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.wake
}

func (l *lateUpstream) setState(s lateState) {
	l.mu.Lock()
	l.state = s
	close(l.wake)
	l.wake = make(chan struct{})
	l.mu.Unlock()
	l.changed()
}

// isValid reports whether no secret may have changed since the state was set.
func (s *lateState) isValid() bool {
	select {
	case <-s.valid:
		return false
	default:
		return true
	}
}

// WatchResource implements upstream.Watcher. A watch ends when the upstream is created again.
func (l *lateUpstream) WatchResource(uri string) {
	state, _ := l.currentState()
	if w, ok := state.inner.(upstream.Watcher); ok {
		w.WatchResource(uri)
	}
}

// ResumeResource implements upstream.Watcher.
func (l *lateUpstream) ResumeResource(uri string) {
	state, _ := l.currentState()
	if w, ok := state.inner.(upstream.Watcher); ok {
		w.ResumeResource(uri)
	}
}

// UnwatchResource implements upstream.Watcher.
func (l *lateUpstream) UnwatchResource(uri string) {
	state, _ := l.currentState()
	if w, ok := state.inner.(upstream.Watcher); ok {
		w.UnwatchResource(uri)
	}
}

// Call implements upstream.Upstream.
func (l *lateUpstream) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	for {
		state, wake := l.currentState()
		switch {
		case !state.isValid():
		case state.inner != nil:
			return state.inner.Call(ctx, c)
		case state.health.State != tool.Connecting:
			return nil, tool.Errorf(tool.Unavailable, "upstream %s is not available: %s", l.name, state.health.Reason)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, tool.AsError(ctx.Err())
		}
	}
}

// Run implements upstream.Upstream.
func (l *lateUpstream) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := l.secrets.awaitChange()
		values, inner, err := l.createInner(ctx)
		if err != nil {
			l.setState(lateState{valid: changed,
				health: tool.Health{State: tool.Down, Reason: l.secrets.mask.Text(tool.AsError(err).Msg)}})
			if !awaitAny(ctx, changed, secretRetry) {
				break
			}
			continue
		}
		l.setState(lateState{inner: inner, valid: changed})
		if err := l.runUntilChange(ctx, inner, values, changed); err != nil {
			return err
		}
		l.setState(lateState{health: tool.Health{State: tool.Connecting,
			Reason: "a secret or its approval has changed: it connects again"}})
	}
	l.setState(lateState{health: tool.Health{State: tool.Down, Reason: "closed"}})
	return nil
}

// createInner reads the secrets, and creates the upstream.
func (l *lateUpstream) createInner(ctx context.Context) (map[string]string, upstream.Upstream, error) {
	values, err := l.secrets.ResolveNames(ctx, l.name, l.names)
	if err != nil {
		return nil, nil, err
	}
	inner, err := l.open(values, l.changed)
	return values, inner, err
}

// runUntilChange runs the upstream until ctx is done, a secret changes, or its approval
// has ended. changed is closed when a secret may have changed.
func (l *lateUpstream) runUntilChange(ctx context.Context, inner upstream.Upstream, values map[string]string,
	changed <-chan struct{}) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- inner.Run(running) }()
	var again <-chan time.Time
	if l.check != nil {
		ticker := time.NewTicker(approvalAge)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		select {
		case err := <-done:
			return err
		case <-again:
			if l.check(values) == nil {
				continue
			}
			stop()
			return <-done
		case <-changed:
			changed = l.secrets.awaitChange()
			if now, err := l.secrets.ResolveNames(ctx, l.name, l.names); err == nil && maps.Equal(now, values) {
				l.setState(lateState{inner: inner, valid: changed})
				continue
			}
			stop()
			return <-done
		}
	}
}

// awaitAny waits until changed is closed or the time is over. It returns false if ctx ended first.
func awaitAny(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
