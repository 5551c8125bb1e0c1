package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Purposes for which the data of usage is sealed.
const (
	whoPurpose       = "usage-who"
	whoDigestPurpose = "usage-who-digest"
)

// Usage stores usage. The names of users are sealed. It implements usage.Store.
type Usage struct {
	s   *Store
	key *secret.Key
}

// Usage returns the usage; key seals who used it.
func (s *Store) Usage(key *secret.Key) *Usage { return &Usage{s, key} }

const hourSpan = 3600 // seconds

// SQL statements over the columns in usage.Columns.

func addUsage() string {
	return `INSERT INTO usage (start, span, who, upstream, tool, ` + strings.Join(usage.Columns(), ", ") + `)
		SELECT ?, ?, (SELECT id FROM usage_who WHERE digest = ?), ?, ?` + strings.Repeat(", ?", len(usage.Columns())) + ` WHERE true
		ON CONFLICT DO UPDATE SET ` + eachColumn("%[1]s = %[1]s + excluded.%[1]s")
}

func compactUsage() string {
	return `INSERT INTO usage (start, span, who, upstream, tool, ` + strings.Join(usage.Columns(), ", ") + `)
		SELECT start / 86400 * 86400, 86400, who, upstream, tool, ` + eachColumn("sum(%[1]s)") + ` FROM usage WHERE span = 3600 AND start < ? GROUP BY 1, who, upstream, tool
		ON CONFLICT DO UPDATE SET ` + eachColumn("%[1]s = %[1]s + excluded.%[1]s")
}

const (
	addWho      = `INSERT OR IGNORE INTO usage_who (digest, data) VALUES (?, ?)`
	dropCompact = `DELETE FROM usage WHERE span = 3600 AND start < ?`
	dropUsage   = `DELETE FROM usage WHERE start < ?`
	dropWho     = `DELETE FROM usage_who WHERE NOT EXISTS (SELECT 1 FROM usage WHERE who = usage_who.id)`
)

func eachColumn(format string) string {
	var out []string
	for _, c := range usage.Columns() {
		out = append(out, fmt.Sprintf(format, c))
	}
	return strings.Join(out, ", ")
}

// Add adds hourly rows to the stored rows of the same hour and key, all or nothing. They survive
// the death of the process, but may be lost in a power failure.
func (u *Usage) Add(ctx context.Context, rows []usage.Row) error {
	var steps []step
	add, known := addUsage(), map[usage.Subject][]byte{}
	for i := range rows {
		r := &rows[i]
		digest := known[r.Subject]
		if digest == nil {
			text, err := tool.Marshal(r.Subject)
			if err != nil {
				return err
			}
			sum := u.key.MAC(whoDigestPurpose, text)
			digest = sum[:]
			known[r.Subject] = digest
			steps = append(steps, step{addWho, []any{digest, u.key.Seal(whoPurpose, text, digest)}})
		}
		args := append([]any{r.Start.Unix(), hourSpan, digest, r.Upstream, r.Tool}, r.Values()...)
		steps = append(steps, step{add, args})
	}
	return u.s.writer.execAll(ctx, false, steps)
}

// Sum calls f with the stored usage, summed up as the selection says.
func (u *Usage) Sum(ctx context.Context, s usage.Selection, f func(usage.Row) error) error {
	whos, err := u.loadSubjects(ctx)
	if err != nil {
		return err
	}
	start, toolName := "0", "''"
	switch {
	case s.Hours:
		start = "start"
	case s.Days:
		start = "start / 86400 * 86400"
	}
	if s.Tools {
		toolName = "tool"
	}
	rows, err := u.s.read.QueryContext(ctx, `SELECT `+start+`, who, upstream, `+toolName+`, `+eachColumn("sum(%[1]s)")+`
		FROM usage WHERE start >= ? AND start < ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, s.From.Unix(), s.To.Unix())
	if err != nil {
		return fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r usage.Row
		var at, who int64
		if err := rows.Scan(append([]any{&at, &who, &r.Upstream, &r.Tool}, r.Scan()...)...); err != nil {
			return fault.TranslateRead(ctx, err)
		}
		r.Start, r.Subject = time.Unix(at, 0).UTC(), whos[who]
		if err := f(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fault.TranslateRead(ctx, err)
	}
	return nil
}

// loadSubjects returns all subjects by id.
func (u *Usage) loadSubjects(ctx context.Context) (map[int64]usage.Subject, error) {
	rows, err := u.s.read.QueryContext(ctx, `SELECT id, digest, data FROM usage_who`)
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	out := map[int64]usage.Subject{}
	for rows.Next() {
		var id int64
		var digest, sealed []byte
		if err := rows.Scan(&id, &digest, &sealed); err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		text, err := u.key.Unseal(whoPurpose, sealed, digest)
		var w usage.Subject
		if err == nil {
			err = json.Unmarshal(text, &w)
		}
		if err != nil {
			return nil, tool.Errorf(tool.Conflict, "the stored usage was changed, or can't be read with this data "+
				"folder's key: restore the folder from a backup: %w", err)
		}
		out[id] = w
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return out, nil
}

// Compact merges hours that begin before hours into days, and deletes rows that begin before drop.
// It also deletes subjects without any rows left.
func (u *Usage) Compact(ctx context.Context, hours, drop time.Time) error {
	return u.s.writer.execAll(ctx, false, []step{
		{dropUsage, []any{drop.Unix()}},
		{compactUsage(), []any{hours.Unix()}},
		{dropCompact, []any{hours.Unix()}},
		{dropWho, nil},
	})
}
