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
	// tarry is how long a leaf that nobody waits for may be queued. Mostly something else is
	// written before.
	tarry = 10 * time.Millisecond
	// What may be queued of the record before whoever adds to it waits.
	maxQueuedLeaves = 1024
	maxQueuedBytes  = 1 << 20
)

// A ledger is what of the record nobody waits for, and is not written yet. Each transaction takes
// all of it along, whatever it is for: so what was recorded before a write is on the disk when that
// is. Without one there is a transaction for it after tarry.
type ledger struct {
	w     *writer
	timer *time.Timer

	mu     sync.Mutex
	queue  []*leaf
	bytes  int
	disk   int  // of them are to be on the disk
	open   int  // leaves that are queued, or in a transaction that is not committed yet
	armed  bool // the timer runs
	closed bool
}

// A leaf is an addition that is to be written.
type leaf struct {
	record.Leaf
	a      *Audit
	number uint64      // in ahead; 0: it isn't there
	disk   bool        // its transaction waits for the disk
	waits  atomic.Bool // Append says what came of it, so that Failed needn't
	// What came of it, with Err; before done is closed, when the transaction that took it is over,
	// only the writer's goroutine uses them.
	told bool // Append waits for it
	over bool
	done chan struct{} // nil: nobody ever waits
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
		return false, fault.Closed()
	case len(l.queue) >= maxQueuedLeaves, l.bytes >= maxQueuedBytes:
		return false, nil
	}
	x.number = l.w.ahead.note(x)
	l.queue = append(l.queue, x)
	l.open++
	l.weigh(x)
	if !l.armed {
		l.armed = true
		l.timer.Reset(tarry)
	}
	return true, nil
}

// weigh counts a leaf that is queued. The caller holds mu.
func (l *ledger) weigh(x *leaf) {
	for _, k := range x.Add.Keep {
		l.bytes += len(k.Data)
	}
	l.bytes += len(x.Add.Leaf)
	if x.disk {
		l.disk++
	}
}

// take gives what is queued; of a transaction that doesn't wait for the disk up to a leaf that has
// to be there.
func (l *ledger) take(durable bool) []*leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	if !durable && l.disk > 0 {
		i := slices.IndexFunc(all, func(x *leaf) bool { return x.disk })
		l.queue = all[i:] // its transaction comes
		return all[:i:i]
	}
	l.queue, l.bytes, l.disk, l.armed = nil, 0, 0, false
	return all
}

// add counts leaves that a transaction takes, and that were not queued.
func (l *ledger) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// durably reports whether something is queued that has to be on the disk.
func (l *ledger) durably() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk > 0
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
		_ = l.w.queueUp(&write{result: make(chan error, 1)}) // the failure of a leaf is told to who added it
	}
}

// close has all written that is queued; nothing is taken any more.
func (l *ledger) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.timer.Stop()
	if l.waits() {
		_ = l.w.takeAlong(context.Background())
	}
}

// takeAlong waits until what is queued by now is written.
func (w *writer) takeAlong(ctx context.Context) error {
	return w.add(ctx, &write{durable: w.ledger.durably()})
}

// drain writes what is queued in the transaction under way.
func (w *writer) drain(ctx context.Context) error {
	for some := range slices.Chunk(w.ledger.take(w.full), rowsAtOnce) {
		w.taken = append(w.taken, some...)
		if err := w.leaves(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// settle tells what came of the writes and the leaves of a transaction; err is what came of all of
// it.
func (w *writer) settle(group []*write, durable bool, err error) {
	over := w.taken
	if err != nil {
		w.taken = append(w.taken, w.ledger.take(true)...) // the next one would fare no better
		group, over = w.owe(group)
	} else {
		w.paid()
	}
	for _, x := range over {
		if x.Err = errors.Join(err, x.Err); x.Err != nil && !x.told && !x.waits.Swap(false) && x.Add.Failed != nil {
			x.Add.Failed(x.Explain(x.Err))
		}
		x.over = true
		if x.done != nil {
			close(x.done)
		}
	}
	w.sound.Store(w.edge.Known())
	w.ahead.done(numbers(group, over), durable, w.clearing, err)
	w.ledger.settled(len(over))
	clear(w.taken)
	w.taken = w.taken[:0]
}

// payAfter is how long after a transaction that failed there is another one for what of it is safe.
const payAfter = time.Second

// owe sorts out of a transaction that failed what was answered already, since the file beside the
// database has it: the next one begins with that. It gives what is over, with that error.
func (w *writer) owe(group []*write) (over []*write, leaves []*leaf) {
	before := len(w.owed)
	w.owed = w.owed[:0:0]
	for _, r := range group {
		if r.ahead == 0 || !w.ahead.has(r.ahead) {
			w.ahead.hole(r.entry)
			over = append(over, r)
			continue
		}
		again := *r
		// who waited for it is told of the failure
		again.durable, again.later, again.result = false, true, make(chan error, 1)
		w.owed = append(w.owed, &again)
	}
	var back []*leaf
	for _, x := range w.taken {
		x.told = x.waits.Swap(false) // from here on Append can't say any more that the file has it
		if x.told || x.number == 0 || !w.ahead.has(x.number) {
			leaves = append(leaves, x)
			continue
		}
		x.Err = nil
		back = append(back, x)
	}
	w.ledger.back(back, len(w.owed)-before)
	return over, leaves
}

// paid notes that what was owed is written.
func (w *writer) paid() {
	w.ledger.settled(len(w.owed))
	w.owed = nil
}

// back queues leaves before all others; more is how many writes more than before are owed.
func (l *ledger) back(leaves []*leaf, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += more
	l.queue = append(leaves, l.queue...)
	for _, x := range leaves {
		l.weigh(x)
	}
	if l.open > 0 && !l.closed {
		l.armed = true
		l.timer.Reset(payAfter)
	}
}

// placed waits until a queued leaf has its place in the log, and is on the disk where it is to be:
// a transaction that is under way may take it.
func (w *writer) placed(x *leaf) error {
	if err := w.queueUp(&write{durable: x.Add.Durable, leaf: x, result: make(chan error, 1)}); err != nil {
		return err
	}
	<-x.done
	return x.Explain(x.Err)
}

// reached waits until the disk has a queued leaf: mostly in the file beside the database.
func (w *writer) reached(ctx context.Context, x *leaf) error {
	if w.ahead.sync(x.number) == nil && x.waits.Swap(false) {
		return nil // where it could not be placed in the log after all, Failed is told
	}
	err := w.onDisk(ctx)
	if err == nil || !x.waits.Swap(false) {
		<-x.done
		return x.Explain(x.Err)
	}
	return err
}

// rowsAtOnce is how many leaves one statement writes at most: many cost little more than one.
const rowsAtOnce = 16

// leaves adds leaves in the transaction under way. What one of them is refused for alone is noted
// with it.
func (w *writer) leaves(ctx context.Context, some []*leaf) error {
	all := make([]*record.Leaf, len(some))
	for i, x := range some {
		all[i] = &x.Leaf
	}
	return w.edge.Add(ctx, w.tx, all)
}

// leaf adds one leaf.
func (w *writer) leaf(ctx context.Context, x *leaf) error {
	return errors.Join(w.leaves(ctx, []*leaf{x}), x.Err)
}
