package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// lastAnswers is how long canceled calls may take to be answered.
const lastAnswers = time.Second

// Messages that callers receive while the server stops.
const (
	notTaken = "biplane is stopping and accepts no more requests: send this one again when it has restarted"
	cutShort = "biplane is stopping: the call was canceled before its answer arrived, and it is unknown whether it " +
		"took effect"
)

// Drain prepares for Close. From now on calls of tools are refused, with HTTP status 503 or an
// explanatory error, and calls under way may finish until ctx is done. Then Drain calls last. When
// that returns, it cancels the remaining calls, which are answered with an explanatory error, and
// waits up to another second for these answers. Drain returns as soon as all calls are answered. It
// may be called twice.
func (s *Server) Drain(ctx context.Context, last func()) {
	s.calls.refuseCalls()
	s.exchanges.cancelExchanges("", true)
	s.calls.awaitLast(ctx, last)
}

// An admission counts the calls under way, and accepts no more of them when the server stops.
type admission struct {
	shares  *queue.Shares   // of principals
	cutting context.Context // done when the remaining calls are canceled
	cut     context.CancelFunc
	idle    chan struct{} // closed when no call is under way and no more are accepted

	mu       sync.Mutex
	draining bool // no more calls are accepted
	under    int  // calls under way, and messages that request one
}

// newAdmission returns an admission of at most limit calls, which are canceled when life is done.
func newAdmission(life context.Context, limit int) *admission {
	a := &admission{shares: queue.NewShares("calls", "under way", int64(limit)), idle: make(chan struct{})}
	a.cutting, a.cut = context.WithCancel(life)
	return a
}

// refuseCalls refuses further calls.
func (a *admission) refuseCalls() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.draining = true
	if a.under == 0 {
		a.closeIdle()
	}
}

// awaitLast waits until no call is under way. When ctx is done, it calls last and cancels the
// remaining calls.
func (a *admission) awaitLast(ctx context.Context, last func()) {
	select {
	case <-a.idle:
		return
	case <-ctx.Done():
	}
	last()
	a.cut()
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	select {
	case <-a.idle:
	case <-timer.C:
	}
}

// callsTool reports whether requests of a method call a tool.
func callsTool(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete":
		return true
	}
	return false
}

// enterCall counts the message that requests a call. It returns false if no more are accepted. If
// it returns true, the caller must call leaveCall after the answer is written.
func (a *admission) enterCall() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return false
	}
	a.under++
	return true
}

// continueCall counts a call whose message was accepted. It returns false if no call is under way
// and no more are accepted: then Drain may have returned.
func (a *admission) continueCall() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining && a.under == 0 {
		return false
	}
	a.under++
	return true
}

func (a *admission) leaveCall() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under--; a.under == 0 && a.draining {
		a.closeIdle()
	}
}

// closeIdle closes idle unless it is closed.
func (a *admission) closeIdle() {
	select {
	case <-a.idle:
	default:
		close(a.idle)
	}
}

func (a *admission) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining
}

// beginCall counts a call until end is called. It returns an error if the server is stopping, or if
// the principal has too many calls in progress. The context ends with the request, its client, and
// the time for calls under way when the server stops.
func (a *admission) beginCall(ctx context.Context, who tool.Principal) (_ context.Context, end func(), err error) {
	if !a.continueCall() {
		return nil, nil, tool.Errorf(tool.Unavailable, notTaken)
	}
	if err := a.shares.Acquire(who.ID, 1); err != nil {
		a.leaveCall()
		return nil, nil, err
	}
	ctx, cancel := withoutCause(ctx)
	stops := []func() bool{context.AfterFunc(a.cutting, cancel)}
	// A call that shows forms may outlive its request, but not the connection.
	if c := clientOf(ctx); c != nil && (ctx.Value(talkKey{}) == nil || c.order != nil) {
		stops = append(stops, context.AfterFunc(c.ctx, cancel))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
		a.shares.Release(who.ID, 1)
		a.leaveCall()
	}, nil
}

// withoutCause returns a context that ends when ctx does, but without its cause. The cause is
// internal to the SDK, for example io.EOF if the client has disconnected, and says nothing about
// the call.
func withoutCause(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return out, func() { stop(); cancel() }
}

// drainError returns the error of a call that Drain canceled, whatever error the tool returned;
// otherwise err.
func (a *admission) drainError(err error) error {
	if err != nil && a.cutting.Err() != nil {
		return &tool.Error{Kind: tool.Unavailable, Msg: cutShort, Err: err}
	}
	return err
}
