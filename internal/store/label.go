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
	labelsOf   = `(SELECT coalesce(group_concat(label), '') FROM session_label WHERE session_label.owner = ` +
		`session.owner AND session_label.name = session.name)`
)

// labelID returns the id, in the list, of the labels under a name.
func labelID(owner, name string) string { return owner + "\x00" + name }

// readLabels returns the labels under a name and their digest, which is nil if there are no labels.
func (g *grants) readLabels(ctx context.Context, q record.Querier, owner, name string) (labels []string,
	digest []byte, err error) {
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
		digest = g.rowDigest(labelGrants, says...)
	}
	return labels, digest, rows.Err()
}

// soundLabels is like readLabels, and returns errChanged if the labels don't match their seal.
func (g *grants) soundLabels(ctx context.Context, q record.Querier, owner, name string) ([]string, error) {
	labels, digest, err := g.readLabels(ctx, q, owner, name)
	if err != nil {
		return nil, err
	}
	if digest == nil && !g.hasID(labelGrants, labelID(owner, name)) || digest != nil &&
		g.matchesDigest(labelGrants, labelID(owner, name), digest) {
		return labels, nil
	}
	return nil, errChanged
}

// setLabels makes the labels under a name valid as they are.
func (g *grants) setLabels(ctx context.Context, w *writer, owner, name string) error {
	_, digest, err := g.readLabels(ctx, w.conn, owner, name)
	if err == nil {
		g.setDigest(labelGrants, labelID(owner, name), digest)
	}
	return err
}

// Labels returns the labels under a name: the name of one of the owner's sessions, of one that
// was never saved, or of a connection. It returns an error of kind Conflict if the labels were
// changed or removed.
func (k *Sessions) Labels(ctx context.Context, owner, name string) (labels []string, err error) {
	g := k.s.grants(k.key)
	err = g.readWithDigests(ctx, func(q record.Querier) (err error) {
		labels, err = g.soundLabels(ctx, q, owner, name)
		return err
	})
	return labels, k.labelError(owner, name, err)
}

// labelError returns the error to show to users if err is errChanged, and otherwise err.
func (k *Sessions) labelError(owner, name string, err error) error {
	if isChanged(err) {
		return k.s.reportTampering(labelGrants, owner+" "+name, "the labels of session %q were changed, so it can't "+
			"continue: end it (biplane sessions end), or restore the folder from a backup", name)
	}
	return err
}

// Label adds labels. It also deletes labels older than old if no session has their name.
func (k *Sessions) Label(ctx context.Context, owner, name string, labels []string, now, old time.Time) error {
	g := k.s.grants(k.key)
	err := g.changeRows(ctx, false, func(ctx context.Context, w *writer) error {
		if _, err := g.soundLabels(ctx, w.conn, owner, name); err != nil {
			return err
		}
		err := w.eachRow(ctx, oldLabels, []any{old.UnixMicro()}, 2, func(row []any) error {
			of, under := textOf(row[0]), textOf(row[1])
			if _, err := g.soundLabels(ctx, w.conn, of, under); isChanged(err) {
				_ = k.labelError(of, under, err) // leave it as it is
				return nil
			}
			if err := w.execStep(ctx, step{dropLabels, []any{old.UnixMicro(), of, under}}); err != nil {
				return err
			}
			return g.setLabels(ctx, w, of, under)
		})
		if err != nil {
			return err
		}
		for _, l := range labels {
			if err := w.execStep(ctx, step{insertLabel, []any{owner, name, l, now.UnixMicro()}}); err != nil {
				return err
			}
		}
		return g.setLabels(ctx, w, owner, name)
	})
	return k.labelError(owner, name, err)
}

// splitList returns the elements of a comma-separated list.
func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
