package store

import (
	"context"
	"errors"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// tarry is how long a leaf that nobody waits for may be queued. Mostly something else is written before.
	tarry = 10 * time.Millisecond
	// What may be queued of the record before whoever adds to it waits.
	maxQueuedLeaves = 1024
	maxQueuedBytes  = 1 << 20
)

// A ledger is what of the record nobody waits for, and is not written yet. Each transaction takes all of it along, whatever it is for:
// so what was recorded before a write is on the disk when that is. Without one there is a transaction for it
// after tarry.
type ledger struct {
	w     *writer
	timer *time.Timer

	mu     sync.Mutex
	queue  []*leaf
	bytes  int
	open   int  // leaves that are queued, or in a transaction that is not committed yet
	armed  bool // the timer runs
	closed bool
}

// A leaf is an addition that is to be written.
type leaf struct {
	a   *Audit
	add *audit.Addition
}

func newLedger(w *writer) *ledger {
	l := &ledger{w: w}
	l.timer = time.AfterFunc(tarry, l.late)
	l.timer.Stop()
	return l
}

// put queues a leaf. It reports false where so much is queued that it has to wait its turn.
func (l *ledger) put(x *leaf) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false, closedError()
	case len(l.queue) >= maxQueuedLeaves, l.bytes >= maxQueuedBytes:
		return false, nil
	}
	l.queue = append(l.queue, x)
	l.open++
	for _, k := range x.add.Keep {
		l.bytes += len(k.Data)
	}
	l.bytes += len(x.add.Leaf)
	if !l.armed {
		l.armed = true
		l.timer.Reset(tarry)
	}
	return true, nil
}

// take gives what is queued.
func (l *ledger) take() []*leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	l.queue, l.bytes, l.armed = nil, 0, false
	return all
}

// waits reports whether something is not committed yet.
func (l *ledger) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > 0
}

// settled notes what was committed, or came to nothing.
func (l *ledger) settled(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open -= n
}

// late has what is still queued written.
func (l *ledger) late() {
	if l.waits() {
		_ = l.w.queueUp(&write{run: nothing, result: make(chan error, 1)}) // the failure of a leaf is told to who added it
	}
}

// close has all written that is queued; nothing is taken any more.
func (l *ledger) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	if l.waits() {
		_ = l.w.call(context.Background(), false, nothing)
	}
}

// nothing is the function of a write that is there for the transaction's sake.
func nothing(context.Context, *writer) error { return nil }

// drain writes what is queued in the transaction under way.
func (w *writer) drain(ctx context.Context) error {
	for _, x := range w.ledger.take() {
		w.taken = append(w.taken, taken{leaf: x})
		err := w.leaf(ctx, x)
		var alone *refusal
		if err != nil && !errors.As(err, &alone) {
			return err
		}
		w.taken[len(w.taken)-1].err = err
	}
	return nil
}

// A taken leaf is one that was taken from the queue, and what came of it.
type taken struct {
	*leaf
	err error
}

// settle tells what came of the leaves of a transaction; err is what came of all of it.
func (w *writer) settle(err error) {
	if err != nil {
		for _, x := range w.ledger.take() { // the next one would fare no better
			w.taken = append(w.taken, taken{leaf: x})
		}
	}
	for _, x := range w.taken {
		if err := errors.Join(err, x.err); err != nil {
			x.add.Failed(x.refused(err))
		}
	}
	w.ledger.settled(len(w.taken))
	clear(w.taken)
	w.taken = w.taken[:0]
}

// What a leaf is refused for.
var (
	errNotBegun = errors.New("no such record has begun")
	errTwice    = errors.New("this half of it is there")
	errVanished = errors.New("the database took it and does not have it: its triggers were changed")
)

// refused makes an error of the database that of the leaf.
func (x *leaf) refused(err error) error {
	switch c := code(err); {
	case errors.Is(err, errNotBegun):
		return tool.Errorf(tool.NotFound, "no audit record %s has begun", x.add.Record)
	case errors.Is(err, errTwice) && x.add.Part == audit.PartEnded:
		return tool.Errorf(tool.Conflict, "audit record %s has ended already: %w", x.add.Record, err)
	case errors.Is(err, errVanished):
		return tool.Errorf(tool.Unavailable, "the audit record takes nothing: %w: run biplane audit verify", err)
	case errors.Is(err, errTwice), c&0xff == sqlite3.SQLITE_CONSTRAINT:
		return tool.Errorf(tool.Conflict, "audit record %s has begun already: %w", x.add.Record, err)
	}
	return err
}

const insertLeaf = `INSERT INTO audit_leaf (seq, hashes, leaf) VALUES (?, ?, ?)`

// leaf adds a leaf in the transaction under way: its index and its hashes are those of the tree as it is here. Where it is refused
// alone, the error is a *refusal.
func (w *writer) leaf(ctx context.Context, x *leaf) error {
	if err := w.grow(ctx, x.a.key); err != nil {
		return err
	}
	add := x.add
	seq := w.tree.size
	add.Seq = seq
	data, err := add.At(seq)
	if err != nil {
		return &refusal{err}
	}
	if err := w.placeable(ctx, add); err != nil {
		return err
	}
	done, err := w.statement(ctx, insertLeaf, seq, w.tree.add(data), string(data))
	if err != nil {
		w.tree = nil // it has grown by what isn't there
		return refuses(err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 { // a trigger that isn't ours can let a row vanish without a word
		w.tree = nil
		return &refusal{errVanished}
	}
	w.unsealed = true
	if err := w.keepAll(ctx, x); err != nil {
		return err
	}
	return w.mark(ctx, seq, data)
}

// refuses makes what a constraint said a refusal.
func refuses(err error) error {
	if code(err)&0xff == sqlite3.SQLITE_CONSTRAINT {
		return &refusal{err}
	}
	return err
}
