package audit

import (
	"context"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Parts of a record.
const (
	PartBegun = "begun" // the first half of a call
	PartEnded = "ended" // the second half of a call
	PartEvent = "event" // all of any other record
)

// An Addition is one leaf that is to be appended, with the bytes that are kept beside it.
type Addition struct {
	Record string // id of the record
	Part   string // PartBegun, PartEnded or PartEvent
	Leaf   []byte // canonical JSON (RFC 8785); its hash in the tree is RFC 6962's
	// of a second half: the first one, whose index stands in it; nil where the leaf has no place
	// for that
	First *Addition
	Seq   int64 // the leaf's index; set by Append, before anything that is appended later
	Keep  []Kept
	Time  time.Time // when it happened: Keep is thrown away so long after it as retention says
	// Durable says that the leaf, and all before it, must have reached the disk before Append
	// returns, whether it has its place in the log by then or, where Failed is there to be told,
	// gets it later. Others survive the death of the process, and may be lost with the power,
	// unless one that is Durable came after them.
	Durable bool
	// Failed, where it isn't nil, says that nobody waits for the leaf's place: Append may return
	// before it has one, and Failed is told when it gets none, unless Append says so. It must
	// return at once. Views see such a leaf all the same, and when a later one, or anything else of
	// the same database, is written it is, too, or Failed was told.
	Failed func(error)
	// Safe says that Append returns only when the death of the process doesn't take the leaf back,
	// nor any before it, also where Failed is there to be told that it could not be placed in the
	// log after all.
	Safe bool
}

// Kept are bytes kept under their digest, until retention throws them away.
type Kept struct {
	Digest string
	Data   []byte
}

// A KeptAt names bytes that were kept: by the index of a leaf, and their digest.
type KeptAt struct {
	Seq    int64
	Digest string
}

// A Leaf is one entry of the log as it is stored.
type Leaf struct {
	Seq  int64
	Data []byte
	// what tlog.StoredHashes gives for it: its own hash, then those of the subtrees that it
	// completes
	Hashes []tlog.Hash
}

// A Pair is the leaves of one record as they are stored.
type Pair struct {
	Record string // the id under which the store found it; empty: it was found by its leaf
	Begun  Leaf   // Data is nil when the leaf that should be here is missing
	Ended  Leaf   // Data is nil when there is none, or it is missing: see Ends
	Ends   bool   // the store knows of an end
	Doubt  string // what the store found to be wrong with what should be here; empty: nothing

	reading *reading // the result of read; nil: it was not called yet
}

// A Head is the log at one moment.
type Head struct {
	Size int64 // leaves
	Root tlog.Hash
}

// A Store holds the record: the leaves in the order in which they were committed, the hashes of
// their tree, the signed checkpoints, and what is kept of arguments and results. It is safe for
// concurrent use.
//
// Append returns after the leaf is written, and sets its index in the tree; an error means that it
// may not be written. It doesn't give up in the middle of a write because ctx ended: it looks at it
// before. A second first leaf of a record is an error of kind tool.Conflict, as is a second end; an
// end of what never began is tool.NotFound. After Close all are tool.Unavailable.
//
// Checkpoint calls sign with the head of the log, between two appends, and returns after the text
// that it gives is on the disk with all leaves before it.
//
// View shows the store at one moment. Prune throws away what was kept of records before a time, and
// says in how many pieces that was.
type Store interface {
	Append(ctx context.Context, a *Addition) error
	Checkpoint(ctx context.Context, sign func(Head) (string, error)) error
	View(ctx context.Context, f func(View) error) error
	Prune(ctx context.Context, before time.Time) (rows int64, err error)
}

// A View is a Store at one moment. It holds only until the function that was given it returns.
type View interface {
	tlog.HashReader
	// Head gives the log's size and root, computed from the stored hashes. A store that misses some
	// gives an error.
	Head() (Head, error)
	// Sealed gives the head as the store sealed it with the last leaf that it added itself; nil
	// where it has none, as one of an older version. An error says that what was sealed was
	// changed, or taken away.
	Sealed() (*Head, error)
	// Witness returns a head that the record had when all of it was on the disk, as something
	// outside the record knows it; nil: there need be no such thing. An error says that it was
	// taken away or changed, or knows another record.
	Witness() (*Head, error)
	// Records returns the leaves of what q picks, newest first, and with them any leaf that the
	// search met and that fails its Check: see Query.Picks.
	Records(q Query) ([]Pair, error)
	// Newest gives, of each of the kinds, the leaf of the event that was recorded last, in any
	// order; none where there is none.
	Newest(kinds ...Kind) ([]Leaf, error)
	// Leaves calls f with each leaf from index from on, in order, as they are stored: whether any
	// is missing is for f to see. The leaf's bytes are f's until it returns.
	Leaves(from int64, f func(Leaf) error) error
	// Checkpoints calls f with the text of each stored checkpoint, oldest first.
	Checkpoints(f func(text string) error) error
	// Chained returns an error of kind tool.Conflict that says how the stored checkpoints, or their
	// times, differ from those that the store sealed: some were removed, replaced or put in.
	Chained() error
	// FirstExecution returns the oldest execution that stands beside the record, and when it began;
	// an empty id if there is none.
	FirstExecution() (id string, began time.Time, err error)
	// Kept gives bytes that were kept of a leaf by its index and their digest; nil where there are
	// none any more.
	Kept(seq int64, digest string) ([]byte, error)
	// AllKept calls f with all bytes that are kept and their digest, or with an error that names
	// what can't be read.
	AllKept(f func(digest string, data []byte, err error) error) error
	// Has says of what was kept, by leaf in ascending order, which is still there. What can't be
	// read is there; AllKept tells of it.
	Has(wanted []KeptAt) ([]bool, error)
	// Outdated counts what Prune would throw away.
	Outdated(before time.Time) (rows int64, err error)
	// Check says what is wrong with the store's own structure, as far as the record is concerned:
	// nil where nothing is.
	Check() error
}
