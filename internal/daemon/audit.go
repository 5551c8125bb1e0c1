package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openAudit opens the audit record. ledger.Ledger.Inspect checks its integrity a moment later. A
// record that disagrees with its sealed head accepts no more entries from the start.
func (d assembly) openAudit() (*audit.Log, error) {
	ctx := context.Background() // opens a local database; the migration of an older record is all or nothing
	s, err := d.store.Audit(ctx, d.key)
	if err != nil {
		return nil, err
	}
	signer, err := s.Signer(ctx, d.cfg.Settings.Audit.Origin)
	if err != nil {
		return nil, err
	}
	d.keeper.store = s
	keep := d.cfg.Settings.Audit.Retention
	keep.Mask = d.mask
	l := audit.New(audit.Config{Store: s, Key: d.key, Signer: signer, Retention: keep, Log: d.log})
	d.keeper.ledger = d.newLedger(l)
	return l, nil
}

const (
	// pruneEvery is the interval between deletions of expired data.
	pruneEvery = time.Hour
	// attestEvery is how often the witness of a growing record is written. After a crash the
	// witness is at most this old.
	attestEvery = time.Minute
)

// checkDelay is the delay before a new process inspects the record and reviews the policies, so
// that its actual work starts first. inspectTime bounds the inspection of a process that ends
// earlier.
const (
	checkDelay  = 100 * time.Millisecond
	inspectTime = time.Second
)

// keepAudit inspects the record, then periodically prunes the record and the approvals by their
// retention and writes the witness, until ctx is done. A process that ends before checkDelay
// inspects and prunes when it ends.
func (d *Daemon) keepAudit(ctx context.Context) {
	select {
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTime)
		defer cancel()
		d.keeper.ledger.Inspect()
		d.pruneRecord(ctx)
		return
	case <-time.After(checkDelay):
	}
	d.keeper.ledger.Inspect()
	t, attest := time.NewTicker(pruneEvery), time.NewTicker(attestEvery)
	defer t.Stop()
	defer attest.Stop()
	d.pruneRecord(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			d.pruneRecord(ctx)
		case <-attest.C:
			if err := d.keeper.store.Attest(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("audit witness not written", "err", err)
			}
		}
	}
}

// pruneRecord deletes records and approvals whose retention has expired.
func (d *Daemon) pruneRecord(ctx context.Context) {
	if err := d.audit.Prune(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("delete old audit data", "err", err)
	}
	d.forgetApprovals(ctx)
}

// signAudit seals the record when the daemon stops.
func (d *Daemon) signAudit(ctx context.Context) error {
	d.keeper.ledger.Inspect()
	d.keeper.tampered.close()
	if err := d.audit.Seal(ctx); err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "sign the record: %w", err)
	}
	return nil
}
