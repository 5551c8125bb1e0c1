package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// batch is the maximum number of writes that a transaction starts with.
const batch = 512

// A writer is the only goroutine that writes. Writes that arrive during a commit share the next
// transaction. So a hundred concurrent calls wait for one or two disk flushes, not for a hundred.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn            // of db; nil: nothing written yet; used by the goroutine only
	stmts map[string]*sql.Stmt // by text; used by the goroutine only
	tx    *transaction         // on conn; used by the goroutine only
	edge  record.Edge          // of the record; used by the goroutine only
	// leaves of the record in the current transaction; used by the goroutine only
	taken []*leaf
	full  bool        // commits wait for the disk; used by the goroutine only
	sound atomic.Bool // the record's tree is in memory, and matched its seal
	// the current transaction holds the lock of the write-ahead file; used by the goroutine only
	clearing bool
	done     chan struct{} // closed when the goroutine has ended
	queue    writeQueue
	hurry    chan struct{} // a caller waits for a write queued by later
	soon     chan struct{} // a write should be safe soon

	granted *atomic.Pointer[grants] // the store's

	ledger *ledger // leaves of the record that no one waits for
	ahead  *ahead  // write-ahead file, with the entries that are not in the database yet
	// writes of a failed transaction that are safe in the write-ahead file: the next transaction
	// begins with them; used by the goroutine only
	owed []*write
	heir bool // the last process left leaves in the file
	// leaves that the last process left in its file, until the record is opened; used by the
	// goroutine only
	left []read
	log  *slog.Logger

	order sync.Mutex // held while entries are added to ahead and queued, so that both have the same order
}

// A writeQueue passes writes to the writer's goroutine.
type writeQueue struct {
	c chan *write // closed by closeQueue

	mu     sync.RWMutex // held while queueing, so that nothing is queued after closeQueue
	closed bool
}

// queueUp queues a write without waiting for its result.
func (q *writeQueue) queueUp(r *write) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return fault.NewClosedError()
	}
	q.c <- r
	return nil
}

func (q *writeQueue) closeQueue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.c)
}

// A write is a list of statements that are executed all or none. An empty write only starts a
// transaction. durable means that the writes are on the disk before the result is sent. clear means
// that everything else is, too, so that the write-ahead file can be overwritten.
type write struct {
	durable bool
	clear   bool
	steps   []step
	// run is called instead of steps. Its writes before an error are not rolled back, so they
	// must be harmless.
	run    func(ctx context.Context, w *writer) error
	result chan error
	later  bool   // no one waits for result yet
	leaf   *leaf  // queued leaf that the transaction should write; nil: none
	entry  entry  // what the write-ahead file can hold; nil: nothing
	ahead  uint64 // number of entry
}

// A step is a statement with its arguments.
type step struct {
	query string
	args  []any
}

// startWriter starts the writer of a store. It opens the writing connection only when there is
// something to write, because each connection first reads the whole schema. ahead is the path of
// the write-ahead file, whose remaining entries are written first.
func startWriter(ctx context.Context, s *Store, ahead string) (*writer, error) {
	w := &writer{db: s.write, granted: &s.granted, stmts: map[string]*sql.Stmt{}, log: s.log, full: true,
		done: make(chan struct{}), queue: writeQueue{c: make(chan *write, batch)}, hurry: make(chan struct{}, 1),
		soon: make(chan struct{}, 1)}
	w.ledger = newLedger(w)
	if err := w.recoverSteps(ctx, s.read, ahead); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	go w.runLoop()
	return w, nil
}

// connect opens the connection if it isn't open yet.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	// Indexes over random keys are written in many places: a larger cache keeps their pages in
	// memory, and a longer WAL delays moving them. A WAL that grew for a reader is cut to its usual
	// size.
	const settings = "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000; " +
		"PRAGMA journal_size_limit = 17000000"
	if _, err := conn.ExecContext(ctx, settings); err != nil {
		return errors.Join(err, conn.Close())
	}
	w.conn, w.tx = conn, &transaction{conn, w}
	return nil
}

func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	return w.conn.Close()
}

// execStatement queues a statement, and waits until it is committed. Once queued, it is not
// canceled, even if ctx is. After an error, it may or may not be committed.
func (w *writer) execStatement(ctx context.Context, durable bool, query string, args ...any) error {
	return w.execAll(ctx, durable, []step{{query, args}})
}

// execAll is like do for several statements, which are executed all or none.
func (w *writer) execAll(ctx context.Context, durable bool, steps []step) error {
	return w.enqueueAndWait(ctx, &write{durable: durable, steps: steps})
}

// runInTransaction is like do for a function that runs inside the transaction, on the writer's
// goroutine.
func (w *writer) runInTransaction(ctx context.Context, durable bool,
	run func(ctx context.Context, w *writer) error) error {
	return w.enqueueAndWait(ctx, &write{durable: durable, run: run})
}

// onDisk waits until everything queued so far is on the disk, in the database.
func (w *writer) onDisk(ctx context.Context) error {
	return w.enqueueAndWait(ctx, &write{durable: true})
}

// clearAhead is like onDisk, and also resets the write-ahead file. It does nothing if that file is
// empty.
func (w *writer) clearAhead(ctx context.Context) error {
	if w.ahead.isEmpty() {
		return nil
	}
	return w.enqueueAndWait(ctx, &write{clear: true})
}

func (w *writer) enqueueAndWait(ctx context.Context, r *write) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	r.result = make(chan error, 1)
	if err := w.queue.queueUp(r); err != nil {
		return err
	}
	return <-r.result
}

// stopWriter waits for everything queued, and ends the goroutine.
func (w *writer) stopWriter() error {
	w.ledger.flushQueue()
	w.queue.closeQueue()
	<-w.done
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.ahead.closeFile(), w.disconnect())...)
}

// isEmpty reports whether the write has no statements.
func (r *write) isEmpty() bool { return r.run == nil && len(r.steps) == 0 }

// isMoot reports whether nothing is left to do, because an earlier transaction wrote the leaf.
func (r *write) isMoot() bool { return r.leaf != nil && r.leaf.over }

func (w *writer) runLoop() {
	stack.Grow()
	defer close(w.done)
	var next *write // received, and left for the next transaction
	for {
		first := next
		if first == nil {
			var ok bool
			if first, ok = <-w.queue.c; !ok {
				if !w.ahead.isEmpty() { // so that the next process has nothing to recover
					_, _, _ = w.commitGroup(&write{clear: true})
				}
				return
			}
		}
		if first.isMoot() {
			next = nil
			continue
		}
		var group []*write
		var errs []error
		group, errs, next = w.commitGroup(first)
		for i, r := range group {
			r.result <- errs[i]
		}
	}
}

// commitGroup writes first, and everything queued before or during the transaction, in one
// transaction. It returns the writes with their results, and next, a write received from the queue
// that is not part of it. A statement refused by a constraint fails alone, as does a refusal. Any
// other failure fails all writes.
func (w *writer) commitGroup(first *write) (group []*write, errs []error, next *write) {
	ctx := context.Background() // queued writes are not canceled
	group = append(slices.Clone(w.owed), w.gatherGroup(first)...)
	w.clearing = w.ahead.isFull() || slices.ContainsFunc(group, func(r *write) bool { return r.clear })
	durable := w.clearing || w.ledger.needsDisk() ||
		slices.ContainsFunc(group, func(r *write) bool { return r.durable })
	if w.clearing { // no entry is added to the file in the meantime
		w.ahead.file.mu.Lock()
		defer w.ahead.file.mu.Unlock()
	}
	errs, next, err := w.runTransaction(ctx, &group, durable)
	if err != nil {
		w.edge.DiscardState()
		w.granted.Load().dropLists()
		if w.conn != nil {
			if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil &&
				fault.Code(rerr)&0xff != sqlite3.SQLITE_ERROR {
				err = errors.Join(err, rerr) // SQLITE_ERROR: SQLite had already rolled back
			}
		}
		w.settleGroup(group, durable, fault.Translate(err))
		return group, slices.Repeat([]error{fault.Translate(err)}, len(group)), next
	}
	for i, err := range errs {
		if err != nil {
			w.ahead.addHole(group[i].entry)
		}
	}
	w.settleGroup(group, durable, nil)
	return group, errs, next
}

// runTransaction is commit without the error handling. It also writes the queued leaves of the
// record, and then writes queued before them, so that the record has nothing that is missing in the
// journal.
func (w *writer) runTransaction(ctx context.Context, group *[]*write, durable bool) (errs []error, next *write,
	err error) {
	if err := w.connect(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.setSynchronous(ctx, durable); err != nil {
		return nil, nil, err
	}
	if _, err := w.runStatement(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, nil, err
	}
	for more := *group; ; {
		for _, r := range more {
			err := w.execWrite(ctx, r)
			if err != nil && !fault.IsConstraint(err) && !fault.IsRefusal(err) {
				return nil, next, err
			}
			errs = append(errs, err)
		}
		if err := w.drainLeaves(ctx); err != nil {
			return nil, next, err
		}
		if next != nil || len(*group) > 2*batch {
			break
		}
		if more, next = w.takeMore(durable); len(more) == 0 {
			break
		}
		*group = append(*group, more...)
	}
	return errs, next, w.commitOpen(ctx, *group, durable)
}

// takeMore returns the queued writes, up to one that can't be in the current transaction: whether a
// commit waits for the disk is decided before the transaction begins.
func (w *writer) takeMore(durable bool) (more []*write, next *write) {
	for {
		select {
		case r := <-w.queue.c: // nil if the queue is closed
			switch {
			case r == nil:
				return more, nil
			case r.isMoot():
			case r.durable && !durable, r.clear && !w.clearing:
				return more, r
			default:
				more = append(more, r)
			}
		default:
			return more, nil
		}
	}
}

// change makes a commit wait for the disk, which then has everything written before: a commit that
// changes nothing doesn't wait.
const change = `UPDATE execution_disk SET touched = touched + 1`

// commitOpen commits. It records in ahead whether the database has data that the write-ahead file
// doesn't have.
func (w *writer) commitOpen(ctx context.Context, group []*write, durable bool) error {
	if err := w.writeTail(ctx, group); err != nil {
		return err
	}
	if durable {
		if err := w.execStep(ctx, step{query: change}); err != nil {
			return err
		}
	} else if w.ahead.writePending() != nil ||
		slices.ContainsFunc(group, func(r *write) bool { return r.ahead == 0 && !r.isEmpty() }) {
		w.ahead.setLoose(true)
	}
	_, err := w.runStatement(ctx, "COMMIT")
	if err == nil && durable {
		w.ahead.setLoose(false)
	}
	return err
}

// linger is how long writes that no one waits for are collected before they are written together.
const linger = 50 * time.Millisecond

// gatherGroup returns first and the writes queued so far. As long as no one waits for any of them,
// it also collects writes that arrive within linger.
func (w *writer) gatherGroup(first *write) []*write {
	group := []*write{first}
	urgent := !first.later
	var late <-chan time.Time
	for len(group) < batch {
		select {
		case r, ok := <-w.queue.c:
			if !ok {
				return group
			}
			if !r.isMoot() {
				group, urgent = append(group, r), urgent || !r.later
			}
			continue
		default:
		}
		if urgent {
			break
		}
		if late == nil {
			late = time.After(linger)
		}
		select {
		case r, ok := <-w.queue.c:
			if !ok {
				return group
			}
			if !r.isMoot() {
				group, urgent = append(group, r), !r.later
			}
		case <-w.hurry:
			urgent = true
		case <-w.soon:
			urgent = w.ahead.writePending() != nil
		case <-late:
			urgent = true
		}
	}
	return group
}

// setSynchronous sets whether commits wait for the disk. In WAL mode a commit that doesn't wait
// still survives the death of this process. It is on the disk after the next commit that waits.
func (w *writer) setSynchronous(ctx context.Context, full bool) error {
	if full == w.full {
		return nil
	}
	q := "PRAGMA synchronous = NORMAL"
	if full {
		q = "PRAGMA synchronous = FULL"
	}
	if _, err := w.conn.ExecContext(ctx, q); err != nil {
		return err
	}
	w.full = full
	return nil
}

// execWrite executes a write in the transaction. If one of several steps fails, the earlier ones
// are rolled back.
func (w *writer) execWrite(ctx context.Context, r *write) error {
	if r.run != nil {
		return r.run(ctx, w)
	}
	if r.isEmpty() {
		return nil
	}
	if len(r.steps) == 1 {
		return w.execStep(ctx, r.steps[0])
	}
	if err := w.execStep(ctx, step{query: "SAVEPOINT one"}); err != nil {
		return err
	}
	for _, s := range r.steps {
		if err := w.execStep(ctx, s); err != nil {
			return errors.Join(err, w.execStep(ctx, step{query: "ROLLBACK TO one"}),
				w.execStep(ctx, step{query: "RELEASE one"}))
		}
	}
	return w.execStep(ctx, step{query: "RELEASE one"})
}

func (w *writer) execStep(ctx context.Context, s step) error {
	_, err := w.runStatement(ctx, s.query, s.args...)
	return err
}

// runStatement executes a prepared statement in the transaction.
func (w *writer) runStatement(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt := w.stmts[query]
	if stmt == nil {
		var err error
		if stmt, err = w.conn.PrepareContext(ctx, query); err != nil {
			return nil, err
		}
		w.stmts[query] = stmt
	}
	return stmt.ExecContext(ctx, args...)
}

// A transaction is the current transaction, as a record.Tx.
type transaction struct {
	*sql.Conn
	w *writer
}

// Statement executes a statement that is prepared once.
func (t *transaction) Statement(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.w.runStatement(ctx, query, args...)
}
