package store

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// replaceLists replaces the lists that can't be used, in the current transaction. The rows of an
// older version's database are accepted as they are. If a list was changed or removed, none of its
// rows is still valid: users must create keys, approve and share again.
func (g *grants) replaceLists(ctx context.Context, w *writer, f *loadResult) error {
	if f.old {
		for _, adopt := range []func(context.Context, *writer) error{g.adoptKeys, g.adoptApprovals, g.adoptLabels,
			g.adoptSkills, g.adoptTokens, g.adoptLimits} {
			if err := adopt(ctx, w); err != nil {
				return err
			}
		}
	}
	for _, table := range f.lost {
		g.mu.Lock()
		g.lists[table] = &grantList{rows: map[string][]byte{}, dirty: true}
		g.mu.Unlock()
		if table == hintGrants {
			g.setDigest(hintGrants, lostHints, []byte("unknown"))
		}
		if table == labelGrants {
			if err := g.doubtLabels(ctx, w); err != nil {
				return err
			}
		}
		g.s.alarm.raise(table, "",
			tool.Errorf(tool.Conflict, "%s: its rows no longer grant anything: %w", table, f.why))
	}
	if len(f.lost) == len(grantTables) { // the versions are lost, and with them the digest of limits
		if err := g.limits.exhaustLimits(ctx, w); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded, g.dirty = true, true
	return nil
}

// readRows returns the rows of a query in the current transaction, converted by read.
func readRows[T any](ctx context.Context, w *writer, read func(scan func(...any) error) (T, error), query string,
	args ...any) (all []T, _ error) {
	rows, err := w.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// eachRow calls f with the columns of each row of a query, in the current transaction. f may write.
func (w *writer) eachRow(ctx context.Context, query string, args []any, columns int, f func(row []any) error) error {
	all, err := readRows(ctx, w, func(scan func(...any) error) ([]any, error) {
		row, to := make([]any, columns), make([]any, columns)
		for i := range row {
			to[i] = &row[i]
		}
		return row, scan(to...)
	}, query, args...)
	if err != nil {
		return err
	}
	for _, row := range all {
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func (g *grants) adoptKeys(ctx context.Context, w *writer) error {
	all, err := readRows(ctx, w, func(scan func(...any) error) (*keyRow, error) {
		r := &keyRow{key: &identity.Key{}}
		return r, r.scanRow(scan)
	}, selectKeys)
	if err != nil {
		return err
	}
	for _, r := range all {
		g.setDigest(keyGrants, r.key.Name, r.rowDigest(g))
	}
	return nil
}

func (g *grants) adoptApprovals(ctx context.Context, w *writer) error {
	all, err := readRows(ctx, w, func(scan func(...any) error) (*approvalRow, error) {
		r := &approvalRow{}
		err := r.scanRow(scan)
		r.request, r.arguments = nil, nil
		return r, err
	}, `SELECT `+approvalColumns+` FROM approval`)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := w.execStep(ctx, step{sealApproval, []any{r.rowDigest(g), r.id}}); err != nil {
			return err
		}
		g.setApproval(r)
	}
	return nil
}

func (g *grants) adoptLabels(ctx context.Context, w *writer) error {
	return w.eachRow(ctx, `SELECT DISTINCT owner, name FROM session_label`, nil, 2, func(row []any) error {
		return g.setLabels(ctx, w, textOf(row[0]), textOf(row[1]))
	})
}

// doubtLabels invalidates the labels of all sessions, since they can't be known. No session can
// continue: each has to be ended.
func (g *grants) doubtLabels(ctx context.Context, w *writer) error {
	return w.eachRow(ctx, `SELECT owner, name FROM session UNION SELECT owner, name FROM session_label`, nil, 2,
		func(row []any) error {
			g.setDigest(labelGrants, labelID(textOf(row[0]), textOf(row[1])), []byte("unknown"))
			return nil
		})
}

// adoptSkills reseals shared skills for sharing: older versions sealed them as the owner's.
func (g *grants) adoptSkills(ctx context.Context, w *writer) error {
	return w.eachRow(ctx, `SELECT owner, name, shared FROM skill WHERE shared IS NOT NULL`, nil, 3,
		func(row []any) error {
			owner, name, sealed := textOf(row[0]), textOf(row[1]), []byte(textOf(row[2]))
			source, err := g.key.Unseal(skillPurpose, sealed, []byte(owner), []byte(name))
			if err != nil {
				return nil // it can't be unsealed, and is not shared
			}
			return g.shareSkill(ctx, w, owner, name, source)
		})
}

func (g *grants) adoptTokens(ctx context.Context, w *writer) error {
	return w.eachRow(ctx, `SELECT upstream, owner, resource, revision, sealed FROM upstream_token`, nil, 5,
		func(row []any) error {
			upstream, owner, resource := textOf(row[0]), textOf(row[1]), textOf(row[2])
			g.setDigest(tokenGrants, tokenID(upstream, owner, resource),
				g.tokenDigest(upstream, owner, resource, textOf(row[3]), []byte(textOf(row[4]))))
			return nil
		})
}

func (g *grants) adoptLimits(ctx context.Context, w *writer) error {
	_, err := g.limits.readRows(ctx, w.conn, g.key)
	return err
}

// exhaustLimits makes all limits count as used up from now on.
func (l *limitSum) exhaustLimits(ctx context.Context, w *writer) error {
	*l = limitSum{doubt: time.Now().UnixMicro(), times: map[string]int64{}}
	return w.execStep(ctx, step{query: `DELETE FROM limit_use`})
}
