package audit

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// What can be wrong with a log.
const (
	FaultChanged  = "changed"  // a leaf's bytes are not those that were hashed
	FaultHash     = "hash"     // a stored hash was changed
	FaultMissing  = "missing"  // leaves were removed
	FaultInserted = "inserted" // leaves were put between
	FaultMoved    = "moved"    // a leaf stands at another index than its own, or two were swapped
	FaultForm     = "form"     // a leaf is not what Biplane writes: no canonical JSON, or not of a known form
	FaultPair     = "pair"     // a call ends that never began, or that has ended already
	// a checkpoint is not signed by the log's key, or out of order; some were removed or replaced,
	// or their times changed
	FaultCheckpoint = "checkpoint"
	// a checkpoint, or the sealed head, is of another log: leaves were rewritten with all their
	// hashes
	FaultFork      = "fork"
	FaultTruncated = "truncated" // a checkpoint, or the sealed head, covers leaves that are not there any more
	FaultSeal      = "seal"      // the sealed head was changed, or taken away
	// the record is not the one that its witness knows, or the witness was changed or taken away
	FaultWitness = "witness"
	FaultForged  = "forged" // leaves were put at the end by somebody who had no key
	// an execution is older than the record: that was removed, or another put in its place
	FaultExecution = "execution"
	FaultApproval  = "approval" // a call names an approver who, by the record, never decided on it
	FaultPayload   = "payload"  // what is kept under a digest is not what was digested
	FaultGone      = "gone"     // what was kept is not there, and retention did not throw it away
	FaultStore     = "store"    // the database can't be read, or contradicts itself
)

// maxFaults bounds how many faults are told one by one.
const maxFaults = 1000

// A Fault is something wrong with the log.
type Fault struct {
	What   string // one of the Fault constants
	Seq    int64  // index of the first leaf that it is about; -1: about none
	Last   int64  // index of the last one
	Record string // id of the record, where it is about one
	Msg    string // one line for people, with the index and the id
}

// A Report is what Verify found.
type Report struct {
	// of the log that was verified, computed from its leaves; the Root is zero where leaves are
	// missing
	Head
	Records     int64     // things that happened
	Unfinished  int64     // of them calls that have no end: under way, or cut off by a crash
	Checkpoints int64     // stored, and good
	Covered     int64     // leaves that a good checkpoint covers
	Payloads    int64     // kept, and good
	Faults      []Fault   // none: the log is what was written. Bounded: see More
	More        int64     // faults beyond those in Faults
	Outside     []Outside // of the checkpoints that Verify was given, in their order
}

// Outside says of a checkpoint from outside what it shows.
type Outside struct {
	Size int64 // leaves that it covers
	OK   bool  // the log begins with exactly these
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// Verify reads the whole log: each leaf against its hash, the tree against all stored checkpoints,
// those from outside and the sealed head, the halves of calls, the order, the form, and what is
// kept beside. An error means that it could not, not that something is wrong: that is in the
// Report, and no call begins after it, unless all that is wrong is that a checkpoint from outside
// isn't one of this log.
func (l *Log) Verify(ctx context.Context, outside ...string) (*Report, error) {
	v := newVerifier(l, outside)
	if err := l.store.View(ctx, func(view View) error { return v.run(ctx, view) }); err != nil {
		return nil, err
	}
	if v.tampered != "" {
		l.doubt(tool.Errorf(tool.Conflict, "the audit record is not what it was: %s: run biplane audit verify, and keep a copy of the data folder", v.tampered))
	}
	return &v.r, nil
}
