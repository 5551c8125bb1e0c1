package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Audit implements segment.Store.

// archiveFolder returns the folder of the segments.
func (a *Audit) archiveFolder() string { return filepath.Join(a.s.dir, segment.Folder) }

// CountOld returns the number of leaves that can be archived.
func (a *Audit) CountOld(ctx context.Context, before time.Time) (int64, error) {
	return record.CountOld(ctx, a.s.read, audit.FormatTime(before))
}

// WriteNext writes the file of the next segment. A file of that name is from a call that was
// interrupted before MoveLeaves, and is replaced.
func (a *Audit) WriteNext(ctx context.Context, before time.Time, sign func(*segment.Header) error) (
	h *segment.Header, err error) {
	if a.broken != nil {
		return nil, a.broken
	}
	first, count, err := record.FindOld(ctx, a.s.read, audit.FormatTime(before))
	if err != nil || count == 0 {
		return nil, err
	}
	if err := a.removeTempFiles(); err != nil {
		return nil, err
	}
	var b *segment.Builder
	err = a.viewWithoutQueue(ctx, func(v *record.View) error {
		b, h, err = v.BuildSegment(first, count)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := sign(h); err != nil {
		return nil, err
	}
	return h, b.WriteFile(a.archiveFolder(), h)
}

// removeTempFiles removes the files that a killed process had begun to write.
func (a *Audit) removeTempFiles() error {
	files, err := os.ReadDir(a.archiveFolder())
	if err != nil && !os.IsNotExist(err) {
		return tool.Errorf(tool.Unavailable, "archive: %w", err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".new-") {
			_ = os.Remove(filepath.Join(a.archiveFolder(), f.Name())) // it only uses up space
		}
	}
	return nil
}

// MoveLeaves adds the segment to the record and removes its leaves from the database. The segment
// is on the disk first. A process that is killed here leaves leaves in both: see FinishMove.
func (a *Audit) MoveLeaves(ctx context.Context, h *segment.Header) error {
	err := a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		return record.AddSegment(ctx, w.tx, h)
	})
	if err != nil {
		return err
	}
	return a.removeLeaves(ctx)
}

// FinishMove completes a move that was interrupted. First it checks the segment's file: nothing
// else will have the leaves.
func (a *Audit) FinishMove(ctx context.Context, public string) error {
	s, err := record.FindOpenSegment(ctx, a.s.read)
	if err != nil {
		return err
	}
	if s != nil {
		if err := a.checkSegmentFile(s, public); err != nil {
			return err
		}
	}
	return a.removeLeaves(ctx)
}

// checkSegmentFile returns an error unless the file of a segment is as it was signed.
func (a *Audit) checkSegmentFile(s *segment.Stored, public string) error {
	name := segment.FileName(s.First, s.Last)
	h, err := segment.CheckFile(filepath.Join(a.archiveFolder(), name), public)
	switch {
	case errors.Is(err, segment.ErrMissing):
		return tool.Errorf(tool.NotFound, "the leaves %d to %d are not removed from the database: their segment %s is "+
			"missing; put the file back into the folder %s", s.First, s.Last, name, a.archiveFolder())
	case err == nil && (h.Note != s.Note || h.FileName() != name):
		err = errors.New("it has another header than the one in the database")
		fallthrough
	case err != nil:
		return tool.Errorf(tool.Conflict, "the leaves %d to %d are not removed from the database: their segment %s "+
			"was changed: %w; run biplane audit verify", s.First, s.Last, name, err)
	}
	return nil
}

// removeLeaves removes the leaves that are in a segment from the database, in batches: other calls
// needn't wait. It returns the space to the file system.
func (a *Audit) removeLeaves(ctx context.Context) error {
	for more := true; more; {
		err := a.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) (err error) {
			more, err = record.MoveSome(ctx, w.tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return a.s.shrinkFile(ctx)
}
