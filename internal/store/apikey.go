package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// APIKeys are the API keys, without their secrets. They are an identity.KeyStore.
type APIKeys struct{ s *Store }

// APIKeys gives the API keys.
func (s *Store) APIKeys() *APIKeys { return &APIKeys{s} }

// Keys gives all keys, the revoked ones too, by name.
func (a *APIKeys) Keys(ctx context.Context) ([]identity.Key, error) {
	rows, err := a.s.read.QueryContext(ctx, `SELECT name, id, hash, old, old_ends, person, roles, scopes, tools, groups, created, expires, rotated, used, revoked
		FROM api_key ORDER BY name`)
	if err != nil {
		return nil, fault.Of(err)
	}
	defer rows.Close()
	var out []identity.Key
	for rows.Next() {
		var k identity.Key
		var roles, scopes, tools, groups string
		var oldEnds, created, expires, rotated, used, revoked int64
		if err := rows.Scan(&k.Name, &k.ID, &k.Hash, &k.Old, &oldEnds, &k.Person, &roles, &scopes, &tools, &groups, &created, &expires, &rotated, &used, &revoked); err != nil {
			return nil, fault.Of(err)
		}
		err := errors.Join(json.Unmarshal([]byte(roles), &k.Roles), json.Unmarshal([]byte(scopes), &k.Scopes), json.Unmarshal([]byte(tools), &k.Tools), json.Unmarshal([]byte(groups), &k.Groups))
		if err != nil {
			return nil, tool.Errorf(tool.Conflict, "key %q can't be read: %w", k.Name, err)
		}
		k.OldEnds, k.Created, k.Expires, k.Rotated, k.Used, k.Revoked = at(oldEnds), at(created), at(expires), at(rotated), at(used), at(revoked)
		out = append(out, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.Of(err)
	}
	return out, nil
}

const saveKey = `INSERT INTO api_key (name, id, hash, old, old_ends, person, roles, scopes, tools, groups, created, expires, rotated, used, revoked)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, hash = excluded.hash, old = excluded.old, old_ends = excluded.old_ends, person = excluded.person,
	roles = excluded.roles, scopes = excluded.scopes, tools = excluded.tools, groups = excluded.groups, expires = excluded.expires, rotated = excluded.rotated,
	used = excluded.used, revoked = excluded.revoked`

// SaveKey stores k, which is new or takes the place of the one with its name. One that would be another key, or good again,
// is an error of kind tool.Conflict.
func (a *APIKeys) SaveKey(ctx context.Context, k *identity.Key) error {
	lists := make([]string, 4)
	for i, l := range [][]string{k.Roles, k.Scopes, k.Tools, k.Groups} {
		text, err := json.Marshal(l)
		if err != nil {
			return tool.Errorf(tool.Internal, "key %s: %w", k.Name, err)
		}
		lists[i] = string(text)
	}
	err := a.s.writer.do(ctx, true, saveKey, k.Name, k.ID, k.Hash, k.Old, micro(k.OldEnds), k.Person, lists[0], lists[1], lists[2], lists[3],
		micro(k.Created), micro(k.Expires), micro(k.Rotated), micro(k.Used), micro(k.Revoked))
	if fault.IsConstraint(err) {
		return tool.Errorf(tool.Conflict, "key %q: another one has its name or its id, or it was revoked: %w", k.Name, err)
	}
	return err
}

// UsedKey notes when a key was used last.
func (a *APIKeys) UsedKey(ctx context.Context, name string, when time.Time) error {
	return a.s.writer.do(ctx, false, `UPDATE api_key SET used = ? WHERE name = ?`, micro(when), name)
}

// micro writes a time as the store keeps it: 0 where there is none.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// at reads what micro wrote.
func at(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
