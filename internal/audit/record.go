package audit

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Kind says what a record tells of.
type Kind string

// The kinds of records. A call has a begun and an ended half; the others are one leaf each.
const (
	KindCall          Kind = "call"          // a use of a tool, execute among them
	KindExecution     Kind = "execution"     // how a program ended; that somebody stops it
	KindSession       Kind = "session"       // a session was ended, exported, imported
	KindSignIn        Kind = "sign-in"       // someone signed in here, or Biplane at an upstream; or was refused
	KindConfiguration Kind = "configuration" // a configuration took effect, or was refused
	KindPolicy        Kind = "policy"        // a policy took effect, or was refused
	KindKey           Kind = "key"           // a key was made or withdrawn
	KindApproval      Kind = "approval"      // a person decided
	KindFile          Kind = "file"          // a program was refused one of its files
	KindTool          Kind = "tool"          // an upstream weakened the hints of a tool; a person accepted it
	KindRead          Kind = "read"          // the record itself was read, exported or proved
	KindRecord        Kind = "record"        // the record itself: found broken, payloads thrown away
)

// An Outcome is how what is recorded ended.
type Outcome string

// The outcomes.
const (
	Unfinished Outcome = ""       // begun, and no end is recorded: it is under way, or the process died in its middle
	OK         Outcome = "ok"     // it was done
	ToolError  Outcome = "error"  // the tool ran and reports failure
	Failed     Outcome = "failed" // it could not be done, was refused, or its outcome is unknown: see ErrorKind
)

// A Subject is what a record is about. Any part may be empty.
type Subject struct {
	Tool      string // exact path
	Upstream  string
	Execution string // that made the call, or that ended
	Call      string // id of the call
	Session   string // its name
	File      string // of the configuration, of a policy, of an export
	Name      string // of a key, of whatever else has one
}

// A Decision is what policy, or a person, said.
type Decision struct {
	Effect string // allow, ask, deny
	Policy string // that decided
	Reason string // one line for people
}

// A Payload is what the record knows of bytes that it tells of: their keyed digest and their size,
// and under which digest what was kept of them is found.
type Payload struct {
	Digest string // "hmac-sha256:" and hexadecimal; "sha256:" in records of older versions; empty: there were no bytes
	Size   int64  // bytes of all of it
	Kept   string // digest of the bytes that were kept: Digest where they are all of it; empty: none were
}

// An End is how a call ended.
type End struct {
	Seq       int64 // of its leaf
	Time      time.Time
	Outcome   Outcome
	ErrorKind tool.Kind // empty unless Failed
	Error     Payload   // the text of the error, bounded; empty unless Failed
	Result    Payload
	Duration  time.Duration // to the microsecond
}

// A Record is one thing that happened, as the record tells it. The Seq of a leaf is its index in
// the Merkle tree, from 0 without gaps.
type Record struct {
	ID        string // unique, and ordered by time
	Seq       int64  // of its first leaf
	Kind      Kind
	Time      time.Time // to the microsecond, in UTC
	Principal string
	Client    string
	Subject   Subject
	Decision  Decision
	Arguments Payload
	Detail    map[string]string // what else there is to say: names, counts, digests
	// Outcome Unfinished while a call has no end; of one leaf's records only Outcome and ErrorKind
	End End
	// why this is not what was recorded; empty: it is. All else may be wrong, or missing, then
	Problem string
}

// An Event is what is recorded as one leaf, after it happened.
type Event struct {
	Kind      Kind // any but KindCall
	Principal tool.Principal
	Subject   Subject
	Decision  Decision
	Outcome   Outcome   // OK when empty
	ErrorKind tool.Kind // of one that Failed
	// Detail is what else there is to say. It stands in the leaf for ever: names, counts and
	// digests only, never values that may be secret. At most 32 entries of 512 bytes are kept.
	Detail map[string]string
	// Intent: it is not done yet, and is not where this returns an error. Only of a KindExecution
	// that has to be said.
	Intent bool
}

// A Query picks records. Zero fields pick all.
type Query struct {
	ID        string // this record alone
	Kind      Kind
	Execution string // calls that this execution made, and its own end
	Tool      string // exact path
	Upstream  string
	Principal string
	Outcome   Outcome   // OK, ToolError or Failed
	Effect    string    // of the decision: allow, ask or deny
	Since     time.Time // at this time or later
	Until     time.Time // before this time
	Before    string    // records older than the one with this id: the next page
	After     string    // records younger than this id, oldest first: the other way
	Limit     int       // at most so many, 100 when 0; never more than 1000
}

// Max is how many records q asks for, within its bounds.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}
