package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// usedSuffix ends the names of the files that say when the folders beside them were last used, and
// by which server. A server can change the times of its own folder.
const usedSuffix = ".used"

// serverFolder returns the name of the folder of a server's files.
func serverFolder(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:12])
}

// beginUse notes that a server with files starts. Without a name, the files end with it.
func (h *hosting) beginUse(name, server string) error {
	if name == "" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := os.MkdirAll(h.folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(h.folder, name+usedSuffix), []byte(server+"\n"), 0o600)
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "the files of server %s: %w", server, err)
	}
	h.used[name]++
	return nil
}

// serverFiles are the files of a server. It is a hosted.Files.
type serverFiles struct {
	all  *hosting
	name string
}

// EndUse implements hosted.Files.
func (f serverFiles) EndUse() { f.all.endUse(f.name) }

// endUse notes that such a server has ended.
func (h *hosting) endUse(name string) {
	if name == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used[name]--; h.used[name] <= 0 {
		delete(h.used, name)
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(h.folder, name+usedSuffix), now, now); err != nil {
		h.log.Warn("use of a server's files not noted", "folder", name, "error", err)
	}
}

// listOldFolders returns the names of the folders with files of servers that s doesn't
// have, that don't run, and that were last used before a time. h.mu is held.
func (h *hosting) listOldFolders(s *config.Config, before time.Time) (names []string, err error) {
	all, err := os.ReadDir(h.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Unavailable, "the files of servers: %w", err)
	}
	configured := map[string]bool{}
	for _, c := range s.Servers {
		if c.Sandbox != nil && !c.Personal {
			configured[serverFolder(c.Name)] = true
		}
	}
	for _, e := range all {
		name := e.Name()
		if !e.IsDir() || len(name) != len(serverFolder("")) || strings.Trim(name, "0123456789abcdef") != "" ||
			configured[name] || h.used[name] > 0 {
			continue
		}
		info, err := os.Stat(filepath.Join(h.folder, name+usedSuffix))
		if errors.Is(err, fs.ErrNotExist) { // a former version made it
			info, err = e.Info()
		}
		if err != nil {
			return nil, tool.Errorf(tool.Unavailable, "the files of servers: %w", err)
		}
		if info.ModTime().Before(before) {
			names = append(names, name)
		}
	}
	return names, nil
}

// countOldFolders returns the number of these folders.
func (h *hosting) countOldFolders(s *config.Config, before time.Time) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, err := h.listOldFolders(s, before)
	return int64(len(names)), err
}

// removeOldFolders removes these folders, and returns their number. Meanwhile no server starts.
func (h *hosting) removeOldFolders(ctx context.Context, s *config.Config, before time.Time) (n int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, err := h.listOldFolders(s, before)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		path := filepath.Join(h.folder, name)
		if err := folder.RemoveFolder(path); err != nil {
			return n, tool.Errorf(tool.Unavailable, "remove the files of a server: %w", err)
		}
		if err := os.Remove(path + usedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, tool.Errorf(tool.Unavailable, "remove the files of a server: %w", err)
		}
		n++
	}
	return n, nil
}
