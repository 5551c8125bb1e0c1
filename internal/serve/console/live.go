package console

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Pauses of a live page between changes, and how long its stream lasts: the browser opens it again.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 30 * time.Second
	streamTime    = 10 * time.Minute
	// sendTime is about the processor time for sending a change to one page.
	sendTime = 50 * time.Microsecond
	// keptChanges limits the bytes of changes that are kept for pages which ask later. A single one
	// can be several megabytes.
	keptChanges = 64 << 20
)

// A viewKey identifies what a principal sees of an execution.
type viewKey struct {
	execution string
	principal string // with all rights, since credentials of one principal may differ
}

// newViewKey returns the key of an execution as p sees it. The expiry of the credential is not part
// of it.
func newViewKey(execution string, p tool.Principal) viewKey {
	return viewKey{execution, string(p.AppendKey(nil))}
}

// liveViews are the executions that live pages show. Pages that show the same share a view: each
// change is read and rendered once, however many pages there are. It is safe for concurrent use.
type liveViews struct {
	mu    sync.Mutex
	pages int
	kept  int // bytes of the newest changes
	all   map[viewKey]*liveView
}

// A liveView is an execution on the live pages of one principal.
type liveView struct {
	key      viewKey
	pages    int
	newest   *change       // nil: none yet, or too much is kept
	rendered time.Time     // when newest was rendered
	took     time.Duration // for rendering it
	next     *reading      // the last one that was begun; nil: it has ended
}

// A change is a change that is sent to live pages.
type change struct {
	version string
	event   []byte // empty: nothing is sent
	over    bool   // the stream ends with it
}

// A reading is one wait for the change after a version. The page that began it reads and renders
// the change for all pages that wait.
type reading struct {
	past   string
	done   chan struct{} // closed when change and err are set
	change change
	err    error
	took   time.Duration // for rendering; 0: nothing has changed
}

// errUnread is the error of a reading until it has ended.
var errUnread = errors.New("the change was not read")

// openPage adds a page. leave must be called when it is closed.
func (t *liveViews) openPage(key viewKey) (view *liveView, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if view = t.all[key]; view == nil {
		if t.all == nil {
			t.all = map[viewKey]*liveView{}
		}
		view = &liveView{key: key}
		t.all[key] = view
	}
	view.pages++
	t.pages++
	return view, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.pages--
		if view.pages--; view.pages == 0 {
			delete(t.all, key)
			t.keepNewest(view, nil)
		}
	}
}

// findChange returns the change to send to a page that shows the version past, if it is known. If
// not, it returns the reading to wait for, which the page must carry out itself if own is true.
func (t *liveViews) findChange(view *liveView, past string) (known *change, r *reading, own bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasNewer(view, past) {
		return view.newest, nil, false
	}
	if view.next != nil && view.next.past == past {
		return nil, view.next, false
	}
	view.next = &reading{past: past, done: make(chan struct{}), err: errUnread}
	return nil, view.next, true
}

// hasNewer reports whether the newest change of a view is to be sent to a page that shows the
// version past. The execution may have changed since, unless another page waits for its next
// change; but within the pause after a change, no page reads it again. The caller holds t.mu.
func (t *liveViews) hasNewer(view *liveView, past string) bool {
	newest, next := view.newest, view.next
	if newest == nil || newest.version == past {
		return false
	}
	return next != nil && next.past == newest.version || time.Since(view.rendered) < t.pauseOf(view)
}

// finishReading passes the change to the pages that wait for it.
func (t *liveViews) finishReading(view *liveView, r *reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if view.next == r {
		view.next = nil
	}
	if r.err == nil && r.took > 0 {
		t.keepNewest(view, &r.change)
		view.rendered, view.took = time.Now(), r.took
	}
	close(r.done)
}

// keepNewest replaces the newest change of a view, and keeps the new one if there is room. The
// caller holds t.mu.
func (t *liveViews) keepNewest(view *liveView, c *change) {
	if view.newest != nil {
		t.kept -= len(view.newest.event)
	}
	if view.newest = c; c == nil {
		return
	}
	if t.kept += len(c.event); t.kept > keptChanges {
		t.kept -= len(c.event)
		view.newest = nil
	}
}

// pausePages returns how long the pages of a view pause after a change.
func (t *liveViews) pausePages(view *liveView) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pauseOf(view)
}

// pauseOf is like pausePages, for callers that hold t.mu.
func (t *liveViews) pauseOf(view *liveView) time.Duration {
	return pauseStream(view.took, len(t.all), t.pages)
}

// pauseStream returns how long live pages pause after a change. took is the time for rendering it;
// reading the execution is about as much work. So the changes of all live pages together use about
// a twentieth of a core, however many people watch; opening the pages is on top of that.
func pauseStream(took time.Duration, views, pages int) time.Duration {
	work := 2*took*time.Duration(views) + sendTime*time.Duration(pages)
	return min(max(shortestPause, 20*work), longestPause)
}

// streamExecution sends the changing part of an execution's page whenever the execution changes,
// as server-sent events. The id of an event is the version that it shows, so a browser that
// connects again misses nothing. Before each event, the visitor's credential is checked again.
func streamExecution(v *visit) error {
	version := cmp.Or(v.r.Header.Get("Last-Event-ID"), v.r.URL.Query().Get("version"), "none")
	key := newViewKey(v.r.PathValue("id"), v.who)
	view, leave := v.server.live.openPage(key)
	defer leave()
	out := NewStream(v.w)
	for ends := time.Now().Add(streamTime); time.Now().Before(ends); {
		c, err := awaitChange(v, view, version)
		if err != nil && !out.begun {
			return ownError(err)
		}
		if err != nil || len(c.event) == 0 || !hasView(v, key) {
			return nil // the browser connects again, and learns why
		}
		if err := out.writeText(c.event); err != nil || c.over {
			return nil
		}
		if c.version == version {
			continue
		}
		version = c.version
		select {
		case <-time.After(v.server.live.pausePages(view)):
		case <-v.r.Context().Done():
			return nil
		}
	}
	return nil
}

// hasView reports whether the visitor's credential is still valid, with unchanged rights.
func hasView(v *visit, key viewKey) bool {
	p, err := v.server.authenticate(v.r, v.access, false)
	if err != nil {
		return false
	}
	return newViewKey(key.execution, p) == key
}

// awaitChange returns the change after the version past. It has the same version if there was none
// for a while. If the page that reads the change is closed or fails, another one reads it.
func awaitChange(v *visit, view *liveView, past string) (*change, error) {
	for {
		known, r, own := v.server.live.findChange(view, past)
		switch {
		case known != nil:
			return known, nil
		case own:
			return readChange(v, view, r)
		}
		select {
		case <-r.done:
			if r.err == nil {
				return &r.change, nil
			}
		case <-v.r.Context().Done():
			return nil, context.Cause(v.r.Context())
		}
	}
}

// readChange carries out a reading.
func readChange(v *visit, view *liveView, r *reading) (*change, error) {
	defer v.server.live.finishReading(view, r)
	began := time.Now()
	x, err := v.newClient().Watch(v.r.Context(), view.key.execution, r.past)
	if err != nil {
		r.err = err
		return nil, err
	}
	c := change{version: x.Version, over: x.Ended != nil}
	switch {
	case x.Version != r.past:
		rendering := time.Now()
		text, err := v.renderPart("execution-live", displayExecution(v, x, 1))
		if err != nil {
			r.err = err
			return nil, err
		}
		name := "change"
		if c.over {
			name = "end"
		}
		c.event, r.took = formatEvent(name, x.Version, text), max(time.Since(rendering), 1)
	case c.over:
		c.event = formatEvent("end", x.Version, nil)
	case time.Since(began) >= time.Second: // otherwise no process runs it, or this one is stopping
		c.event = []byte(ping)
	}
	r.change, r.err = c, nil
	return &r.change, nil
}
