package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
	s, err := u.open(ctx, known)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if known != (profile{}) && !isFault(err, faultUnsent, faultSignIn, faultScope) {
			u.update(func() { u.known = profile{} }) // it may have changed: detect it again next time
		}
		return nil, nil, err
	}
	list, err := s.list(ctx, u.cfg.Name, u.cfg.ConnectTimeout)
	if _, ok := wireError(err); (ok && !isFault(err, faultScope) || isFault(err, faultGarbled)) && s.ctx.Err() == nil {
		u.mu.Lock() // it is connected, and may answer calls: serve the last known tools
		old := &toolList{tools: u.snap.Tools, broken: u.snap.Broken, stale: true}
		u.mu.Unlock()
		old.trouble = "its tools can't be listed: " + u.reason(err)
		return s, old, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.close()
		return nil, nil, err
	}
	s.bind(list.bindings)
	return s, list, nil
}

// open opens a session with the configured or known transport. If there is none, it detects the
// transport.
func (u *Upstream) open(ctx context.Context, known profile) (*session, error) {
	switch {
	case u.kind == kindStdio:
		s, err := u.dial(ctx, kindStdio, known.version)
		if isFault(err, faultUnsent, faultLost) && known.version == "" && ctx.Err() == nil && s != nil {
			// Some servers of earlier revisions exit if the first message is not initialize.
			s, err = u.dial(ctx, kindStdio, newestStateful)
		}
		return opened(s, err)
	case u.kind != "":
		return opened(u.dial(ctx, u.kind, known.version))
	case known.kind != "":
		return opened(u.dial(ctx, known.kind, known.version))
	}
	s, err := u.dial(ctx, kindHTTP, "")
	f, ok := faultOf(err)
	if !ok || !slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, f.status) {
		return opened(s, err)
	}
	s, err2 := u.dial(ctx, kindSSE, "")
	if err2 != nil && !isFault(err2, faultSignIn, faultScope) {
		return nil, &fault{kind: f.kind, status: f.status, err: err2, msg: fmt.Sprintf("speaks neither Streamable HTTP (%s) nor HTTP+SSE (%s)", f.msg, err2)}
	}
	return opened(s, err2)
}

// opened drops the session of a failed dial.
func opened(s *session, err error) (*session, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// dial makes one connection and negotiates a revision. If it returns an error, the session is
// closed. The session is nil if the transport could not be opened.
func (u *Upstream) dial(ctx context.Context, kind, version string) (*session, error) {
	var t transport
	switch kind {
	case kindStdio:
		cmd, err := u.command()
		if err != nil {
			return nil, err
		}
		t = newStdio(cmd, u.cfg.MaxMessage, u.cfg.pace.grace, u.ring)
	case kindHTTP:
		t = newStreamable(newWeb(u.cfg.HTTPClient, u.url, u.header, u.cfg.Auth, u.cfg.MaxMessage))
	case kindSSE:
		t = newSSE(newWeb(u.cfg.HTTPClient, u.url, u.header, u.cfg.Auth, u.cfg.MaxMessage))
	}
	s := newSession(t, u.log)
	s.mask, s.profile.kind = u.cfg.Mask, kind
	if err := t.start(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	if err := s.handshake(ctx, u.me, version, u.cfg.pace.probe); err != nil {
		// both the writer and the reader of its last output notice its end
		if isFault(err, faultUnsent, faultLost) && kind == kindStdio {
			select {
			case <-s.ctx.Done():
			case <-time.After(2 * lastWords):
			}
		}
		if s.ctx.Err() != nil { // more informative than that our message could not be sent
			err = s.cause()
		}
		s.close()
		return s, err
	}
	return s, nil
}

// settleTime is how long to wait after a list change notification, since more may follow.
const settleTime = 100 * time.Millisecond

// serve keeps the list of tools up to date until the connection ends or ctx is done.
func (u *Upstream) serve(ctx context.Context, s *session, list *toolList) error {
	if s.modern.Load() && s.watching {
		s.wg.Go(s.listen)
	}
	again := time.NewTimer(firstRetry)
	defer again.Stop()
	if !list.stale {
		rest(again, s, list)
	}
	var last time.Time
	soon := false // a refresh is due, and more changes don't postpone it
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return faultf(faultClosed, "closed")
		case <-s.ctx.Done():
			return s.cause()
		case <-u.changed():
			return faultf(faultSession, "somebody signed in or out")
		case p := <-u.probes:
			if p == s {
				u.check(ctx, s)
			}
			continue
		case <-s.changed:
			if !soon {
				soon = true
				again.Reset(max(settleTime, u.cfg.pace.spacing-time.Since(last)))
			}
			continue
		case <-again.C:
		}
		soon, last = false, time.Now()
		if list := u.refresh(ctx, s); list != nil {
			failures = 0
			rest(again, s, list)
			continue
		}
		failures++
		again.Reset(retryDelay(failures + 1))
	}
}

// rest schedules the next refresh of a list that expires, if the server doesn't announce changes.
func rest(again *time.Timer, s *session, list *toolList) {
	if again.Stop(); list.fresh > 0 && !s.watching {
		again.Reset(list.fresh)
	}
}

// refresh lists the tools again. If that fails, the old list stays, marked stale, and refresh
// returns nil.
func (u *Upstream) refresh(ctx context.Context, s *session) *toolList {
	limited, cancel := context.WithTimeout(ctx, u.cfg.ConnectTimeout)
	defer cancel()
	list, err := s.list(limited, u.cfg.Name, u.cfg.ConnectTimeout)
	if ctx.Err() != nil || s.ctx.Err() != nil {
		return nil // serve notices it
	}
	if err != nil {
		u.log.Warn("tools not listed", "reason", u.reason(err))
		u.update(func() {
			u.broken = "its tools can't be listed: " + u.reason(err)
			u.snap.Health = tool.Health{State: tool.Degraded, Reason: u.broken, Stale: len(u.snap.Tools) > 0}
		})
		return nil
	}
	u.mu.Lock()
	same := u.snap.Health.State == tool.Ready && list.trouble == "" && sameTools(u.snap.Tools, list.tools) && slices.Equal(u.snap.Broken, list.broken)
	u.mu.Unlock()
	if !same {
		s.bind(list.bindings)
		u.update(func() { u.listed(list) })
	}
	return list
}

func sameTools(a, b []*tool.Tool) bool {
	return slices.EqualFunc(a, b, func(x, y *tool.Tool) bool { return string(x.Raw) == string(y.Raw) })
}

// check checks that the server still answers, and ends the connection if it doesn't.
func (u *Upstream) check(ctx context.Context, s *session) {
	q := query{method: "ping", idle: u.cfg.pace.check, once: true}
	if s.modern.Load() {
		q.method = "server/discover"
	}
	_, err := s.request(ctx, q)
	if _, answered := wireError(err); err == nil || answered || ctx.Err() != nil {
		return
	}
	if f, ok := faultOf(err); ok && f.kind == faultStatus && f.status < 500 {
		return // it answers
	}
	s.over(&fault{kind: faultLost, msg: "is not answering any more: " + err.Error(), err: err})
}

// listen subscribes to list changes (2026-07-28) until the session ends.
func (s *session) listen() {
	for tries := 0; ; tries++ {
		began := time.Now()
		_, err := s.request(s.ctx, query{method: "subscriptions/listen", fields: []byte(`"notifications":{"toolsListChanged":true}`)})
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
		s.missed() // there may have been changes in between
	}
}
