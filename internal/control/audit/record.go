package audit

import (
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Kind is the kind of a record.
type Kind string

// The kinds of records. A call has a begun and an ended half. All others have one leaf each.
const (
	KindCall          Kind = "call"          // a use of a tool, including execute
	KindExecution     Kind = "execution"     // a program ended, or is about to be stopped
	KindSession       Kind = "session"       // a session was ended, exported, imported
	KindSignIn        Kind = "sign-in"       // a user signed in here, or Biplane at an upstream; or was refused
	KindConfiguration Kind = "configuration" // a configuration took effect, or was refused
	KindPolicy        Kind = "policy"        // a policy took effect, or was refused
	KindKey           Kind = "key"           // a key was created or revoked; a secret was set or removed
	KindApproval      Kind = "approval"      // a person decided
	KindFile          Kind = "file"          // a program was refused access to one of its files
	KindTool          Kind = "tool"          // an upstream weakened a tool's hints, or a person accepted that
	KindRead          Kind = "read"          // the record itself was read, exported or proved
	KindRecord        Kind = "record"        // the record itself was found broken, or kept data was deleted
)

// An Outcome is the result of a recorded call or event.
type Outcome string

// The outcomes.
const (
	Unfinished Outcome = ""       // no end is recorded: it is running, or the process died
	OK         Outcome = "ok"     // it succeeded
	ToolError  Outcome = "error"  // the tool ran and reported a failure
	Failed     Outcome = "failed" // it couldn't be done, was refused, or its outcome is unknown: see ErrorKind
)

// A Subject is the subject of a record. Any field may be empty.
type Subject struct {
	Tool      string // exact path
	Upstream  string
	Execution string // the execution that made the call, or that ended
	Call      string // id of the call
	Session   string // name of the session
	File      string // a configuration, policy or export
	Name      string // a key or another named object
}

// A Decision is a decision of a policy or a person.
type Decision struct {
	Effect string // allow, ask, deny
	Policy string // the policy that decided
	Reason string // one line for users
}

// An End is the outcome of a call.
type End struct {
	Seq       int64 // index of its leaf
	Time      time.Time
	Outcome   Outcome
	ErrorKind tool.Kind         // empty unless Failed
	Error     retention.Payload // the text of the error, bounded; empty unless Failed
	Result    retention.Payload
	Duration  time.Duration // to the microsecond
}

// A Record is a call or an event on record. The Seq of a leaf is its index in the Merkle tree, from
// 0 without gaps.
type Record struct {
	ID        string // unique, and ordered by time
	Seq       int64  // index of its first leaf
	Kind      Kind
	Time      time.Time // to the microsecond, in UTC
	Principal string
	Client    string
	Subject   Subject
	Decision  Decision
	Arguments retention.Payload
	Detail    map[string]string // additional names, counts and digests
	// Outcome is Unfinished as long as a call has no end; for other records only Seq, Time, Outcome
	// and ErrorKind are set
	End End
	// why this is not what was recorded; empty: it is. Otherwise any other field may be wrong or
	// missing
	Problem string
	// Absent is the name of the segment that the record was archived in, if that file is missing.
	// Problem then says so, and nothing was changed.
	Absent string
}

// DataLabels returns the labels of the data that the caller had read when the call or the use of a
// file was decided on.
func (r *Record) DataLabels() []string {
	if text := r.Detail[labelsDetail]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// An Event is recorded as a single leaf, after it happened.
type Event struct {
	Kind      Kind // any but KindCall
	Principal tool.Principal
	Subject   Subject
	Decision  Decision
	Outcome   Outcome   // OK if empty
	ErrorKind tool.Kind // for a Failed event
	Labels    []string  // of the data that the caller had read
	// Detail is additional information. It stays in the leaf forever: only names, counts and
	// digests, never values that may be secret. At most 32 entries of 512 bytes are kept.
	Detail map[string]string
	// Intent means that the event is about to happen, and must not if recording it fails. It
	// matters only for KindExecution.
	Intent bool
}

// A Query selects records. Zero fields match everything.
type Query struct {
	ID        string // only this record
	Kind      Kind
	Execution string // calls of this execution, and its end
	Tool      string // exact path
	Upstream  string
	Principal string
	Outcome   Outcome   // OK, ToolError or Failed
	Effect    string    // of the decision: allow, ask or deny
	Since     time.Time // at this time or later
	Until     time.Time // before this time
	Before    string    // records older than this id: the next page
	After     string    // records younger than this id, oldest first
	Limit     int       // maximum number of records; 0: 100; at most 1000
}

// Max returns the maximum number of records that q asks for.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}
