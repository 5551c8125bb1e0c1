package store

import (
	"context"
	"fmt"

	"github.com/biplane-dev/biplane/internal/store/fault"
)

const (
	keptFree  = 256 // free pages that are left for what is written next
	freedStep = 256 // pages that one transaction returns: others wait for it
)

// shrinkFile returns free pages to the file system, a few at a time, until at most a tenth of the
// pages are free. The file of a database that an earlier version created keeps its size: its free
// pages are only used again.
func (s *Store) shrinkFile(ctx context.Context) error {
	var free, all, mode int64
	for before := int64(-1); ; before = free {
		err := fault.ScanOne(s.read.QueryRowContext(ctx, `SELECT (SELECT freelist_count FROM pragma_freelist_count),
			(SELECT page_count FROM pragma_page_count), (SELECT auto_vacuum FROM pragma_auto_vacuum)`),
			&free, &all, &mode)
		if err != nil {
			return fault.TranslateRead(ctx, err)
		}
		const incremental = 2
		if mode != incremental || free <= max(keptFree, all/10) || free == before {
			return nil
		}
		err = s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
			_, err := w.runStatement(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, freedStep))
			return err
		})
		if err != nil {
			return err
		}
	}
}
