package audit

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The kinds of faults, which Fault.What has.
const (
	faultChanged  = "changed"  // a leaf's bytes don't match their stored hash
	faultHash     = "hash"     // a stored hash was changed
	faultMissing  = "missing"  // leaves were removed
	faultInserted = "inserted" // leaves were inserted
	faultMoved    = "moved"    // a leaf is not at its own index, or two were swapped
	faultForm     = "form"     // a leaf is not what Biplane writes: not canonical JSON, or of unknown form
	faultPair     = "pair"     // a call ended that never began, or that had already ended
	// a checkpoint is not signed by the log's key, or is out of order; some were removed or
	// replaced, or their times changed
	faultCheckpoint = "checkpoint"
	// a checkpoint, or the sealed head, is from another log: leaves were rewritten with all
	// their hashes
	faultFork      = "fork"
	faultTruncated = "truncated" // a checkpoint, or the sealed head, covers leaves that no longer exist
	faultSeal      = "seal"      // the sealed head was changed or removed
	// the record doesn't match its witness, or the witness was changed or removed
	faultWitness = "witness"
	faultForged  = "forged" // leaves were added at the end without the key
	// an execution is older than the record: the record was removed or replaced
	faultExecution = "execution"
	faultApproval  = "approval" // a call names an approver who, according to the record, never approved it
	faultPayload   = "payload"  // kept data doesn't match its digest
	faultGone      = "gone"     // kept data is missing, and retention did not delete it
	faultStore     = "store"    // the database can't be read, or contradicts itself
	faultArchive   = "archive"  // the file of a segment is missing
)

// maxFaults is the maximum number of faults that are reported individually.
const maxFaults = 1000

// A Fault is something wrong with the log.
type Fault struct {
	What   string // kind of the fault, from the list above
	Seq    int64  // index of the first leaf concerned; -1: none
	Last   int64  // index of the last leaf concerned
	Record string // id of the record, if it is about one
	Msg    string // one line for users, with the index and the id
}

// A Report is the result of Verify.
type Report struct {
	// of the verified log, computed from its leaves; Root is zero if leaves are missing
	proof.Head
	Records     int64           // calls and events
	Unfinished  int64           // calls without an end: running, or cut off by a crash
	Checkpoints int64           // stored checkpoints that are good
	Covered     int64           // leaves covered by a good checkpoint
	Payloads    int64           // kept items that are good
	Segments    int64           // of archived leaves, whose files are good
	Absent      int64           // leaves in segments whose files are missing: only their hashes were verified
	Faults      []Fault         // empty if the log is what was written; limited: see More
	More        int64           // faults beyond those in Faults
	Outside     []OutsideResult // results for the external checkpoints, in order
}

// An OutsideResult is the result for an external checkpoint.
type OutsideResult struct {
	Size int64 // number of leaves covered
	OK   bool  // the log begins with exactly these leaves
}

// OK reports whether there are no faults.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// LacksOnlySegments reports whether the only faults are missing segments.
func (r *Report) LacksOnlySegments() bool {
	return !r.OK() && !slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.What != faultArchive })
}

// A progress is the progress of the running Verify. One runs at a time, since it keeps the
// processors busy.
type progress struct {
	turn       chan struct{} // has an element while a Verify runs
	done, size atomic.Int64
}

// VerifyProgress returns how many leaves the running Verify has verified, and how many there are.
// size is 0 if none runs.
func (l *Log) VerifyProgress() (done, size int64) {
	return l.progress.done.Load(), l.progress.size.Load()
}

// Verify verifies the whole log. It checks each leaf against its hash, and the tree against all
// stored and external checkpoints and the sealed head. It also checks the halves of calls, the
// order, the form, and the kept data. Archived leaves are read from their segments.
//
// An error means that Verify couldn't run; faults are in the Report. After a fault no call begins,
// unless the only faults are external checkpoints that aren't of this log, or missing segments.
func (l *Log) Verify(ctx context.Context, outside ...string) (*Report, error) {
	select {
	case l.progress.turn <- struct{}{}:
		defer func() { <-l.progress.turn }()
	case <-ctx.Done():
		return nil, tool.AsError(ctx.Err())
	}
	v := newVerifier(l, outside)
	// Most of what is allocated is garbage at once. With this unused memory, which isn't resident,
	// it is collected less often, which saves a tenth of the time.
	ballast := make([]byte, 32<<20)
	defer runtime.KeepAlive(ballast)
	defer l.progress.size.Store(0)
	pace := l.newPacer()
	err := l.store.ViewWhole(ctx, pace, func(view View) error {
		return v.verifyView(ctx, view, pace)
	})
	if err != nil {
		return nil, err
	}
	if v.tampered != "" {
		l.storeDoubt(tool.Errorf(tool.Conflict,
			"the audit record was changed: %s: run biplane audit verify, and keep a copy of the data folder",
			v.tampered))
	}
	return &v.r, nil
}
