package approval

import (
	"context"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Query selects requests. Zero fields match all.
type Query struct {
	States    []State
	Execution string
	Subject   string
	// Programs selects the requests of programs that are pending or approved.
	Programs bool
	// Lapsed selects the requests from outside programs that are pending or approved, and expire
	// by that time.
	Lapsed time.Time
	Before string // only requests older than this id: the next page
	Limit  int    // maximum number of requests: default 100, at most 1000
}

// ListedArguments is the maximum size, in bytes, of arguments in a list. Larger ones are omitted.
const ListedArguments = 8 << 10

// Max returns the maximum number of requests that q asks for, within its limits.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}

// A Store stores requests. It is safe for concurrent use. Errors are *tool.Errors. When a method
// succeeds, its change is on disk. Package approvaltest has the test suite that every Store must
// pass.
type Store interface {
	// Open adds a request, unless one with the same subject still stands (Request.Stands). It then
	// returns that one. If r is from outside programs, and MaxWaiting such requests of its
	// principal are pending, it returns NewLimitError(r).
	Open(ctx context.Context, r *Request) (*Request, error)
	// Get returns a request, or nil if there is none.
	Get(ctx context.Context, id string) (*Request, error)
	// List returns the requests that q selects, newest first, without arguments larger than
	// ListedArguments. The list is only empty if no others match.
	List(ctx context.Context, q Query) ([]Request, error)
	// Move moves a request from one state to another, with the decision, and reports whether it was
	// in the first state.
	Move(ctx context.Context, id string, from, to State, d Decision) (moved bool, err error)
}

// A Decision records who decided, when, and their note.
type Decision struct {
	Decider string
	Time    time.Time
	Note    string
}

// Stands reports whether a request still applies to its subject. It does if it is pending or
// approved. One of an execution's call also does once it was used, denied or expired, because a
// restart makes the same call again.
func (r *Request) Stands() bool {
	switch r.State {
	case Pending, Approved:
		return true
	case Made, Denied, Expired:
		return r.Execution != ""
	}
	return false
}

// hasLapsed reports whether the request is approved, but its client didn't repeat the call in time.
func (r *Request) hasLapsed(now time.Time) bool {
	return r.State == Approved && r.Execution == "" && !now.Before(r.Expires)
}

// NewLimitError returns the error that too many calls of the same principal are pending. People
// would no longer find the requests of others.
func NewLimitError(r *Request) error {
	return tool.Errorf(tool.Limit,
		"%s was not submitted for approval: %d of your calls are already pending, which is the maximum",
		r.Tool, MaxWaiting)
}

func quoteNames(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + n + `"`
	}
	return strings.Join(out, " or ")
}
