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

// Tokens stores the sign-ins of one owner to upstreams, sealed. A sign-in can be unsealed only for
// the owner, the upstream and the resource that it was stored for.
type Tokens struct {
	s     *Store
	key   *secret.Key
	owner string // ID of the principal whose calls alone use them; empty: shared
}

// Tokens returns the shared sign-ins, which key seals.
func (s *Store) Tokens(key *secret.Key) *Tokens { return &Tokens{s: s, key: key} }

// ForOwner returns the sign-ins of a principal.
func (t *Tokens) ForOwner(owner string) *Tokens { return &Tokens{t.s, t.key, owner} }

// sealedFor returns the data that a sign-in is bound to.
func (t *Tokens) sealedFor(upstream, resource string) [][]byte {
	if t.owner == "" {
		return [][]byte{[]byte(upstream), []byte(resource)}
	}
	return [][]byte{[]byte(upstream), []byte(resource), []byte(t.owner)}
}

// Load returns a sign-in and its revision, which is empty if there is none. It returns an error of
// kind tool.Conflict if the sign-in can't be unsealed (wrong key or changed row).
func (t *Tokens) Load(ctx context.Context, upstream, resource string) (text []byte, revision string, err error) {
	var sealed []byte
	g := t.s.grants(t.key)
	err = g.readWithDigests(ctx, func(q record.Querier) error {
		err := q.QueryRowContext(ctx, `SELECT sealed, revision FROM upstream_token WHERE upstream = ? AND owner = ? `+
			`AND resource = ?`, upstream, t.owner, resource).Scan(&sealed, &revision)
		if err == nil && !g.matchesDigest(tokenGrants, tokenID(upstream, t.owner, resource),
			g.tokenDigest(upstream, t.owner, resource, revision, sealed)) {
			return errChanged
		}
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, "", nil
	case isChanged(err):
		return nil, "", t.s.reportTampering(tokenGrants, strings.TrimSpace(upstream+" "+resource+" "+t.owner),
			"the sign-in to upstream %q does not match its seal: it was changed, or sealed with another key: sign in again", upstream)
	case err != nil:
		return nil, "", err
	}
	text, err = t.key.Unseal(tokenPurpose, sealed, t.sealedFor(upstream, resource)...)
	if err != nil {
		return nil, "", tool.Errorf(tool.Conflict,
			"the sign-in to upstream %q can't be read with the key of this data folder: sign in again: %w",
			upstream, err)
	}
	return text, revision, nil
}

const saveToken = `INSERT INTO upstream_token (upstream, owner, resource, revision, previous, sealed, changed)
	VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (upstream, owner, resource) DO UPDATE SET
	revision = excluded.revision, previous = excluded.previous, sealed = excluded.sealed, changed = excluded.changed`

// Save replaces the sign-in with revision previous (empty: there is none yet), and returns the new
// revision. If previous is not the current revision, it changes nothing and returns an error of
// kind tool.Conflict.
func (t *Tokens) Save(ctx context.Context, upstream, resource string, text []byte, previous string) (revision string,
	err error) {
	revision = rand.Text()
	sealed := t.key.Seal(tokenPurpose, text, t.sealedFor(upstream, resource)...)
	g := t.s.grants(t.key)
	err = g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.execStep(ctx,
			step{saveToken,
				[]any{upstream, t.owner, resource, revision, previous, sealed, time.Now().UnixMicro()}}); err != nil {
			return err
		}
		g.setDigest(tokenGrants, tokenID(upstream, t.owner, resource),
			g.tokenDigest(upstream, t.owner, resource, revision, sealed))
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

// Forget deletes all sign-ins of the owner to an upstream, for any resource, even if they can't be
// unsealed.
func (t *Tokens) Forget(ctx context.Context, upstream string) error {
	return t.deleteRows(ctx, `DELETE FROM upstream_token WHERE upstream = ? AND owner = ?`, []any{upstream, t.owner},
		func(id tokenKey) bool { return id.upstream == upstream && id.owner == t.owner })
}

// ForgetOwner deletes all sign-ins of a principal. It does nothing for the shared ones.
func (t *Tokens) ForgetOwner(ctx context.Context) error {
	if t.owner == "" {
		return nil
	}
	return t.deleteRows(ctx, `DELETE FROM upstream_token WHERE owner = ?`, []any{t.owner},
		func(id tokenKey) bool { return id.owner == t.owner })
}

// deleteRows deletes rows, and removes those from the list that match.
func (t *Tokens) deleteRows(ctx context.Context, query string, args []any, matches func(tokenKey) bool) error {
	g := t.s.grants(t.key)
	return g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		if err := w.execStep(ctx, step{query, args}); err != nil {
			return err
		}
		for _, id := range g.validIDs(tokenGrants) {
			if matches(splitTokenID(id)) {
				g.setDigest(tokenGrants, id, nil)
			}
		}
		return nil
	})
}

// A tokenKey identifies a sign-in.
type tokenKey struct{ upstream, owner, resource string }

// tokenID returns the id of a sign-in in its list. The id of a shared one has two parts, as in
// folders of older versions.
func tokenID(upstream, owner, resource string) string {
	if owner == "" {
		return upstream + "\x00" + resource
	}
	return upstream + "\x00" + owner + "\x00" + resource
}

func splitTokenID(id string) tokenKey {
	switch p := strings.SplitN(id, "\x00", 3); len(p) {
	case 3:
		return tokenKey{p[0], p[1], p[2]}
	case 2:
		return tokenKey{upstream: p[0], resource: p[1]}
	}
	return tokenKey{}
}

func (g *grants) tokenDigest(upstream, owner, resource, revision string, sealed []byte) []byte {
	if owner == "" { // as in folders of older versions
		return g.rowDigest(tokenGrants, upstream, resource, revision, digestOf(sealed))
	}
	return g.rowDigest(tokenGrants, upstream, resource, revision, digestOf(sealed), owner)
}
