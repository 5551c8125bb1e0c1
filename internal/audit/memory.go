package audit

import (
	"context"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Memory is a Store that holds the record in memory, for tests and for a process that keeps nothing.
type Memory struct {
	mu      sync.Mutex
	records map[string]*Record
	order   []string
	closed  bool
}

// NewMemory makes an empty Memory.
func NewMemory() *Memory { return &Memory{records: map[string]*Record{}} }

// Begin adds a record.
func (m *Memory) Begin(ctx context.Context, b *Begun) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	if m.records[b.Record] != nil {
		return tool.Errorf(tool.Conflict, "audit record %s has begun already", b.Record)
	}
	r := &Record{Begun: *b}
	r.Begun.Time = stamp(b.Time)
	m.records[b.Record] = r
	m.order = append(m.order, b.Record)
	return nil
}

// End adds the end of a record.
func (m *Memory) End(ctx context.Context, e *Ended) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed()
	}
	r := m.records[e.Record]
	if r == nil {
		return tool.Errorf(tool.NotFound, "no audit record %s has begun", e.Record)
	}
	if r.Ended.Record != "" {
		return tool.Errorf(tool.Conflict, "audit record %s has ended already", e.Record)
	}
	r.Ended = *e
	r.Ended.Time = stamp(e.Time)
	return nil
}

// Records gives what q picks, newest first.
func (m *Memory) Records(_ context.Context, q Query) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed()
	}
	ids := slices.Sorted(slices.Values(m.order))
	slices.Reverse(ids)
	var out []Record
	for _, id := range ids {
		r := m.records[id]
		if q.Execution != "" && r.Begun.Execution != q.Execution || q.Tool != "" && r.Begun.Tool != q.Tool || q.Before != "" && id >= q.Before {
			continue
		}
		if out = append(out, *r); len(out) == q.Max() {
			break
		}
	}
	return out, nil
}

// Close ends the Memory.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func errClosed() error {
	return tool.Errorf(tool.Unavailable, "the audit record is closed: biplane is shutting down")
}
