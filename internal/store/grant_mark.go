package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// markName is the name of an empty file in the data folder. It says that the database has sealed
// lists. Without it, a copy of the database from before it was sealed could be put in with any
// rows, and they would count; and a database without any record would be a new one.
const markName = "biplane.sealed"

// errOlder is why nothing counts in a database without sealed lists, in a folder whose database has
// them.
var errOlder = errors.New("the folder has " + markName + ", and the database was never sealed: it was removed, or replaced by an older copy; " +
	"restore the whole folder from a backup")

func (s *Store) markPath() string { return filepath.Join(s.dir, markName) }

func (s *Store) isMarked() bool { return Marked(s.dir) }

// Marked reports whether a data folder has the mark. If that can't be known, it has.
func Marked(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, markName))
	return !errors.Is(err, os.ErrNotExist)
}

// mark makes the mark once the disk has sealed lists: a failure of the power must not take these
// away and leave the mark. What fails is tried again by the next caller.
func (g *grants) mark(ctx context.Context) {
	if g.marked.Load() || g.s.granted.Load() != g {
		return
	}
	if !g.s.isMarked() {
		var sealed bool
		if err := g.s.read.QueryRowContext(ctx, `SELECT grants IS NOT NULL FROM tail WHERE id = 1`).Scan(&sealed); err != nil || !sealed {
			return
		}
		err := g.s.writer.onDisk(ctx)
		if err == nil {
			err = touch(g.s.markPath())
		}
		if err != nil {
			g.s.log.Warn("can't note that the database is sealed", "file", markName, "err", err)
			return
		}
	}
	g.marked.Store(true)
}
