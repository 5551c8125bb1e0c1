package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openAudit opens the record. Whether it is what it was is looked at a moment later (see
// ledger.Ledger.Inspect): what doesn't agree with its sealed head is added to no more from the
// beginning.
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
	d.attest = s.Attest
	keep := d.cfg.Settings.Audit.Retention
	keep.Mask = d.mask
	l := audit.New(audit.Config{Store: s, Key: key, Signer: signer, Retention: keep, Log: d.log})
	d.ledger = d.newLedger(l)
	return l, nil
}

const (
	// pruneEvery is how often what is kept longer than it should be is thrown away.
	pruneEvery = time.Hour
	// attestEvery is how often the witness is written when the record grows. A process that is
	// killed leaves a witness that is no older.
	attestEvery = time.Minute
)

// The first look after the record comes when what the process was started for has begun, and takes
// no longer than keepLast when the process ends.
const (
	keepFirst = 100 * time.Millisecond
	keepLast  = time.Second
)

// keepAudit looks whether the record is what it was, and throws away what retention says, of the
// record and of approvals, until ctx is done. A process that lives no longer than keepFirst does
// both when it ends.
func (d *Daemon) keepAudit(ctx context.Context) {
	select {
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLast)
		defer cancel()
		d.ledger.Inspect()
		d.prune(ctx)
		return
	case <-time.After(keepFirst):
	}
	d.ledger.Inspect()
	t, attest := time.NewTicker(pruneEvery), time.NewTicker(attestEvery)
	defer t.Stop()
	defer attest.Stop()
	d.prune(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			d.prune(ctx)
		case <-attest.C:
			if err := d.attest(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("audit: write the record's witness", "err", err)
			}
		}
	}
}

// prune throws away what was kept for longer than it should be.
func (d *Daemon) prune(ctx context.Context) {
	if err := d.audit.Prune(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("audit: throw away what was kept", "err", err)
	}
	d.forgetApprovals(ctx)
}

// signAudit signs the record as it is when the daemon ends.
func (d *Daemon) signAudit(ctx context.Context) error {
	d.ledger.Inspect()
	d.tampered.close()
	if err := d.audit.Seal(ctx); err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "sign the record: %w", err)
	}
	return nil
}
