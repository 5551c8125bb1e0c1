// Package export writes the audit record for other programs: as OCSF events, one JSON object per
// line, and as CSV. It also writes the folder of evidence for auditors. It doesn't read a store:
// records come from a function, oldest first, and are written as they arrive, so memory use is
// bounded for any number of records.
package export

import (
	"context"
	"io"
	"iter"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// About describes who writes the records, which is not in the records themselves.
type About struct {
	Origin  string // of the log
	Version string // of Biplane
}

// Records are records, oldest first. An error ends them.
type Records = iter.Seq2[*audit.Record, error]

// Write writes records to w in a format, and returns how many it wrote.
func Write(ctx context.Context, w io.Writer, format string, a About, records Records) (n int, err error) {
	var write func(*audit.Record) error
	var flush func() error
	switch format {
	case "ocsf":
		write, flush = ocsfWriter(w, a)
	case "csv":
		write, flush = csvWriter(w)
	default:
		return 0, tool.Errorf(tool.Invalid, "format %q is not one of ocsf, csv", format)
	}
	for r, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = write(r)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, flush()
}
