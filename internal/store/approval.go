package store

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Purposes for which the data of approvals is sealed.
const (
	requestPurpose   = "approval-request"
	argumentsPurpose = "approval-arguments"
)

// Approvals stores the approval requests, sealed. It implements approval.Store.
type Approvals struct {
	s   *Store
	key *secret.Key
	g   *grants
}

// Approvals returns the approval requests, which key seals.
func (s *Store) Approvals(key *secret.Key) *Approvals { return &Approvals{s, key, s.grants(key)} }

const (
	insertApproval = `INSERT INTO approval (id, seq, subject, execution, state, decider, decided, note, request,
		arguments, seal, principal, expires)
		SELECT ?, (SELECT 1 + coalesce(max(seq), 0) FROM approval), ?, ?, 'pending', '', 0, '', ?, ?, ?, ?, ?
		WHERE ? OR (SELECT count(*) FROM approval WHERE state = 'pending' AND execution = '' AND principal = ?
		AND expires > ?) < ?`
	moveApproval = `UPDATE approval SET state = ?, ended = ?, decider = ?, decided = ?, note = ?, seal = ? WHERE ` +
		`id = ? AND state = ?`
	sealApproval = `UPDATE approval SET seal = ? WHERE id = ?`
	// requestsAtOnce is how many requests a transaction deletes or copies, since other writes
	// wait for it.
	requestsAtOnce = 1000
	forgetApproval = `DELETE FROM approval WHERE rowid IN (SELECT rowid FROM approval
		WHERE state NOT IN ('pending', 'approved') AND max(ended, decided) < ? AND NOT EXISTS (SELECT 1 FROM execution
		WHERE execution.id = approval.execution AND execution.ended = 0) LIMIT ?)`
	fixedApproval = `id, subject, execution, state, decider, decided, note, ended, principal, expires, ` +
		`seal, request, `
	approvalColumns = fixedApproval + `arguments`
	listedApproval  = `SELECT ` + fixedApproval + `CASE WHEN length(arguments) <= ? THEN arguments END`

	// Conditions of indexes.
	isInForce = `state IN ('pending', 'approved')`
	isOutside = isInForce + ` AND execution = ''`
	isProgram = isInForce + ` AND execution <> ''`

	oldApprovals = `SELECT id, request FROM approval WHERE ` + isOutside + ` AND expires = 0 LIMIT ?`
)

// An approvalRow is a row of approvalColumns or listedApproval.
type approvalRow struct {
	id, subject, execution, state, decider, note, principal string
	decided, ended, expires                                 int64
	seal, request, arguments                                []byte
}

func (r *approvalRow) scanRow(scan func(...any) error) error {
	return scan(&r.id, &r.subject, &r.execution, &r.state, &r.decider, &r.decided, &r.note, &r.ended,
		&r.principal, &r.expires, &r.seal, &r.request, &r.arguments)
}

// matchesFields reports whether the row's copies of fields of its request are right. A row of an
// older version has none.
func (r *approvalRow) matchesFields(of *approval.Request) bool {
	if r.expires == 0 {
		return r.principal == ""
	}
	return r.principal == of.Principal && r.expires == of.Expires.UnixMicro()
}

// rowDigest returns the keyed digest of the row. The request and its arguments are sealed
// themselves, bound to the id, and never change.
func (r *approvalRow) rowDigest(g *grants) []byte {
	return g.rowDigest(approvalGrants, r.id, r.subject, r.execution, r.state, r.decider,
		strconv.FormatInt(r.decided, 10), r.note, strconv.FormatInt(r.ended, 10))
}

// matchesSeal reports whether the row matches its seal. An approved row must be in the list of
// grants, too, because an older row could have been put back.
func (r *approvalRow) matchesSeal(g *grants) bool {
	digest := r.rowDigest(g)
	return subtle.ConstantTimeCompare(digest, r.seal) == 1 &&
		(r.state != string(approval.Approved) || g.matchesDigest(approvalGrants, r.id, digest))
}

// setApproval updates the list of grants for the row. The list is written in the same transaction.
func (g *grants) setApproval(r *approvalRow) {
	if r.state == string(approval.Approved) {
		g.setDigest(approvalGrants, r.id, r.rowDigest(g))
	} else {
		g.setDigest(approvalGrants, r.id, nil)
	}
}

// Open adds a request. If one with the same subject is in force, it returns that one instead. If
// too many of the principal are pending, it returns an error of kind Limit.
func (k *Approvals) Open(ctx context.Context, r *approval.Request) (*approval.Request, error) {
	fixed := *r
	fixed.Arguments = nil
	fixed.State, fixed.Decider, fixed.Decided, fixed.Note = "", "", time.Time{}, ""
	text, err := tool.Marshal(fixed)
	if err != nil {
		return nil, err
	}
	id := []byte(r.ID)
	row := &approvalRow{id: r.ID, subject: r.Subject, execution: r.Execution, state: string(approval.Pending)}
	args := []any{r.ID, r.Subject, r.Execution, k.key.Seal(requestPurpose, text, id),
		k.key.Seal(argumentsPurpose, r.Arguments, id), row.rowDigest(k.g), r.Principal, r.Expires.UnixMicro(),
		r.Execution != "", r.Principal, r.Created.UnixMicro(), approval.MaxWaiting}
	if err := k.copyOld(ctx); err != nil {
		return nil, err
	}
	for range 3 { // the conflicting request may be decided in the meantime
		var added int64
		err = k.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
			res, err := w.runStatement(ctx, insertApproval, args...)
			if err == nil {
				added, err = res.RowsAffected()
			}
			return err
		})
		switch {
		case err == nil && added > 0:
			return r, nil
		case err == nil:
			err = approval.NewLimitError(r)
		case fault.IsConstraint(err):
			err = fault.Translate(err)
		default:
			return nil, err
		}
		old, findErr := k.findOne(ctx, `subject = ? AND (state IN ('pending', 'approved') OR state IN ('made', `+
			`'denied', 'expired') AND execution <> '')`, r.Subject)
		if findErr != nil || old != nil {
			return old, findErr
		}
	}
	return nil, err
}

// copyOld copies the fields of requests of an older version to their columns, if they are in force
// and from outside programs. Other writes are made between its transactions.
func (k *Approvals) copyOld(ctx context.Context) error {
	for {
		old, err := readOld(ctx, k.s.read, 1) // nearly always none, so that nothing is written
		if err == nil && len(old) > 0 {
			err = k.s.writer.runInTransaction(ctx, false, k.copyFields)
		}
		if err != nil || len(old) == 0 {
			return err
		}
	}
}

// copyFields is a transaction of copyOld. A request that can't be opened gets no principal.
func (k *Approvals) copyFields(ctx context.Context, w *writer) error {
	old, err := readOld(ctx, w.conn, requestsAtOnce)
	if err != nil {
		return err
	}
	for _, row := range old {
		r, expires := &approval.Request{}, int64(1)
		if text, err := k.key.Unseal(requestPurpose, row.request, []byte(row.id)); err == nil &&
			json.Unmarshal(text, r) == nil && r.Expires.UnixMicro() != 0 {
			expires = r.Expires.UnixMicro()
		}
		if _, err := w.runStatement(ctx, `UPDATE approval SET principal = ?, expires = ? WHERE id = ?`, r.Principal,
			expires, row.id); err != nil {
			return err
		}
	}
	return nil
}

// readOld returns at most limit requests whose fields copyOld has to copy.
func readOld(ctx context.Context, q record.Querier, limit int) ([]approvalRow, error) {
	rows, err := q.QueryContext(ctx, oldApprovals, limit)
	return collectRows(ctx, rows, err, func(scan func(...any) error) (*approvalRow, error) {
		row := &approvalRow{}
		return row, scan(&row.id, &row.request)
	})
}

// Get returns a request, or nil if it is unknown.
func (k *Approvals) Get(ctx context.Context, id string) (*approval.Request, error) {
	return k.findOne(ctx, `id = ?`, id)
}

func (k *Approvals) findOne(ctx context.Context, where string, arg any) (r *approval.Request, err error) {
	row := &approvalRow{}
	err = k.g.readWithDigests(ctx, func(q record.Querier) error {
		*row = approvalRow{}
		err := row.scanRow(q.QueryRowContext(ctx, `SELECT `+approvalColumns+` FROM approval WHERE `+where, arg).Scan)
		if err == nil && !row.matchesSeal(k.g) {
			return errChanged
		}
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case isChanged(err):
		return nil, k.reportTampering(row.id)
	case err != nil:
		return nil, err
	}
	return k.openRow(row)
}

// openRow unseals a row.
func (k *Approvals) openRow(row *approvalRow) (*approval.Request, error) {
	text, err := k.key.Unseal(requestPurpose, row.request, []byte(row.id))
	if err != nil {
		return nil, k.reportTampering(row.id)
	}
	r := &approval.Request{}
	if err := json.Unmarshal(text, r); err != nil || r.ID != row.id || !row.matchesFields(r) {
		return nil, k.reportTampering(row.id)
	}
	if r.Arguments = nil; row.arguments != nil {
		if r.Arguments, err = k.key.Unseal(argumentsPurpose, row.arguments, []byte(row.id)); err != nil {
			return nil, k.reportTampering(row.id)
		}
	}
	r.State, r.Decider, r.Note = approval.State(row.state), row.decider, row.note
	if row.decided != 0 {
		r.Decided = time.UnixMicro(row.decided).UTC()
	}
	return r, nil
}

func (k *Approvals) reportTampering(id string) error {
	return k.s.reportTampering(approvalGrants, id, "request %s does not match its seal, so it permits no call: make "+
		"the call again, or restore the folder from a backup", id)
}

// listApprovals returns the query for the requests that q selects, with its arguments. It names
// indexes whose conditions it contains, because SQLite would read more with the index of states.
func listApprovals(q approval.Query) (query string, args []any) {
	where, index := []string{"true"}, ""
	args = []any{secret.Overhead + approval.ListedArguments}
	add := func(condition string, values ...any) { where, args = append(where, condition), append(args, values...) }
	if len(q.States) > 0 {
		var states []any
		for _, s := range q.States {
			states = append(states, string(s))
		}
		add("state IN (?"+strings.Repeat(", ?", len(q.States)-1)+")", states...)
	}
	if q.Execution != "" {
		add("execution = ? AND execution <> ''", q.Execution)
	}
	if q.Subject != "" {
		add("subject = ?", q.Subject)
	}
	if q.Programs {
		add(isProgram)
		index = " INDEXED BY approval_program"
	}
	if !q.Lapsed.IsZero() {
		add(isOutside+" AND expires <= ?", q.Lapsed.UnixMicro())
		index = " INDEXED BY approval_expires"
	}
	if q.Before != "" {
		// Without the key, rows can be given the same seq. Pages must skip none of them.
		add("(seq, rowid) < (SELECT seq, rowid FROM approval WHERE id = ?)", q.Before)
	}
	return listedApproval + ` FROM approval WHERE rowid IN (SELECT rowid FROM approval` + index + ` WHERE ` +
			strings.Join(where, " AND ") + ` ORDER BY seq DESC, rowid DESC LIMIT ?) ORDER BY seq DESC, rowid DESC`,
		append(args, q.Max())
}

// List returns the requests that match q, newest first. Requests that were changed are omitted, so
// the list may be shorter than q.Limit, but it is only empty if no others match.
func (k *Approvals) List(ctx context.Context, q approval.Query) ([]approval.Request, error) {
	if err := k.g.ensureLists(ctx); err != nil {
		return nil, err
	}
	if !q.Lapsed.IsZero() {
		if err := k.copyOld(ctx); err != nil {
			return nil, err
		}
	}
	for {
		out, last, err := k.readPage(ctx, q)
		if err != nil || len(out) > 0 || last == "" {
			return out, err
		}
		q.Before = last
	}
}

// readPage returns one page of requests, without changed ones, and the id of its last row: "" if
// the page has no rows.
func (k *Approvals) readPage(ctx context.Context, q approval.Query) (out []approval.Request, last string, err error) {
	query, args := listApprovals(q)
	rows, err := k.s.read.QueryContext(ctx, query, args...)
	all, err := collectRows(ctx, rows, err, func(scan func(...any) error) (*approvalRow, error) {
		row := &approvalRow{}
		return row, row.scanRow(scan)
	})
	if err != nil {
		return nil, "", err
	}
	for i := range all {
		last = all[i].id
		r, err := k.openListRow(ctx, &all[i])
		switch {
		case isChanged(err): // the others are still returned
		case err != nil:
			return nil, "", err
		case r != nil:
			out = append(out, *r)
		}
	}
	return out, last, nil
}

// openListRow unseals a row of a list. A row that doesn't match its seal is read again, because it
// may have been decided in the meantime.
func (k *Approvals) openListRow(ctx context.Context, row *approvalRow) (*approval.Request, error) {
	if row.matchesSeal(k.g) {
		return k.openRow(row)
	}
	r, err := k.Get(ctx, row.id)
	if r != nil && row.arguments == nil {
		r.Arguments = nil
	}
	return r, err
}

// Move moves a request from one state to another. It reports whether the request was in state from.
func (k *Approvals) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (moved bool,
	err error) {
	err = k.g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		row := &approvalRow{}
		err := row.scanRow(w.conn.QueryRowContext(ctx, `SELECT `+fixedApproval+`NULL FROM approval WHERE id = ?`,
			id).Scan)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return nil
		case err != nil:
			return err
		case !row.matchesSeal(k.g):
			return errChanged
		case row.state != string(from):
			return nil
		}
		row.state, row.ended = string(to), time.Now().UnixMicro()
		if !d.Time.IsZero() {
			row.decider, row.decided, row.note = d.Decider, d.Time.UnixMicro(), d.Note
		}
		res, err := w.runStatement(ctx, moveApproval, row.state, row.ended, row.decider, row.decided, row.note,
			row.rowDigest(k.g), id, string(from))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if moved = n > 0; moved {
			k.g.setApproval(row)
		}
		return err
	})
	if isChanged(err) {
		err = k.reportTampering(id)
	}
	return moved, err
}

// ForgetApprovals deletes the requests that ended before a time: those denied, expired, withdrawn
// or made. Requests of an execution that has not ended are kept, because its calls may be made
// again after a restart and look for them.
func (s *Store) ForgetApprovals(ctx context.Context, before time.Time) error {
	for {
		var deleted int64
		err := s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
			res, err := w.runStatement(ctx, forgetApproval, before.UnixMicro(), requestsAtOnce)
			if err == nil {
				deleted, err = res.RowsAffected()
			}
			return err
		})
		if err != nil || deleted < requestsAtOnce {
			return err
		}
	}
}
