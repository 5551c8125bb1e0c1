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

// What may be queued of the record before whoever adds to it waits.
const (
	maxQueuedLeaves = 1024
	maxQueuedBytes  = 1 << 20
)

// A ledger is what of the record nobody waits for, and is not written yet. Each transaction takes all of it along, whatever it is for:
// so what was recorded before a write is on the disk when that is. Without one there is a transaction of its own after linger.
type ledger struct {
	w     *writer
	timer *time.Timer

	mu     sync.Mutex
	queue  []*leaf
	bytes  int
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
	l.timer = time.AfterFunc(linger, l.late)
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
	for _, k := range x.add.Keep {
		l.bytes += len(k.Data)
	}
	l.bytes += len(x.add.Leaf)
	if !l.armed {
		l.armed = true
		l.timer.Reset(linger)
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

// waits reports whether something is queued.
func (l *ledger) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
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
	clear(w.taken)
	w.taken = w.taken[:0]
}

// errNotBegun says that an end has no beginning.
var errNotBegun = errors.New("no such record has begun")

// refused makes an error of the database that of the leaf.
func (x *leaf) refused(err error) error {
	switch c := code(err); {
	case errors.Is(err, errNotBegun):
		return tool.Errorf(tool.NotFound, "no audit record %s has begun", x.add.Record)
	case c&0xff == sqlite3.SQLITE_CONSTRAINT && x.add.Part == audit.PartEnded:
		return tool.Errorf(tool.Conflict, "audit record %s has ended already: %w", x.add.Record, err)
	case c&0xff == sqlite3.SQLITE_CONSTRAINT:
		return tool.Errorf(tool.Conflict, "audit record %s has begun already: %w", x.add.Record, err)
	}
	return err
}

const (
	insertLeaf  = `INSERT INTO audit_leaf (seq, hashes, leaf) VALUES (?, ?, ?)`
	insertBegun = `INSERT INTO audit_record (record, ended, seq) VALUES (?, 0, ?)`
	insertEnded = `INSERT INTO audit_record (record, ended, seq) SELECT ?1, 1, ?2 WHERE EXISTS (SELECT 1 FROM audit_record WHERE record = ?1 AND ended = 0)`
	isCall      = `SELECT count(*) FROM audit_record r JOIN audit_leaf l ON l.seq = r.seq WHERE r.record = ? AND r.ended = 0 AND l.leaf ->> 'part' = 'begun'`
)

// leaf adds a leaf in the transaction under way: its index and its hashes are those of the tree as it is here. Where it is refused
// alone, the error is a *refusal.
func (w *writer) leaf(ctx context.Context, x *leaf) error {
	if err := w.grow(ctx); err != nil {
		return err
	}
	add := x.add
	seq := w.tree.size
	add.Seq = seq
	data, err := add.At(seq)
	if err != nil {
		return &refusal{err}
	}
	if err := w.place(ctx, add); err != nil {
		return err
	}
	if _, err := w.statement(ctx, insertLeaf, seq, w.tree.add(data), string(data)); err != nil {
		w.tree = nil // it has grown by what isn't there
		if code(err)&0xff != sqlite3.SQLITE_CONSTRAINT {
			return err
		}
		if _, gone := w.statement(ctx, `DELETE FROM audit_record WHERE record = ? AND seq = ?`, add.Record, seq); gone != nil {
			return gone
		}
		return &refusal{err}
	}
	if err := w.keepAll(ctx, x); err != nil {
		return err
	}
	return w.mark(ctx, seq, data)
}

// place notes where a record's half is to be: of each there is one, and an end has a beginning.
func (w *writer) place(ctx context.Context, add *audit.Addition) error {
	if add.Part != audit.PartEnded {
		_, err := w.statement(ctx, insertBegun, add.Record, add.Seq)
		return refuses(err)
	}
	if add.First == nil { // whatever it ends: an event has no end
		var n int
		if err := w.conn.QueryRowContext(ctx, isCall, add.Record).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return &refusal{errNotBegun}
		}
	}
	res, err := w.statement(ctx, insertEnded, add.Record, add.Seq)
	if err != nil {
		return refuses(err)
	}
	if n, _ := res.RowsAffected(); n == 0 {
		return &refusal{errNotBegun}
	}
	return nil
}

// refuses makes what a constraint said a refusal.
func refuses(err error) error {
	if code(err)&0xff == sqlite3.SQLITE_CONSTRAINT {
		return &refusal{err}
	}
	return err
}
