package api

import (
	"context"
	"time"
)

// The kinds of data that PruneData deletes or archives.
const (
	PruneExecutions = "executions" // executions that have ended, with their journals
	PruneJournals   = "journals"   // the journals of executions that have ended; the executions stay in lists
	PruneSessions   = "sessions"   // sessions that no program uses
	PruneUsage      = "usage"      // usage
	PruneServers    = "servers"    // files of servers in sandboxes that the configuration no longer has
	PruneAudit      = "audit"      // leaves of the audit log: moved to signed segments, never deleted
)

// PruneKinds lists the kinds.
var PruneKinds = []string{PruneExecutions, PruneJournals, PruneSessions, PruneUsage, PruneServers,
	PruneAudit}

// A PruneRequest asks for one step of deleting or archiving old data.
type PruneRequest struct {
	Kind   string    `json:"kind"`
	Before time.Time `json:"before"`            // only data that ended, or was last used, before this time
	DryRun bool      `json:"dry_run,omitempty"` // only count
}

// A PruneStep is the result of one step.
type PruneStep struct {
	Removed int64 `json:"removed"` // in this step
	Left    int64 `json:"left"`    // what further steps would remove; 0: done
	// Segment is the name of the file that leaves of the audit log were moved to.
	Segment string `json:"segment,omitempty"`
}

// PruneData deletes or archives some old data, in a few seconds at most. Call it again as long as
// something is left.
func (c *Client) PruneData(ctx context.Context, r PruneRequest) (*PruneStep, error) {
	return post[*PruneStep](ctx, c, "/prune", r)
}
