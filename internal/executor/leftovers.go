package executor

import (
	"container/list"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A leftover is what an execution leaves for later programs: a value that was too large to show, or a content block
// (an image, audio, a resource) that a tool answered with.
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

// leftovers keeps them by handle, bounded in bytes and age; the oldest go first. A handle means something to the
// principal that made it only.
type leftovers struct {
	max int
	age time.Duration
	now func() time.Time

	mu    sync.Mutex
	by    map[string]*list.Element
	order list.List // of *leftover, oldest first
	size  int
}

func newLeftovers(max int, age time.Duration, now func() time.Time) *leftovers {
	return &leftovers{max: max, age: age, now: now, by: map[string]*list.Element{}}
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
	if _, ok := s.by[l.handle]; ok {
		return l.handle
	}
	s.by[l.handle] = s.order.PushBack(l)
	s.size += l.size
	s.trim()
	return l.handle
}

// get finds what a principal left.
func (s *leftovers) get(principal, handle string) (*leftover, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	if e, ok := s.by[handle]; ok {
		if l := e.Value.(*leftover); l.principal == principal {
			return l, nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "no result is kept under the handle %q: results are kept for %s, and the oldest go first when there are many. To make it again without repeating calls, send its program with after: the id of its execution", handle, prose.Span(s.age))
}

// trim drops what is too old or too much. s.mu is held.
func (s *leftovers) trim() {
	old := s.now().Add(-s.age)
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		l := e.Value.(*leftover)
		if s.size <= s.max && l.at.After(old) {
			return
		}
		s.order.Remove(e)
		delete(s.by, l.handle)
		s.size -= l.size
	}
}

// history keeps executions: those under way, and the last finished ones, bounded in number, bytes and age.
type history struct {
	max, maxBytes int
	age           time.Duration
	now           func() time.Time

	mu       sync.Mutex
	by       map[string]*run
	finished list.List // of *run, oldest first
	size     int
}

func newHistory(max, bytes int, age time.Duration, now func() time.Time) *history {
	return &history{max: max, maxBytes: bytes, age: age, now: now, by: map[string]*run{}}
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
	r.kept, r.ended = size+1024, h.now()
	h.finished.PushBack(r)
	h.size += r.kept
	h.trim()
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

// trim drops what is too old or too much; the newest stays in any case. h.mu is held.
func (h *history) trim() {
	old := h.now().Add(-h.age)
	for e := h.finished.Front(); e != nil; e = h.finished.Front() {
		r := e.Value.(*run)
		over := h.finished.Len() > h.max || h.size > h.maxBytes && h.finished.Len() > 1
		if !over && r.ended.After(old) {
			return
		}
		h.finished.Remove(e)
		delete(h.by, r.id)
		h.size -= r.kept
	}
}

// all gives the runs that are kept, and those that are under way.
func (h *history) all() []*run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.by))
}
