package memo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// A counting driver counts the connections that are opened.
type counting struct {
	driver.Driver
	opened int
}

func (c *counting) Open(dsn string) (driver.Conn, error) {
	c.opened++
	return c.Driver.Open(dsn)
}

type bench struct {
	t      *testing.T
	folder string
	driver *counting
	memo   *Memo
	db     *sql.DB
}

// begin begins a process.
func begin(t *testing.T, folder string) *bench {
	t.Helper()
	plain, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	d := &counting{Driver: plain.Driver()}
	path := filepath.Join(folder, "a.db")
	m := New(Config{Driver: d, DSN: "file:" + path + "?_pragma=journal_mode(wal)", Database: path, File: filepath.Join(folder, "a.memo")})
	b := &bench{t, folder, d, m, sql.OpenDB(m)}
	t.Cleanup(func() { b.db.Close() })
	return b
}

func (b *bench) exec(statements ...string) {
	b.t.Helper()
	if err := b.memo.Changes(); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := b.db.ExecContext(b.t.Context(), s); err != nil {
			b.t.Fatal(err)
		}
	}
}

// end ends it, as a store does.
func (b *bench) end() {
	b.t.Helper()
	conn, err := b.db.Conn(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.memo.Ask(b.t.Context(), conn)
	conn.Close()
	if err := b.db.Close(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.memo.Keep(); err != nil {
		b.t.Fatal(err)
	}
}

const asked = `SELECT i, f, t, b, n, z FROM one WHERE i > ? AND t <> ?`

// ask asks what starts ask, and gives the rows as text.
func (b *bench) ask(q interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, ctx context.Context) string {
	b.t.Helper()
	rows, err := q.QueryContext(ctx, asked, 1, "no")
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	out := ""
	for rows.Next() {
		var i, f, t, bytes, n, z any
		if err := rows.Scan(&i, &f, &t, &bytes, &n, &z); err != nil {
			b.t.Fatal(err)
		}
		out += fmt.Sprintf("%#v %#v %#v %#v %#v %#v\n", i, f, t, bytes, n, z)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// made makes a database, and a memo of it: a process that asks and ends. It gives what it heard.
func made(t *testing.T) (folder, heard string) {
	t.Helper()
	folder = t.TempDir()
	b := begin(t, folder)
	if _, err := b.db.ExecContext(t.Context(), `CREATE TABLE one (i, f, t, b, n, z)`); err != nil {
		t.Fatal(err)
	}
	b.ask(b.db, Starting(t.Context()))
	b.exec(`INSERT INTO one VALUES (1, 0.5, 'a', x'00', NULL, x''), (7, 2.5, 'text', x'0102', NULL, x''), (-9e17, 1, '', '', '', '')`)
	heard = b.ask(b.db, t.Context())
	b.end()
	return folder, heard
}

func TestAnswers(t *testing.T) {
	if stateBytes == 0 {
		t.Skip("nothing is kept on this system")
	}
	folder, heard := made(t)
	for range 3 { // it holds as long as nobody writes
		b := begin(t, folder)
		if got := b.ask(b.db, Starting(t.Context())); got != heard || got == "" || b.driver.opened != 0 {
			t.Fatalf("heard %q, not %q, %d connections", got, heard, b.driver.opened)
		}
		if got := b.ask(b.db, t.Context()); got != heard || b.driver.opened == 0 {
			t.Errorf("who doesn't start was answered %q with %d connections", got, b.driver.opened)
		}
		b.db.Close()
		if err := b.memo.Keep(); err != nil {
			t.Error(err)
		}
	}
	b := begin(t, folder)
	b.exec(`UPDATE one SET t = 'other' WHERE i = 7`)
	if _, err := os.Lstat(b.memo.cfg.File); !os.IsNotExist(err) {
		t.Error("what was kept is still there when something is written:", err)
	}
	now := b.ask(b.db, Starting(t.Context()))
	if now == heard {
		t.Error("it was answered from before the change")
	}
	b.end()
	b = begin(t, folder)
	if got := b.ask(b.db, Starting(t.Context())); got != now || b.driver.opened != 0 {
		t.Errorf("after a change: %q, not %q, %d connections", got, now, b.driver.opened)
	}
}

// TestForgets: a question that starts no longer ask is forgotten after some.
func TestForgets(t *testing.T) {
	if stateBytes == 0 {
		t.Skip("nothing is kept on this system")
	}
	folder, _ := made(t)
	for i := range mostIdle + 1 {
		if n := len(begin(t, folder).memo.before); n != 1 {
			t.Fatalf("%d answers after %d starts", n, i)
		}
		b := begin(t, folder)
		var n int
		if err := b.db.QueryRowContext(Starting(t.Context()), `SELECT 1`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		b.memo.asked = nil
		b.exec(`UPDATE one SET f = f + 1`)
		b.end()
	}
	if n := len(begin(t, folder).memo.before); n != 0 {
		t.Errorf("%d answers to what nobody asks any more", n)
	}
}

// TestChanged: whatever is done to the database or to the file, the database is asked.
func TestChanged(t *testing.T) {
	if stateBytes == 0 {
		t.Skip("nothing is kept on this system")
	}
	raw := func(statement string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			db, err := sql.Open("sqlite", filepath.Join(folder, "a.db"))
			if err == nil {
				_, err = db.ExecContext(t.Context(), statement)
			}
			if err != nil {
				t.Fatal(err)
			}
			db.Close()
		}
	}
	file := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			name := filepath.Join(folder, "a.memo")
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name, change(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, change := range map[string]func(*testing.T, string){
		"a row":     raw(`UPDATE one SET t = 'tex2' WHERE i = 7`),
		"an object": raw(`CREATE TRIGGER x AFTER INSERT ON one BEGIN DELETE FROM one; END`),
		"a log":     func(t *testing.T, folder string) { os.WriteFile(filepath.Join(folder, "a.db-wal"), nil, 0o600) },
		"a journal": func(t *testing.T, folder string) { os.WriteFile(filepath.Join(folder, "a.db-journal"), nil, 0o600) },
		"its content": func(t *testing.T, folder string) {
			f, _ := os.OpenFile(filepath.Join(folder, "a.db"), os.O_RDWR, 0)
			f.WriteAt([]byte{0}, 5000)
			f.Close()
		},
		"a copy": func(t *testing.T, folder string) {
			name := filepath.Join(folder, "a.db")
			fi, _ := os.Stat(name)
			data, _ := os.ReadFile(name)
			os.Remove(name)
			os.WriteFile(name, data, 0o600)
			os.Chtimes(name, time.Time{}, fi.ModTime())
		},
		"its times":     func(t *testing.T, folder string) { os.Chtimes(filepath.Join(folder, "a.db"), time.Time{}, time.Now()) },
		"the file":      file(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"half the file": file(func(b []byte) []byte { return b[:len(b)/2] }),
		"no file":       file(func([]byte) []byte { return nil }),
		"a long file":   file(func(b []byte) []byte { return append(b, make([]byte, mostAll)...) }),
		"a link": func(t *testing.T, folder string) {
			os.Rename(filepath.Join(folder, "a.memo"), filepath.Join(folder, "b"))
			os.Symlink("b", filepath.Join(folder, "a.memo"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, _ := made(t)
			change(t, folder)
			if m := begin(t, folder).memo; m.before != nil {
				t.Error("it is answered from before the change")
			}
		})
	}
}

// TestTransaction: all that a transaction of a start reads is of one moment, whoever writes meanwhile.
func TestTransaction(t *testing.T) {
	if stateBytes == 0 {
		t.Skip("nothing is kept on this system")
	}
	folder, heard := made(t)
	b := begin(t, folder)
	ctx := Starting(t.Context())
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if got := b.ask(tx, ctx); got != heard || b.driver.opened != 0 {
		t.Fatalf("%q, %d connections", got, b.driver.opened)
	}
	changed := make(chan error, 1)
	go func() {
		err := b.memo.Changes()
		if err == nil {
			_, err = b.db.ExecContext(t.Context(), `DELETE FROM one`)
		}
		changed <- err
	}()
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM one`).Scan(&n); err != nil || n != 3 {
		t.Errorf("%d rows, %v", n, err)
	}
	select {
	case err = <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("the change waits though the database knows of the transaction")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := b.ask(tx, ctx); got != heard {
		t.Errorf("later in the transaction: %q", got)
	}
	tx.Rollback()
	if got := b.ask(b.db, ctx); got != "" {
		t.Errorf("after it: %q", got)
	}
}

// FuzzFile: whatever the file has, it is read, or it is not.
func FuzzFile(f *testing.F) {
	q := newQuestion(asked, []driver.NamedValue{{Value: int64(1)}, {Value: "no"}})
	body := appendAnswer(nil, q, &answer{columns: []string{"a", "b"}, rows: [][]driver.Value{{int64(-1), 1.5}, {true, "x"}, {[]byte("y"), nil}}})
	f.Add(body)
	f.Add(body[:len(body)-2])
	f.Add([]byte{0, 1, 'q', 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{left: data}
		for len(r.left) > 0 && !r.bad {
			q, a := r.answer()
			if r.bad {
				return
			}
			again := &reader{left: appendAnswer(nil, q, a)}
			if q2, a2 := again.answer(); again.bad || q2.key != string(appendQuestion(nil, q)) || len(a2.rows) != len(a.rows) || !slices.Equal(a2.columns, a.columns) {
				t.Errorf("%v %v is read as %v %v", q, a, q2, a2)
			}
		}
	})
}
