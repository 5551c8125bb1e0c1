package store

import (
	"context"
	"strings"
	"time"
)

const (
	insertLabel = `INSERT OR IGNORE INTO session_label (owner, name, label, since) VALUES (?, ?, ?, ?)`
	endLabels   = `DELETE FROM session_label WHERE owner = ? AND name = ?`
	dropLabels  = `DELETE FROM session_label WHERE since < ? AND NOT EXISTS (
		SELECT 1 FROM session WHERE session.owner = session_label.owner AND session.name = session_label.name)`
	labelsOf = `(SELECT coalesce(group_concat(label), '') FROM session_label WHERE session_label.owner = session.owner AND session_label.name = session.name)`
)

// Labels gives the labels under a name: of the owner's session, of one that never came to be, or of a connection.
func (k *Sessions) Labels(ctx context.Context, owner, name string) ([]string, error) {
	return k.strings(ctx, `SELECT label FROM session_label WHERE owner = ? AND name = ? ORDER BY label`, owner, name)
}

// Label adds labels, and forgets those of before old under names of which there is no session.
func (k *Sessions) Label(ctx context.Context, owner, name string, labels []string, now, old time.Time) error {
	steps := []step{{dropLabels, []any{old.UnixMicro()}}}
	for _, l := range labels {
		steps = append(steps, step{insertLabel, []any{owner, name, l, now.UnixMicro()}})
	}
	return k.s.writer.all(ctx, false, steps)
}

// split reads a list with commas.
func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
