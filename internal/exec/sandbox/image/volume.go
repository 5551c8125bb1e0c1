package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A User is a user and a group of the host.
type User struct{ UID, GID int }

// DefaultVolume is the maximum size of a volume, in bytes, unless its description sets another.
const DefaultVolume = 1 << 30

// MountPath returns the folder of the host behind a mount. It creates a volume that doesn't exist,
// for a user. A volume that has reached its limit can't be mounted for writing.
func (s *Store) MountPath(m Mount, owner string, user User) (string, error) {
	if m.Volume == "" {
		return m.Folder, nil
	}
	dir := s.volumePath(m, owner)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		if os.Geteuid() == 0 {
			err = os.Chown(dir, user.UID, user.GID)
		}
		return dir, err
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	if !m.ReadOnly {
		return dir, CheckVolume(m, dir)
	}
	return dir, nil
}

// volumePath returns the folder of a volume. Owners don't share one unless it is shared.
func (s *Store) volumePath(m Mount, owner string) string {
	part := "shared"
	if !m.Shared {
		sum := sha256.Sum256([]byte(owner))
		part = "owner-" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(s.folder, "volumes", m.Volume, part)
}

// maxVolumeFiles is the maximum number of files and folders in a volume.
const maxVolumeFiles = 200_000

// CheckVolume returns an error if a volume has reached its limit.
func CheckVolume(m Mount, dir string) error {
	most := m.Limit
	if most == 0 {
		most = DefaultVolume
	}
	limit := folder.Size{Bytes: most, Files: maxVolumeFiles}
	size, err := folder.MeasureFiles(dir, limit)
	switch {
	case err != nil: // what can't be read would not count
		return tool.Errorf(tool.Conflict, "the size of volume %q is unknown: %w", m.Volume, err)
	case size.IsMoreThan(limit):
		return tool.Errorf(tool.Limit, "volume %q has more than %s or %d files: remove some of it (%s), or raise its "+
			"size in the configuration", m.Volume, text.Size(most), maxVolumeFiles, dir)
	}
	return nil
}
