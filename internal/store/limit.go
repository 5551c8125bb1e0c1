package store

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/store/fault"
)

// Limits keeps what was used of what is limited: a limit.Store.
type Limits struct{ s *Store }

// Limits gives what was used.
func (s *Store) Limits() *Limits { return &Limits{s} }

const saveLimit = `INSERT INTO limit_use (key, time) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET time = excluded.time`

// Load gives the time that is kept under each key, and drops those that are past.
func (k *Limits) Load(ctx context.Context, now time.Time) (map[string]time.Time, error) {
	if err := k.s.writer.do(ctx, false, `DELETE FROM limit_use WHERE time <= ?`, now.UnixMicro()); err != nil {
		return nil, err
	}
	rows, err := k.s.read.QueryContext(ctx, `SELECT key, time FROM limit_use`)
	if err != nil {
		return nil, fault.Reading(ctx, err)
	}
	defer rows.Close()
	out := map[string]time.Time{}
	for rows.Next() {
		var key string
		var at int64
		if err := rows.Scan(&key, &at); err != nil {
			return nil, fault.Reading(ctx, err)
		}
		out[key] = time.UnixMicro(at)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.Reading(ctx, err)
	}
	return out, nil
}

// Save keeps times under their keys. They survive the death of the process, and may be lost with the power.
func (k *Limits) Save(ctx context.Context, times map[string]time.Time) error {
	steps := make([]step, 0, len(times))
	for key, at := range times {
		steps = append(steps, step{query: saveLimit, args: []any{key, at.UnixMicro()}})
	}
	return k.s.writer.all(ctx, false, steps)
}
