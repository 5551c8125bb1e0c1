package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/serve/feed"
	"github.com/biplane-dev/biplane/internal/tool"
)

// How long a stream of events lasts before the client must connect again, so that its credential is
// checked, and how often a stream without events sends something.
const (
	eventsTime = 10 * time.Minute
	pingEvery  = 25 * time.Second
)

// eventRoutes streams events.
type eventRoutes struct {
	book    *feed.Book
	closing context.Context
}

// A streamSet has the requests under way that may take long: streams, and requests that wait for
// something. It is safe for concurrent use.
type streamSet struct {
	mu   sync.Mutex
	open map[*stream]bool
}

// A stream is a request under way that may take long.
type stream struct {
	principal string
	end       context.CancelFunc
}

// runPattern is the pattern of the route that runs programs.
const runPattern = "POST " + api.Prefix + "/executions"

// serveRevocable serves a request of a principal. If it may take long, it is canceled when the
// principal loses rights. A program isn't: it can call no more tools, and is over soon.
func (s *Server) serveRevocable(w http.ResponseWriter, r *http.Request, rt route, p tool.Principal) {
	if rt.lane != waits || rt.pattern == runPattern {
		rt.handler(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer s.streams.addStream(p.ID, cancel)()
	if err := identity.CheckAgain(ctx); err != nil {
		refuseRequest(w, err)
		return
	}
	rt.handler(w, r.WithContext(ctx))
}

// addStream adds a stream. remove must be called when it has ended.
func (s *streamSet) addStream(principal string, end context.CancelFunc) (remove func()) {
	one := &stream{principal, end}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*stream]bool{}
	}
	s.open[one] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, one)
	}
}

// EndStreams ends the streams and the waiting requests of a principal who lost rights. If they
// still have some, they can connect again.
func (s *Server) EndStreams(principal string) {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	for one := range s.streams.open {
		if one.principal == principal {
			one.end()
		}
	}
}

// streamEvents streams the events that the caller may see, as server-sent events. It continues
// after the one in Last-Event-ID.
func (h *eventRoutes) streamEvents(w http.ResponseWriter, r *http.Request) {
	if h.book == nil {
		writeError(w, tool.Errorf(tool.NotFound, "this process has no events"))
		return
	}
	p, types := principalOf(r), r.URL.Query()["type"]
	ctx, cancel := context.WithTimeout(r.Context(), eventsTime)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	if !p.Until.IsZero() {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, p.Until)
		defer end()
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = h.book.FindLast()
	}
	out := console.NewStream(w)
	if out.SendPing() != nil {
		return
	}
	for {
		found, missed, next := h.book.ReadEvents(last)
		if missed {
			last = h.book.FindLast()
			if sendEvent(out, &api.Event{ID: last, Type: api.EventMissed, Time: time.Now().UTC()}) != nil {
				return
			}
			continue
		}
		for i := range found {
			e := &found[i]
			last = e.ID
			if maySeeEvent(p, e) && (len(types) == 0 || slices.Contains(types, e.Type)) &&
				sendEvent(out, &e.Event) != nil {
				return
			}
		}
		if len(found) > 0 {
			continue
		}
		patient, stop := context.WithTimeout(ctx, pingEvery)
		err := feed.WaitNext(patient, next)
		stop()
		if ctx.Err() != nil || err != nil && out.SendPing() != nil {
			return
		}
	}
}

func sendEvent(out *console.Stream, e *api.Event) error {
	text, err := tool.Marshal(e)
	if err != nil {
		return err
	}
	return out.SendEvent(e.Type, e.ID, text)
}

// maySeeEvent reports whether a principal may see an event. The rules are those of the routes that
// show its subject.
func maySeeEvent(p tool.Principal, e *feed.Entry) bool {
	switch {
	case e.Principal == "" || e.Principal == p.ID:
		return true
	case e.Type == api.EventApproval:
		return identity.HasRole(p, identity.Approver, identity.Auditor, identity.Admin)
	case e.Type == api.EventExecution:
		return identity.HasRole(p, identity.Auditor)
	}
	return false
}
