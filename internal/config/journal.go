package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
)

// Journal bound what is kept of executions that have ended.
type Journal struct {
	Keep  time.Duration // for so long
	Bytes int64         // and, of the newest ones, so much
}

// ShownJournal is a Journal as it may be shown.
type ShownJournal struct {
	Keep  string `json:"keep"`
	Bytes string `json:"bytes"`
}

// Shown gives it as it may be shown.
func (j Journal) Shown() ShownJournal {
	return ShownJournal{Keep: prose.Setting(j.Keep), Bytes: formatSize(j.Bytes)}
}

func (r *reader) journal(n *node, s *Journal) {
	r.object(n, "journal", key{
		"keep":  func(n *node) { s.Keep = r.days(n, "journal.keep", time.Minute, 3650*24*time.Hour) },
		"bytes": func(n *node) { s.Bytes = r.size(n, "journal.bytes", 1<<20, 1<<40) },
	})
}
