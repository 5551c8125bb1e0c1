package store

import (
	"context"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits stores how much of each limit is used up. It implements limit.Store.
type Limits struct{ g *grants }

// Limits returns the stored use of limits, which is authenticated with key.
func (s *Store) Limits(key *secret.Key) *Limits { return &Limits{s.grants(key)} }

const (
	saveLimit  = `INSERT INTO limit_use (key, time) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET time = excluded.time`
	dropLimits = `DELETE FROM limit_use WHERE time <= ?`
)

// A limitSum is a digest of all rows of limit_use: their number, and the XOR of a keyed digest of
// each. So changing a row updates it in constant time. It is sealed, because knowing the digests
// would allow a search for other rows with the same sum.
type limitSum struct {
	rows  uint64
	sum   [sha256.Size]byte
	doubt int64            // when rows were found changed, in microseconds since 1970 UTC; 0: never
	times map[string]int64 // the rows; nil: not read yet
}

// toggleRow adds a row to the sum, or removes it.
func (l *limitSum) toggleRow(key *secret.Key, name string, at int64) {
	one := key.MAC(limitPurpose, appendField(appendField(nil, name), strconv.FormatInt(at, 10)))
	for i := range l.sum {
		l.sum[i] ^= one[i]
	}
}

const limitPurpose = "limit-use"

// putRow adds or replaces a row.
func (l *limitSum) putRow(key *secret.Key, name string, at int64) {
	if old, ok := l.times[name]; ok {
		l.toggleRow(key, name, old)
	} else {
		l.rows++
	}
	l.toggleRow(key, name, at)
	l.times[name] = at
}

// dropOldRows removes the rows whose time is past.
func (l *limitSum) dropOldRows(key *secret.Key, now int64) {
	for name, at := range l.times {
		if at <= now {
			l.toggleRow(key, name, at)
			l.rows--
			delete(l.times, name)
		}
	}
}

// readRows computes the sum of the rows in the database, and reports whether it is the same as
// before.
func (l *limitSum) readRows(ctx context.Context, q record.Querier, key *secret.Key) (same bool, err error) {
	now := limitSum{doubt: l.doubt, times: map[string]int64{}}
	rows, err := q.QueryContext(ctx, `SELECT key, time FROM limit_use`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var at int64
		if err := rows.Scan(&name, &at); err != nil {
			return false, err
		}
		now.putRow(key, name, at)
	}
	same = now.rows == l.rows && now.sum == l.sum
	*l = now
	return same, rows.Err()
}

// readLimits reads the rows in the current transaction, unless they were read before. If rows were
// changed, removed or put back, all limits count as used up.
func (g *grants) readLimits(ctx context.Context, w *writer) error {
	if g.limits.times != nil {
		return nil
	}
	same, err := g.limits.readRows(ctx, w.conn, g.key)
	if err != nil || same {
		return err
	}
	g.s.alarm.raise("limit_use", "",
		tool.Errorf(tool.Conflict, "the stored usage of limits was changed, so all limits count as used up: %w",
			errChanged))
	g.dirty = true
	return g.limits.exhaustLimits(ctx, w)
}

// Load returns the time stored under each key, and deletes the times that are past. It also returns
// when rows were last found changed: at that time all limits counted as used up.
func (k *Limits) Load(ctx context.Context, now time.Time) (out map[string]time.Time, doubt time.Time, err error) {
	out = map[string]time.Time{}
	err = k.g.changeRows(ctx, false, func(ctx context.Context, w *writer) error {
		if err := k.g.readLimits(ctx, w); err != nil {
			return err
		}
		before := k.g.limits.rows
		if k.g.limits.dropOldRows(k.g.key, now.UnixMicro()); k.g.limits.rows != before {
			k.g.dirty = true
			if err := w.execStep(ctx, step{dropLimits, []any{now.UnixMicro()}}); err != nil {
				return err
			}
		}
		for name, at := range k.g.limits.times {
			out[name] = time.UnixMicro(at)
		}
		doubt = fromMicros(k.g.limits.doubt)
		return nil
	})
	return out, doubt, err
}

// Save stores times under their keys. They survive the death of the process, but may be lost in a
// power failure.
func (k *Limits) Save(ctx context.Context, times map[string]time.Time) error {
	return k.g.changeRows(ctx, false, func(ctx context.Context, w *writer) error {
		if err := k.g.readLimits(ctx, w); err != nil {
			return err
		}
		for name, at := range times {
			if err := w.execStep(ctx, step{saveLimit, []any{name, at.UnixMicro()}}); err != nil {
				return err
			}
			k.g.limits.putRow(k.g.key, name, at.UnixMicro())
		}
		k.g.dirty = true
		return nil
	})
}
