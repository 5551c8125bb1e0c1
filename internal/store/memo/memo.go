// Package memo answers what a start asks of a database, where nobody has changed that since the last process closed it: with what the
// database answered that process at its end. A connection to SQLite reads the whole schema and prepares each query before the first row
// comes, which takes most of the time that a start needs; nearly every start asks the same, and nearly always hears the same.
//
// A Memo stands between database/sql and the driver. It notes the queries that a start makes, those whose context says so (Starting), with
// their arguments, asks them once more when the database is closed, and keeps the rows in a file beside it. The next process gives these
// rows, and opens no connection until something else is asked. From the first write on all is asked of the database itself. Rows are as
// the database gave them: what is sealed there is sealed here, and nothing else is kept.
//
// The file says which database it is of: the device and inode, the size, the times of its last change (see state), and that there was no
// log beside it. Where any of that is another, or the file isn't whole, it is as if there were none.
package memo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
)

const (
	most     = 64        // questions
	mostIdle = 4         // starts that don't ask a question, until it is forgotten
	mostRows = 16 << 10  // bytes of one answer, about
	mostAll  = 128 << 10 // bytes of the file
)

// Config is what a Memo is made of.
type Config struct {
	Driver   driver.Driver // of the database
	DSN      string        // what it is opened by
	Database string        // the path of its file
	File     string        // the path of the memo's own
}

// A Memo is a driver.Connector. It is safe for concurrent use.
type Memo struct {
	cfg Config

	// reading is held by transactions that were answered here and not by the database yet, so that all that one reads is of one moment.
	reading sync.RWMutex

	mu      sync.Mutex
	before  map[string]*answer // of the last process, by question; nil: there are none, or no longer
	past    []*question        // of the last process
	asked   []*question        // by this one, while it starts
	changed bool               // something is written
	next    []byte             // the file for the next process; nil: none
}

// starting marks contexts.
type starting struct{}

// Starting marks what is asked with a context as asked by a start.
func Starting(ctx context.Context) context.Context { return context.WithValue(ctx, starting{}, true) }

// A question is a query with its arguments.
type question struct {
	query string
	args  []driver.Value
	key   string
	idle  int // starts before this one since it was asked last
}

// An answer is what the database gave.
type answer struct {
	columns []string
	rows    [][]driver.Value
}

// New makes a Memo of what the last process left.
func New(cfg Config) *Memo {
	m := &Memo{cfg: cfg}
	m.before, m.past = load(cfg)
	return m
}

// Driver gives the driver of the database.
func (m *Memo) Driver() driver.Driver { return m.cfg.Driver }

// Connect gives a connection, which opens one to the database when it needs it.
func (m *Memo) Connect(context.Context) (driver.Conn, error) { return &conn{m: m}, nil }

// Changes must be called before something is written: what is asked from here on is asked of the database, and not noted. The file is taken
// away: what is thrown away in the database may not stay there.
func (m *Memo) Changes() error {
	m.mu.Lock()
	m.changed, m.before = true, nil
	m.mu.Unlock()
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := os.Remove(m.cfg.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ask notes a question, and gives the answer to it, where there is one.
func (m *Memo) ask(ctx context.Context, query string, named []driver.NamedValue) *answer {
	if ctx.Value(starting{}) == nil {
		return nil
	}
	q := newQuestion(query, named)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed || q == nil {
		return nil
	}
	if len(m.asked) < most && !slices.ContainsFunc(m.asked, func(o *question) bool { return o.key == q.key }) {
		m.asked = append(m.asked, q)
	}
	return m.before[q.key]
}

// Ask asks the database once more what starts ask: what it says is for the next process, once Keep is called. Nothing may be written to
// the database from here on, and conn must see all that was. Where that isn't so, or a question has no answer, there is nothing to keep.
func (m *Memo) Ask(ctx context.Context, conn *sql.Conn) {
	var busy, log, done int
	if err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &log, &done); err != nil || busy != 0 || log != done {
		return
	}
	m.mu.Lock()
	questions := slices.Clone(m.asked)
	for _, q := range m.past { // other commands ask other things
		if q.idle++; q.idle <= mostIdle && len(questions) < most && !slices.ContainsFunc(questions, func(o *question) bool { return o.key == q.key }) {
			questions = append(questions, q)
		}
	}
	m.mu.Unlock()
	var body []byte
	n := 0
	for _, q := range questions {
		if a, err := q.ask(ctx, conn); err == nil {
			if more := appendAnswer(body, q, a); len(more) < mostAll-1024 {
				body, n = more, n+1
			}
		}
	}
	if n > 0 {
		m.mu.Lock()
		m.next = body
		m.mu.Unlock()
	}
}

// errMuch says that an answer is too long to be kept, or of another kind.
var errMuch = errors.New("not kept")

func (q *question) ask(ctx context.Context, conn *sql.Conn) (*answer, error) {
	args := make([]any, len(q.args))
	for i, v := range q.args {
		args[i] = v
	}
	rows, err := conn.QueryContext(ctx, q.query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	a := &answer{}
	if a.columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	size := 0
	for rows.Next() {
		row, to := make([]driver.Value, len(a.columns)), make([]any, len(a.columns))
		for i := range row {
			to[i] = (*any)(&row[i])
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		if size += sizeOf(row); size > mostRows || !plain(row) {
			return nil, errMuch
		}
		a.rows = append(a.rows, row)
	}
	return a, rows.Err()
}

// Keep writes what the database answered to the file, for the next process. The database is closed by then.
func (m *Memo) Keep() error {
	m.mu.Lock()
	body := m.next
	m.next = nil
	m.mu.Unlock()
	if body == nil {
		return nil
	}
	s, err := mark(m.cfg.Database)
	if err != nil || s == nil {
		return err
	}
	return write(m.cfg.File, sealed(s, body))
}

// write writes the file, whole or so that it isn't taken for one.
func write(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// A conn is a connection that opens the one to the database when it needs it.
type conn struct {
	m    *Memo
	real driver.Conn
	tx   *tx // that is under way; nil: none
}

// open gives the connection to the database, in the transaction that is under way.
func (c *conn) open(ctx context.Context) (driver.Conn, error) {
	if c.real == nil {
		real, err := c.m.cfg.Driver.Open(c.m.cfg.DSN)
		if err != nil {
			return nil, err
		}
		c.real = real
	}
	if c.tx != nil && c.tx.real == nil {
		if err := c.tx.begin(ctx); err != nil {
			return nil, err
		}
	}
	return c.real, nil
}

// QueryContext answers a query, or has the database do that.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if a := c.answer(ctx, query, args); a != nil {
		return &rows{answer: a}, nil
	}
	real, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return real.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// answer gives the answer of the last process, where there is one. A transaction that heard one holds up whoever writes.
func (c *conn) answer(ctx context.Context, query string, args []driver.NamedValue) *answer {
	if c.tx != nil && c.tx.real == nil && !c.tx.held {
		c.tx.held = c.m.reading.TryRLock() // not where somebody is about to write
	}
	a := c.m.ask(ctx, query, args)
	if c.tx != nil && !c.tx.held {
		return nil
	}
	return a
}

// ExecContext does a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	real, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return real.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// PrepareContext prepares a statement of the database.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	real, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return real.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

// Prepare is PrepareContext.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// BeginTx begins a transaction; that of a start when the first question goes to the database.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.tx = &tx{c: c, options: o}
	if ctx.Value(starting{}) == nil {
		if _, err := c.open(ctx); err != nil {
			c.tx = nil
			return nil, err
		}
	}
	return c.tx, nil
}

// Begin is BeginTx.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// ResetSession looks whether the connection is as new.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.real == nil {
		return nil
	}
	return c.real.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid reports whether the connection can be used again.
func (c *conn) IsValid() bool { return c.real == nil || c.real.(driver.Validator).IsValid() }

// Close closes the connection.
func (c *conn) Close() error {
	if c.real == nil {
		return nil
	}
	return c.real.Close()
}

// A tx is a transaction.
type tx struct {
	c       *conn
	options driver.TxOptions
	real    driver.Tx // nil: the database has not been asked yet
	held    bool      // reading
}

// begin begins it in the database. What it reads from here on is of the moment of what it heard before, since nobody could write meanwhile.
func (t *tx) begin(ctx context.Context) error {
	real, err := t.c.real.(driver.ConnBeginTx).BeginTx(ctx, t.options)
	if err != nil {
		return err
	}
	t.real = real
	if !t.held {
		return nil
	}
	r, err := t.c.real.(driver.QueryerContext).QueryContext(ctx, `SELECT count(*) FROM sqlite_schema`, nil) // a transaction is of the moment of its first reading
	if err == nil {
		err = r.Close()
	}
	t.release()
	return err
}

func (t *tx) release() {
	if t.held {
		t.held = false
		t.c.m.reading.RUnlock()
	}
}

// Commit ends it.
func (t *tx) Commit() error { return t.end(driver.Tx.Commit) }

// Rollback ends it.
func (t *tx) Rollback() error { return t.end(driver.Tx.Rollback) }

func (t *tx) end(how func(driver.Tx) error) error {
	t.c.tx = nil
	t.release()
	if t.real == nil {
		return nil
	}
	return how(t.real)
}

// rows are those of an answer.
type rows struct {
	answer *answer
	at     int
}

// Columns names the columns.
func (r *rows) Columns() []string { return r.answer.columns }

// Close ends them.
func (r *rows) Close() error { return nil }

// Next gives the next one. Whoever reads it may write to its bytes.
func (r *rows) Next(to []driver.Value) error {
	if r.at == len(r.answer.rows) {
		return io.EOF
	}
	for i, v := range r.answer.rows[r.at] {
		if b, ok := v.([]byte); ok {
			v = slices.Clone(b)
		}
		to[i] = v
	}
	r.at++
	return nil
}
