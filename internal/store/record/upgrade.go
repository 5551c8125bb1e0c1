package record

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

const selectOld = `SELECT record, 0 AS ended, time, call, execution, tool, principal, client, decision, '' AS outcome, '' AS error_kind, '' AS error,
		digest, size, arguments, 0 AS duration FROM audit_begun
	UNION ALL SELECT record, 1, time, '', '', '', '', '', '', outcome, error_kind, error, digest, size, '', duration FROM audit_ended
	ORDER BY time, ended, record`

// OldTables are the tables that UpgradeRecord drops.
var OldTables = [...]string{"audit_ended", "audit_begun"}

// IsOld reports whether the record is from an older version, which stored it in two tables.
func IsOld(ctx context.Context, q Querier) (bool, error) {
	var n int
	if err := q.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'audit_begun'`).Scan(
		&n); err != nil {
		return false, fault.TranslateRead(ctx, err)
	}
	return n > 0, nil
}

// UpgradeRecord moves the record of an older version into the tree.
func (e *Edge) UpgradeRecord(ctx context.Context, tx Tx, key *secret.Key) error {
	halves, err := oldHalves(ctx, tx)
	if err != nil {
		return err
	}
	begun := map[string]*audit.Addition{}
	for _, o := range halves {
		add, err := o.Addition(key, begun[o.Record])
		if err != nil {
			return err
		}
		x := &Leaf{Key: key, Add: add}
		if err := errors.Join(e.Add(ctx, tx, []*Leaf{x}), x.Err); err != nil {
			return err
		}
		if !o.Ended {
			begun[o.Record] = add
		}
	}
	if len(halves) > 0 { // see CheckNameless
		if _, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO audit_log (id, origin, seed) VALUES (1, '', ?)`,
			key.Seal(seedPurpose, nil, nil)); err != nil {
			return err
		}
	}
	for _, table := range OldTables {
		if _, err := tx.ExecContext(ctx, `DROP TABLE `+table); err != nil {
			return err
		}
	}
	return nil
}

func oldHalves(ctx context.Context, q Querier) ([]audit.OldRecord, error) {
	rows, err := q.QueryContext(ctx, selectOld)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []audit.OldRecord
	for rows.Next() {
		var o audit.OldRecord
		var at int64
		if err := rows.Scan(&o.Record, &o.Ended, &at, &o.Call, &o.Execution, &o.Tool, &o.Principal, &o.Client,
			&o.Decision, &o.Outcome, &o.ErrorKind, &o.Error,
			&o.Digest, &o.Size, &o.Arguments, &o.Duration); err != nil {
			return nil, err
		}
		o.Time = time.UnixMicro(at)
		out = append(out, o)
	}
	return out, rows.Err()
}
