package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A faultKind says what a failure means for the connection and for repeating what failed.
type faultKind int

const (
	faultLost    faultKind = iota // the connection broke: whether the call took effect is unknown
	faultUnsent                   // the server never saw the message
	faultSession                  // the server knows our session no longer and did nothing: a new one is made
	faultSignIn                   // it asks for credentials
	faultScope                    // it wants credentials that allow more, for this request; others may be fine
	faultStatus                   // it answered with an HTTP error that says nothing of the above
	faultSize                     // it answered with more than a message may be
	faultGarbled                  // it answered with something that is not an answer
	faultTimeout                  // it did not answer in time
	faultClosed                   // we are closing
)

// A fault is a failure of a connection, or of one exchange on it, as opposed to an error that the server answered with
// (a *jsonrpc.Error, which Err may hold).
type fault struct {
	kind   faultKind
	msg    string // what happened, for people; does not name the upstream
	status int    // HTTP status, 0 if there was none
	err    error
}

func faultf(k faultKind, format string, a ...any) *fault {
	err := fmt.Errorf(format, a...)
	return &fault{kind: k, msg: err.Error(), err: errors.Unwrap(err)}
}

func (f *fault) Error() string { return f.msg }
func (f *fault) Unwrap() error { return f.err }

// faultOf finds the fault in err.
func faultOf(err error) (*fault, bool) {
	var f *fault
	return f, errors.As(err, &f)
}

// isFault says whether err is a fault of one of the kinds.
func isFault(err error, kinds ...faultKind) bool {
	f, ok := faultOf(err)
	return ok && slices.Contains(kinds, f.kind)
}

// wireError finds the error that the server answered with.
func wireError(err error) (*jsonrpc.Error, bool) {
	var e *jsonrpc.Error
	return e, errors.As(err, &e)
}
