package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// APIKeys holds the API keys, without their secrets. It implements identity.KeyStore.
type APIKeys struct {
	s *Store
	g *grants
}

// APIKeys returns the API keys, which key authenticates.
func (s *Store) APIKeys(key *secret.Key) *APIKeys { return &APIKeys{s, s.grants(key)} }

const selectKeys = `SELECT name, id, hash, old, old_ends, person, roles, scopes, tools, groups, created, expires, rotated, used, revoked
	FROM api_key ORDER BY name`

// A keyRow is a row of selectKeys.
type keyRow struct {
	key                                               *identity.Key
	roles, scopes, tools, groups                      string
	oldEnds, created, expires, rotated, used, revoked int64
}

func (r *keyRow) scanRow(scan func(...any) error) error {
	k := r.key
	return scan(&k.Name, &k.ID, &k.Hash, &k.Old, &r.oldEnds, &k.Person, &r.roles, &r.scopes, &r.tools, &r.groups,
		&r.created, &r.expires, &r.rotated, &r.used, &r.revoked)
}

// encodeKeyRow returns the row for a key.
func encodeKeyRow(k *identity.Key) (*keyRow, error) {
	r := &keyRow{key: k, oldEnds: toMicros(k.OldEnds), created: toMicros(k.Created), expires: toMicros(k.Expires),
		rotated: toMicros(k.Rotated), used: toMicros(k.Used), revoked: toMicros(k.Revoked)}
	for _, l := range []struct {
		to   *string
		list []string
	}{{&r.roles, k.Roles}, {&r.scopes, k.Scopes}, {&r.tools, k.Tools}, {&r.groups, k.Groups}} {
		text, err := json.Marshal(l.list)
		if err != nil {
			return nil, tool.Errorf(tool.Internal, "key %s: %w", k.Name, err)
		}
		*l.to = string(text)
	}
	return r, nil
}

// rowDigest returns the keyed digest of all columns but used.
func (r *keyRow) rowDigest(g *grants) []byte {
	says := []string{r.key.Name, r.key.ID, string(r.key.Hash), string(r.key.Old), r.key.Person, r.roles, r.scopes,
		r.tools, r.groups}
	for _, n := range []int64{r.oldEnds, r.created, r.expires, r.rotated, r.revoked} {
		says = append(says, strconv.FormatInt(n, 10))
	}
	return g.rowDigest(keyGrants, says...)
}

// decodeKey decodes the row's columns into its key.
func (r *keyRow) decodeKey() error {
	k := r.key
	k.OldEnds, k.Created, k.Expires, k.Rotated, k.Used, k.Revoked = fromMicros(r.oldEnds), fromMicros(r.created),
		fromMicros(r.expires), fromMicros(r.rotated), fromMicros(r.used), fromMicros(r.revoked)
	return errors.Join(json.Unmarshal([]byte(r.roles), &k.Roles), json.Unmarshal([]byte(r.scopes), &k.Scopes),
		json.Unmarshal([]byte(r.tools), &k.Tools), json.Unmarshal([]byte(r.groups), &k.Groups))
}

// Keys returns all keys, including revoked ones, by name. Keys that were changed without the
// folder's key have Changed set. So do keys that were removed: only their name is set.
func (a *APIKeys) Keys(ctx context.Context) (out []identity.Key, err error) {
	err = a.g.readWithDigests(ctx, func(q record.Querier) (err error) {
		out, err = a.readKeys(ctx, q)
		if err == nil && slices.ContainsFunc(out, func(k identity.Key) bool { return k.Changed }) {
			err = errChanged
		}
		return err
	})
	if !isChanged(err) {
		return out, err
	}
	for _, k := range out {
		if k.Changed {
			_ = a.s.reportTampering(keyGrants, k.Name,
				"key %s does not match its seal, so it is not accepted: revoke it, and create another one", k.Name)
		}
	}
	return out, nil
}

func (a *APIKeys) readKeys(ctx context.Context, q record.Querier) (out []identity.Key, err error) {
	rows, err := q.QueryContext(ctx, selectKeys)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := map[string]bool{}
	for rows.Next() {
		r := &keyRow{key: &identity.Key{}}
		if err := r.scanRow(rows.Scan); err != nil {
			return nil, err
		}
		if !a.g.matchesDigest(keyGrants, r.key.Name, r.rowDigest(a.g)) {
			r.key.Changed = true
		}
		if err := r.decodeKey(); err != nil && !r.key.Changed {
			return nil, tool.Errorf(tool.Conflict, "key %q can't be read: %w", r.key.Name, err)
		}
		there[r.key.Name] = true
		out = append(out, *r.key)
	}
	for _, name := range a.g.validIDs(keyGrants) {
		if !there[name] {
			out = append(out, identity.Key{Name: name, Changed: true})
		}
	}
	return out, rows.Err()
}

const saveKey = `INSERT INTO api_key (name, id, hash, old, old_ends, person, roles, scopes, tools, groups, created, expires, rotated, used, revoked)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, old = excluded.old, old_ends = excluded.old_ends, person = excluded.person,
	roles = excluded.roles, scopes = excluded.scopes, tools = excluded.tools, groups = excluded.groups, expires = excluded.expires, rotated = excluded.rotated,
	used = excluded.used, revoked = excluded.revoked`

// SaveKey stores k. It replaces the key with the same name, if there is one. It returns an error of
// kind tool.Conflict if k conflicts with another key, or would restore a revoked key.
func (a *APIKeys) SaveKey(ctx context.Context, k *identity.Key) error {
	r, err := encodeKeyRow(k)
	if err != nil {
		return err
	}
	err = a.g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		_, err := w.runStatement(ctx, saveKey, k.Name, k.ID, k.Hash, k.Old, r.oldEnds, k.Person, r.roles, r.scopes,
			r.tools, r.groups, r.created, r.expires, r.rotated, r.used, r.revoked)
		if err == nil {
			a.g.setDigest(keyGrants, k.Name, r.rowDigest(a.g))
		}
		return err
	})
	if fault.IsConstraint(err) {
		return tool.Errorf(tool.Conflict, "key %q: its name or ID is in use, or it was revoked: %w", k.Name, err)
	}
	return err
}

// UsedKey records when a key was last used.
func (a *APIKeys) UsedKey(ctx context.Context, name string, when time.Time) error {
	return a.s.writer.execStatement(ctx, false, `UPDATE api_key SET used = ? WHERE name = ?`, toMicros(when), name)
}

// toMicros returns a time as the store keeps it, in microseconds: 0 for the zero time.
func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of micro.
func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
