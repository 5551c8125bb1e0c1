package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
)

// A keptList is the list that was accepted last.
type keptList struct {
	raw      []byte // as it was read
	digest   string // of what is signed
	accepted *Accepted
}

// keptFile is the file of a keptList.
type keptFile struct {
	Checked time.Time       `json:"checked"`
	List    json.RawMessage `json:"list"`
}

func (s Source) keptPath() string {
	sum := sha256.Sum256([]byte(s.Place))
	return filepath.Join(s.Folder, "registry", hex.EncodeToString(sum[:16])+".json")
}

// loadKept reads the list that was accepted last, and verifies it again. It returns nil if there is
// none, or if it was signed by a key that the configuration no longer has.
func (s Source) loadKept() (*keptList, error) {
	if s.Folder == "" {
		return nil, nil
	}
	raw, err := readFile(s.keptPath(), 2*maxList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var f keptFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("%s is damaged, remove it: %w", s.keptPath(), err)
	}
	k, err := s.verifyText(f.List)
	if err != nil {
		return nil, nil
	}
	k.accepted.Checked = f.Checked
	return k, nil
}

// saveKept replaces the list that was accepted last, unless another process has accepted a newer
// one meanwhile.
func (s Source) saveKept(k *keptList) error {
	if s.Folder == "" {
		return nil
	}
	if now, err := s.loadKept(); err != nil || now != nil && now.accepted.Version > k.accepted.Version {
		return err
	}
	path := s.keptPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(keptFile{k.accepted.Checked, k.raw})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, raw, 0o600)
}
