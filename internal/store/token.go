package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// tokenPurpose is what tokens are sealed for.
const tokenPurpose = "upstream-token"

// Tokens are the sign-ins to upstreams, sealed: each opens for the upstream and the resource that it was stored for, and
// nowhere else.
type Tokens struct {
	s   *Store
	key *secret.Key
}

// Tokens gives the sign-ins, which key seals.
func (s *Store) Tokens(key *secret.Key) *Tokens { return &Tokens{s, key} }

// Load gives a sign-in and its revision, which is empty when there is none. One that doesn't open (another key, a changed
// row) is an error of kind tool.Conflict.
func (t *Tokens) Load(ctx context.Context, upstream, resource string) (text []byte, revision string, err error) {
	var sealed []byte
	err = t.s.read.QueryRowContext(ctx, `SELECT sealed, revision FROM upstream_token WHERE upstream = ? AND resource = ?`, upstream, resource).
		Scan(&sealed, &revision)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, "", nil
	case err != nil && ctx.Err() != nil:
		return nil, "", tool.AsError(ctx.Err())
	case err != nil:
		return nil, "", fault.Of(err)
	}
	text, err = t.key.Unseal(tokenPurpose, sealed, []byte(upstream), []byte(resource))
	if err != nil {
		return nil, "", tool.Errorf(tool.Conflict, "the sign-in to upstream %q can't be read with the key of this data folder: sign in again: %w", upstream, err)
	}
	return text, revision, nil
}

const saveToken = `INSERT INTO upstream_token (upstream, resource, revision, previous, sealed, changed) VALUES (?, ?, ?, ?, ?, ?)
	ON CONFLICT (upstream, resource) DO UPDATE SET
	revision = excluded.revision, previous = excluded.previous, sealed = excluded.sealed, changed = excluded.changed`

// Save stores a sign-in in the place of the one with the revision previous (empty: there is none yet), and gives its own
// revision. When that is not the one that is there any more, the error is of kind tool.Conflict, and nothing has changed.
func (t *Tokens) Save(ctx context.Context, upstream, resource string, text []byte, previous string) (revision string, err error) {
	revision = rand.Text()
	sealed := t.key.Seal(tokenPurpose, text, []byte(upstream), []byte(resource))
	err = t.s.writer.do(ctx, true, saveToken, upstream, resource, revision, previous, sealed, time.Now().UnixMicro())
	if fault.IsConstraint(err) {
		return "", tool.Errorf(tool.Conflict, "the sign-in to upstream %q was changed by another process: %w", upstream, err)
	}
	if err != nil {
		return "", err
	}
	return revision, nil
}

// Forget deletes all sign-ins to an upstream, whatever they are for and whether they open or not.
func (t *Tokens) Forget(ctx context.Context, upstream string) error {
	return t.s.writer.do(ctx, true, `DELETE FROM upstream_token WHERE upstream = ?`, upstream)
}
