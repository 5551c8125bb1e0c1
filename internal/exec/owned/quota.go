package owned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// measureEach is the shortest time between two measurements of a sandbox that is in use.
const measureEach = 2 * time.Second

// A usage is how much a sandbox's files occupy.
type usage struct {
	bytes int64
	files int
}

// errTooMuch stops a measurement.
var errTooMuch = errors.New("more than the limit")

// measureFolder measures the files below a folder, up to the limits. Links in it can't lead it
// elsewhere.
func measureFolder(dir string, l Limits) (u usage, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return u, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return nil // removed meanwhile
		}
		u.files++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			u.bytes += occupiedBytes(info)
		}
		if u.bytes > l.Disk || u.files > l.Files {
			return errTooMuch
		}
		return nil
	})
	if errors.Is(err, errTooMuch) {
		err = nil
	}
	return u, err
}

// measureBox measures a sandbox's files. It returns an error if they exceed a limit.
func (s *Sandboxes) measureBox(b *box) error {
	u, err := measureFolder(s.folderOf(b.rec.ID), s.cfg.Limits)
	if err != nil {
		return err
	}
	s.mu.Lock()
	b.used = u
	s.mu.Unlock()
	if l := s.cfg.Limits; u.bytes > l.Disk || u.files > l.Files {
		return tool.Errorf(tool.Limit, "the sandbox's files exceed %s or %s (sandboxes.disk, sandboxes.files): remove "+
			"some", text.Size(l.Disk), text.Count(l.Files, "file"))
	}
	return nil
}

// guardFiles measures the files of a sandbox while an operation is under way. If they exceed a
// limit, it ends the sandbox's processes. It returns when ctx is done.
func (h *hold) guardFiles(ctx context.Context) {
	wait := measureEach
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		began := time.Now()
		if err := h.all.measureBox(h.box); err != nil && tool.AsError(err).Kind == tool.Limit {
			h.all.dropMachine(h.box, h.machine, fmt.Sprintf("its files exceeded a limit: %s", tool.AsError(err).Msg))
			return
		}
		wait = max(measureEach, 10*time.Since(began))
	}
}
