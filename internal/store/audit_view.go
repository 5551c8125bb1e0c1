package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// View shows the record at one moment: all that f reads is of one transaction, which holds up nobody.
func (a *Audit) View(ctx context.Context, f func(audit.View) error) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	if a.pending.Load() > 0 { // what is queued is seen, too
		if err := a.s.writer.call(ctx, false, func(context.Context, *writer) error { return nil }); err != nil {
			return err
		}
	}
	tx, err := a.s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return readError(ctx, err)
	}
	defer tx.Rollback()
	return f(&auditView{ctx, tx, a})
}

// An auditView is an audit.View. It lives no longer than the call that it is made for, and so has its context.
type auditView struct {
	ctx context.Context
	tx  *sql.Tx
	a   *Audit
}

func (v *auditView) fail(err error) error { return readError(v.ctx, err) }

// ReadHashes gives stored hashes by their index.
func (v *auditView) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, 0, len(indexes))
	for _, i := range indexes {
		level, n := tlog.SplitStoredHashIndex(i)
		h, err := storedHash(v.ctx, v.tx, level, (n+1)<<level-1)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// Head gives the tree's size and root.
func (v *auditView) Head() (audit.Head, error) {
	t, err := loadTree(v.ctx, v.tx)
	if err != nil {
		return audit.Head{}, err
	}
	return audit.Head{Size: t.size, Root: t.root()}, nil
}

const selectPairs = `SELECT b.seq, b.hashes, b.leaf, e.seq, e.hashes, e.leaf FROM audit_leaf b
	LEFT JOIN audit_leaf e ON e.leaf ->> 'record' = b.leaf ->> 'record' AND (e.leaf ->> 'part' = 'ended') = 1
	WHERE (b.leaf ->> 'part' = 'ended') = 0`

// Records gives what q picks, in its order.
func (v *auditView) Records(q audit.Query) ([]audit.Pair, error) {
	query, args := pairsQuery(q)
	rows, err := v.tx.QueryContext(v.ctx, query, args...)
	if err != nil {
		return nil, v.fail(err)
	}
	defer rows.Close()
	var out []audit.Pair
	for rows.Next() {
		var p audit.Pair
		var begun, ended []byte
		var seq sql.NullInt64
		if err := rows.Scan(&p.Begun.Seq, &begun, &p.Begun.Data, &seq, &ended, &p.Ended.Data); err != nil {
			return nil, v.fail(err)
		}
		p.Begun.Hashes = splitHashes(begun)
		if seq.Valid {
			p.Ended.Seq, p.Ended.Hashes = seq.Int64, splitHashes(ended)
		}
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, v.fail(err)
	}
	return out, nil
}

// pairsQuery is the statement for a query. Ids are in the order of time, so that a span of time is one of ids; times are
// compared besides, since a clock may have been set back.
func pairsQuery(q audit.Query) (string, []any) {
	var b strings.Builder
	var args []any
	b.WriteString(selectPairs)
	and := func(cond string, arg any) {
		b.WriteString(" AND " + cond)
		args = append(args, arg)
	}
	for _, f := range [][2]string{{"record", q.ID}, {"tool", q.Tool}, {"principal", q.Principal}, {"execution", q.Execution}, {"upstream", q.Upstream}} {
		if f[1] != "" {
			and("b.leaf ->> '"+f[0]+"' = ?", f[1])
		}
	}
	if q.Kind == audit.KindCall {
		and("b.leaf ->> 'kind' = ?", string(q.Kind))
	} else if q.Kind != "" {
		and("b.leaf ->> 'kind' <> 'call' AND b.leaf ->> 'kind' = ?", string(q.Kind))
	}
	if q.Outcome != "" {
		and("coalesce(e.leaf ->> 'outcome', b.leaf ->> 'outcome') = ?", string(q.Outcome))
	}
	// One bound on each side: of two SQLite takes one to search by, and reads all up to the other, on every page anew.
	low, high, over, order := "", q.Before, ">=", "DESC"
	if !q.Since.IsZero() {
		low = audit.FirstID(q.Since)
		and("b.leaf ->> 'time' >= ?", audit.Stamp(q.Since))
	}
	if !q.Until.IsZero() {
		if end := audit.FirstID(q.Until.Add(audit.ClockSlack)); high == "" || end < high {
			high = end
		}
		and("b.leaf ->> 'time' < ?", audit.Stamp(q.Until))
	}
	if q.After != "" {
		order = "ASC"
		if q.After >= low {
			low, over = q.After, ">"
		}
	}
	if low != "" {
		and("b.leaf ->> 'record' "+over+" ?", low)
	}
	if high != "" {
		and("b.leaf ->> 'record' < ?", high)
	}
	b.WriteString(" ORDER BY b.leaf ->> 'record' " + order + " LIMIT ?")
	return b.String(), append(args, q.Max())
}

func splitHashes(b []byte) []tlog.Hash {
	var out []tlog.Hash
	for len(b) >= tlog.HashSize {
		out, b = append(out, tlog.Hash(b[:tlog.HashSize])), b[tlog.HashSize:]
	}
	return out
}

// Leaves calls f with the leaves from an index on.
func (v *auditView) Leaves(from int64, f func(audit.Leaf) error) error {
	rows, err := v.tx.QueryContext(v.ctx, `SELECT seq, hashes, leaf FROM audit_leaf WHERE seq >= ? ORDER BY seq`, from)
	if err != nil {
		return v.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var l audit.Leaf
		var hashes, data sql.RawBytes
		if err := rows.Scan(&l.Seq, &hashes, &data); err != nil {
			return v.fail(err)
		}
		l.Data, l.Hashes = data, splitHashes(hashes)
		if err := f(l); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return v.fail(err)
	}
	return nil
}

// Checkpoints calls f with each stored checkpoint.
func (v *auditView) Checkpoints(f func(string) error) error {
	rows, err := v.tx.QueryContext(v.ctx, `SELECT text FROM audit_checkpoint ORDER BY id`)
	if err != nil {
		return v.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return v.fail(err)
		}
		if err := f(text); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return v.fail(err)
	}
	return nil
}

// Kept gives what is kept under a digest.
func (v *auditView) Kept(digest string) ([]byte, error) {
	var sealed []byte
	err := v.tx.QueryRowContext(v.ctx, `SELECT data FROM audit_payload WHERE head = ? AND digest = ?`, headOf(digest), digest).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, v.fail(err)
	}
	data, err := v.a.key.Unseal(auditPayloadPurpose, sealed, []byte(digest))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "what is kept under %s was changed, or sealed with another key: %w", digest, err)
	}
	return data, nil
}

// AllKept calls f with all that is kept.
func (v *auditView) AllKept(f func(digest string, data []byte, err error) error) error {
	rows, err := v.tx.QueryContext(v.ctx, `SELECT digest, data FROM audit_payload`)
	if err != nil {
		return v.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var digest string
		var sealed sql.RawBytes
		if err := rows.Scan(&digest, &sealed); err != nil {
			return v.fail(err)
		}
		data, err := v.a.key.Unseal(auditPayloadPurpose, sealed, []byte(digest))
		if err != nil {
			err = tool.Errorf(tool.Conflict, "what is kept under %s was changed, or sealed with another key: %w", digest, err)
		}
		if err := f(digest, data, err); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return v.fail(err)
	}
	return nil
}

// Check lets SQLite check the table of the leaves: its pages, and whether its indexes agree with it; and it compares the tables,
// indexes and triggers with those that were made.
func (v *auditView) Check() error {
	said, err := v.lines(`PRAGMA integrity_check('audit_leaf')`)
	if err != nil {
		return err
	}
	if len(said) != 1 || said[0] != "ok" {
		return tool.Errorf(tool.Conflict, "the database is damaged, or its indexes were changed: %s", strings.Join(said[:min(len(said), 5)], "; "))
	}
	have, err := v.lines(`SELECT sql FROM sqlite_master WHERE tbl_name IN ('audit_leaf', 'audit_checkpoint', 'audit_payload', 'audit_log') AND sql IS NOT NULL`)
	if err != nil {
		return err
	}
	made, err := migrations.ReadFile("migrations/0030_audit_leaf.sql")
	if err != nil {
		return tool.Errorf(tool.Internal, "read a migration: %w", err)
	}
	for _, sql := range have {
		if !strings.Contains(string(made), sql) {
			return tool.Errorf(tool.Conflict, "the record's tables, indexes or triggers were changed: %.80s", sql)
		}
	}
	if want := strings.Count(string(made), "\nCREATE "); len(have) != want {
		return tool.Errorf(tool.Conflict, "of the record's %d tables, indexes and triggers there are %d", want, len(have))
	}
	return nil
}

// lines gives the one column of a query.
func (v *auditView) lines(query string) ([]string, error) {
	rows, err := v.tx.QueryContext(v.ctx, query)
	if err != nil {
		return nil, v.fail(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, v.fail(err)
		}
		out = append(out, line)
	}
	if err := rows.Err(); err != nil {
		return nil, v.fail(err)
	}
	return out, nil
}
