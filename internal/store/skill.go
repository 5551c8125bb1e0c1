package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	saveSkill = `INSERT INTO skill (owner, name, modified, source, changed) VALUES (?, ?, ?, ?, 0)
	ON CONFLICT (owner, name) DO UPDATE SET modified = excluded.modified, source = excluded.source, changed = shared IS NOT NULL`
	removeSkill = `DELETE FROM skill WHERE owner = ? AND name = ?`
)

func (k *Sessions) skillStep(owner string, s session.SkillChange) step {
	if s.Source == nil {
		return step{removeSkill, []any{owner, s.Name}}
	}
	return step{saveSkill, []any{owner, s.Name, s.Modified.UnixMicro(),
		k.key.Seal(skillPurpose, s.Source, []byte(owner), []byte(s.Name))}}
}

// Skills returns the skills of an owner and the skills that other owners share, each ordered by
// name and owner. A skill that its owner never shared is not shared, whatever the table says.
func (k *Sessions) Skills(ctx context.Context, owner string) (own, shared []session.Skill, err error) {
	g := k.s.grants(k.key)
	var forged []session.Skill
	err = g.readWithDigests(ctx, func(q record.Querier) error {
		own, shared, forged = nil, nil, nil
		rows, err := q.QueryContext(ctx, `SELECT owner, name, modified, shared IS NOT NULL, changed FROM skill
			WHERE owner = ? OR shared IS NOT NULL ORDER BY name, owner`, owner)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s session.Skill
			var modified int64
			if err := rows.Scan(&s.Owner, &s.Name, &modified, &s.Shared, &s.Changed); err != nil {
				return err
			}
			s.Modified = time.UnixMicro(modified)
			if s.Shared && !g.hasID(skillGrants, skillID(s.Owner, s.Name)) {
				s.Shared, s.Changed = false, false
				forged = append(forged, s)
			}
			switch {
			case s.Owner == owner:
				own = append(own, s)
			case s.Shared:
				shared = append(shared, s)
			}
		}
		if err := rows.Err(); err != nil || forged == nil {
			return err
		}
		return errChanged
	})
	if isChanged(err) {
		for _, s := range forged {
			_ = k.sharedError(s.Owner, s.Name)
		}
		err = nil
	}
	return own, shared, err
}

func (k *Sessions) sharedError(owner, name string) error {
	return k.s.reportTampering(skillGrants, owner+" "+name,
		"skill %q of %s does not match its seal: share it again", name, owner)
}

// skillID returns the id of a shared skill in its list.
func skillID(owner, name string) string { return owner + "\x00" + name }

// Skill returns the source of a skill.
func (k *Sessions) Skill(ctx context.Context, owner, name string, shared bool) (source []byte, err error) {
	g := k.s.grants(k.key)
	err = g.readWithDigests(ctx, func(q record.Querier) (err error) {
		source, err = g.readSkill(ctx, q, owner, name, shared)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, tool.Errorf(tool.NotFound, "there is no skill %q", name)
	case isChanged(err) && shared:
		return nil, k.sharedError(owner, name)
	case isChanged(err):
		return nil, tool.Errorf(tool.Conflict,
			"skill %q was changed in the store, or sealed with another key: remove it, and save it again: %w", name,
			err)
	}
	return source, err
}

// readSkill reads the source of a skill: the current one, or the shared one.
func (g *grants) readSkill(ctx context.Context, q record.Querier, owner, name string, shared bool) ([]byte, error) {
	query, purpose := `SELECT source FROM skill WHERE owner = ? AND name = ?`, skillPurpose
	if shared {
		query, purpose = `SELECT shared FROM skill WHERE owner = ? AND name = ?`, sharedPurpose
	}
	var sealed []byte
	switch err := q.QueryRowContext(ctx, query, owner, name).Scan(&sealed); {
	case err != nil:
		return nil, err
	case sealed == nil:
		return nil, sql.ErrNoRows
	case shared &&
		!g.matchesDigest(skillGrants, skillID(owner, name), g.rowDigest(skillGrants, owner, name, digestOf(sealed))):
		return nil, errChanged
	}
	source, err := g.key.Unseal(purpose, sealed, []byte(owner), []byte(name))
	if err != nil {
		return nil, errChanged
	}
	if source == nil {
		source = []byte{}
	}
	return source, nil
}

// shareSkill shares a source of an existing skill.
func (g *grants) shareSkill(ctx context.Context, w *writer, owner, name string, source []byte) error {
	sealed := g.key.Seal(sharedPurpose, source, []byte(owner), []byte(name))
	if err := w.execStep(ctx,
		step{`UPDATE skill SET shared = ?, changed = 0 WHERE owner = ? AND name = ?`,
			[]any{sealed, owner, name}}); err != nil {
		return err
	}
	g.setDigest(skillGrants, skillID(owner, name), g.rowDigest(skillGrants, owner, name, digestOf(sealed)))
	return nil
}

// Share shares a skill as it is now, or stops sharing it. It reports whether the skill exists.
func (k *Sessions) Share(ctx context.Context, owner, name string, shared bool) (there bool, err error) {
	g := k.s.grants(k.key)
	err = g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		if shared {
			source, err := g.readSkill(ctx, w.conn, owner, name, false)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if there = err == nil; there {
				err = g.shareSkill(ctx, w, owner, name, source)
			}
			return err
		}
		done, err := w.runStatement(ctx, `UPDATE skill SET shared = NULL, changed = 0 WHERE owner = ? AND name = ?`,
			owner, name)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		there = n > 0
		g.setDigest(skillGrants, skillID(owner, name), nil)
		return err
	})
	if isChanged(err) {
		err = tool.Errorf(tool.Conflict,
			"skill %q was changed in the store, or sealed with another key: remove it, and save it again: %w", name,
			err)
	}
	return there, err
}
