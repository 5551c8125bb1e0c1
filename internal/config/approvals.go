package config

import (
	"cmp"
	"strconv"
	"time"
)

// Approvals configures how calls wait for approval.
type Approvals struct {
	Expires  time.Duration // undecided requests expire after this time; 0 means a day
	Keep     time.Duration // retention of decided requests; default 400 days
	Separate bool          // users can't decide their own requests
	// InClient sets whether requests are decided in the agents' clients. If empty, only in those of
	// the local user.
	InClient string // "", "true", "false"
}

// defaultKeepApprovals is the default of Approvals.Keep.
const defaultKeepApprovals = 400 * 24 * time.Hour

// Retention returns the time for which decided requests are kept.
func (a Approvals) Retention() time.Duration { return cmp.Or(a.Keep, defaultKeepApprovals) }

func (r *fileReader) readApprovals(n *node) {
	s := &r.c.Approvals
	r.readObject(n, "approvals", key{
		"expires":   func(n *node) { s.Expires = r.readDays(n, "approvals.expires", time.Minute, 30*24*time.Hour) },
		"keep":      func(n *node) { s.Keep = r.readDays(n, "approvals.keep", 7*24*time.Hour, 3650*24*time.Hour) },
		"separate":  func(n *node) { s.Separate = r.readBool(n, "approvals.separate") },
		"in_client": func(n *node) { s.InClient = strconv.FormatBool(r.readBool(n, "approvals.in_client")) },
	})
}
