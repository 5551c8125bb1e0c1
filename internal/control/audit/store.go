package audit

import (
	"context"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
)

// The parts of a record.
const (
	PartBegun = "begun" // the first half of a call
	PartEnded = "ended" // the second half of a call
	PartEvent = "event" // the only part of any other record
)

// An Addition is a leaf to be appended, with the data to be kept beside it.
type Addition struct {
	Record string // id of the record
	Part   string // PartBegun, PartEnded or PartEvent
	Leaf   []byte // canonical JSON (RFC 8785); its hash in the tree is RFC 6962's
	// for a second half: the first half, whose index the leaf has; nil if the leaf has no place for
	// it
	First *Addition
	Seq   int64 // the leaf's index, set by Append before any later leaf is appended
	Keep  []retention.Kept
	Time  time.Time // when it happened: the retention time of Keep starts here
	// Durable means that the leaf, and everything before it, must be on the disk when Append
	// returns. If Failed is set, the leaf may get its position in the log later. A leaf that isn't
	// Durable survives the death of the process, but may be lost in a power failure, unless a
	// Durable one follows it.
	Durable bool
	// Failed, if not nil, means that no one waits for the leaf's position. Append may return before
	// the leaf has one, and Failed is called if it can't get one, unless Append returns the error.
	// Failed must return at once. Views include such a leaf. When a later leaf, or anything else in
	// the same database, is written, this leaf is, too, or Failed was called.
	Failed func(error)
	// Safe means that Append returns only when the leaf and all before it survive the death of the
	// process. Failed may still be called if the leaf can't be placed in the log.
	Safe bool
}

// A Leaf is an entry of the log as it is stored.
type Leaf struct {
	Seq  int64
	Data []byte
	// the result of tlog.StoredHashes: the leaf's hash, then the hashes of the subtrees that it
	// completes
	Hashes []tlog.Hash
	// Absent is the name of the segment that the leaf was moved to, if that file is missing. Then
	// Data is nil.
	Absent string

	decoded *content  // the result of DecodeText; nil: decodeLeaf decodes Data
	memory  *decoding // for DecodeText
}

// A Pair holds the stored leaves of one record.
type Pair struct {
	Record string // the id under which the store found it; empty: it was found by its leaf
	Begun  Leaf   // Data is nil if the leaf is missing
	Ended  Leaf   // Data is nil if there is no end, or it is missing: see Ends
	Ends   bool   // the store has recorded an end
	Doubt  string // what the store found wrong with these leaves; empty: nothing

	reading *reading // the result of read; nil: not called yet
}

// A Store holds the record: the leaves in the order in which they are committed, the hashes of
// their tree, the signed checkpoints, and the data kept of arguments and results. It is safe for
// concurrent use.
//
// Append sets the leaf's index in the tree and returns after the leaf is written. After an error
// the leaf may or may not be written. Append checks ctx only before it starts: it doesn't abort a
// write. A second beginning or a second end of a record is an error of kind tool.Conflict. An end
// without a beginning is one of kind tool.NotFound. After Close all errors are of kind
// tool.Unavailable.
//
// Checkpoint calls sign with the head of the log, between two appends. It returns after the
// resulting text, and all leaves before it, are on the disk.
//
// View calls f with a snapshot of the store. ViewWhole is for an f that reads everything, which is
// slow: other readers don't wait for it. The view's goroutines call PauseWork repeatedly,
// which may block. Prune deletes the data kept for records before a time, and returns the number of
// rows deleted.
type Store interface {
	Append(ctx context.Context, a *Addition) error
	Checkpoint(ctx context.Context, sign func(proof.Head) (string, error)) error
	View(ctx context.Context, f func(View) error) error
	ViewWhole(ctx context.Context, pace interface{ PauseWork(context.Context) }, f func(View) error) error
	Prune(ctx context.Context, before time.Time) (rows int64, err error)
}

// A View is a snapshot of a Store. It is valid until the function that received it returns.
type View interface {
	tlog.HashReader
	// Head returns the log's size and root, computed from the stored hashes. It returns an error if
	// some are missing.
	Head() (proof.Head, error)
	// SealedHead returns the head that the store sealed with the last leaf that it added. It
	// returns nil if there is none, as in a store of an older version. An error means that the seal
	// was changed or removed.
	SealedHead() (*proof.Head, error)
	// WitnessHead returns a head of the record from when all of it was on the disk, as stored
	// outside the record. It returns nil if no witness is required. An error means that the witness
	// was removed or changed, or belongs to another record.
	WitnessHead() (*proof.Head, error)
	// Records returns the leaves of the records that match q, newest first. It also returns any
	// leaf found in the search that fails its Check: see Query.Picks.
	Records(q Query) ([]Pair, error)
	// Newest returns the leaf of the newest event of each kind, in any order. Kinds without events
	// are omitted.
	Newest(kinds ...Kind) ([]Leaf, error)
	// Leaves calls f with each stored leaf from index from on, in order. It doesn't check for
	// missing leaves. The leaf's bytes are valid until f returns.
	Leaves(from int64, f func(Leaf) error) error
	// Checkpoints calls f with the text of each stored checkpoint, oldest first.
	Checkpoints(f func(text string) error) error
	// CheckChain returns an error of kind tool.Conflict if the stored checkpoints, or their times,
	// differ from the sealed ones: some were removed, replaced or inserted.
	CheckChain() error
	// FirstExecution returns the id of the oldest execution stored beside the record, and its start
	// time. The id is empty if there is none.
	FirstExecution() (id string, began time.Time, err error)
	// ListSegments returns the segments that leaves were moved to, by their first leaf.
	ListSegments() ([]segment.Stored, error)
	// LoadKept returns data kept for the leaf at index seq by its digest, or nil if it no longer
	// exists.
	LoadKept(seq int64, digest string) ([]byte, error)
	// AllKept calls f with all kept data and its stored digest, which is empty if none is stored,
	// or with an error for data that can't be read. It may be called while Leaves runs.
	AllKept(f func(digest string, data []byte, err error) error) error
	// HasKept reports which of the kept data in wanted, sorted by leaf, still exists. Data that
	// can't be read counts as existing; AllKept reports it.
	HasKept(wanted []retention.Key) ([]bool, error)
	// CountOutdated returns the number of rows that Prune would delete.
	CountOutdated(before time.Time) (rows int64, err error)
	// CheckIntegrity returns an error if the store's own structure is damaged, as far as the record
	// is concerned.
	CheckIntegrity() error
}
