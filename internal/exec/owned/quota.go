package owned

import (
	"errors"
	"io/fs"
	"os"
	"time"

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

// errTooMuch stops a measurement.
var errTooMuch = errors.New("more than the limit")

// MeasureFolder measures the files below a folder, up to limits. Links in it can't lead it
// elsewhere.
func MeasureFolder(dir string, disk int64, files int) (bytes int64, count int, err error) {
	var u usage
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := e.Info(); err == nil && e.IsDir() && info.Mode()&0o500 != 0o500 {
			_ = root.Chmod(path, info.Mode().Perm()|0o500) // or its files would not count
		}
		if path == "." {
			return nil
		}
		u.files++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			u.bytes += occupiedBytes(info)
		}
		if u.exceedsLimits(disk, files) {
			return errTooMuch
		}
		return nil
	})
	if errors.Is(err, errTooMuch) {
		err = nil
	}
	return u.bytes, u.files, err
}

// measureBox measures a sandbox's files, also removed files that a process still has open. It
// returns an error if they exceed a limit.
func (ms *machines) measureBox(b *box) error {
	l := ms.cfg.Limits
	bytes, files, err := MeasureFolder(ms.folderOf(b.rec.ID), l.Disk, l.Files)
	if err != nil {
		return err
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
	return nil
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

// RemoveFolder removes a folder of a sandbox that has ended, also folders in it that its programs
// protected against that.
func RemoveFolder(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && err == nil {
			return root.Chmod(path, 0o700) // before it is read
		}
		return err
	})
	return errors.Join(err, root.Close(), os.RemoveAll(dir))
}
