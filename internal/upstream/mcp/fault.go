package mcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A faultKind classifies a failure: what it means for the connection and for a retry.
type faultKind int

const (
	faultLost    faultKind = iota // the connection broke: whether the call took effect is unknown
	faultUnsent                   // the server never received the message
	faultSession                  // the server no longer knows the session and did nothing: open a new one
	faultSignIn                   // it asks for credentials
	faultScope                    // it asks for credentials with more rights, for this request; others may succeed
	faultStatus                   // it answered with another HTTP error
	faultSize                     // its answer exceeds the message limit
	faultGarbled                  // its answer is not a valid answer
	faultTimeout                  // it did not answer in time
	faultClosed                   // the connection is being closed
	faultResting                  // the server was ended to free memory while no call used it
)

// A fault is a failure of a connection, or of one exchange on it. An error in the server's response
// is a *jsonrpc.Error instead, which err may hold.
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

// faultOf returns the fault in err's chain.
func faultOf(err error) (*fault, bool) {
	var f *fault
	return f, errors.As(err, &f)
}

// isFault reports whether err is a fault of one of the kinds.
func isFault(err error, kinds ...faultKind) bool {
	f, ok := faultOf(err)
	return ok && slices.Contains(kinds, f.kind)
}

// wireError returns the error in err's chain that the server responded with.
func wireError(err error) (*jsonrpc.Error, bool) {
	var e *jsonrpc.Error
	return e, errors.As(err, &e)
}
