package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/export"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A System reports the state of the rest of Biplane for evidence.
type System interface {
	// PolicyName returns the names of the policies in force.
	PolicyName() string
	Upstreams(ctx context.Context) []api.Upstream
	Tools() []*catalog.Entry
	Keys() []identity.Key
	// DecideCall returns the decision on a call without arguments, including the checks of the
	// credential.
	DecideCall(r policy.Request) policy.Decision
	// RunProbes tries to escape from the sandboxes.
	RunProbes(ctx context.Context) []export.Probe
}

// accessPrincipals is the maximum number of principals in the access matrix that come from records.
const accessPrincipals = 500

// Evidence writes the folder of evidence of a period as a zip archive.
func (l *Ledger) Evidence(ctx context.Context, p tool.Principal, w io.Writer, from, to time.Time) error {
	detail := queryFilters(audit.Query{Since: from, Until: to})
	if err := l.recordRead(ctx, p, "evidence", detail); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	e := &export.Evidence{
		About: l.aboutExport(), From: from, To: to, Made: time.Now(), By: p.ID, Host: host,
		Policy:  l.cfg.System.PolicyName(),
		Records: func(kinds ...audit.Kind) export.Records { return l.recordsBetween(ctx, from, to, kinds...) },
	}
	if l.cfg.Alone {
		e.Anyone = "This Biplane has no sign-in: it is reachable only from its own machine, and its only user is the " +
			"account that runs it."
	}
	if e.Integrity, err = l.checkIntegrity(ctx, p, from); err != nil {
		return err
	}
	for _, u := range l.cfg.System.Upstreams(ctx) {
		e.Upstreams = append(e.Upstreams, export.Upstream{Name: u.Name, Type: u.Type, Target: u.Target, State: u.State,
			Server: u.Server, Protocol: u.Protocol})
	}
	entries := l.cfg.System.Tools()
	for _, t := range entries {
		sum := sha256.Sum256(t.Tool.InputSchema)
		e.Tools = append(e.Tools, export.Tool{
			Path: t.Tool.Path(), Upstream: t.Tool.Upstream, Name: t.Tool.Name, Description: t.Tool.Description,
			ReadOnly: t.Tool.Annotations.ReadOnly, Schema: hex.EncodeToString(sum[:]),
		})
	}
	if e.Access, err = l.decideAccess(ctx, from, to, entries); err != nil {
		return err
	}
	e.Probes = l.cfg.System.RunProbes(ctx)
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	if err := e.Zip(ctx, w); err != nil || e.Integrity.OK && l.log.Found() == nil {
		return err
	}
	return &audit.FlawError{Msg: "verification of the record failed (see README.md and integrity/verify.json): keep " +
		"a copy of the data folder"}
}

// checkIntegrity verifies and signs the record. It proves that the record only grew since the
// newest checkpoint before the period's first record, or else since the oldest checkpoint.
func (l *Ledger) checkIntegrity(ctx context.Context, p tool.Principal, from time.Time) (out export.Integrity,
	err error) {
	out.Public = l.log.Public()
	c, err := l.log.Checkpoint(ctx)
	if err != nil {
		return out, err
	}
	out.Checkpoint = c.Text
	report, err := l.verifyRecord(ctx, p, nil)
	if err != nil {
		return out, err
	}
	out.Report, out.OK = report, report.OK
	first := c.Size
	for r, err := range l.recordsBetween(ctx, from, time.Now()) {
		if err != nil {
			return out, err
		}
		first = r.Seq
		break
	}
	older := ""
	err = l.log.Checkpoints(ctx, func(o *proof.Checkpoint) error {
		if older == "" || o.Size <= first {
			older = o.Text
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if older != "" && report.OK {
		if out.Consistency, err = l.log.ProveConsistency(ctx, older); err != nil {
			return out, err
		}
	}
	out.Summary = fmt.Sprintf("%d records in %d leaves, %d checkpoints: no faults",
		report.Records, report.Size, report.Checkpoints)
	if !report.OK {
		out.Summary = fmt.Sprintf("FAILED: %d faults, see integrity/verify.json", len(report.Faults))
	}
	return out, nil
}

// decideAccess decides on every tool for all known principals: the local user, the keys, and those
// named in the period's records.
func (l *Ledger) decideAccess(ctx context.Context, from, to time.Time,
	entries []*catalog.Entry) (out []export.Access, err error) {
	who := map[string]tool.Principal{}
	for r, err := range l.recordsBetween(ctx, from, to) {
		if err != nil {
			return nil, err
		}
		if r.Principal != "" && len(who) < accessPrincipals &&
			(r.Kind != audit.KindSignIn || r.End.Outcome == audit.OK) {
			who[r.Principal] = tool.Principal{ID: r.Principal}
		}
	}
	local := identity.LocalUser()
	who[local.ID] = local
	for _, k := range l.cfg.System.Keys() {
		if k.Revoked.IsZero() {
			p := k.Principal()
			who[p.ID] = p
		} else {
			delete(who, k.Principal().ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(who)) {
		for _, e := range entries {
			d := l.cfg.System.DecideCall(policy.Request{Principal: who[id], Tool: e.Tool})
			out = append(out, export.Access{Principal: id, Tool: e.Tool.Path(), Effect: string(d.Effect),
				Policy: d.Policy, Reason: d.Reason})
		}
	}
	return out, nil
}
