package executor

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A leftover is a result that an execution leaves for later programs. It is either a value that was
// too large to show, or a content block (an image, audio, a resource) returned by a tool.
type leftover struct {
	handle    string
	principal string
	session   string          // session of the program that left it; empty: none
	labels    []string        // labels of the data that the execution had read
	value     json.RawMessage // a program's value, as JSON
	block     json.RawMessage // or a content block, an object
	data      string          // text or base64 of the block
	text      bool            // data is text
	size      int
	at        time.Time
}

// leftovers stores leftovers by handle, bounded in bytes and age. The oldest of the principal with
// the most are evicted first. A handle is valid only for the principal that created it.
type leftovers struct {
	age   time.Duration
	clock *wallclock.Clock

	mu  sync.Mutex
	all *queue.Cache[string, *leftover]
}

func newLeftovers(max int, age time.Duration, clock *wallclock.Clock) *leftovers {
	return &leftovers{age: age, clock: clock, all: queue.NewCache[string, *leftover](math.MaxInt, int64(max))}
}

// keep stores l under its handle, or a new handle if it has none.
func (s *leftovers) keep(l *leftover) (handle string) {
	if l.handle == "" {
		l.handle = newID("res_")
	}
	l.at = s.clock.Now()
	l.size = len(l.value) + len(l.block) + len(l.data) + 256
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	if _, ok := s.all.Get(l.handle); !ok {
		s.all.Put(l.principal, l.handle, l, int64(l.size))
	}
	return l.handle
}

// get returns the principal's leftover with a handle.
func (s *leftovers) get(principal, handle string) (*leftover, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	if l, ok := s.all.Get(handle); ok && l.principal == principal {
		return l, nil
	}
	return nil, tool.Errorf(tool.NotFound, "no result is kept under the handle %q: results are kept for %s, and the "+
		"oldest go first when there are many. To make it again without repeating calls, send its program with after: "+
		"the id of its execution", handle, text.Span(s.age))
}

// trim removes expired leftovers. s.mu is held.
func (s *leftovers) trim() {
	old := s.clock.Now().Add(-s.age)
	for {
		handle, l, ok := s.all.Oldest()
		if !ok || l.at.After(old) {
			return
		}
		s.all.Remove(handle)
	}
}

// runs holds the executions under way and the most recent finished ones, bounded in number,
// bytes and age. The oldest of the principal with the most are evicted first.
type runs struct {
	bytes int64
	age   time.Duration
	clock *wallclock.Clock

	mu       sync.Mutex
	underWay map[string]*run // by id
	finished *queue.Cache[string, keptRun]
}

// A keptRun is a finished run, with the time of its end.
type keptRun struct {
	*run
	ended time.Time
}

func newRuns(max, bytes int, age time.Duration, clock *wallclock.Clock) *runs {
	return &runs{bytes: int64(bytes), age: age, clock: clock, underWay: map[string]*run{},
		finished: queue.NewCache[string, keptRun](max, int64(bytes))}
}

// begin adds a run that is under way.
func (h *runs) begin(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.underWay[r.id] = r
}

// finish records that r has ended and holds size bytes.
func (h *runs) finish(r *run, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trim()
	delete(h.underWay, r.id)
	// A run that is larger than the limit counts as the whole limit: it has just ended, and its
	// caller waits for its answer.
	h.finished.Put(r.principal.ID, r.id, keptRun{r, h.clock.Now()}, min(int64(size)+1024, h.bytes))
}

// live returns the runs that are under way.
func (h *runs) live() []*run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.underWay))
}

func (h *runs) get(id string) (*run, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.underWay[id]; ok {
		return r, true
	}
	h.trim()
	r, ok := h.finished.Get(id)
	return r.run, ok
}

// trim removes expired runs. h.mu is held.
func (h *runs) trim() {
	old := h.clock.Now().Add(-h.age)
	for {
		id, r, ok := h.finished.Oldest()
		if !ok || r.ended.After(old) {
			return
		}
		h.finished.Remove(id)
	}
}

// all returns all runs, finished or under way.
func (h *runs) all() []*run {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Collect(maps.Values(h.underWay))
	for id := range h.finished.Keys() {
		r, _ := h.finished.Get(id)
		out = append(out, r.run)
	}
	return out
}
