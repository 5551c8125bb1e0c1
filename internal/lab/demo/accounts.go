package demo

import (
	"context"
	"database/sql"
	_ "embed" // the definitions
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed accounts.json
var accountTools []byte

// An account is a customer in the format of the API for changes.
type account struct {
	ID                 string          `json:"id"`
	Email              string          `json:"email"`
	Status             string          `json:"status"`
	Plan               string          `json:"plan"`
	Seats              int             `json:"seats"`
	Owner              string          `json:"owner"`
	Tags               json.RawMessage `json:"tags"`
	BillingPausedUntil *string         `json:"billing_paused_until"`
	DeactivatedAt      *string         `json:"deactivated_at"`
	DeactivationReason *string         `json:"deactivation_reason"`
}

func (a *account) fieldPointers() []any {
	return []any{&a.ID, &a.Email, &a.Status, &a.Plan, &a.Seats, &a.Owner, (*[]byte)(&a.Tags), &a.BillingPausedUntil,
		&a.DeactivatedAt, &a.DeactivationReason}
}

const accountColumns = "id, email, status, plan, seats, owner, tags, billing_paused_until, deactivated_at, " +
	"deactivation_reason"

func readAccount(ctx context.Context, db *sql.DB, id string) (account, error) {
	list, err := rowsOf[account](ctx, db, "SELECT "+accountColumns+" FROM customers WHERE id = ?", id)
	return queryOne(list, err, "customer", id)
}

func accountHandlers() map[string]handler {
	return map[string]handler{
		"get_account":         getAccount,
		"deactivate_customer": deactivateCustomer,
		"reactivate_customer": reactivateCustomer,
		"update_contact":      updateContact,
		"change_plan":         changePlan,
		"set_seats":           setSeats,
		"assign_owner":        assignOwner,
		"add_tag":             addTag,
		"remove_tag":          removeTag,
		"pause_billing":       pauseBilling,
		"resume_billing":      resumeBilling,
		"revoke_sessions":     revokeSessions,
		"send_message":        sendMessage,
		"list_changes":        listChanges,
	}
}

func getAccount(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	return readAccount(ctx, db, in.ID)
}

// changeCustomer runs one statement on one customer, records the change, and returns the updated
// account.
func changeCustomer(ctx context.Context,
	db *sql.DB, id, action string, detail any, set string, vals ...any) (any, error) {
	text, err := tool.Marshal(detail)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	r, err := tx.ExecContext(ctx, "UPDATE customers SET "+set+" WHERE id = ?", append(vals, id)...)
	if err != nil {
		return nil, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return nil, tool.Errorf(tool.NotFound, "no customer %q", id)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO audit (at, customer_id, action, detail) VALUES (?, ?, ?, ?)",
		formatTime(today), id, action, string(text)); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return readAccount(ctx, db, id)
}

func deactivateCustomer(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
		Notify bool   `json:"notify"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	a, err := readAccount(ctx, db, in.ID)
	if err != nil {
		return nil, err
	}
	if a.Status == "deactivated" {
		return nil, tool.Errorf(tool.Conflict, "customer %s is deactivated already, since %s", in.ID, *a.DeactivatedAt)
	}
	return changeCustomer(ctx, db, in.ID, "deactivate",
		in, "status = 'deactivated', deactivated_at = ?, deactivation_reason = ?", formatTime(today), in.Reason)
}

func reactivateCustomer(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID   string `json:"id"`
		Note string `json:"note"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	return changeCustomer(ctx,
		db, in.ID, "reactivate", in, "status = 'active', deactivated_at = NULL, deactivation_reason = NULL")
}

func updateContact(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID    string  `json:"id"`
		Name  *string `json:"name"`
		Email *string `json:"email"`
		Phone *string `json:"phone"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	return changeCustomer(ctx, db, in.ID, "update_contact", in,
		"name = coalesce(?, name), email = coalesce(?, email), phone = coalesce(?, phone)", in.Name, in.Email, in.Phone)
}

func changePlan(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID   string `json:"id"`
		Plan string `json:"plan"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	for _, p := range plans {
		if p.name == in.Plan {
			return changeCustomer(ctx,
				db, in.ID, "change_plan", in, "plan = ?, mrr_cents = seats * ?", in.Plan, p.cents)
		}
	}
	return nil, tool.Errorf(tool.Invalid, "no plan %q", in.Plan)
}

func setSeats(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID    string `json:"id"`
		Seats int    `json:"seats"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if in.Seats < 1 || in.Seats > 10_000 {
		return nil, tool.Errorf(tool.Invalid, "seats is 1 to 10000")
	}
	return changeCustomer(ctx,
		db, in.ID, "set_seats", in, "mrr_cents = mrr_cents / seats * ?, seats = ?", in.Seats, in.Seats)
}

func assignOwner(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID    string `json:"id"`
		Owner string `json:"owner"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if !slices.Contains(owners, in.Owner) {
		return nil, tool.Errorf(tool.Invalid, "no account manager %q: it is one of %v", in.Owner, owners)
	}
	return changeCustomer(ctx, db, in.ID, "assign_owner", in, "owner = ?", in.Owner)
}

type tagged struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

func addTag(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return changeTags(ctx, db, args, "add_tag", func(tags []string, tag string) []string {
		if slices.Contains(tags, tag) {
			return tags
		}
		return append(tags, tag)
	})
}

func removeTag(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return changeTags(ctx, db, args, "remove_tag", func(tags []string, tag string) []string {
		return slices.DeleteFunc(tags, func(t string) bool { return t == tag })
	})
}

func changeTags(ctx context.Context, db *sql.DB, args json.RawMessage, action string,
	f func(tags []string, tag string) []string) (any, error) {
	var in tagged
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	a, err := readAccount(ctx, db, in.ID)
	if err != nil {
		return nil, err
	}
	var tags []string
	if err := json.Unmarshal(a.Tags, &tags); err != nil {
		return nil, err
	}
	text, err := tool.Marshal(f(tags, in.Tag))
	if err != nil {
		return nil, err
	}
	return changeCustomer(ctx, db, in.ID, action, in, "tags = ?", string(text))
}

func pauseBilling(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID    string `json:"id"`
		Until string `json:"until"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	return changeCustomer(ctx, db, in.ID, "pause_billing", in, "billing_paused_until = ?", in.Until)
}

func resumeBilling(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	return changeCustomer(ctx, db, in.ID, "resume_billing", in, "billing_paused_until = NULL")
}

func revokeSessions(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in byID
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if _, err := readAccount(ctx, db, in.ID); err != nil {
		return nil, err
	}
	r, err := db.ExecContext(ctx, "UPDATE sessions SET revoked = 1 WHERE customer_id = ? AND revoked = 0", in.ID)
	if err != nil {
		return nil, err
	}
	n, err := r.RowsAffected()
	return struct {
		ID      string `json:"id"`
		Revoked int64  `json:"revoked"`
	}{in.ID, n}, err
}

func sendMessage(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	var in struct {
		ID       string `json:"id"`
		Template string `json:"template"`
	}
	if err := decodeArguments(args, &in); err != nil {
		return nil, err
	}
	if _, err := readAccount(ctx, db, in.ID); err != nil {
		return nil, err
	}
	r, err := db.ExecContext(ctx, "INSERT INTO messages (customer_id, template, queued_at) VALUES (?, ?, ?)",
		in.ID, in.Template, formatTime(today))
	if err != nil {
		return nil, err
	}
	id, err := r.LastInsertId()
	return struct {
		ID       int64  `json:"message_id"`
		QueuedAt string `json:"queued_at"`
	}{id, formatTime(today)}, err
}

type entry struct {
	ID         int             `json:"id"`
	At         string          `json:"at"`
	CustomerID string          `json:"customer_id"`
	Action     string          `json:"action"`
	Detail     json.RawMessage `json:"detail"`
}

func (e *entry) fieldPointers() []any {
	return []any{&e.ID, &e.At, &e.CustomerID, &e.Action, (*[]byte)(&e.Detail)}
}

func listChanges(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error) {
	return listOf[entry]("changes", "*", "audit", "id DESC")(ctx, db, args)
}
