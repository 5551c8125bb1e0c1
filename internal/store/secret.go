package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// secretPurpose is the purpose for which secrets are sealed.
const secretPurpose = "stored-secret"

// maxSecrets is the maximum number of secrets of one owner.
const maxSecrets = 200

// Secrets stores the secrets that the configuration refers to by name, sealed. A secret can be
// unsealed only for the owner and the name that it was stored for.
type Secrets struct{ g *grants }

// OpenSecrets returns the secrets, which key seals.
func (s *Store) OpenSecrets(key *secret.Key) *Secrets { return &Secrets{s.grants(key)} }

// A StoredSecret describes a secret without its value.
type StoredSecret struct {
	Owner   string // ID of the principal whose calls alone use it; empty: shared
	Name    string
	Changed time.Time
}

func secretID(owner, name string) string { return owner + "\x00" + name }

func (g *grants) secretDigest(owner, name string, sealed []byte, changed int64) []byte {
	return g.rowDigest(secretGrants, owner, name, digestOf(sealed), strconv.FormatInt(changed, 10))
}

// LoadSecret returns the value of a secret. found is false if there is none. It returns an error
// of kind tool.Conflict if the row was changed, or sealed with another key.
func (s *Secrets) LoadSecret(ctx context.Context, owner, name string) (value string, found bool, err error) {
	var sealed []byte
	err = s.g.readWithDigests(ctx, func(q record.Querier) error {
		var changed int64
		err := q.QueryRowContext(ctx, `SELECT sealed, changed FROM stored_secret WHERE owner = ? AND name = ?`, owner,
			name).Scan(&sealed, &changed)
		if errors.Is(err, sql.ErrNoRows) && s.g.hasID(secretGrants, secretID(owner, name)) ||
			err == nil && !s.g.matchesDigest(secretGrants, secretID(owner, name),
				s.g.secretDigest(owner, name, sealed, changed)) {
			return errChanged
		}
		return err
	})
	var plain []byte
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err == nil:
		plain, err = s.g.key.Unseal(secretPurpose, sealed, []byte(owner), []byte(name))
	case !isChanged(err):
		return "", false, err
	}
	if err != nil {
		return "", false, s.g.s.reportTampering(secretGrants, name,
			"secret %s does not match its seal: it was changed, or sealed with another key: set it again", name)
	}
	return string(plain), true, nil
}

// ListSecrets returns the secrets of an owner, by name, without their values. It doesn't check
// their seals.
func (s *Secrets) ListSecrets(ctx context.Context, owner string) (out []StoredSecret, err error) {
	err = s.g.readWithDigests(ctx, func(q record.Querier) error {
		out = nil
		rows, err := q.QueryContext(ctx,
			`SELECT name, changed FROM stored_secret WHERE owner = ? ORDER BY name LIMIT ?`, owner, maxSecrets)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			one, changed := StoredSecret{Owner: owner}, int64(0)
			if err := rows.Scan(&one.Name, &changed); err != nil {
				return err
			}
			one.Changed = fromMicros(changed)
			out = append(out, one)
		}
		return rows.Err()
	})
	return out, err
}

const saveSecret = `INSERT INTO stored_secret (owner, name, sealed, changed) VALUES (?, ?, ?, ?)
	ON CONFLICT (owner, name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed`

// SaveSecret stores a secret. It replaces the one of the same owner and name.
func (s *Secrets) SaveSecret(ctx context.Context, owner, name, value string) error {
	sealed := s.g.key.Seal(secretPurpose, []byte(value), []byte(owner), []byte(name))
	now := time.Now().UnixMicro()
	return s.g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		var others int
		if err := w.conn.QueryRowContext(ctx, `SELECT count(*) FROM stored_secret WHERE owner = ? AND name <> ?`, owner,
			name).Scan(&others); err != nil {
			return err
		}
		if others >= maxSecrets {
			return tool.Errorf(tool.Limit, "there are %d secrets already: remove one with `biplane secrets remove`",
				others)
		}
		if err := w.execStep(ctx, step{saveSecret, []any{owner, name, sealed, now}}); err != nil {
			return err
		}
		s.g.setDigest(secretGrants, secretID(owner, name), s.g.secretDigest(owner, name, sealed, now))
		return nil
	})
}

// RemoveSecret deletes a secret, even if it can't be unsealed. found is false if there was none.
func (s *Secrets) RemoveSecret(ctx context.Context, owner, name string) (found bool, err error) {
	err = s.g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		r, err := w.runStatement(ctx, `DELETE FROM stored_secret WHERE owner = ? AND name = ?`, owner, name)
		if err != nil {
			return err
		}
		found = s.g.hasID(secretGrants, secretID(owner, name))
		if n, err := r.RowsAffected(); err == nil && n > 0 {
			found = true
		}
		s.g.setDigest(secretGrants, secretID(owner, name), nil)
		return nil
	})
	return found, err
}
