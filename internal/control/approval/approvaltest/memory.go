package approvaltest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Memory is an approval.Store in memory, for tests.
type Memory struct {
	mu     sync.Mutex
	all    []*approval.Request // oldest first
	closed bool
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{} }

// Open adds a request.
func (m *Memory) Open(ctx context.Context, r *approval.Request) (*approval.Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	for _, old := range m.all {
		if old.Subject == r.Subject && old.Stands() {
			c := *old
			return &c, nil
		}
	}
	if r.Execution == "" && m.countPending(r) >= approval.MaxWaiting {
		return nil, approval.NewLimitError(r)
	}
	c := *r
	m.all = append(m.all, &c)
	return r, nil
}

// countPending returns the number of requests that count against the limit of r.
func (m *Memory) countPending(r *approval.Request) (n int) {
	for _, o := range m.all {
		if o.State == approval.Pending && o.Execution == "" && o.Principal == r.Principal &&
			r.Created.Before(o.Expires) {
			n++
		}
	}
	return n
}

// Get returns a request.
func (m *Memory) Get(ctx context.Context, id string) (*approval.Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	if i := m.find(id); i >= 0 {
		c := *m.all[i]
		return &c, nil
	}
	return nil, nil
}

// List returns the requests that q selects.
func (m *Memory) List(ctx context.Context, q approval.Query) (out []approval.Request, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	end := len(m.all)
	if q.Before != "" {
		end = max(m.find(q.Before), 0)
	}
	for _, r := range slices.Backward(m.all[:end]) {
		if !isSelected(q, r) {
			continue
		}
		c := *r
		if len(c.Arguments) > approval.ListedArguments {
			c.Arguments = nil
		}
		if out = append(out, c); len(out) == q.Max() {
			break
		}
	}
	return out, nil
}

func isSelected(q approval.Query, r *approval.Request) bool {
	inForce := r.State == approval.Pending || r.State == approval.Approved
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, r.State),
		q.Execution != "" && q.Execution != r.Execution,
		q.Subject != "" && q.Subject != r.Subject,
		q.Programs && (!inForce || r.Execution == ""),
		!q.Lapsed.IsZero() && (!inForce || r.Execution != "" || r.Expires.After(q.Lapsed)):
		return false
	}
	return true
}

// Move moves a request from one state to another.
func (m *Memory) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (moved bool,
	err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return false, err
	}
	i := m.find(id)
	if i < 0 || m.all[i].State != from {
		return false, nil
	}
	r := m.all[i]
	if r.State = to; !d.Time.IsZero() {
		r.Decider, r.Decided, r.Note = d.Decider, d.Time.UTC().Truncate(time.Microsecond), d.Note
	}
	return true, nil
}

func (m *Memory) find(id string) int {
	return slices.IndexFunc(m.all, func(r *approval.Request) bool { return r.ID == id })
}

func (m *Memory) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	if m.closed {
		return tool.Errorf(tool.Unavailable, "the store is closed: biplane is shutting down")
	}
	return nil
}

// Close closes the Memory.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
