package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// No new key is made beside a database: what it holds is sealed with another one.
func TestNoNewKeyBesideADatabase(t *testing.T) {
	t.Setenv("BIPLANE_KEY", "")
	folder := filepath.Join(t.TempDir(), "new")
	if err := checkKey(folder); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(folder, keyFile)
	if !there(key) {
		t.Fatal("a new folder has no key")
	}
	if err := os.WriteFile(filepath.Join(folder, store.File), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkKey(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	err := checkKey(folder)
	if tool.AsError(err) == nil || tool.AsError(err).Kind != tool.Conflict || !strings.Contains(err.Error(), key) {
		t.Error(err)
	}
	if there(key) {
		t.Error("there is a new key")
	}
}
