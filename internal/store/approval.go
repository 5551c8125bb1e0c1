package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/approval"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// What is sealed for approvals, each for a purpose of its own.
const (
	requestPurpose   = "approval-request"
	argumentsPurpose = "approval-arguments"
)

// Approvals keeps the requests for approvals, sealed: an approval.Store.
type Approvals struct {
	s   *Store
	key *secret.Key
}

// Approvals gives the requests for approvals, which key seals.
func (s *Store) Approvals(key *secret.Key) *Approvals { return &Approvals{s, key} }

const (
	insertApproval = `INSERT INTO approval (id, seq, subject, execution, state, decider, decided, note, request, arguments)
		SELECT ?, 1 + coalesce(max(seq), 0), ?, ?, 'pending', '', 0, '', ?, ? FROM approval`
	moveApproval   = `UPDATE approval SET state = ?, ended = ? WHERE id = ? AND state = ?`
	decideApproval = `UPDATE approval SET state = ?, ended = ?, decider = ?, decided = ?, note = ? WHERE id = ? AND state = ?`
	forgetApproval = `DELETE FROM approval WHERE state NOT IN ('pending', 'approved') AND max(ended, decided) < ?
		AND NOT EXISTS (SELECT 1 FROM execution WHERE execution.id = approval.execution AND execution.ended = 0)`
	approvalColumns = `SELECT id, state, decider, decided, note, request, arguments`
	listedApproval  = `SELECT id, state, decider, decided, note, request, CASE WHEN length(arguments) <= ? THEN arguments END`
)

// Open adds a request, unless one of the same subject stands.
func (k *Approvals) Open(ctx context.Context, r *approval.Request) (*approval.Request, error) {
	fixed := *r
	fixed.Arguments = nil
	fixed.State, fixed.Decider, fixed.Decided, fixed.Note = "", "", time.Time{}, ""
	text, err := tool.Marshal(fixed)
	if err != nil {
		return nil, err
	}
	id := []byte(r.ID)
	for range 3 { // what stands in the way may be decided in between
		err = k.s.writer.do(ctx, true, insertApproval, r.ID, r.Subject, r.Execution,
			k.key.Seal(requestPurpose, text, id), k.key.Seal(argumentsPurpose, r.Arguments, id))
		if !fault.IsConstraint(err) {
			if err != nil {
				return nil, err
			}
			return r, nil
		}
		old, err := k.one(ctx, `subject = ? AND (state IN ('pending', 'approved') OR state IN ('made', 'denied', 'expired') AND execution <> '')`, r.Subject)
		if err != nil || old != nil {
			return old, err
		}
	}
	return nil, fault.Of(err)
}

// Get gives a request.
func (k *Approvals) Get(ctx context.Context, id string) (*approval.Request, error) {
	return k.one(ctx, `id = ?`, id)
}

func (k *Approvals) one(ctx context.Context, where string, arg any) (*approval.Request, error) {
	r, err := k.scan(k.s.read.QueryRowContext(ctx, approvalColumns+` FROM approval WHERE `+where, arg).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// scan reads a row of approvalColumns or listedApproval.
func (k *Approvals) scan(scan func(...any) error) (*approval.Request, error) {
	var id, state, decider, note string
	var decided int64
	var sealed, args []byte
	if err := scan(&id, &state, &decider, &decided, &note, &sealed, &args); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		return nil, fault.Of(err)
	}
	text, err := k.key.Unseal(requestPurpose, sealed, []byte(id))
	if err != nil {
		return nil, changedApproval(id, err)
	}
	r := &approval.Request{}
	if err := json.Unmarshal(text, r); err != nil || r.ID != id {
		return nil, changedApproval(id, err)
	}
	if r.Arguments = nil; args != nil {
		if r.Arguments, err = k.key.Unseal(argumentsPurpose, args, []byte(id)); err != nil {
			return nil, changedApproval(id, err)
		}
	}
	r.State, r.Decider, r.Note = approval.State(state), decider, note
	if decided != 0 {
		r.Decided = time.UnixMicro(decided).UTC()
	}
	return r, nil
}

func changedApproval(id string, err error) error {
	return tool.Errorf(tool.Conflict, "request %s can't be read with the key of this data folder, or was changed there: %w", id, err)
}

// List gives what q picks.
func (k *Approvals) List(ctx context.Context, q approval.Query) ([]approval.Request, error) {
	sealed := secret.Overhead + approval.ListedArguments
	where, args := []string{"true"}, []any{sealed}
	if len(q.States) > 0 {
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(q.States)-1)+")")
		for _, s := range q.States {
			args = append(args, string(s))
		}
	}
	if q.Execution != "" {
		where, args = append(where, "execution = ?"), append(args, q.Execution)
	}
	if q.Before != "" {
		where, args = append(where, "seq < (SELECT seq FROM approval WHERE id = ?)"), append(args, q.Before)
	}
	rows, err := k.s.read.QueryContext(ctx, listedApproval+` FROM approval WHERE `+strings.Join(where, " AND ")+` ORDER BY seq DESC LIMIT ?`, append(args, q.Max())...)
	return collect(ctx, rows, err, k.scan)
}

// Move takes a request from one state to another.
func (k *Approvals) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (moved bool, err error) {
	now := time.Now().UnixMicro()
	query, args := moveApproval, []any{string(to), now, id, string(from)}
	if !d.Time.IsZero() {
		query, args = decideApproval, []any{string(to), now, d.Decider, d.Time.UnixMicro(), d.Note, id, string(from)}
	}
	err = k.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		res, err := w.conn.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		moved = n > 0
		return err
	})
	return moved, err
}

// Forget throws away the requests that ended before a moment: were denied, expired, were withdrawn or made. Those of an execution
// that has not ended stay, since its calls may be made anew after a restart, and find them.
func (k *Approvals) Forget(ctx context.Context, before time.Time) error {
	return k.s.writer.do(ctx, false, forgetApproval, before.UnixMicro())
}
