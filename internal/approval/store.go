package approval

import (
	"context"
	"strings"
	"time"
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
	// Move takes a request from one state to another, with who decided, when and what they said, and reports whether it was in
	// that state.
	Move(ctx context.Context, id string, from, to State, d Decision) (moved bool, err error)
}

// A Decision is who decided, when, and what they said.
type Decision struct {
	Decider string
	Time    time.Time
	Note    string
}

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

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + n + `"`
	}
	return strings.Join(out, " or ")
}
