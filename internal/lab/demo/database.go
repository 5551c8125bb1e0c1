package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the customer database
)

// The data is from a fixed day, so that the job always has the same answer.
var (
	today  = time.Date(2026, time.June, 30, 9, 0, 0, 0, time.UTC)
	cutoff = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
)

const (
	customerCount = 100
	inactiveCount = 15 // customers that the job deactivates
	decoyCount    = 17 // customers without recent logins who still order
)

const schema = `
CREATE TABLE customers (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, phone TEXT NOT NULL, company TEXT NOT NULL, industry TEXT NOT NULL,
  plan TEXT NOT NULL, status TEXT NOT NULL, region TEXT NOT NULL, owner TEXT NOT NULL, seats INTEGER NOT NULL,
  mrr_cents INTEGER NOT NULL, created_at TEXT NOT NULL, last_login_at TEXT NOT NULL, street TEXT NOT NULL, city TEXT NOT NULL,
  postal_code TEXT NOT NULL, country TEXT NOT NULL, tags TEXT NOT NULL, billing_paused_until TEXT,
  deactivated_at TEXT, deactivation_reason TEXT);
CREATE TABLE orders (
  id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), placed_at TEXT NOT NULL, status TEXT NOT NULL,
  total_cents INTEGER NOT NULL, currency TEXT NOT NULL, items TEXT NOT NULL);
CREATE TABLE invoices (
  id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), issued_at TEXT NOT NULL, due_at TEXT NOT NULL,
  amount_cents INTEGER NOT NULL, status TEXT NOT NULL);
CREATE TABLE notes (
  id INTEGER PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), author TEXT NOT NULL, created_at TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE tickets (
  id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), subject TEXT NOT NULL, status TEXT NOT NULL,
  priority TEXT NOT NULL, opened_at TEXT NOT NULL, closed_at TEXT);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), started_at TEXT NOT NULL, ip TEXT NOT NULL, client TEXT NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers(id), template TEXT NOT NULL, queued_at TEXT NOT NULL);
CREATE TABLE audit (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, customer_id TEXT NOT NULL, action TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX orders_customer ON orders(customer_id);
CREATE INDEX sessions_customer ON sessions(customer_id);
`

var tables = []string{"audit", "messages", "sessions", "tickets", "notes", "invoices", "orders", "customers"}

// openDatabase opens the customer database at path. Two servers use it at once.
func openDatabase(path string) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "foreign_keys(1)", "synchronous(off)"},
		"_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open customer database: %w", err)
	}
	return db, nil
}

// seedDatabase fills the database with the same records every time, and removes earlier ones.
func seedDatabase(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("customer database: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, t := range tables {
		if _, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS "+t); err != nil {
			return fmt.Errorf("customer database: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("customer database: %w", err)
	}
	s := &seeder{ctx: ctx, tx: tx, r: rand.New(rand.NewPCG(2026, 6))}
	s.addCustomers()
	if s.err != nil {
		return fmt.Errorf("customer database: %w", s.err)
	}
	return tx.Commit()
}

type seeder struct {
	ctx    context.Context
	tx     *sql.Tx
	r      *rand.Rand
	order  int
	ticket int
	err    error
}

func (s *seeder) insertRow(table string, values ...any) {
	if s.err != nil {
		return
	}
	_, s.err = s.tx.ExecContext(s.ctx, "INSERT INTO "+table+" VALUES (?"+strings.Repeat(",?", len(values)-1)+")",
		values...)
}

func pickOne[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// randomTime returns a random time.
func (s *seeder) randomTime(a, b time.Time) time.Time {
	return a.Add(time.Duration(s.r.Int64N(int64(b.Sub(a))))).Truncate(time.Second)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (s *seeder) addCustomers() {
	kind := make([]byte, customerCount) // 'i': inactive, 'd': no logins, but orders; otherwise active
	for i := range inactiveCount {
		kind[i] = 'i'
	}
	for i := range decoyCount {
		kind[inactiveCount+i] = 'd'
	}
	s.r.Shuffle(len(kind), func(i, j int) { kind[i], kind[j] = kind[j], kind[i] })
	for i, k := range kind {
		s.addCustomer(i, k)
	}
}

func (s *seeder) addCustomer(i int, kind byte) {
	first, last := firstNames[i%len(firstNames)], lastNames[(i*7+i/len(firstNames))%len(lastNames)]
	id := fmt.Sprintf("cus_%04d", 1001+i)
	company := pickOne(s.r, companyWords) + " " + pickOne(s.r, companyKinds)
	domain := strings.ToLower(strings.NewReplacer(" ", "", "&", "").Replace(company)) + ".example"
	created := s.randomTime(today.AddDate(-5, 0, 0), today.AddDate(-1, -3, 0))
	login := s.randomTime(cutoff.AddDate(0, 2, 0), today)
	if kind != 0 {
		login = s.randomTime(cutoff.AddDate(0, -9, 0), cutoff.AddDate(0, 0, -1))
	}
	place := pickOne(s.r, places)
	plan := pickOne(s.r, plans)
	seats := 1 + s.r.IntN(80)
	tags, _ := json.Marshal([]string{pickOne(s.r, tagNames), "cohort-" + created.Format("2006")})
	s.insertRow("customers", id, first+" "+last, strings.ToLower(first+"."+last)+"@"+domain,
		fmt.Sprintf("+1-555-%03d-%04d",
			s.r.IntN(1000), s.r.IntN(10000)), company, pickOne(s.r, industries), plan.name, "active",
		place.region, pickOne(s.r, owners), seats, plan.cents*seats, formatTime(created), formatTime(login),
		fmt.Sprintf("%d %s",
			1+s.r.IntN(999), pickOne(s.r, streets)), place.city, fmt.Sprintf("%05d", s.r.IntN(99999)), place.country,
		string(tags), nil, nil, nil)
	lastOrder := today
	if kind == 'i' {
		lastOrder = cutoff.AddDate(0, 0, -2)
	}
	s.addOrders(id, created, lastOrder, kind)
	s.addActivity(id, created, login)
}

// An item is a line of an order.
type item struct {
	Name      string `json:"name"`
	Quantity  int    `json:"quantity"`
	SKU       string `json:"sku"`
	UnitCents int    `json:"unit_cents"`
}

// addOrders adds orders of a customer: for a decoy at least one since the cutoff, for an inactive
// customer none since then.
func (s *seeder) addOrders(id string, created, until time.Time, kind byte) {
	for n := range 3 + s.r.IntN(5) {
		at := s.randomTime(created, until)
		if n == 0 && kind == 'd' {
			at = s.randomTime(cutoff.AddDate(0, 1, 0), today)
		}
		var items []item
		total := 0
		for range 1 + s.r.IntN(3) {
			p := pickOne(s.r, products)
			q := 1 + s.r.IntN(5)
			items = append(items, item{p.name, q, p.sku, p.cents})
			total += q * p.cents
		}
		text, _ := json.Marshal(items)
		s.order++
		s.insertRow("orders", fmt.Sprintf("ord_%05d", s.order), id, formatTime(at), "paid", total, "USD", string(text))
		s.insertRow("invoices",
			fmt.Sprintf("inv_%05d", s.order), id, formatTime(at), formatTime(at.AddDate(0, 0, 30)), total, "paid")
	}
}

func (s *seeder) addActivity(id string, created, login time.Time) {
	for n := range 2 + s.r.IntN(3) {
		at := login
		if n > 0 {
			at = s.randomTime(created, login)
		}
		s.insertRow("sessions", fmt.Sprintf("ses_%s_%d", id[4:], n),
			id, formatTime(at), fmt.Sprintf("203.0.113.%d", 1+s.r.IntN(250)), pickOne(s.r, clients), 0)
	}
	for range 1 + s.r.IntN(3) {
		s.insertRow("notes",
			nil, id, pickOne(s.r, owners), formatTime(s.randomTime(created, login)), pickOne(s.r, noteTexts))
	}
	for range s.r.IntN(3) {
		s.ticket++
		opened := s.randomTime(created, login)
		s.insertRow("tickets", fmt.Sprintf("tic_%04d", s.ticket),
			id, pickOne(s.r, subjects), "closed", pickOne(s.r, []string{"low", "normal", "high"}),
			formatTime(opened), formatTime(opened.AddDate(0, 0, 1+s.r.IntN(9))))
	}
}

// expectedCustomers returns the customers that the job must deactivate. It uses one database query,
// independent of how an agent finds them.
func expectedCustomers(ctx context.Context, db *sql.DB) ([]string, error) {
	return queryColumn(ctx, db, `SELECT id FROM customers c WHERE status = 'active' AND last_login_at < ?
		AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.placed_at >= ?) ORDER BY id`, formatTime(cutoff), formatTime(cutoff))
}

// A state is the effect of an agent on the database.
type state struct {
	deactivated []string // customers, sorted
	actions     []string // "action customer" of every recorded change, sorted
}

func (s state) isEqual(o state) bool {
	return slices.Equal(s.deactivated, o.deactivated) && slices.Equal(s.actions, o.actions)
}

func readState(ctx context.Context, db *sql.DB) (s state, err error) {
	if s.deactivated, err = queryColumn(ctx, db,
		`SELECT id FROM customers WHERE status = 'deactivated' AND deactivated_at IS NOT NULL ORDER BY id`); err != nil {
		return s, err
	}
	s.actions, err = queryColumn(ctx, db, `SELECT action || ' ' || customer_id FROM audit ORDER BY 1`)
	return s, err
}

func queryColumn(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("customer database: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, fmt.Errorf("customer database: %w", err)
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
