package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
)

const (
	// tarry is how long a leaf with no waiter may stay queued. Usually another write commits it
	// earlier.
	tarry = 10 * time.Millisecond
	// Limits of the queue, above which callers that add a leaf wait.
	maxQueuedLeaves = 1024
	maxQueuedBytes  = 1 << 20
)

// A ledger queues the leaves that no one waits for and that are not written yet. Each transaction
// writes all of them, whatever else it writes. So anything recorded before a write is on the disk
// when the write is. Without another transaction, one is started after tarry.
type ledger struct {
	w     *writer
	timer *time.Timer

	mu     sync.Mutex
	queue  []*leaf
	bytes  int
	disk   int  // queued leaves that have to be on the disk
	open   int  // leaves that are queued, or in a transaction that has not committed
	armed  bool // the timer is running
	closed bool
}

// A leaf is an addition waiting to be written.
type leaf struct {
	record.Leaf
	a      *Audit
	number uint64      // in ahead; 0: it isn't there
	disk   bool        // the transaction must wait for the disk
	waits  atomic.Bool // Append returns the result, so Failed isn't called
	// The result, along with Err. Until done is closed at the end of its transaction, only the
	// writer's goroutine uses these fields.
	told bool // Append is waiting for the result
	over bool
	done chan struct{} // nil: no one ever waits
}

func newLedger(w *writer) *ledger {
	l := &ledger{w: w}
	l.timer = time.AfterFunc(tarry, l.startDrain)
	l.timer.Stop()
	return l
}

// enqueue queues a leaf. It returns false if the queue is full and the leaf has to wait its turn.
func (l *ledger) enqueue(x *leaf) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false, fault.NewClosedError()
	case len(l.queue) >= maxQueuedLeaves, l.bytes >= maxQueuedBytes:
		return false, nil
	}
	x.number = l.w.ahead.addEntry(x)
	l.queue = append(l.queue, x)
	l.open++
	l.countLeaf(x)
	if !l.armed {
		l.armed = true
		l.timer.Reset(tarry)
	}
	return true, nil
}

// countLeaf adds a leaf to the queue's counters. The caller holds mu.
func (l *ledger) countLeaf(x *leaf) {
	for _, k := range x.Add.Keep {
		l.bytes += len(k.Data)
	}
	l.bytes += len(x.Add.Leaf)
	if x.disk {
		l.disk++
	}
}

// takeQueue removes and returns the queued leaves. For a transaction that isn't durable, it stops
// before the first leaf that has to be on the disk.
func (l *ledger) takeQueue(durable bool) []*leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	if !durable && l.disk > 0 {
		i := slices.IndexFunc(all, func(x *leaf) bool { return x.disk })
		l.queue = all[i:] // a durable transaction is coming
		return all[:i:i]
	}
	l.queue, l.bytes, l.disk, l.armed = nil, 0, 0, false
	return all
}

// countDirect counts n leaves in a transaction that were never queued.
func (l *ledger) countDirect(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// needsDisk reports whether a queued leaf has to be on the disk.
func (l *ledger) needsDisk() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk > 0
}

// hasUncommitted reports whether any leaf is not committed yet.
func (l *ledger) hasUncommitted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > 0
}

// settleCount counts n leaves that were committed or failed.
func (l *ledger) settleCount(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open -= n
}

// startDrain starts a transaction for the leaves that are still queued.
func (l *ledger) startDrain() {
	if l.hasUncommitted() {
		_ = l.w.queue.queueUp(&write{result: make(chan error, 1)}) // a leaf's failure is reported to its caller
	}
}

// flushQueue writes all queued leaves. No more are accepted.
func (l *ledger) flushQueue() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	if l.hasUncommitted() {
		_ = l.w.takeAlong(context.Background())
	}
}

// takeAlong waits until everything queued so far is written.
func (w *writer) takeAlong(ctx context.Context) error {
	return w.enqueueAndWait(ctx, &write{durable: w.ledger.needsDisk()})
}

// drainLeaves writes the queued leaves in the current transaction.
func (w *writer) drainLeaves(ctx context.Context) error {
	for some := range slices.Chunk(w.ledger.takeQueue(w.full), rowsAtOnce) {
		w.taken = append(w.taken, some...)
		if err := w.addLeaves(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// settleGroup reports the results of a transaction's writes and leaves. err is the result of the
// transaction.
func (w *writer) settleGroup(group []*write, durable bool, err error) {
	over := w.taken
	if err != nil {
		w.taken = append(w.taken, w.ledger.takeQueue(true)...) // they would fail in the next transaction, too
		group, over = w.splitFailure(group)
	} else {
		w.clearDebts()
	}
	for _, x := range over {
		if x.Err = errors.Join(err, x.Err); x.Err != nil && !x.told && !x.waits.Swap(false) && x.Add.Failed != nil {
			x.Add.Failed(x.ExplainError(x.Err))
		}
		x.over = true
		if x.done != nil {
			close(x.done)
		}
	}
	w.sound.Store(w.edge.IsLoaded())
	w.ahead.removeDone(entryNumbers(group, over), durable, w.clearing, err)
	w.ledger.settleCount(len(over))
	clear(w.taken)
	w.taken = w.taken[:0]
}

// payAfter is the delay between a failed transaction and its retry for the entries in the
// write-ahead file.
const payAfter = time.Second

// splitFailure splits a failed transaction. Entries in the write-ahead file have been answered
// already, so the next transaction begins with them. splitFailure returns the others, which have
// failed.
func (w *writer) splitFailure(group []*write) (over []*write, leaves []*leaf) {
	before := len(w.owed)
	w.owed = w.owed[:0:0]
	for _, r := range group {
		if r.ahead == 0 || !w.ahead.hasEntry(r.ahead) {
			w.ahead.addHole(r.entry)
			over = append(over, r)
			continue
		}
		again := *r
		// a waiting caller gets the failure
		again.durable, again.later, again.result = false, true, make(chan error, 1)
		w.owed = append(w.owed, &again)
	}
	var back []*leaf
	for _, x := range w.taken {
		x.told = x.waits.Swap(false) // from here on Append can't report that the file has it
		if x.told || x.number == 0 || !w.ahead.hasEntry(x.number) {
			leaves = append(leaves, x)
			continue
		}
		x.Err = nil
		back = append(back, x)
	}
	w.ledger.requeue(back, len(w.owed)-before)
	return over, leaves
}

// clearDebts records that all owed writes are written.
func (w *writer) clearDebts() {
	w.ledger.settleCount(len(w.owed))
	w.owed = nil
}

// requeue puts leaves at the front of the queue. more is by how many the owed writes have
// increased.
func (l *ledger) requeue(leaves []*leaf, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += more
	l.queue = append(leaves, l.queue...)
	for _, x := range leaves {
		l.countLeaf(x)
	}
	if l.open > 0 && !l.closed {
		l.armed = true
		l.timer.Reset(payAfter)
	}
}

// awaitPosition waits until a queued leaf has its position in the log, and is on the disk if it has
// to be. A transaction that is already running may write it.
func (w *writer) awaitPosition(x *leaf) error {
	if err := w.queue.queueUp(&write{durable: x.Add.Durable, leaf: x, result: make(chan error, 1)}); err != nil {
		return err
	}
	<-x.done
	return x.ExplainError(x.Err)
}

// awaitDisk waits until a queued leaf is on the disk, usually in the write-ahead file.
func (w *writer) awaitDisk(ctx context.Context, x *leaf) error {
	if w.ahead.syncEntry(x.number) == nil && x.waits.Swap(false) {
		return nil // if it can't be placed in the log after all, Failed is called
	}
	err := w.onDisk(ctx)
	if err == nil || !x.waits.Swap(false) {
		<-x.done
		return x.ExplainError(x.Err)
	}
	return err
}

// rowsAtOnce is the maximum number of leaves per statement: many cost little more than one.
const rowsAtOnce = 16

// addLeaves adds leaves in the current transaction. If a single leaf is refused, the error is
// stored in that leaf.
func (w *writer) addLeaves(ctx context.Context, some []*leaf) error {
	all := make([]*record.Leaf, len(some))
	for i, x := range some {
		all[i] = &x.Leaf
	}
	return w.edge.Add(ctx, w.tx, all)
}

// addLeaf adds a single leaf.
func (w *writer) addLeaf(ctx context.Context, x *leaf) error {
	return errors.Join(w.addLeaves(ctx, []*leaf{x}), x.Err)
}
