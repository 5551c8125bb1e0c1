package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// markName is the name of an empty file in the data folder, which marks that the database has
// sealed lists. Without it, an attacker could replace the database by an older, unsealed copy with
// any rows, and they would be accepted. A database without a record would look like a new one.
const markName = "biplane.sealed"

// errOlder is the reason that no row is valid if the folder is marked and its database has no
// sealed lists.
var errOlder = errors.New("the folder has " + markName +
	", and the database was never sealed: it was removed, or replaced by an older copy; " +
	"restore the whole folder from a backup")

func (s *Store) markPath() string { return filepath.Join(s.dir, markName) }

func (s *Store) isMarked() bool { return HasGrantMark(s.dir) }

// HasGrantMark reports whether a data folder has the mark. If that can't be determined, it returns
// true.
func HasGrantMark(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, markName))
	return !errors.Is(err, os.ErrNotExist)
}

// createMark creates the mark once the sealed lists are on the disk: a power failure must not lose
// the lists and leave the mark. If it fails, the next call tries again.
func (g *grants) createMark(ctx context.Context) {
	if g.marked.Load() || g.s.granted.Load() != g {
		return
	}
	if !g.s.isMarked() {
		var sealed bool
		if err := g.s.read.QueryRowContext(ctx, `SELECT grants IS NOT NULL FROM tail WHERE id = 1`).Scan(
			&sealed); err != nil || !sealed {
			return
		}
		err := g.s.writer.onDisk(ctx)
		if err == nil {
			err = createFile(g.s.markPath())
		}
		if err != nil {
			g.s.log.Warn("seal of the database not noted", "file", markName, "err", err)
			return
		}
	}
	g.marked.Store(true)
}
