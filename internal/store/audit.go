package store

import (
	"context"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Audit is the record of calls: an audit.Store.
type Audit struct{ s *Store }

// Audit gives the record of calls.
func (s *Store) Audit() *Audit { return &Audit{s} }

const insertBegun = `INSERT INTO audit_begun
	(record, call, execution, time, tool, principal, client, digest, arguments, size, decision, durable)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// Begin adds a record.
func (a *Audit) Begin(ctx context.Context, b *audit.Begun) error {
	err := a.s.writer.do(ctx, b.Durable, insertBegun,
		b.Record, b.Call, b.Execution, b.Time.UnixMicro(), b.Tool, b.Principal, b.Client, b.Digest, b.Arguments, b.Size, b.Decision, b.Durable)
	if code(err)&0xff == sqlite3.SQLITE_CONSTRAINT {
		return tool.Errorf(tool.Conflict, "audit record %s has begun already: %w", b.Record, err)
	}
	return err
}

const insertEnded = `INSERT INTO audit_ended
	(record, time, outcome, error_kind, error, digest, size, duration) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// End adds the end of a record.
func (a *Audit) End(ctx context.Context, e *audit.Ended) error {
	err := a.s.writer.do(ctx, false, insertEnded,
		e.Record, e.Time.UnixMicro(), e.Outcome, e.ErrorKind, e.Error, e.Digest, e.Size, e.Duration.Nanoseconds())
	switch c := code(err); {
	case c == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return tool.Errorf(tool.NotFound, "no audit record %s has begun: %w", e.Record, err)
	case c&0xff == sqlite3.SQLITE_CONSTRAINT:
		return tool.Errorf(tool.Conflict, "audit record %s has ended already: %w", e.Record, err)
	}
	return err
}

const selectRecords = `SELECT
	b.record, b.call, b.execution, b.time, b.tool, b.principal, b.client, b.digest, b.arguments, b.size, b.decision, b.durable,
	coalesce(e.record, ''), coalesce(e.time, 0), coalesce(e.outcome, ''), coalesce(e.error_kind, ''), coalesce(e.error, ''),
	coalesce(e.digest, ''), coalesce(e.size, 0), coalesce(e.duration, 0)
	FROM audit_begun b LEFT JOIN audit_ended e ON e.record = b.record WHERE true`

// Records gives what q picks, newest first.
func (a *Audit) Records(ctx context.Context, q audit.Query) ([]audit.Record, error) {
	query, args := selectRecords, []any{}
	if q.Execution != "" {
		query, args = query+" AND b.execution = ? AND b.execution <> ''", append(args, q.Execution)
	}
	if q.Tool != "" {
		query, args = query+" AND b.tool = ?", append(args, q.Tool)
	}
	if q.Before != "" {
		query, args = query+" AND b.record < ?", append(args, q.Before)
	}
	rows, err := a.s.read.QueryContext(ctx, query+" ORDER BY b.record DESC LIMIT ?", append(args, q.Max())...)
	if err != nil {
		return nil, failure(err)
	}
	defer rows.Close()
	var out []audit.Record
	for rows.Next() {
		var r audit.Record
		var begun, ended, duration int64
		b, e := &r.Begun, &r.Ended
		if err := rows.Scan(&b.Record, &b.Call, &b.Execution, &begun, &b.Tool, &b.Principal, &b.Client, &b.Digest, &b.Arguments, &b.Size, &b.Decision, &b.Durable,
			&e.Record, &ended, &e.Outcome, &e.ErrorKind, &e.Error, &e.Digest, &e.Size, &duration); err != nil {
			return nil, failure(err)
		}
		b.Time = time.UnixMicro(begun).UTC()
		if e.Record != "" {
			e.Time, e.Duration = time.UnixMicro(ended).UTC(), time.Duration(duration)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, failure(err)
	}
	return out, nil
}
