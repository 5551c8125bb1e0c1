package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

const selectOld = `SELECT record, 0 AS ended, time, call, execution, tool, principal, client, decision, '' AS outcome, '' AS error_kind, '' AS error,
		digest, size, arguments, 0 AS duration FROM audit_begun
	UNION ALL SELECT record, 1, time, '', '', '', '', '', '', outcome, error_kind, error, digest, size, '', duration FROM audit_ended
	ORDER BY time, ended, record`

// oldTables are those that upgrade takes away.
var oldTables = [...]string{"audit_ended", "audit_begun"}

// upgrade moves the record of an older version, two tables, into the tree: all of it in one transaction, or nothing.
func (a *Audit) upgrade(ctx context.Context) error {
	var n int
	if err := a.s.read.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'audit_begun'`).Scan(&n); err != nil {
		return fault.Reading(ctx, err)
	}
	if n == 0 {
		return nil
	}
	return a.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		if err := a.move(ctx, w); err != nil {
			return fmt.Errorf("move the record of an older version: %v", err) // not wrapped: any error is that of the transaction
		}
		return nil
	})
}

func (a *Audit) move(ctx context.Context, w *writer) error {
	halves, err := oldHalves(ctx, w.conn)
	if err != nil {
		return err
	}
	begun := map[string]*audit.Addition{}
	for _, o := range halves {
		add, err := o.Addition(a.key, begun[o.Record])
		if err != nil {
			return err
		}
		if err := w.leaf(ctx, &leaf{a: a, add: add}); err != nil {
			return err
		}
		if !o.Ended {
			begun[o.Record] = add
		}
	}
	if len(halves) > 0 { // see unnamed
		if _, err := w.conn.ExecContext(ctx, `INSERT OR IGNORE INTO audit_log (id, origin, seed) VALUES (1, '', ?)`, a.key.Seal(auditSeedPurpose, nil, nil)); err != nil {
			return err
		}
	}
	for _, table := range oldTables {
		if _, err := w.conn.ExecContext(ctx, `DROP TABLE `+table); err != nil {
			return err
		}
	}
	return nil
}

func oldHalves(ctx context.Context, conn *sql.Conn) ([]audit.Old, error) {
	rows, err := conn.QueryContext(ctx, selectOld)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []audit.Old
	for rows.Next() {
		var o audit.Old
		var at int64
		if err := rows.Scan(&o.Record, &o.Ended, &at, &o.Call, &o.Execution, &o.Tool, &o.Principal, &o.Client, &o.Decision, &o.Outcome, &o.ErrorKind, &o.Error,
			&o.Digest, &o.Size, &o.Arguments, &o.Duration); err != nil {
			return nil, err
		}
		o.Time = time.UnixMicro(at)
		out = append(out, o)
	}
	return out, rows.Err()
}
