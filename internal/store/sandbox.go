package store

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sandboxPurpose is the purpose for which records of sandboxes are sealed.
const sandboxPurpose = "own-sandbox"

// OwnSandboxes stores the sandboxes of principals. It implements owned.Store.
type OwnSandboxes struct {
	s   *Store
	key *secret.Key
	log *slog.Logger
}

// OpenSandboxes returns the stored sandboxes, which key seals.
func (s *Store) OpenSandboxes(key *secret.Key, log *slog.Logger) *OwnSandboxes {
	return &OwnSandboxes{s, key, log}
}

// LoadSandboxes returns all records. It omits a record that was changed outside of Biplane, because
// it could name another owner.
func (b *OwnSandboxes) LoadSandboxes(ctx context.Context) (out []owned.Record, err error) {
	rows, err := b.s.read.QueryContext(ctx, `SELECT id, sealed FROM own_sandbox ORDER BY id`)
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		var r owned.Record
		text, err := b.key.Unseal(sandboxPurpose, sealed, []byte(id))
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || r.ID != id {
			b.log.Error("the record of a sandbox does not match its seal: it is left out", "sandbox", id)
			continue
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return out, nil
}

// SaveSandbox adds or replaces a record. It returns once the record is on disk.
func (b *OwnSandboxes) SaveSandbox(ctx context.Context, r *owned.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return tool.Errorf(tool.Internal, "encode a sandbox: %w", err)
	}
	return b.s.writer.execStatement(ctx, true, `INSERT INTO own_sandbox (id, sealed) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed`, r.ID,
		b.key.Seal(sandboxPurpose, text, []byte(r.ID)))
}

// DropSandbox deletes a record.
func (b *OwnSandboxes) DropSandbox(ctx context.Context, id string) error {
	return b.s.writer.execStatement(ctx, true, `DELETE FROM own_sandbox WHERE id = ?`, id)
}
