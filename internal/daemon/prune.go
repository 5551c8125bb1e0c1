package daemon

import (
	"context"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// prunedAtOnce is the maximum number of items that one request deletes, in a few seconds.
const prunedAtOnce = 4000

// A pruner deletes and archives old data on request.
type pruner struct{ *Daemon }

// countOld returns the amount of data of a kind that is older than a time.
func (d pruner) countOld(ctx context.Context, kind string, before time.Time) (int64, error) {
	switch old := d.store.OldData(); kind {
	case api.PruneExecutions:
		return old.CountExecutions(ctx, before)
	case api.PruneJournals:
		return old.CountJournals(ctx, before)
	case api.PruneSessions:
		return d.executor.Sessions().CountIdle(ctx, before)
	case api.PruneUsage:
		return old.CountUsage(ctx, before)
	case api.PruneServers:
		return d.upstreams.hosting.countOldFolders(d.reload.settings.Load(), before)
	}
	return 0, tool.Errorf(tool.Invalid, "there is no data of kind %q", kind)
}

// removeOld deletes some of that data, and returns the deleted amount.
func (d pruner) removeOld(ctx context.Context, kind string, before time.Time) (int64, error) {
	switch old := d.store.OldData(); kind {
	case api.PruneExecutions:
		return old.DeleteExecutions(ctx, before, prunedAtOnce)
	case api.PruneJournals:
		return old.DeleteJournals(ctx, before, prunedAtOnce)
	case api.PruneSessions:
		return d.executor.Sessions().EndIdle(ctx, before, prunedAtOnce)
	case api.PruneServers:
		return d.upstreams.hosting.removeOldFolders(ctx, d.reload.settings.Load(), before)
	default:
		return old.DeleteUsage(ctx, before, prunedAtOnce)
	}
}

// PruneData deletes or archives some of the data from before a time. The deletion is on record
// first.
func (d pruner) PruneData(ctx context.Context, p tool.Principal, r api.PruneRequest) (*api.PruneStep, error) {
	if r.Kind == api.PruneAudit {
		return d.archiveSome(ctx, r)
	}
	n, err := d.countOld(ctx, r.Kind, r.Before)
	if err != nil || n == 0 || r.DryRun {
		return &api.PruneStep{Left: n}, err
	}
	_, err = d.audit.Event(ctx, audit.Event{Kind: audit.KindRecord, Principal: p, Detail: map[string]string{
		"action": "delete", "what": r.Kind, "before": audit.FormatTime(r.Before),
		"count": strconv.FormatInt(min(n, prunedAtOnce), 10)}})
	if err != nil {
		return nil, err
	}
	removed, err := d.removeOld(ctx, r.Kind, r.Before)
	if err != nil {
		return nil, err
	}
	left := max(n-removed, 0)
	if removed == 0 { // what is left is in use, or can't be read
		left = 0
	}
	return &api.PruneStep{Removed: removed, Left: left}, nil
}

// archiveSome moves leaves of the record to one segment.
func (d pruner) archiveSome(ctx context.Context, r api.PruneRequest) (*api.PruneStep, error) {
	out := &api.PruneStep{}
	if !r.DryRun {
		h, err := d.audit.ArchiveNext(ctx, r.Before)
		if err != nil {
			return nil, err
		}
		if h != nil {
			out.Removed, out.Segment = h.Count, h.FileName()
		}
	}
	var err error
	out.Left, err = d.audit.CountOld(ctx, r.Before)
	return out, err
}
