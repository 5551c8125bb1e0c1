package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/tracing"
	"github.com/biplane-dev/biplane/internal/serve/telemetry"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A route passes calls to the upstream that has a name at the moment of the call. So a call that
// waited for a person while the configuration changed reaches the upstream of the new one.
type route struct {
	upstreams *upstreams
	name      string
}

// Call implements tool.Caller.
func (r route) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	for {
		s := r.upstreams.source(r.name)
		if s == nil {
			return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "upstream %s was removed: search again", r.name))
		}
		if s.uses.beginCall() {
			defer s.uses.endCall()
			ctx, span := s.beginSpan(ctx, c)
			res, err := s.up.Call(ctx, c)
			tracing.EndSpan(span, telemetry.ClassifyOutcome(res, err))
			return res, err
		} // it was replaced at this moment
	}
}

// uses counts the calls of a source that are under way.
type uses struct {
	mu      sync.Mutex
	calls   int
	retired chan struct{} // not nil: no new calls; closed when the last one has ended
	changed chan struct{} // has one token after a change of the upstream's state; nil: no one waits
}

// beginCall counts a call. It reports false if the source is no longer in use.
func (u *uses) beginCall() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired != nil {
		return false
	}
	u.calls++
	return true
}

func (u *uses) endCall() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls--; u.calls == 0 && u.retired != nil {
		close(u.retired)
	}
}

// refuseCalls refuses further calls. It returns a channel that is closed when none is under way.
func (u *uses) refuseCalls() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired == nil {
		u.retired = make(chan struct{})
		if u.calls == 0 {
			close(u.retired)
		}
	}
	return u.retired
}

// signalChange wakes the goroutine that waits for the first connection of a source that is not yet
// in use.
func (u *uses) signalChange() {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// watchChanges returns the channel that signalChange writes to.
func (u *uses) watchChanges() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.changed == nil {
		u.changed = make(chan struct{}, 1)
	}
	return u.changed
}

// A sourceRunner runs sources.
type sourceRunner struct {
	ctx context.Context
	log *slog.Logger

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// startSource runs a source until it is stopped, or ctx is done.
func (r *sourceRunner) startSource(s *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	ctx, stop := context.WithCancel(r.ctx)
	s.stop = stop
	r.work.Go(func() {
		defer stop()
		if err := s.up.Run(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("upstream stopped", "upstream", s.up.Name(), "err", err)
		}
	})
}

// connectSource runs a source, and waits until its first connection attempt is over, but at most
// for a while.
func (r *sourceRunner) connectSource(ctx context.Context, s *source, wait time.Duration) {
	changed := s.uses.watchChanges()
	r.startSource(s)
	over := time.NewTimer(wait)
	defer over.Stop()
	for s.up.Snapshot().Health.State == tool.Connecting {
		select {
		case <-changed:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// retireSource stops a source when its calls under way have ended.
func (r *sourceRunner) retireSource(s *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || s.stop == nil {
		return
	}
	ended := s.uses.refuseCalls()
	r.work.Go(func() {
		select {
		case <-ended:
		case <-r.ctx.Done():
		}
		s.stop()
	})
}

// awaitEnd waits until ctx is done, and everything that runs has ended. No source can be started
// afterwards.
func (r *sourceRunner) awaitEnd() {
	<-r.ctx.Done()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.work.Wait()
}

// removeSources ends the use of the sources whose names are not among those of next. They stop
// after their last call.
func (u *upstreams) removeSources(next []*source) {
	var kept, removed []*source
	for _, s := range u.listSources() {
		if slices.ContainsFunc(next, func(n *source) bool { return n.up.Name() == s.up.Name() }) {
			kept = append(kept, s)
		} else {
			removed = append(removed, s)
		}
	}
	u.mu.Lock()
	started := u.runner
	u.sources.Store(&kept)
	u.mu.Unlock()
	for _, s := range removed {
		u.removeTools(s.up.Name())
		if started != nil {
			started.retireSource(s)
		}
	}
	if len(removed) > 0 {
		u.observer.updateTools()
		u.observer.updateOffers()
	}
}

// replaceSources puts sources into use. Sources whose names are left out get no more calls at once.
// New ones are connected first, for a bounded time, while calls still reach their predecessors.
func (u *upstreams) replaceSources(ctx context.Context, next []*source, wait time.Duration) {
	u.removeSources(next)
	before := u.listSources()
	u.mu.Lock()
	started := u.runner
	u.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(next), func(s *source) bool { return slices.Contains(before, s) })
	if started != nil {
		var connecting sync.WaitGroup
		for _, s := range fresh {
			connecting.Go(func() { started.connectSource(ctx, s, wait) })
		}
		connecting.Wait()
	}
	u.mu.Lock()
	u.sources.Store(&next)
	if started == nil && u.runner != nil { // they were wanted in the meantime
		started = u.runner
		for _, s := range fresh {
			started.startSource(s)
		}
	}
	u.mu.Unlock()
	for _, s := range next {
		u.update(s) // for those in use, too: the rules of definitions may have changed
	}
	for _, s := range before {
		if started != nil && !slices.Contains(next, s) {
			started.retireSource(s)
		}
	}
}

// removeTools removes an upstream from the catalog.
func (u *upstreams) removeTools(name string) {
	u.catalog.Remove(name)
	u.settleUpstream(name)
	u.mu.Lock()
	delete(u.lastTools, name)
	delete(u.lastOffers, name)
	u.mu.Unlock()
	for _, other := range u.pins.forgetTools(name) {
		if o := u.source(other); o != nil {
			u.update(o)
		}
	}
}
