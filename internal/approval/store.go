package approval

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Query picks requests. Zero fields pick all.
type Query struct {
	States    []State
	Execution string
	Before    string // requests older than the one with this id: the next page
	Limit     int    // at most so many, 100 when 0; never more than 1000
}

// ListedArguments is up to how many bytes a list has a request's arguments.
const ListedArguments = 8 << 10

// Max is how many requests q asks for, within its bounds.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}

// A Store keeps requests. It is safe for concurrent use. Errors are *tool.Errors; what it has said to be done is on the
// disk. Package approvaltest has the suite that every Store must pass.
type Store interface {
	// Open adds a request, unless there is one of the same subject that still stands (Request.Stands). Then it gives that one.
	Open(ctx context.Context, r *Request) (*Request, error)
	// Get gives a request; nil when there is none.
	Get(ctx context.Context, id string) (*Request, error)
	// List gives what q picks, newest first, without arguments that are over ListedArguments.
	List(ctx context.Context, q Query) ([]Request, error)
	// Move takes requests from one state to another, with who decided, when and what they said, and gives those that were
	// in that state.
	Move(ctx context.Context, ids []string, from, to State, d Decision) (moved []string, err error)
}

// A Decision is who decided, when, and what they said.
type Decision struct {
	Decider string
	Time    time.Time
	Note    string
}

// A Memory is a Store that holds requests in memory, for tests and for a process that keeps nothing.
type Memory struct {
	mu     sync.Mutex
	all    []*Request // oldest first
	closed bool
}

// NewMemory makes an empty Memory.
func NewMemory() *Memory { return &Memory{} }

// Stands reports whether a request still answers for its subject: it is pending or approved, or it is about a call of an
// execution, which is one call however often a restart makes it anew, and was decided on or has expired.
func (r *Request) Stands() bool {
	switch r.State {
	case Pending, Approved:
		return true
	case Made, Denied, Expired:
		return r.Execution != ""
	}
	return false
}

// Open adds a request.
func (m *Memory) Open(ctx context.Context, r *Request) (*Request, error) {
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
	c := *r
	m.all = append(m.all, &c)
	return r, nil
}

// Get gives a request.
func (m *Memory) Get(ctx context.Context, id string) (*Request, error) {
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

// List gives what q picks.
func (m *Memory) List(ctx context.Context, q Query) (out []Request, err error) {
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
		if len(q.States) > 0 && !slices.Contains(q.States, r.State) || q.Execution != "" && q.Execution != r.Execution {
			continue
		}
		c := *r
		if len(c.Arguments) > ListedArguments {
			c.Arguments = nil
		}
		if out = append(out, c); len(out) == q.Max() {
			break
		}
	}
	return out, nil
}

// Move takes requests from one state to another.
func (m *Memory) Move(ctx context.Context, ids []string, from, to State, d Decision) (moved []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if i := m.find(id); i >= 0 && m.all[i].State == from {
			m.all[i].move(to, d)
			moved = append(moved, id)
		}
	}
	return moved, nil
}

func (r *Request) move(to State, d Decision) {
	r.State = to
	if !d.Time.IsZero() {
		r.Decider, r.Decided, r.Note = d.Decider, d.Time.UTC().Truncate(time.Microsecond), d.Note
	}
}

func (m *Memory) find(id string) int {
	return slices.IndexFunc(m.all, func(r *Request) bool { return r.ID == id })
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

// Close ends the Memory.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + n + `"`
	}
	return strings.Join(out, " or ")
}
