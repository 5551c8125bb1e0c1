package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
)

// openAudit opens the record.
func (d *Daemon) openAudit(key *secret.Key) (*audit.Log, error) {
	ctx := context.Background() // to open a local database; a record of an older version is moved whole, or not at all
	s, err := d.store.Audit(ctx, key)
	if err != nil {
		return nil, err
	}
	signer, err := s.Signer(ctx, "")
	if err != nil {
		return nil, err
	}
	return audit.New(audit.Config{Store: s, Key: key, Signer: signer, Log: d.log}), nil
}
