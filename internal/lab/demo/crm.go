package demo

import (
	"context"
	"database/sql"
	_ "embed" // the definitions
	"encoding/json"
	"errors"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed crm.json
var crmTools []byte

type address struct {
	Street     string `json:"street"`
	City       string `json:"city"`
	PostalCode string `json:"postal_code"`
	Country    string `json:"country"`
}

// A customer is a record in the format of list_customers.
type customer struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Email     string          `json:"email"`
	Phone     string          `json:"phone"`
	Company   string          `json:"company"`
	Industry  string          `json:"industry"`
	Plan      string          `json:"plan"`
	Status    string          `json:"status"`
	Region    string          `json:"region"`
	Owner     string          `json:"owner"`
	Seats     int             `json:"seats"`
	MRR       int             `json:"mrr_cents"`
	CreatedAt string          `json:"created_at"`
	LastLogin string          `json:"last_login_at"`
	Address   address         `json:"address"`
	Tags      json.RawMessage `json:"tags"`
}

const customerColumns = `id, name, email, phone, company, industry, plan, status, region, owner, seats, mrr_cents, created_at, last_login_at,
	street, city, postal_code, country, tags`

func (c *customer) fieldPointers() []any {
	return []any{&c.ID, &c.Name, &c.Email, &c.Phone, &c.Company, &c.Industry, &c.Plan, &c.Status, &c.Region, &c.Owner,
		&c.Seats, &c.MRR,
		&c.CreatedAt, &c.LastLogin, &c.Address.Street, &c.Address.City, &c.Address.PostalCode, &c.Address.Country,
		(*[]byte)(&c.Tags)}
}

// A profile is a record in the format of get_customer.
type profile struct {
	customer
	DeactivatedAt      *string      `json:"deactivated_at"`
	DeactivationReason *string      `json:"deactivation_reason"`
	Orders             orderSummary `json:"orders"`
	Tickets            []ticket     `json:"tickets"`
	Notes              []note       `json:"notes"`
	Sessions           []session    `json:"sessions"`
}

type orderSummary struct {
	Count       int     `json:"count"`
	TotalCents  int     `json:"total_cents"`
	LastOrderAt *string `json:"last_order_at"`
	Recent      []order `json:"recent"`
}

type order struct {
	ID         string          `json:"id"`
	CustomerID string          `json:"customer_id"`
	PlacedAt   string          `json:"placed_at"`
	Status     string          `json:"status"`
	TotalCents int             `json:"total_cents"`
	Currency   string          `json:"currency"`
	Items      json.RawMessage `json:"items"`
}

func (o *order) fieldPointers() []any {
	return []any{&o.ID, &o.CustomerID, &o.PlacedAt, &o.Status, &o.TotalCents, &o.Currency, (*[]byte)(&o.Items)}
}

type note struct {
	ID        int    `json:"id"`
	Author    string `json:"author"`
	CreatedAt string `json:"created_at"`
	Text      string `json:"text"`
}

func (n *note) fieldPointers() []any { return []any{&n.ID, &n.Author, &n.CreatedAt, &n.Text} }

type ticket struct {
	ID         string  `json:"id"`
	CustomerID string  `json:"customer_id"`
	Subject    string  `json:"subject"`
	Status     string  `json:"status"`
	Priority   string  `json:"priority"`
	OpenedAt   string  `json:"opened_at"`
	ClosedAt   *string `json:"closed_at"`
}

func (t *ticket) fieldPointers() []any {
	return []any{&t.ID, &t.CustomerID, &t.Subject, &t.Status, &t.Priority, &t.OpenedAt, &t.ClosedAt}
}

type session struct {
	ID        string `json:"id"`
	StartedAt string `json:"started_at"`
	IP        string `json:"ip"`
	Client    string `json:"client"`
	Revoked   bool   `json:"revoked"`
}

func (s *session) fieldPointers() []any {
	return []any{&s.ID, &s.StartedAt, &s.IP, &s.Client, &s.Revoked}
}

type invoice struct {
	ID          string `json:"id"`
	CustomerID  string `json:"customer_id"`
	IssuedAt    string `json:"issued_at"`
	DueAt       string `json:"due_at"`
	AmountCents int    `json:"amount_cents"`
	Status      string `json:"status"`
}

func (i *invoice) fieldPointers() []any {
	return []any{&i.ID, &i.CustomerID, &i.IssuedAt, &i.DueAt, &i.AmountCents, &i.Status}
}

// rowsOf reads all rows of a query as T. T's method fields returns the destinations of the columns.
func rowsOf[T any, P interface {
	*T
	fieldPointers() []any
}](ctx context.Context, db *sql.DB, query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		var v T
		if err := rows.Scan(P(&v).fieldPointers()...); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

func crmHandlers() map[string]handler {
	return map[string]handler{
		"list_customers":   listCustomers,
		"search_customers": searchCustomers,
		"get_customer":     getCustomer,
		"list_orders":      listOrders,
		"get_order":        getOrder,
		"list_notes":       listNotes,
		"add_note":         addNote,
		"list_tickets":     listTickets,
		"get_ticket":       getTicket,
		"list_invoices":    listInvoices,
		"list_sessions":    listSessions,
		"revenue_report":   revenueReport,
	}
}

func listCustomers(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	in := struct {
		Page    int    `json:"page"`
		PerPage int    `json:"per_page"`
		Status  string `json:"status"`
		Plan    string `json:"plan"`
		Region  string `json:"region"`
	}{Page: 1, PerPage: 20}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if in.Page < 1 || in.PerPage < 1 || in.PerPage > 50 {
		return nil, tool.Errorf(tool.Invalid, "page begins at 1, per_page is 1 to 50")
	}
	where, vals := whereClause(map[string]string{"status": in.Status, "plan": in.Plan, "region": in.Region})
	var total int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM customers"+where, vals...).Scan(&total); err != nil {
		return nil, err
	}
	vals = append(vals, in.PerPage, (in.Page-1)*in.PerPage)
	list, err := rowsOf[customer](ctx, db, "SELECT "+customerColumns+" FROM customers"+where+
		" ORDER BY id LIMIT ? OFFSET ?", vals...)
	if err != nil {
		return nil, err
	}
	return customerPage{list, in.Page*in.PerPage < total, in.Page, in.PerPage, total}, nil
}

// A customerPage is a part of the list of customers.
type customerPage struct {
	Customers []customer `json:"customers"`
	HasMore   bool       `json:"has_more"`
	Page      int        `json:"page"`
	PerPage   int        `json:"per_page"`
	Total     int        `json:"total"`
}

// whereClause returns a WHERE clause for the columns that have a value.
func whereClause(by map[string]string) (where string, vals []any) {
	for _, col := range []string{"status", "plan", "region", "customer_id"} {
		if v := by[col]; v != "" {
			where += map[bool]string{true: " WHERE ", false: " AND "}[where == ""] + col + " = ?"
			vals = append(vals, v)
		}
	}
	return where, vals
}

func searchCustomers(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	in := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: 10}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(in.Query) + "%"
	list, err := rowsOf[customer](ctx, db, "SELECT "+customerColumns+` FROM customers
		WHERE name LIKE ?1 ESCAPE '\' OR email LIKE ?1 ESCAPE '\' OR company LIKE ?1 ESCAPE '\' ORDER BY id LIMIT ?2`, like, min(max(in.Limit, 1), 50))
	return map[string][]customer{"customers": list}, err
}

// queryOne returns the only row, or an error if the object doesn't exist.
func queryOne[T any](list []T, err error, kind, id string) (T, error) {
	if err == nil && len(list) == 0 {
		var zero T
		return zero, tool.Errorf(tool.NotFound, "no %s %q", kind, id)
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return list[0], nil
}

func readCustomer(ctx context.Context, db *sql.DB, id string) (customer, error) {
	list, err := rowsOf[customer](ctx, db, "SELECT "+customerColumns+" FROM customers WHERE id = ?", id)
	return queryOne(list, err, "customer", id)
}

type byID struct {
	ID string `json:"id"`
}

func getCustomer(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	c, err := readCustomer(ctx, db, in.ID)
	if err != nil {
		return nil, err
	}
	p := profile{customer: c}
	if err := db.QueryRowContext(ctx, "SELECT deactivated_at, deactivation_reason FROM customers WHERE id = ?", in.ID).
		Scan(&p.DeactivatedAt, &p.DeactivationReason); err != nil {
		return nil, err
	}
	o := &p.Orders
	if err := db.QueryRowContext(ctx,
		"SELECT count(*), coalesce(sum(total_cents), 0), max(placed_at) FROM orders WHERE customer_id = ?", in.ID).
		Scan(&o.Count, &o.TotalCents, &o.LastOrderAt); err != nil {
		return nil, err
	}
	var errs [4]error
	o.Recent, errs[0] = rowsOf[order](ctx, db,
		"SELECT * FROM orders WHERE customer_id = ? ORDER BY placed_at DESC LIMIT 3", in.ID)
	p.Tickets, errs[1] = rowsOf[ticket](ctx, db, "SELECT * FROM tickets WHERE customer_id = ? ORDER BY opened_at DESC",
		in.ID)
	p.Notes, errs[2] = rowsOf[note](ctx, db,
		"SELECT id, author, created_at, text FROM notes WHERE customer_id = ? ORDER BY created_at DESC", in.ID)
	p.Sessions, errs[3] = rowsOf[session](ctx, db,
		"SELECT id, started_at, ip, client, revoked FROM sessions WHERE customer_id = ? ORDER BY started_at DESC",
		in.ID)
	return p, errors.Join(errs[:]...)
}

type byCustomer struct {
	CustomerID string `json:"customer_id"`
	Status     string `json:"status"`
	Limit      int    `json:"limit"`
}

// listOf returns the handler of a list that is filtered by customer and status.
func listOf[T any, P interface {
	*T
	fieldPointers() []any
}](key, columns, table, orderBy string) handler {
	return func(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
		in := byCustomer{Limit: 20}
		if err := decodeArguments(args, &in); err != nil {
			return nil, err
		}
		where, vals := whereClause(map[string]string{"customer_id": in.CustomerID, "status": in.Status})
		list, err := rowsOf[T, P](ctx, db, "SELECT "+columns+" FROM "+table+where+" ORDER BY "+orderBy+" LIMIT ?",
			append(vals, min(max(in.Limit, 1), 100))...)
		return map[string][]T{key: list}, err
	}
}

func listOrders(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[order]("orders", "*", "orders", "placed_at DESC, id")(ctx, db, args)
}

func getOrder(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	list, err := rowsOf[order](ctx, db, "SELECT * FROM orders WHERE id = ?", in.ID)
	return queryOne(list, err, "order", in.ID)
}

func listNotes(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[note]("notes", "id, author, created_at, text", "notes", "created_at DESC, id")(ctx, db, args)
}

func addNote(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		CustomerID string `json:"customer_id"`
		Text       string `json:"text"`
		Author     string `json:"author"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if _, err := readCustomer(ctx, db, in.CustomerID); err != nil {
		return nil, err
	}
	r, err := db.ExecContext(ctx, "INSERT INTO notes (customer_id, author, created_at, text) VALUES (?, ?, ?, ?)",
		in.CustomerID, in.Author, formatTime(today), in.Text)
	if err != nil {
		return nil, err
	}
	id, err := r.LastInsertId()
	return note{int(id), in.Author, formatTime(today), in.Text}, err
}

func listTickets(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[ticket]("tickets", "*", "tickets", "opened_at DESC, id")(ctx, db, args)
}

func getTicket(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	list, err := rowsOf[ticket](ctx, db, "SELECT * FROM tickets WHERE id = ?", in.ID)
	return queryOne(list, err, "ticket", in.ID)
}

func listInvoices(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[invoice]("invoices", "*", "invoices", "issued_at DESC, id")(ctx, db, args)
}

func listSessions(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[session]("sessions", "id, started_at, ip, client, revoked", "sessions",
		"started_at DESC, id")(ctx, db, args)
}

type revenueGroup struct {
	Group     string `json:"group"`
	Customers int    `json:"customers"`
	MRR       int    `json:"mrr_cents"`
}

func (g *revenueGroup) fieldPointers() []any { return []any{&g.Group, &g.Customers, &g.MRR} }

func revenueReport(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	in := struct {
		By string `json:"group_by"`
	}{"plan"}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	switch in.By {
	case "plan", "region", "industry", "owner":
	default:
		return nil, tool.Errorf(tool.Invalid, "group_by is one of plan, region, industry, owner")
	}
	list, err := rowsOf[revenueGroup](ctx, db,
		"SELECT "+in.By+", count(*), sum(mrr_cents) FROM customers WHERE status = 'active' GROUP BY 1 ORDER BY 3 DESC")
	return map[string][]revenueGroup{"groups": list}, err
}
