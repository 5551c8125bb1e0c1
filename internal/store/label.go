package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/store/record"
)

const (
	insertLabel = `INSERT OR IGNORE INTO session_label (owner, name, label, since) VALUES (?, ?, ?, ?)`
	endLabels   = `DELETE FROM session_label WHERE owner = ? AND name = ?`
	selectLabel = `SELECT label, since FROM session_label WHERE owner = ? AND name = ? ORDER BY label`
	oldLabels   = `SELECT DISTINCT owner, name FROM session_label WHERE since < ? AND NOT EXISTS (
		SELECT 1 FROM session WHERE session.owner = session_label.owner AND session.name = session_label.name)`
	dropLabels = `DELETE FROM session_label WHERE since < ? AND owner = ? AND name = ?`
	labelsOf   = `(SELECT coalesce(group_concat(label), '') FROM session_label WHERE session_label.owner = session.owner AND session_label.name = session.name)`
)

// labelID is the id of the labels under a name in their list.
func labelID(owner, name string) string { return owner + "\x00" + name }

// readLabels reads the labels under a name, and returns their digest: nil if there are none.
func (g *grants) readLabels(ctx context.Context, q record.Querier, owner, name string) (labels []string, digest []byte, err error) {
	rows, err := q.QueryContext(ctx, selectLabel, owner, name)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	says := []string{owner, name}
	for rows.Next() {
		var label string
		var since int64
		if err := rows.Scan(&label, &since); err != nil {
			return nil, nil, err
		}
		labels, says = append(labels, label), append(says, label, strconv.FormatInt(since, 10))
	}
	if len(labels) > 0 {
		digest = g.digest(labelGrants, says...)
	}
	return labels, digest, rows.Err()
}

// soundLabels is readLabels of labels that must be what was sealed.
func (g *grants) soundLabels(ctx context.Context, q record.Querier, owner, name string) ([]string, error) {
	labels, digest, err := g.readLabels(ctx, q, owner, name)
	if err != nil {
		return nil, err
	}
	if digest == nil && !g.has(labelGrants, labelID(owner, name)) || digest != nil && g.agrees(labelGrants, labelID(owner, name), digest) {
		return labels, nil
	}
	return nil, errChanged
}

// setLabels has the labels under a name count as they are.
func (g *grants) setLabels(ctx context.Context, w *writer, owner, name string) error {
	_, digest, err := g.readLabels(ctx, w.conn, owner, name)
	if err == nil {
		g.set(labelGrants, labelID(owner, name), digest)
	}
	return err
}

// Labels gives the labels under a name: of the owner's session, of one that never came to be, or of
// a connection. Labels that were changed or removed are an error of kind Conflict.
func (k *Sessions) Labels(ctx context.Context, owner, name string) (labels []string, err error) {
	g := k.s.grants(k.key)
	err = g.checked(ctx, func(q record.Querier) (err error) {
		labels, err = g.soundLabels(ctx, q, owner, name)
		return err
	})
	return labels, k.labelError(owner, name, err)
}

// labelError makes an error about labels one for people.
func (k *Sessions) labelError(owner, name string, err error) error {
	if isChanged(err) {
		return k.s.changed(labelGrants, owner+" "+name, "the labels of %q are not those that it had, so that it can't go on: end it (biplane sessions end), or restore the folder from a backup", name)
	}
	return err
}

// Label adds labels, and forgets those of before old under names of which there is no session.
func (k *Sessions) Label(ctx context.Context, owner, name string, labels []string, now, old time.Time) error {
	g := k.s.grants(k.key)
	err := g.change(ctx, false, func(ctx context.Context, w *writer) error {
		if _, err := g.soundLabels(ctx, w.conn, owner, name); err != nil {
			return err
		}
		err := w.eachRow(ctx, oldLabels, []any{old.UnixMicro()}, 2, func(row []any) error {
			of, under := textOf(row[0]), textOf(row[1])
			if _, err := g.soundLabels(ctx, w.conn, of, under); isChanged(err) {
				_ = k.labelError(of, under, err) // it stays as it is
				return nil
			}
			if err := w.step(ctx, step{dropLabels, []any{old.UnixMicro(), of, under}}); err != nil {
				return err
			}
			return g.setLabels(ctx, w, of, under)
		})
		if err != nil {
			return err
		}
		for _, l := range labels {
			if err := w.step(ctx, step{insertLabel, []any{owner, name, l, now.UnixMicro()}}); err != nil {
				return err
			}
		}
		return g.setLabels(ctx, w, owner, name)
	})
	return k.labelError(owner, name, err)
}

// split reads a list with commas.
func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
