package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// connect connects and lists the tools. It tries the transport and revision that worked last time,
// if any.
func (u *Upstream) connect(ctx context.Context) (*session, *toolList, error) {
	u.mu.Lock()
	known := u.known
	u.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, u.cfg.ConnectTimeout,
		faultf(faultTimeout, "was not ready within %s", u.cfg.ConnectTimeout))
	defer cancel()
	s, err := u.openSession(ctx, known)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if known != (profile{}) && !isFault(err, faultUnsent, faultSignIn, faultScope) {
			u.updateState(func() { u.known = profile{} }) // it may have changed: detect it again next time
		}
		return nil, nil, err
	}
	list, err := u.listAll(ctx, s)
	if _, ok := wireError(err); (ok && !isFault(err, faultScope) || isFault(err, faultGarbled)) && s.ctx.Err() == nil {
		u.mu.Lock() // it is connected, and may answer calls: serve the last known tools
		old := &toolList{tools: u.snap.Tools, broken: u.snap.Broken, offers: u.snap.Offers, stale: true}
		u.mu.Unlock()
		old.trouble = "its tools can't be listed: " + u.formatReason(err)
		return s, old, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.close()
		return nil, nil, err
	}
	s.setBindings(list.bindings)
	return s, list, nil
}

// listAll lists all that a server offers, and measures the work. An error means that there is no
// list of tools.
func (u *Upstream) listAll(ctx context.Context, s *session) (list *toolList, err error) {
	u.load.measureList(func() {
		if list, err = s.listTools(ctx, u.cfg.Name, u.cfg.ConnectTimeout); err != nil {
			return
		}
		var failed error
		list.offers, failed = s.listOffers(ctx, u.cfg.Name, u.cfg.ConnectTimeout)
		if failed != nil && s.ctx.Err() == nil {
			u.log.Warn("resources or prompts not listed", "reason", u.formatReason(failed))
		}
	})
	return list, err
}

// openSession opens a session with the configured or known transport. If there is none, it detects
// the transport.
func (u *Upstream) openSession(ctx context.Context, known profile) (*session, error) {
	switch {
	case u.kind == kindStdio:
		s, err := u.dialServer(ctx, kindStdio, known.version)
		if isFault(err, faultUnsent, faultLost) && known.version == "" && ctx.Err() == nil && s != nil {
			// Some servers of earlier revisions exit if the first message is not initialize.
			s, err = u.dialServer(ctx, kindStdio, newestStateful)
		}
		return closeSession(s, err)
	case u.kind != "":
		return closeSession(u.dialServer(ctx, u.kind, known.version))
	case known.kind != "":
		return closeSession(u.dialServer(ctx, known.kind, known.version))
	}
	s, err := u.dialServer(ctx, kindHTTP, "")
	f, ok := faultOf(err)
	if !ok || !slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed},
		f.status) {
		return closeSession(s, err)
	}
	s, err2 := u.dialServer(ctx, kindSSE, "")
	if err2 != nil && !isFault(err2, faultSignIn, faultScope) {
		return nil, &fault{kind: f.kind, status: f.status, err: err2,
			msg: fmt.Sprintf("speaks neither Streamable HTTP (%s) nor HTTP+SSE (%s)", f.msg, err2)}
	}
	return closeSession(s, err2)
}

// closeSession drops the session of a failed dial.
func closeSession(s *session, err error) (*session, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// dialServer makes one connection and negotiates a revision. If it returns an error, the session is
// closed. The session is nil if the transport could not be opened.
func (u *Upstream) dialServer(ctx context.Context, kind, version string) (*session, error) {
	var t transport
	switch kind {
	case kindStdio:
		var cmd command
		if u.cfg.Launcher == nil {
			var err error
			if cmd, err = u.serverCommand(); err != nil {
				return nil, err
			}
		}
		t = newStdio(cmd, u.cfg.Launcher, u.cfg.MaxMessage, u.cfg.pace.grace, u.ring)
	case kindHTTP:
		t = newStreamable(newHTTPLink(u.cfg.HTTPClient, u.url, u.header, u.cfg.Auth, u.cfg.MaxMessage))
	case kindSSE:
		t = newSSE(newHTTPLink(u.cfg.HTTPClient, u.url, u.header, u.cfg.Auth, u.cfg.MaxMessage))
	}
	s := newSession(t, u.log)
	s.mask, s.profile.kind, s.watches = u.cfg.Mask, kind, u.watches
	s.questions, s.local = u.cfg.Questions, u.isLocal()
	if err := t.start(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	if u.cfg.Client.Revision == newestStateful {
		version = newestStateful
	}
	if err := (handshake{s, u.cfg.Client}).shakeHands(ctx, version, u.cfg.pace.probe); err != nil {
		// both the writer and the reader of its last output notice its end
		if isFault(err, faultUnsent, faultLost) && kind == kindStdio {
			select {
			case <-s.ctx.Done():
			case <-time.After(2 * lastWords):
			}
		}
		if s.ctx.Err() != nil { // more informative than that our message could not be sent
			err = s.endCause()
		}
		s.close()
		return s, err
	}
	return s, nil
}

// isLocal reports whether the server is on this machine or in a private network.
func (u *Upstream) isLocal() bool {
	return u.kind == kindStdio || u.url != nil && isPrivateHost(u.url.Hostname())
}

// listChanges says that a server's lists may have changed.
type listChanges struct {
	signal        chan struct{} // capacity 1
	tools, offers atomic.Bool   // the server announced it since they were listed
}

// signalListChange signals that the list of tools, resources or prompts may have changed.
func (s *session) signalListChange() {
	select {
	case s.lists.signal <- struct{}{}:
	default: // one is pending already
	}
}

// settleTime is how long to wait after a list change notification, since more may follow.
const settleTime = 100 * time.Millisecond

// serveSession keeps the list of tools up to date until the connection ends or ctx is done.
func (u *Upstream) serveSession(ctx context.Context, s *session, list *toolList) error {
	if s.modern.Load() && len(s.announced) > 0 {
		s.wg.Go(s.listenChanges)
	}
	if s.subscribes {
		s.wg.Go(s.keepSubscriptions)
	}
	again := time.NewTimer(firstRetry)
	defer again.Stop()
	if !list.stale {
		scheduleRefresh(again, s, list)
	}
	var last time.Time
	soon := false // a refresh is due, and more changes don't postpone it
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return faultf(faultClosed, "closed")
		case <-s.ctx.Done():
			return s.endCause()
		case <-u.signInChanges():
			return faultf(faultSession, "a user signed in or out")
		case p := <-u.probes:
			if p == s {
				u.checkAlive(ctx, s)
			}
			continue
		case <-s.lists.signal:
			if !soon {
				soon = true
				again.Reset(max(settleTime, u.cfg.pace.spacing-time.Since(last)))
			}
			continue
		case <-again.C:
		}
		if left := u.load.pauseLeft(u.cfg.pace.spacing); left > 0 {
			again.Reset(left)
			continue
		}
		soon, last = false, time.Now()
		if list := u.refreshTools(ctx, s); list != nil {
			failures = 0
			scheduleRefresh(again, s, list)
			continue
		}
		failures++
		again.Reset(retryDelay(failures + 1))
	}
}

// scheduleRefresh schedules the next refresh of a list that expires, if the server doesn't announce
// changes.
func scheduleRefresh(again *time.Timer, s *session, list *toolList) {
	if again.Stop(); list.fresh > 0 && !s.watching {
		again.Reset(list.fresh)
	}
}

// refreshTools lists the tools again. If that fails, the old list stays, marked stale, and
// refreshTools returns nil.
func (u *Upstream) refreshTools(ctx context.Context, s *session) *toolList {
	newTools, newOffers := s.lists.tools.Swap(false), s.lists.offers.Swap(false)
	limited, cancel := context.WithTimeout(ctx, u.cfg.ConnectTimeout)
	defer cancel()
	list, err := u.listAll(limited, s)
	if ctx.Err() != nil || s.ctx.Err() != nil {
		return nil // serve notices it
	}
	if err != nil {
		u.log.Warn("tools not listed", "reason", u.formatReason(err))
		u.updateState(func() {
			u.broken = "its tools can't be listed: " + u.formatReason(err)
			u.snap.Health = tool.Health{State: tool.Degraded, Reason: u.broken, Stale: len(u.snap.Tools) > 0}
		})
		return nil
	}
	u.mu.Lock()
	same := u.snap.Health.State == tool.Ready && list.trouble == "" && slices.Equal(u.snap.Broken, list.broken)
	oldTools, oldOffers := sameTools(u.snap.Tools, list.tools), sameOffers(u.snap.Offers, list.offers)
	u.mu.Unlock()
	if !same || !oldTools || !oldOffers {
		s.setBindings(list.bindings)
		u.updateState(func() { u.storeList(list) })
	}
	newTools, newOffers = newTools && oldTools, newOffers && oldOffers
	if u.cfg.Updates != nil && (newTools || newOffers) {
		u.cfg.Updates.OnAnnouncement(newTools, newOffers)
	}
	return list
}

func sameTools(a, b []*tool.Tool) bool {
	return slices.EqualFunc(a, b, func(x, y *tool.Tool) bool { return string(x.Raw) == string(y.Raw) })
}

// checkAlive checks that the server still answers, and ends the connection if it doesn't.
func (u *Upstream) checkAlive(ctx context.Context, s *session) {
	q := query{method: "ping", idle: u.cfg.pace.check, once: true}
	if s.modern.Load() {
		q.method = "server/discover"
	}
	_, err := s.sendRequest(ctx, q)
	if _, answered := wireError(err); err == nil || answered || ctx.Err() != nil {
		return
	}
	if f, ok := faultOf(err); ok && f.kind == faultStatus && f.status < 500 {
		return // it answers
	}
	s.endSession(&fault{kind: faultLost, msg: "no longer answers: " + err.Error(), err: err})
}

// listenChanges subscribes to list changes (2026-07-28) until the session ends.
func (s *session) listenChanges() {
	filter := []byte(`"notifications":{`)
	for i, kind := range s.announced {
		if i > 0 {
			filter = append(filter, ',')
		}
		filter = append(append(append(filter, '"'), kind...), `ListChanged":true`...)
	}
	filter = append(filter, '}')
	for tries := 0; ; tries++ {
		began := time.Now()
		_, err := s.sendRequest(s.ctx,
			query{method: listenMethod, fields: filter})
		if s.ctx.Err() != nil {
			return
		}
		if e, ok := wireError(err); ok && e.Code == -32601 {
			return
		}
		if time.Since(began) > longEnough {
			tries = 0
		}
		if !sleep(s.ctx, retryDelay(tries+1)) {
			return
		}
		s.signalListChange() // there may have been changes in between
	}
}
