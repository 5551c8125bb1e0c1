package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/tool"
)

// batch bounds how many writes share one transaction.
const batch = 512

// A writer is the one goroutine that writes. Writes that come while a transaction is being committed share the next
// one, so that a hundred calls at once wait for a disk flush or two and not for a hundred.
type writer struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // by text; only the goroutine uses it
	tree  *tree                // of the record; nil: not read yet; only the goroutine uses it
	full  bool                 // whether a commit waits for the disk now; only the goroutine uses it
	last  uint64               // the number of the newest write; only the goroutine uses it
	disk  atomic.Uint64        // the disk has all writes up to this one
	done  chan struct{}        // closed when the goroutine is gone
	queue chan *write

	mu     sync.RWMutex // held while queueing, so that nothing is queued after closed
	closed bool
}

// A write is statements that are done all or none. durable: they are on the disk when the result comes.
type write struct {
	durable bool
	steps   []step
	run     func(ctx context.Context, w *writer) error // instead of steps; nothing that it wrote before an error may matter
	result  chan error
	done    func(error) // instead of result, of what nobody waits for; called on the writer's goroutine
	number  uint64      // in the order of writing; set before the result is given
}

// A step is one statement.
type step struct {
	query string
	args  []any
}

func startWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn, stmts: map[string]*sql.Stmt{}, full: true, done: make(chan struct{}), queue: make(chan *write, batch)}
	go w.run()
	return w, nil
}

// do queues one statement, and waits until it is committed. Once queued it is not given up, ctx or not: whoever gets
// an error may be sure only that it may not be there.
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

// post is call for what nobody waits for: it returns when run is queued, and done is told what came of it.
func (w *writer) post(ctx context.Context, run func(ctx context.Context, w *writer) error, done func(error)) error {
	return w.add(ctx, &write{run: run, done: done})
}

func (w *writer) add(ctx context.Context, r *write) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	if r.done == nil {
		r.result = make(chan error, 1)
	}
	w.mu.RLock()
	if w.closed {
		w.mu.RUnlock()
		return closedError()
	}
	w.queue <- r
	w.mu.RUnlock()
	if r.result == nil {
		return nil
	}
	return <-r.result
}

// stop waits for what is queued, and ends the goroutine.
func (w *writer) stop() error {
	w.mu.Lock()
	w.closed = true
	close(w.queue)
	w.mu.Unlock()
	<-w.done
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

func (w *writer) run() {
	defer close(w.done)
	for first := range w.queue {
		group := []*write{first}
		durable := first.durable
	more:
		for len(group) < batch {
			select {
			case r, ok := <-w.queue:
				if !ok {
					break more
				}
				group = append(group, r)
				durable = durable || r.durable
			default:
				break more
			}
		}
		for _, r := range group {
			w.last++
			r.number = w.last
		}
		errs := w.commit(group, durable)
		if durable && !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			w.disk.Store(w.last)
		}
		for i, r := range group {
			if r.done != nil {
				r.done(errs[i])
			} else {
				r.result <- errs[i]
			}
		}
	}
}

// A refusal is an error of a write's function that is the failure of its write alone.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// commit writes a group in one transaction. A statement that a constraint refuses fails alone, as does a refusal; any other
// failure is the failure of all.
func (w *writer) commit(group []*write, durable bool) []error {
	ctx := context.Background() // what is queued is written
	errs := make([]error, len(group))
	all := func(err error) []error {
		w.tree = nil // whatever is there now is read again
		if _, rerr := w.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil && code(rerr)&0xff != sqlite3.SQLITE_ERROR {
			err = errors.Join(err, rerr) // SQLITE_ERROR: it had rolled back by itself
		}
		for i := range errs {
			errs[i] = failure(err)
		}
		return errs
	}
	if err := w.flush(ctx, durable); err != nil {
		return all(err)
	}
	if _, err := w.statement(ctx, "BEGIN IMMEDIATE"); err != nil {
		return all(err)
	}
	for i, r := range group {
		err := w.exec(ctx, r)
		var alone *refusal
		if err != nil && code(err)&0xff != sqlite3.SQLITE_CONSTRAINT && !errors.As(err, &alone) {
			return all(err)
		}
		errs[i] = err
	}
	if _, err := w.statement(ctx, "COMMIT"); err != nil {
		return all(err)
	}
	return errs
}

// flush sets whether a commit waits until the disk has it. In WAL mode one that doesn't still survives the death of
// this process, and is on the disk with the next one that does.
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

// exec does a write inside the transaction: where a step of several fails, those before it are taken back.
func (w *writer) exec(ctx context.Context, r *write) error {
	if r.run != nil {
		return r.run(ctx, w)
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

// grow makes sure that the record's tree is known. A broken one stops who appends to it, and nobody else.
func (w *writer) grow(ctx context.Context) error {
	if w.tree != nil {
		return nil
	}
	t, err := loadTree(ctx, w.conn)
	if err != nil && code(err) == 0 {
		return &refusal{err}
	}
	w.tree = t
	return err
}
