package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openAudit opens the record, and looks whether it is what it was. One that isn't is told of, in the log, in the status and by the
// doctor, and in the record itself; calls go on as long as they can be recorded.
func (d *Daemon) openAudit(key *secret.Key) (*audit.Log, error) {
	ctx := context.Background() // to open a local database; a record of an older version is moved whole, or not at all
	s, err := d.store.Audit(ctx, key)
	if err != nil {
		return nil, err
	}
	signer, err := s.Signer(ctx, d.cfg.Settings.Audit.Origin)
	if err != nil {
		return nil, err
	}
	keep := d.cfg.Settings.Audit.Retention
	keep.Hidden = d.cfg.Settings.Hidden
	l := audit.New(audit.Config{Store: s, Key: key, Signer: signer, Retention: keep, Log: d.log})
	if err := l.Inspect(ctx); err != nil && tool.AsError(err).Kind != tool.Conflict {
		return nil, err
	}
	d.ledger = newLedger(d, l)
	if err := d.recordConfiguration(ctx, l, key); err != nil {
		d.log.Error("the configuration is not on the record", "err", err)
	}
	return l, nil
}

// pruneEvery is how often what is kept longer than it should be is thrown away.
const pruneEvery = time.Hour

// keepAudit throws away what retention says, of the record and of approvals, until ctx is done.
func (d *Daemon) keepAudit(ctx context.Context) {
	t := time.NewTicker(pruneEvery)
	defer t.Stop()
	for {
		if err := d.audit.Prune(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("audit: throw away what was kept", "err", err)
		}
		d.forgetApprovals(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// signAudit signs the record as it is when the daemon ends.
func (d *Daemon) signAudit(ctx context.Context) error {
	if err := d.audit.Seal(ctx); err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "sign the record: %w", err)
	}
	return nil
}
