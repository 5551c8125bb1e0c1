package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// AuditSettings are what the configuration says of the record.
type AuditSettings struct {
	Origin    string // the log's name; empty: the one that it has, or a random one
	Retention audit.Retention

	Checkpoints CheckpointSettings
}

func (r *reader) audit(n *node, s *AuditSettings, dir string) {
	const day = 24 * time.Hour
	keep := func(what string, to *audit.Keep) func(*node) {
		return func(n *node) {
			*to = audit.Keep(r.oneOf(n, what, string(audit.KeepFull), string(audit.KeepRedacted), string(audit.KeepDigest), string(audit.KeepNone)))
		}
	}
	r.object(n, "audit", key{
		"origin": func(n *node) {
			if s.Origin = r.text(n, "audit.origin"); s.Origin != "" {
				if err := audit.CheckOrigin(s.Origin); err != nil {
					r.wrong(n, "audit.origin: %s", err)
				}
			}
		},
		"arguments":   keep("audit.arguments", &s.Retention.Arguments),
		"results":     keep("audit.results", &s.Retention.Results),
		"keep":        func(n *node) { s.Retention.For = r.days(n, "audit.keep", time.Hour, 36500*day) },
		"checkpoints": func(n *node) { r.checkpoints(n, &s.Checkpoints, dir) },
		"secrets":     func(n *node) { s.Retention.Secrets = r.texts(n, "audit.secrets") },
	})
}

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
	keep.Hidden = d.cfg.Settings.hidden
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
