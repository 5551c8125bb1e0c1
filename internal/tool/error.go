package tool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Kind sorts errors by what the reader can do about them. Each edge (MCP, HTTP, command line) has one table from
// Kind to its own codes.
type Kind string

// The kinds of errors.
const (
	Invalid     Kind = "invalid"     // the request is wrong: change it
	NotFound    Kind = "not_found"   // no such thing: the message names what is nearest
	Conflict    Kind = "conflict"    // not in this state
	Denied      Kind = "denied"      // policy or a person said no
	Limit       Kind = "limit"       // a bound was reached: do less
	Timeout     Kind = "timeout"     // it took too long; whether it took effect may be unknown
	Unavailable Kind = "unavailable" // the other side is not there now: try again later
	Canceled    Kind = "canceled"    // whoever asked no longer wants it
	Internal    Kind = "internal"    // a defect of ours
)

// ErrGoesOn is in the error of a call of a program that was stopped with its process, and is taken up by the next one: the call, if it
// was not sent, is made then.
var ErrGoesOn = errors.New("it goes on in another process")

// An Error is what goes wrong, for two readers: Msg may be read by an agent or a person, names the object and says
// what to do next; Err goes to the log.
type Error struct {
	Kind Kind
	Msg  string
	Err  error
	// Limit names the bound of an execution that was reached, in one word: "memory", "calls", ... (package execution has all); empty where it
	// is none of those.
	Limit string
	// Unsent says of a call that it surely ended before anything was sent to its tool: it had no effect. Without it, it may
	// have had one.
	Unsent bool
	// Answered says of a call that its upstream answered it, if only with an error: the upstream is there.
	Answered bool
	// RetryAfter is how long to wait before it is worth another try; 0 where nothing is known.
	RetryAfter time.Duration
}

// RetrySeconds is RetryAfter in whole seconds, rounded up, as Retry-After of HTTP has it (RFC 9110, section 10.2.3).
func (e *Error) RetrySeconds() int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

// NotSent marks the error of a call that ended before anything was sent.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	e := *AsError(err)
	if direct, ok := err.(*Error); !ok || direct == nil {
		e.Err = err // what else is wrapped stays to be found
	}
	e.Unsent = true
	return &e
}

// Errorf makes an Error; a %w in the format is kept for the log and for errors.Is.
func Errorf(k Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// Over makes an Error of the kind Limit that names its bound.
func Over(limit, format string, a ...any) *Error {
	e := Errorf(Limit, format, a...)
	e.Limit = limit
	return e
}

// Error gives Msg.
func (e *Error) Error() string { return e.Msg }

// Unwrap gives Err.
func (e *Error) Unwrap() error { return e.Err }

// AsError finds the *Error in err, or makes one of it: a context's end becomes Canceled or Timeout, all else
// Internal. It gives nil for nil.
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
