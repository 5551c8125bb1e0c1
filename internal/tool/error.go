package tool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Kind classifies errors by what the reader can do about them. Each edge (MCP, HTTP, command
// line) has one table that maps Kinds to its own codes.
type Kind string

// The kinds of errors.
const (
	Invalid     Kind = "invalid"     // the request is invalid: change it
	NotFound    Kind = "not_found"   // it doesn't exist: the message names the most similar ones
	Conflict    Kind = "conflict"    // not possible in the current state
	Denied      Kind = "denied"      // denied by policy or by a person
	Limit       Kind = "limit"       // a limit was exceeded: do less
	Timeout     Kind = "timeout"     // it took too long; whether it took effect may be unknown
	Unavailable Kind = "unavailable" // the peer is unavailable: try again later
	Canceled    Kind = "canceled"    // canceled by the caller
	Internal    Kind = "internal"    // a bug in Biplane
)

// ErrGoesOn is wrapped by the error of a call whose program was stopped with its process. The next
// process resumes the program, and makes the call if it was not sent.
var ErrGoesOn = errors.New("it goes on in another process")

// An Error has two readers. Msg is for an agent or a person: it names the object and
// the next step. Err is for the log.
type Error struct {
	Kind Kind
	Msg  string
	Err  error
	// Limit is the name of an exceeded limit of an execution: "memory", "calls", ... (package
	// execution has all of them). It is empty for other errors.
	Limit string
	// Unsent means that a call certainly ended before anything was sent to its tool: it had no
	// effect. Otherwise it may have had one.
	Unsent bool
	// Answered means that the upstream answered the call, if only with an error: it is available.
	Answered bool
	// RetryAfter is how long to wait before a retry; 0 if unknown.
	RetryAfter time.Duration
}

// RetrySeconds returns RetryAfter in whole seconds, rounded up, for HTTP's Retry-After (RFC 9110,
// section 10.2.3).
func (e *Error) RetrySeconds() int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

// NotSent marks the error of a call that ended before anything was sent.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	e := *AsError(err)
	if direct, ok := err.(*Error); !ok || direct == nil {
		e.Err = err // keep the other wrapped errors
	}
	e.Unsent = true
	return &e
}

// Errorf returns an Error. The error of a %w in the format becomes Err.
func Errorf(k Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// Over returns an Error of kind Limit that names the limit.
func Over(limit, format string, a ...any) *Error {
	e := Errorf(Limit, format, a...)
	e.Limit = limit
	return e
}

// Error returns Msg.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns the *Error in err, or converts err to one: a context error becomes Canceled or
// Timeout, any other error Internal. It returns nil for nil.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Canceled, Msg: "canceled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Msg: "timed out", Err: err}
	}
	return &Error{Kind: Internal, Msg: "internal error: " + err.Error(), Err: err}
}
