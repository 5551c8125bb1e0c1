package executor

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A leftover is what an execution leaves for later programs: a value that was too large to show, or
// a content block (an image, audio, a resource) that a tool answered with.
type leftover struct {
	handle    string
	principal string
	session   string          // of the program that left it; empty: none
	labels    []string        // of what the execution had read
	value     json.RawMessage // a program's value, as JSON
	block     json.RawMessage // or a content block, an object
	data      string          // of a block: its text or base64
	text      bool            // data is text
	size      int
	at        time.Time
}

// leftovers keeps them by handle, bounded in bytes and age; the oldest of the principal with the
// most go first. A handle means something to the principal that made it only.
type leftovers struct {
	age time.Duration
	now func() time.Time

	mu  sync.Mutex
	all *queue.Cache[string, *leftover]
}

func newLeftovers(max int, age time.Duration, now func() time.Time) *leftovers {
	return &leftovers{age: age, now: now, all: queue.NewCache[string, *leftover](math.MaxInt, int64(max))}
}

// keep keeps l under its handle, a new one where it has none.
func (s *leftovers) keep(l *leftover) (handle string) {
	if l.handle == "" {
		l.handle = newID("res_")
	}
	l.at = s.now()
	l.size = len(l.value) + len(l.block) + len(l.data) + 256
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	if _, ok := s.all.Get(l.handle); !ok {
		s.all.Put(l.principal, l.handle, l, int64(l.size))
	}
	return l.handle
}

// get finds what a principal left.
func (s *leftovers) get(principal, handle string) (*leftover, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	if l, ok := s.all.Get(handle); ok && l.principal == principal {
		return l, nil
	}
	return nil, tool.Errorf(tool.NotFound, "no result is kept under the handle %q: results are kept for %s, and the oldest go first when there are many. To make it again without repeating calls, send its program with after: the id of its execution", handle, prose.Span(s.age))
}

// trim drops what is too old. s.mu is held.
func (s *leftovers) trim() {
	old := s.now().Add(-s.age)
	for {
		handle, l, ok := s.all.Oldest()
		if !ok || l.at.After(old) {
			return
		}
		s.all.Remove(handle)
	}
}

// history keeps executions: those under way, and the last finished ones, bounded in number, bytes
// and age. The oldest of the principal with the most go first.
type history struct {
	bytes int64
	age   time.Duration
	now   func() time.Time

	mu       sync.Mutex
	by       map[string]*run
	finished *queue.Cache[string, *run]
}

func newHistory(max, bytes int, age time.Duration, now func() time.Time) *history {
	return &history{bytes: int64(bytes), age: age, now: now, by: map[string]*run{}, finished: queue.NewCache[string, *run](max, int64(bytes))}
}

// begin keeps a run that is under way.
func (h *history) begin(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[r.id] = r
}

// finish says that r ended, and holds so many bytes.
func (h *history) finish(r *run, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trim()
	r.ended = h.now()
	// One that is larger than all the room has all of it: it has just ended, and its caller waits
	// for it.
	for _, old := range h.finished.Put(r.principal.ID, r.id, r, min(int64(size)+1024, h.bytes)) {
		delete(h.by, old.id)
	}
}

// live gives the runs that are under way.
func (h *history) live() (out []*run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.by {
		if r.ended.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

func (h *history) get(id string) (*run, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trim()
	r, ok := h.by[id]
	return r, ok
}

// trim drops what is too old. h.mu is held.
func (h *history) trim() {
	old := h.now().Add(-h.age)
	for {
		id, r, ok := h.finished.Oldest()
		if !ok || r.ended.After(old) {
			return
		}
		h.finished.Remove(id)
		delete(h.by, id)
	}
}

// all gives the runs that are kept, and those that are under way.
func (h *history) all() []*run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.by))
}
