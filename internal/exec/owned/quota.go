package owned

import (
	"errors"
	"io/fs"
	"time"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxSpared is the number of measurements that are left out in a row while files are removed.
const maxSpared = 10

// A usage is the disk space of a sandbox's files.
type usage struct {
	bytes int64
	files int
}

// exceedsLimits reports whether it exceeds the limits.
func (u usage) exceedsLimits(disk int64, files int) bool { return u.bytes > disk || u.files > files }

// MeasureFolder measures the files below a folder, up to limits. If folders are nested too deeply,
// the error has kind Limit.
func MeasureFolder(dir string, disk int64, files int) (bytes int64, count int, err error) {
	size, err := folder.MeasureFiles(dir, folder.Size{Bytes: disk, Files: files})
	if errors.Is(err, folder.ErrTooDeep) {
		err = tool.Errorf(tool.Limit, "%w", err)
	}
	return size.Bytes, size.Files, err
}

// measureBox measures a sandbox's files, also removed files that a process still has open. It
// returns an error if they exceed a limit.
func (ms *machines) measureBox(b *box) error {
	l := ms.cfg.Limits
	bytes, files, err := MeasureFolder(ms.folderOf(b.rec.ID), l.Disk, l.Files)
	if err != nil && tool.AsError(err).Kind != tool.Limit {
		return ms.explainFiles(b, "measured", err)
	}
	ms.mu.Lock()
	m := b.machine
	ms.mu.Unlock()
	if m != nil {
		bytes += m.RemovedBytes()
	}
	u := usage{bytes, files}
	ms.mu.Lock()
	b.used = u
	ms.mu.Unlock()
	if u.exceedsLimits(l.Disk, l.Files) {
		return tool.Errorf(tool.Limit, "the sandbox's files exceed %s or %s (sandboxes.disk, sandboxes.files): remove "+
			"some", text.Size(l.Disk), text.Count(l.Files, "file"))
	}
	return err
}

// explainFiles returns an error about a sandbox's files for its principal: without paths of the
// host, which are logged. what is what could not be done, such as "removed".
func (ms *machines) explainFiles(b *box, what string, err error) error {
	if err == nil {
		return nil
	}
	ms.cfg.Log.Error("files of a sandbox not "+what, "sandbox", b.rec.ID, "error", err)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return tool.Errorf(tool.Unavailable, "the sandbox's files could not be %s: %w", what, err)
}

// guardFiles measures the files of a sandbox while its processes run, also those in the background.
// If the files exceed a limit, it ends the processes. It returns when they have ended.
func (ms *machines) guardFiles(b *box, m sandbox.Machine) {
	wait, spared := ms.cfg.MeasureEach, 0
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.EndSignal():
			timer.Stop()
			return
		}
		ms.mu.Lock()
		frozen, removes := b.frozen, b.removes > 0
		ms.mu.Unlock()
		switch {
		case frozen:
			continue
		case removes && spared < maxSpared:
			spared++
			continue
		}
		spared = 0
		began := time.Now()
		if err := ms.measureBox(b); err != nil && tool.AsError(err).Kind == tool.Limit {
			ms.dropMachine(b, m, "its files exceeded a limit: "+tool.AsError(err).Msg)
			return
		}
		wait = max(ms.cfg.MeasureEach, 10*time.Since(began))
	}
}
