package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// Journal configures the retention of ended executions.
type Journal struct {
	Keep  time.Duration // maximum age
	Bytes int64         // maximum total size, newest first
}

// ShownJournal is the printable form of a Journal.
type ShownJournal struct {
	Keep  string `json:"keep"`
	Bytes string `json:"bytes"`
}

// Shown returns the printable form.
func (j Journal) Shown() ShownJournal {
	return ShownJournal{Keep: text.Setting(j.Keep), Bytes: formatSize(j.Bytes)}
}

func (r *fileReader) readJournal(n *node) {
	s := &r.c.Journal
	r.readObject(n, "journal", key{
		"keep":  func(n *node) { s.Keep = r.readDays(n, "journal.keep", time.Minute, 3650*24*time.Hour) },
		"bytes": func(n *node) { s.Bytes = r.readSize(n, "journal.bytes", 1<<20, 1<<40) },
	})
}
