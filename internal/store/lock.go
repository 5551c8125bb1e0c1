package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Owner is the process that owns a data folder, according to its lock file.
type Owner struct {
	PID     int       `json:"pid"`
	Config  string    `json:"config"` // path of its configuration, or empty
	Version string    `json:"version"`
	Started time.Time `json:"started"`
}

// An OwnedError is returned if another process owns the data folder.
type OwnedError struct {
	Path  string // the data folder
	Owner Owner  // PID is 0 if the lock file can't be read
}

// Error returns a text with the folder and the process.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("data folder %s is owned by process %d", e.Path, e.Owner.PID)
}

// lockFile is the name of the lock file in the data folder.
const lockFile = "lock"

// A lock is an exclusive lock on a data folder. The system releases it when the process dies, for
// whatever reason.
type lock struct{ f *os.File }

// orphan is how long to wait for a lock whose owner is dead. A process killed while it starts a
// child leaves the lock to the child until the child's program begins.
const orphan = 2 * time.Second

// awaitLock calls flock, and retries while the lock's owner is dead, because the lock will be
// released.
func awaitLock(ctx context.Context, f *os.File) error {
	end := time.Now().Add(orphan)
	for {
		err := flock(f)
		if !errors.Is(err, errLocked) || time.Now().After(end) || !isDead(readOwner(f).PID) {
			return err
		}
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func lockFolder(ctx context.Context, folder string, o Owner) (*lock, error) {
	path := filepath.Join(folder, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "lock the data folder: %w", err)
	}
	switch err := awaitLock(ctx, f); {
	case errors.Is(err, errLocked):
		defer f.Close()
		owned := &OwnedError{Path: folder, Owner: readOwner(f)}
		config := owned.Owner.Config
		if config == "" {
			config = "none"
		}
		return nil, &tool.Error{Kind: tool.Conflict, Err: owned, Msg: fmt.Sprintf(
			"data folder %s is in use by biplane process %d (configuration: %s): stop that process, or use another "+
				"folder with --data-dir", folder, owned.Owner.PID, config)}
	case err != nil:
		f.Close()
		return nil, tool.Errorf(tool.Unavailable, "lock the data folder: %w", err)
	}
	o.PID = os.Getpid()
	if o.Started.IsZero() {
		o.Started = time.Now().UTC()
	}
	text, err := json.Marshal(o)
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt(append(text, '\n'), 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, tool.Errorf(tool.Unavailable, "lock the data folder: %w", err)
	}
	return &lock{f}, nil
}

func readOwner(f *os.File) Owner {
	var o Owner
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || json.Unmarshal(b, &o) != nil {
		return Owner{} // it is just being written
	}
	return o
}

// releaseLock unlocks the folder. The file stays: if it were removed, two processes could lock two
// different files.
func (l *lock) releaseLock() error {
	err := l.f.Truncate(0)
	// Closing the file isn't enough: a child of this process has it until its program begins.
	return errors.Join(err, unlockFile(l.f), l.f.Close())
}
