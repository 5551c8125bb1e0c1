package config

import (
	"strconv"
	"time"
)

// Approvals say how calls wait for a person.
type Approvals struct {
	Expires  time.Duration // a request that nobody decides on expires after it; 0: a day
	Keep     time.Duration // how long requests are kept after they were decided on; 0: 400 days
	Separate bool          // nobody decides on a request of their own
	// InClient says whether people decide in their agent's own client; empty: at those of the local
	// user only.
	InClient string // "", "true", "false"
}

func (r *reader) approvals(n *node, s *Approvals) {
	r.object(n, "approvals", key{
		"expires":   func(n *node) { s.Expires = r.days(n, "approvals.expires", time.Minute, 30*24*time.Hour) },
		"keep":      func(n *node) { s.Keep = r.days(n, "approvals.keep", 7*24*time.Hour, 3650*24*time.Hour) },
		"separate":  func(n *node) { s.Separate = r.boolean(n, "approvals.separate") },
		"in_client": func(n *node) { s.InClient = strconv.FormatBool(r.boolean(n, "approvals.in_client")) },
	})
}
