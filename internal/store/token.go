package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// tokenPurpose is the purpose for which tokens are sealed.
const tokenPurpose = "upstream-token"

// Tokens stores the sign-ins to upstreams, sealed. A sign-in can be unsealed only for the upstream
// and the resource that it was stored for.
type Tokens struct {
	s   *Store
	key *secret.Key
}

// Tokens returns the sign-ins, which key seals.
func (s *Store) Tokens(key *secret.Key) *Tokens { return &Tokens{s, key} }

// Load returns a sign-in and its revision, which is empty if there is none. It returns an error of
// kind tool.Conflict if the sign-in can't be unsealed (wrong key or changed row).
func (t *Tokens) Load(ctx context.Context, upstream, resource string) (text []byte, revision string, err error) {
	var sealed []byte
	g := t.s.grants(t.key)
	err = g.readWithDigests(ctx, func(q record.Querier) error {
		err := q.QueryRowContext(ctx, `SELECT sealed, revision FROM upstream_token WHERE upstream = ? AND resource = ?`,
			upstream, resource).
			Scan(&sealed, &revision)
		if err == nil &&
			!g.matchesDigest(tokenGrants, tokenID(upstream, resource),
				g.tokenDigest(upstream, resource, revision, sealed)) {
			return errChanged
		}
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, "", nil
	case isChanged(err):
		return nil, "", t.s.reportTampering(tokenGrants, upstream+" "+resource,
			"the sign-in to upstream %q does not match its seal: it was changed, or sealed with another key: sign in again", upstream)
	case err != nil:
		return nil, "", err
	}
	text, err = t.key.Unseal(tokenPurpose, sealed, []byte(upstream), []byte(resource))
	if err != nil {
		return nil, "", tool.Errorf(tool.Conflict,
			"the sign-in to upstream %q can't be read with the key of this data folder: sign in again: %w",
			upstream, err)
	}
	return text, revision, nil
}

const saveToken = `INSERT INTO upstream_token (upstream, resource, revision, previous, sealed, changed) VALUES (?, ?, ?, ?, ?, ?)
	ON CONFLICT (upstream, resource) DO UPDATE SET
	revision = excluded.revision, previous = excluded.previous, sealed = excluded.sealed, changed = excluded.changed`

// Save replaces the sign-in with revision previous (empty: there is none yet), and returns the new
// revision. If previous is not the current revision, it changes nothing and returns an error of
// kind tool.Conflict.
func (t *Tokens) Save(ctx context.Context, upstream, resource string, text []byte, previous string) (revision string,
	err error) {
	revision = rand.Text()
	sealed := t.key.Seal(tokenPurpose, text, []byte(upstream), []byte(resource))
	g := t.s.grants(t.key)
	err = g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.execStep(ctx,
			step{saveToken,
				[]any{upstream, resource, revision, previous, sealed, time.Now().UnixMicro()}}); err != nil {
			return err
		}
		g.setDigest(tokenGrants, tokenID(upstream, resource), g.tokenDigest(upstream, resource, revision, sealed))
		return nil
	})
	if fault.IsConstraint(err) {
		return "", tool.Errorf(tool.Conflict, "the sign-in to upstream %q was changed by another process: %w",
			upstream, err)
	}
	if err != nil {
		return "", err
	}
	return revision, nil
}

// Forget deletes all sign-ins to an upstream, for any resource, even if they can't be unsealed.
func (t *Tokens) Forget(ctx context.Context, upstream string) error {
	g := t.s.grants(t.key)
	return g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.execStep(ctx, step{`DELETE FROM upstream_token WHERE upstream = ?`, []any{upstream}}); err != nil {
			return err
		}
		for _, id := range g.validIDs(tokenGrants) {
			if strings.HasPrefix(id, tokenID(upstream, "")) {
				g.setDigest(tokenGrants, id, nil)
			}
		}
		return nil
	})
}

// tokenID returns the id of a sign-in in its list.
func tokenID(upstream, resource string) string { return upstream + "\x00" + resource }

func (g *grants) tokenDigest(upstream, resource, revision string, sealed []byte) []byte {
	return g.rowDigest(tokenGrants, upstream, resource, revision, digestOf(sealed))
}
