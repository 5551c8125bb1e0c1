package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

var _ upstream.Watcher = (*Upstream)(nil)

// watches holds the resources whose updates are wanted. One goroutine of each session sends the
// subscriptions (see keepSubscriptions), so that they are sent in the order of the wishes.
type watches struct {
	changed chan struct{} // capacity 1: keepSubscriptions has something to do
	updates chan struct{} // capacity 1: updated is not empty

	mu      sync.Mutex
	all     map[string]*watch // by URI
	updated map[string]bool   // the watched resources that were updated
}

// A watch is a resource whose updates are wanted.
type watch struct {
	watchers int
	active   bool     // a call subscribed to it
	resumed  bool     // on another connection
	on       *session // on which it is subscribed, or was refused
	refused  error
	waiters  []chan error // calls that wait for the subscription; each has room for the result
}

func newWatches() *watches {
	return &watches{changed: make(chan struct{}, 1), updates: make(chan struct{}, 1), all: map[string]*watch{},
		updated: map[string]bool{}}
}

// signalOnce sends to a channel with capacity 1, unless a value is waiting already.
func signalOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// WatchResource implements upstream.Watcher.
func (u *Upstream) WatchResource(uri string) {
	u.watches.mu.Lock()
	defer u.watches.mu.Unlock()
	w := u.watches.all[uri]
	if w == nil {
		w = &watch{}
		u.watches.all[uri] = w
	}
	w.watchers++
}

// ResumeResource implements upstream.Watcher. The resource counts as updated when it is subscribed:
// it may have been since the other connection ended.
func (u *Upstream) ResumeResource(uri string) {
	u.watches.mu.Lock()
	defer u.watches.mu.Unlock()
	if w := u.watches.all[uri]; w != nil {
		w.active, w.resumed = true, true
		signalOnce(u.watches.changed)
	}
}

// UnwatchResource implements upstream.Watcher.
func (u *Upstream) UnwatchResource(uri string) {
	u.watches.mu.Lock()
	defer u.watches.mu.Unlock()
	w := u.watches.all[uri]
	if w == nil {
		return
	}
	if w.watchers--; w.watchers > 0 {
		return
	}
	w.active = false
	delete(u.watches.updated, uri)
	if w.on == nil || w.on.ctx.Err() != nil {
		u.watches.removeWatch(uri, w)
		return
	}
	signalOnce(u.watches.changed)
}

// subscribeResource makes the call that subscribes to a resource.
func (u *Upstream) subscribeResource(ctx context.Context, s *session, c *tool.Call,
	args []byte) (*tool.Result, error) {
	var a struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: the arguments: %w", c.Tool.Path(), err))
	}
	done := make(chan error, 1)
	u.watches.mu.Lock()
	w := u.watches.all[a.URI]
	if w != nil {
		w.active, w.waiters = true, append(w.waiters, done)
	}
	u.watches.mu.Unlock()
	if w == nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid,
			"%s: only clients in mode direct can subscribe, with resources/subscribe", c.Tool.Path()))
	}
	signalOnce(u.watches.changed)
	var err error
	select {
	case err = <-done:
	case <-s.ctx.Done():
		err = s.endCause()
	case <-ctx.Done():
		err = ctx.Err()
	}
	u.reportCall(s, c.Principal.ID, err)
	if err != nil {
		e := u.explainError(c.Tool, err)
		e.Msg = u.redactText(e.Msg)
		return nil, e
	}
	return tool.StructuredResult(json.RawMessage("{}"))
}

// recordUpdate records that a resource was updated: a watched one, or a part of one.
func (w *watches) recordUpdate(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watched := range w.all {
		if uri == watched || strings.HasPrefix(uri, strings.TrimSuffix(watched, "/")+"/") {
			w.updated[watched] = true
			signalOnce(w.updates)
		}
	}
}

// notifyUpdates calls OnUpdate after updates, until stop is closed. Updates within the time spacing
// are reported together, so that a server can't cause a flood.
func (w *watches) notifyUpdates(stop <-chan struct{}, o UpdateObserver, spacing time.Duration) {
	for {
		select {
		case <-w.updates:
		case <-stop:
			return
		}
		w.mu.Lock()
		updated := w.updated
		w.updated = map[string]bool{}
		w.mu.Unlock()
		for uri := range updated {
			if o != nil {
				o.OnUpdate(uri)
			}
		}
		select {
		case <-time.After(spacing):
		case <-stop:
			return
		}
	}
}

// nextTask returns a resource whose subscription on s has to begin, or to end. The second result is
// nil if there is none.
func (w *watches) nextTask(s *session) (uri string, _ *watch, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri, x := range w.all {
		switch {
		case x.watchers == 0 && x.on != s:
			w.removeWatch(uri, x)
		case x.watchers == 0:
			return uri, x, false
		case x.active && (x.on != s || x.refused != nil && len(x.waiters) > 0):
			again := x.resumed || x.on != nil && x.on != s && x.refused == nil
			x.on, x.resumed = s, false
			return uri, x, again
		case x.active:
			w.answerWaiters(x, nil)
		}
	}
	return "", nil, false
}

// answerWaiters reports the result of a subscription. w.mu is held.
func (w *watches) answerWaiters(x *watch, err error) {
	for _, c := range x.waiters {
		c <- err
	}
	x.waiters = nil
}

// subscriptions are those of a session to the updates of resources.
type subscriptions struct {
	*session
	listens map[string]context.CancelFunc // the ends of the streams since 2026-07-28, by URI
}

// keepSubscriptions subscribes to the watched resources, and ends the other subscriptions, until
// the session ends.
func (s *session) keepSubscriptions() {
	k := subscriptions{s, map[string]context.CancelFunc{}}
	for {
		uri, x, again := s.watches.nextTask(s)
		if x == nil {
			select {
			case <-s.watches.changed:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		s.watches.mu.Lock()
		end := x.watchers == 0
		s.watches.mu.Unlock()
		if end {
			k.endSubscription(uri)
			s.watches.finishEnd(uri, x)
			continue
		}
		err := k.beginSubscription(uri)
		if err != nil && s.ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("not subscribed to a resource", "uri", cleanLine(uri, 200),
				"reason", cleanLine(err.Error(), 200))
		}
		s.watches.finishBegin(uri, x, err)
		if again && err == nil {
			s.watches.recordUpdate(uri) // it may have been updated while there was no connection
		}
	}
}

// finishBegin stores the result of a subscription.
func (w *watches) finishBegin(uri string, x *watch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.refused = err
	w.answerWaiters(x, err)
}

// finishEnd removes a watch whose subscription has ended, unless there is a new watcher.
func (w *watches) finishEnd(uri string, x *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.on = nil; x.watchers == 0 {
		w.removeWatch(uri, x)
	}
}

// removeWatch removes a watch. w.mu is held.
func (w *watches) removeWatch(uri string, x *watch) {
	w.answerWaiters(x, errors.New("the subscription is no longer wanted"))
	delete(w.all, uri)
}

// maxIdleListens is how many subscriptions of a process that no one wants are kept.
const maxIdleListens = 100

// beginSubscription begins a subscription.
func (k subscriptions) beginSubscription(uri string) error {
	if !k.modern.Load() {
		_, err := k.sendRequest(k.ctx, query{method: "resources/subscribe",
			fields: append([]byte(`"uri":`), quoteString(uri)...), idle: offerTime})
		return err
	}
	if k.listens[uri] != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(k.ctx)
	acked, refused := make(chan json.RawMessage, 1), make(chan error, 1)
	k.wg.Go(func() { k.listenUpdates(ctx, uri, acked, refused) })
	limit := time.NewTimer(offerTime)
	defer limit.Stop()
	var err error
	select {
	case params := <-acked:
		if slices.Contains(agreedResources(params), uri) {
			k.listens[uri] = cancel
			return nil
		}
		err = faultf(faultGarbled, "did not agree to the subscription")
	case err = <-refused:
	case <-k.ctx.Done():
		err = k.endCause()
	case <-limit.C:
		err = faultf(faultTimeout, "no answer within %s", offerTime)
	}
	cancel()
	return err
}

// endSubscription ends a subscription. Some servers on standard input end all streams of a
// connection with the first one that is canceled. So a limited number of streams stays open there.
func (k subscriptions) endSubscription(uri string) {
	if !k.modern.Load() {
		_, err := k.sendRequest(k.ctx, query{method: "resources/unsubscribe",
			fields: append([]byte(`"uri":`), quoteString(uri)...), idle: offerTime})
		if err != nil {
			k.log.Debug("subscription not ended", "error", err)
		}
		return
	}
	if end := k.listens[uri]; end != nil && (k.profile.kind != kindStdio || len(k.listens) > maxIdleListens) {
		end()
		delete(k.listens, uri)
	}
}

// listenUpdates receives the updates of a resource (2026-07-28) until ctx is done. The first
// acknowledgement is sent to acked, and the server's first refusal to refused.
func (k subscriptions) listenUpdates(ctx context.Context, uri string, acked chan<- json.RawMessage,
	refused chan<- error) {
	fields := append(append([]byte(`"notifications":{"resourceSubscriptions":[`), quoteString(uri)...), "]}"...)
	for tries := 0; ; tries++ {
		began := time.Now()
		_, err := k.sendRequest(ctx, query{method: listenMethod, fields: fields, acked: acked})
		if _, ok := wireError(err); ok {
			select {
			case refused <- err:
			default:
			}
		}
		if time.Since(began) > longEnough {
			tries = 0
		}
		if !sleep(ctx, retryDelay(tries+1)) {
			return
		}
		acked = make(chan json.RawMessage) // see passAcknowledgement
	}
}

// passAcknowledgement passes the acknowledgement of a subscription to its request. If the request
// doesn't wait for it, it repeats an earlier one, and the resource may have been updated in
// between.
func (s *session) passAcknowledgement(params json.RawMessage) {
	var v struct {
		Meta struct {
			ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	var id int64
	if json.Unmarshal(params, &v) != nil || json.Unmarshal(v.Meta.ID, &id) != nil {
		return
	}
	if p := s.peekRequest(id); p != nil && p.acked != nil {
		select {
		case p.acked <- params:
		default:
			for _, uri := range agreedResources(params) {
				s.watches.recordUpdate(uri)
			}
		}
	}
}

// agreedResources returns the resources in the acknowledgement of a subscription.
func agreedResources(params json.RawMessage) []string {
	var v struct {
		Notifications struct {
			Resources []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	_ = json.Unmarshal(params, &v)
	return v.Notifications.Resources
}
