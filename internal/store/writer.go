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

	"github.com/biplane-dev/biplane/internal/stack"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// batch bounds how many writes share one transaction.
const batch = 512

// A writer is the one goroutine that writes. Writes that come while a transaction is being
// committed share the next one, so that a hundred calls at once wait for a disk flush or two and
// not for a hundred.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn            // of db; nil: nothing has been written yet; only the goroutine uses it
	stmts map[string]*sql.Stmt // by text; only the goroutine uses it
	tx    *transaction         // on conn; as it
	edge  record.Edge          // of the record; only the goroutine uses it
	// leaves of the record that the transaction under way has taken; only the goroutine uses it
	taken []*leaf
	full  bool        // whether a commit waits for the disk now; only the goroutine uses it
	sound atomic.Bool // the record's tree is known, and was what was sealed
	// the transaction under way holds the lock of the file beside the database; only the goroutine
	// uses it
	clearing bool
	done     chan struct{} // closed when the goroutine is gone
	queue    chan *write
	hurry    chan struct{} // somebody waits now for what was given to later
	soon     chan struct{} // it is to be safe soon

	granted *atomic.Pointer[grants] // of the store

	ledger *ledger // of the record, what nobody waits for
	ahead  *ahead  // what is not in the database yet, so that nobody has to wait for that
	// of a transaction that failed, what is safe in ahead's file all the same: the next one begins
	// with it; only the goroutine uses it
	owed []*write
	heir bool // there were leaves in the file of the last process
	// leaves that the last process left in its file, until the record is opened; only the goroutine
	// uses it
	left []read
	log  *slog.Logger

	order  sync.Mutex   // held while what is noted in ahead is queued, so that both are in one order
	mu     sync.RWMutex // held while queueing, so that nothing is queued after closed
	closed bool
}

// A write is statements that are done all or none; one without any is there for the transaction's
// sake. durable: they are on the disk when the result comes. clear: so is all else, and the file
// beside the database can be written over.
type write struct {
	durable bool
	clear   bool
	steps   []step
	// instead of steps; nothing that it wrote before an error may matter
	run    func(ctx context.Context, w *writer) error
	result chan error
	later  bool   // nobody waits for result yet
	leaf   *leaf  // that is queued, and only has to be taken along; nil: it is no such write
	entry  entry  // what ahead can hold instead; nil: nothing
	ahead  uint64 // its number there
}

// A step is one statement.
type step struct {
	query string
	args  []any
}

// startWriter starts the writer of a store, and opens the one connection that writes once there is
// something to write: each connection reads the whole schema first. ahead is the path of its file;
// what is left there is written first.
func startWriter(ctx context.Context, s *Store, ahead string) (*writer, error) {
	w := &writer{db: s.write, granted: &s.granted, stmts: map[string]*sql.Stmt{}, log: s.log, full: true, done: make(chan struct{}), queue: make(chan *write, batch), hurry: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
	w.ledger = newLedger(w)
	if err := w.recover(ctx, s.read, ahead); err != nil {
		return nil, errors.Join(err, w.disconnect())
	}
	go w.run()
	return w, nil
}

// connect opens the connection, where there is none yet.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	// Indexes of what is random are written to in many places: they stay in memory, and in the log
	// before they are moved.
	if _, err := conn.ExecContext(ctx, "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000"); err != nil {
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

// do queues one statement, and waits until it is committed. Once queued it is not given up, ctx or
// not: whoever gets an error may be sure only that it may not be there.
func (w *writer) do(ctx context.Context, durable bool, query string, args ...any) error {
	return w.all(ctx, durable, []step{{query, args}})
}

// all is do for several statements, which are done all or none.
func (w *writer) all(ctx context.Context, durable bool, steps []step) error {
	return w.add(ctx, &write{durable: durable, steps: steps})
}

// call is do for a function that runs inside the transaction, on the writer's goroutine.
func (w *writer) call(ctx context.Context, durable bool, run func(ctx context.Context, w *writer) error) error {
	return w.add(ctx, &write{durable: durable, run: run})
}

// onDisk waits until the disk has all that was queued by now in the database.
func (w *writer) onDisk(ctx context.Context) error { return w.add(ctx, &write{durable: true}) }

// clear is onDisk, where the file beside the database has anything, which is written over then.
func (w *writer) clear(ctx context.Context) error {
	if w.ahead.empty() {
		return nil
	}
	return w.add(ctx, &write{clear: true})
}

func (w *writer) add(ctx context.Context, r *write) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	r.result = make(chan error, 1)
	if err := w.queueUp(r); err != nil {
		return err
	}
	return <-r.result
}

// queueUp queues a write, and doesn't wait for it.
func (w *writer) queueUp(r *write) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return fault.Closed()
	}
	w.queue <- r
	return nil
}

// stop waits for what is queued, and ends the goroutine.
func (w *writer) stop() error {
	w.ledger.close()
	w.mu.Lock()
	w.closed = true
	close(w.queue)
	w.mu.Unlock()
	<-w.done
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.ahead.close(), w.disconnect())...)
}

// empty reports whether there are no statements.
func (r *write) empty() bool { return r.run == nil && len(r.steps) == 0 }

// moot reports whether there is nothing left to do: an earlier transaction took the leaf along.
func (r *write) moot() bool { return r.leaf != nil && r.leaf.over }

func (w *writer) run() {
	stack.Grow()
	defer close(w.done)
	var next *write // came, and is for the next transaction
	for {
		first := next
		if first == nil {
			var ok bool
			if first, ok = <-w.queue; !ok {
				if !w.ahead.empty() { // else the next process does what is to be done
					_, _, _ = w.commit(&write{clear: true})
				}
				return
			}
		}
		if first.moot() {
			next = nil
			continue
		}
		var group []*write
		var errs []error
		group, errs, next = w.commit(first)
		for i, r := range group {
			r.result <- errs[i]
		}
	}
}

// commit writes first, and what is queued by then or comes meanwhile, in one transaction, and gives
// what came of each, and a write that was taken from the queue and is not in it. A statement that a
// constraint refuses fails alone, as does a refusal; any other failure is the failure of all.
func (w *writer) commit(first *write) (group []*write, errs []error, next *write) {
	ctx := context.Background() // what is queued is written
	group = append(slices.Clone(w.owed), w.gather(first)...)
	w.clearing = w.ahead.full() || slices.ContainsFunc(group, func(r *write) bool { return r.clear })
	durable := w.clearing || w.ledger.durably() || slices.ContainsFunc(group, func(r *write) bool { return r.durable })
	if w.clearing { // nothing is put there meanwhile
		w.ahead.file.mu.Lock()
		defer w.ahead.file.mu.Unlock()
	}
	errs, next, err := w.transaction(ctx, &group, durable)
	if err != nil {
		w.edge.Lose()
		w.granted.Load().lose()
		if w.conn != nil {
			if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil && fault.Code(rerr)&0xff != sqlite3.SQLITE_ERROR {
				err = errors.Join(err, rerr) // SQLITE_ERROR: it had rolled back by itself
			}
		}
		w.settle(group, durable, fault.Of(err))
		return group, slices.Repeat([]error{fault.Of(err)}, len(group)), next
	}
	for i, err := range errs {
		if err != nil {
			w.ahead.hole(group[i].entry)
		}
	}
	w.settle(group, durable, nil)
	return group, errs, next
}

// transaction is commit without what is to be done about an error. Leaves of the record that are
// queued are taken along, and then what was queued before them, so that nothing is on record of
// which the journal doesn't know.
func (w *writer) transaction(ctx context.Context, group *[]*write, durable bool) (errs []error, next *write, err error) {
	if err := w.connect(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.flush(ctx, durable); err != nil {
		return nil, nil, err
	}
	if _, err := w.statement(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, nil, err
	}
	for more := *group; ; {
		for _, r := range more {
			err := w.exec(ctx, r)
			if err != nil && !fault.IsConstraint(err) && !fault.Refused(err) {
				return nil, next, err
			}
			errs = append(errs, err)
		}
		if err := w.drain(ctx); err != nil {
			return nil, next, err
		}
		if next != nil || len(*group) > 2*batch {
			break
		}
		if more, next = w.more(durable); len(more) == 0 {
			break
		}
		*group = append(*group, more...)
	}
	return errs, next, w.finish(ctx, *group, durable)
}

// more gives what is queued now, up to a write that is not for the transaction under way: whether a
// commit waits for the disk is said before it begins.
func (w *writer) more(durable bool) (more []*write, next *write) {
	for {
		select {
		case r := <-w.queue: // nil when it is closed
			switch {
			case r == nil:
				return more, nil
			case r.moot():
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

// change changes something, so that the disk has all that was written before: a commit that changes
// nothing doesn't wait for it.
const change = `UPDATE execution_disk SET touched = touched + 1`

// finish commits. What only the database has by then is known to the file beside it.
func (w *writer) finish(ctx context.Context, group []*write, durable bool) error {
	if err := w.end(ctx, group); err != nil {
		return err
	}
	if durable {
		if err := w.step(ctx, step{query: change}); err != nil {
			return err
		}
	} else if w.ahead.secure() != nil || slices.ContainsFunc(group, func(r *write) bool { return r.ahead == 0 && !r.empty() }) {
		w.ahead.loosen(true)
	}
	_, err := w.statement(ctx, "COMMIT")
	if err == nil && durable {
		w.ahead.loosen(false)
	}
	return err
}

// linger is how long writes that nobody waits for are gathered before they are written together.
const linger = 10 * time.Millisecond

// gather gives first and what is queued by now, and as long as nobody waits for any of it, what
// comes within linger.
func (w *writer) gather(first *write) []*write {
	group := []*write{first}
	urgent := !first.later
	var late <-chan time.Time
	for len(group) < batch {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return group
			}
			if !r.moot() {
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
		case r, ok := <-w.queue:
			if !ok {
				return group
			}
			if !r.moot() {
				group, urgent = append(group, r), !r.later
			}
		case <-w.hurry:
			urgent = true
		case <-w.soon:
			urgent = w.ahead.secure() != nil
		case <-late:
			urgent = true
		}
	}
	return group
}

// flush sets whether a commit waits until the disk has it. In WAL mode one that doesn't still
// survives the death of this process, and is on the disk with the next one that does.
func (w *writer) flush(ctx context.Context, full bool) error {
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

// exec does a write inside the transaction: where a step of several fails, those before it are
// taken back.
func (w *writer) exec(ctx context.Context, r *write) error {
	if r.run != nil {
		return r.run(ctx, w)
	}
	if r.empty() {
		return nil
	}
	if len(r.steps) == 1 {
		return w.step(ctx, r.steps[0])
	}
	if err := w.step(ctx, step{query: "SAVEPOINT one"}); err != nil {
		return err
	}
	for _, s := range r.steps {
		if err := w.step(ctx, s); err != nil {
			return errors.Join(err, w.step(ctx, step{query: "ROLLBACK TO one"}), w.step(ctx, step{query: "RELEASE one"}))
		}
	}
	return w.step(ctx, step{query: "RELEASE one"})
}

func (w *writer) step(ctx context.Context, s step) error {
	_, err := w.statement(ctx, s.query, s.args...)
	return err
}

// statement does a statement inside the transaction.
func (w *writer) statement(ctx context.Context, query string, args ...any) (sql.Result, error) {
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

// A transaction is the one under way, as the record writes in it: a record.Tx.
type transaction struct {
	*sql.Conn
	w *writer
}

// Statement does a statement that is prepared once.
func (t *transaction) Statement(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return t.w.statement(ctx, query, args...)
}
