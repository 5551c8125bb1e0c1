package store

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/journal"
)

const (
	saveTask = `INSERT INTO execution_task (execution, principal, profile, created, ttl, grace)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (execution) DO UPDATE SET profile = excluded.profile,
		created = excluded.created, ttl = excluded.ttl, grace = excluded.grace WHERE principal = excluded.principal`
	// of one principal
	dropTasks = `DELETE FROM execution_task WHERE principal = ? AND execution IN (SELECT t.execution
		FROM execution_task t JOIN execution e ON e.id = t.execution WHERE t.principal = ? AND NOT ` + keptTask + `)`
	selectTasks = `SELECT t.execution, t.principal, t.profile, t.created, t.ttl, t.grace, e.state, e.ended
		FROM execution_task t JOIN execution e ON e.id = t.execution AND e.principal = t.principal
		WHERE t.principal = ? AND t.profile = ? AND ` + keptTask
	// with the time as parameter
	keptTask = `(e.ended = 0 OR max(t.created + t.ttl, e.ended + t.grace) > ?)`
)

// SaveTask adds or replaces a task, and deletes the expired ones of its principal.
func (e *Executions) SaveTask(ctx context.Context, t *journal.Task) error {
	return e.s.writer.execAll(ctx, false, []step{
		{dropTasks, []any{t.Principal, t.Principal, toMicros(time.Now())}},
		{saveTask, []any{t.ID, t.Principal, t.Profile, toMicros(t.Created), t.TTL.Microseconds(),
			t.Grace.Microseconds()}},
	})
}

// LoadTask returns a task of a principal and profile that has not expired, or nil.
func (e *Executions) LoadTask(ctx context.Context, principal, profile, id string) (*journal.Task, error) {
	list, err := e.queryTasks(ctx, selectTasks+` AND t.execution = ?`, principal, profile, toMicros(time.Now()), id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// ListTasks returns the tasks that match q and have not expired, oldest first.
func (e *Executions) ListTasks(ctx context.Context, q journal.TaskQuery) ([]journal.Task, error) {
	after := int64(-1)
	if !q.After.IsZero() {
		after = toMicros(q.After)
	}
	return e.queryTasks(ctx, selectTasks+` AND (t.created, t.execution) > (?, ?)
		ORDER BY t.created, t.execution LIMIT ?`, q.Principal, q.Profile, toMicros(time.Now()), after, q.AfterID,
		max(q.Limit, 0))
}

func (e *Executions) queryTasks(ctx context.Context, query string, args ...any) ([]journal.Task, error) {
	rows, err := e.s.read.QueryContext(ctx, query, args...)
	return collectRows(ctx, rows, err, scanTask)
}

func scanTask(scan func(...any) error) (*journal.Task, error) {
	t := &journal.Task{}
	var created, ttl, grace, ended int64
	err := scan(&t.ID, &t.Principal, &t.Profile, &created, &ttl, &grace, &t.State, &ended)
	t.Created, t.TTL, t.Grace = fromMicros(created), time.Duration(ttl)*time.Microsecond,
		time.Duration(grace)*time.Microsecond
	if ended != 0 {
		t.Ended = fromMicros(ended)
	}
	return t, err
}

// dropTasksOf returns the statement that deletes the tasks of executions. list has their ids, in
// JSON.
func dropTasksOf(list string) step {
	return step{`DELETE FROM execution_task WHERE execution IN ` + theseIDs, []any{list}}
}
