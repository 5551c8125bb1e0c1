package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/store/fault"
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
	return step{saveSkill, []any{owner, s.Name, s.Modified.UnixMicro(), k.key.Seal(skillPurpose, s.Source, []byte(owner), []byte(s.Name))}}
}

// Skills gives the skills of an owner and those that others share. Of two shared ones with one name the older owner's
// comes first.
func (k *Sessions) Skills(ctx context.Context, owner string) (own, shared []session.Skill, err error) {
	rows, err := k.s.read.QueryContext(ctx, `SELECT owner, name, modified, shared IS NOT NULL, changed FROM skill
		WHERE owner = ? OR shared IS NOT NULL ORDER BY name, owner`, owner)
	if err != nil {
		return nil, nil, fault.Reading(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s session.Skill
		var modified int64
		if err := rows.Scan(&s.Owner, &s.Name, &modified, &s.Shared, &s.Changed); err != nil {
			return nil, nil, fault.Reading(ctx, err)
		}
		s.Modified = time.UnixMicro(modified)
		if s.Owner == owner {
			own = append(own, s)
		} else {
			shared = append(shared, s)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fault.Reading(ctx, err)
	}
	return own, shared, nil
}

// Skill gives the source of a skill.
func (k *Sessions) Skill(ctx context.Context, owner, name string, shared bool) ([]byte, error) {
	query := `SELECT source FROM skill WHERE owner = ? AND name = ?`
	if shared {
		query = `SELECT shared FROM skill WHERE owner = ? AND name = ?`
	}
	var sealed []byte
	err := k.s.read.QueryRowContext(ctx, query, owner, name).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && sealed == nil:
		return nil, tool.Errorf(tool.NotFound, "there is no skill %q", name)
	case err != nil:
		return nil, fault.Reading(ctx, err)
	}
	source, err := k.key.Unseal(skillPurpose, sealed, []byte(owner), []byte(name))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "skill %q was changed in the store, or sealed with another key: remove it, and save it again: %w", name, err)
	}
	if source == nil {
		source = []byte{}
	}
	return source, nil
}

// Share shares a skill as it is now, or takes it back.
func (k *Sessions) Share(ctx context.Context, owner, name string, shared bool) (bool, error) {
	query := `UPDATE skill SET shared = NULL, changed = 0 WHERE owner = ? AND name = ?`
	if shared {
		query = `UPDATE skill SET shared = source, changed = 0 WHERE owner = ? AND name = ?`
	}
	if err := k.s.writer.do(ctx, true, query, owner, name); err != nil {
		return false, err
	}
	var n int
	if err := k.s.read.QueryRowContext(ctx, `SELECT count(*) FROM skill WHERE owner = ? AND name = ?`, owner, name).Scan(&n); err != nil {
		return false, fault.Reading(ctx, err)
	}
	return n > 0, nil
}
