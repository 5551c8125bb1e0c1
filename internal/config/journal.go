package config

import "time"

// Journal bound what is kept of executions that have ended.
type Journal struct {
	Keep  time.Duration // for so long
	Bytes int64         // and, of the newest ones, so much
}

func (r *reader) journal(n *node, s *Journal) {
	r.object(n, "journal", key{
		"keep":  func(n *node) { s.Keep = r.days(n, "journal.keep", time.Minute, 3650*24*time.Hour) },
		"bytes": func(n *node) { s.Bytes = r.size(n, "journal.bytes", 1<<20, 1<<40) },
	})
}
